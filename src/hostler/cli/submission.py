"""Submission of specs and groups from the command line: files are sent, ids and notes printed, ends awaited."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hostler.cli.common import client, directory, is_here
from hostler.cli.pythons import print_environments
from hostler.cli.show import clean, paragraph, say_json
from hostler.cli.snapshotting import Terminal, print_sent
from hostler.client.notes import file_notes, note_texts
from hostler.client.shells import with_shells
from hostler.model.errors import ControllerAbsent, LinkLost

if TYPE_CHECKING:
    from hostler.client import Client, View
    from hostler.client.snapshots import SentFolder


class Group(NamedTuple):
    """A group that is to be submitted."""

    name: str
    max_running: int | None
    max_failures: int | None


class SentGroup(NamedTuple):
    """A group that was submitted."""

    view: View | None
    """`None` where all of its jobs were submitted before under their keys, in no group."""
    ids: Sequence[str]
    known: Sequence[str]
    """The jobs of it that were submitted before under their keys."""


class _Ready(NamedTuple):
    """Specs whose files have been sent."""

    client: Client
    specs: Sequence[Mapping[str, Any]]
    sent: Sequence[SentFolder]
    missing: Sequence[str]
    """Notes on programs and scripts that are missing here."""
    programs: Mapping[str, str]
    """Those that this shell finds on the controller's machine, by name."""


def submit_specs(
    specs: Sequence[Mapping[str, Any]],
    as_json: bool,
    state_dir: Path | None,
    *,
    yes: bool = False,
    strict: bool = False,
) -> Sequence[str]:
    """Send the files of specs, submit them, all or none, and print their ids, and then the notes on them."""
    ready = _ready(specs, state_dir, yes=yes, strict=strict)
    with _lost_on_the_way(ready.specs):
        ids = ready.client.submit_jobs(ready.specs, strict=strict)
    # The ids first: they must not be lost with the connection that the rest asks over.
    if as_json:
        say_json({"ids": ids})
    else:
        for each in ids:
            print(each, flush=True)
    _print_about(ready, ids.gpu_by_default, ids.notes, ids.with_earlier_files)
    return ids


def submit_group(
    specs: Sequence[Mapping[str, Any]],
    group: Group,
    as_json: bool,
    state_dir: Path | None,
    *,
    yes: bool = False,
    strict: bool = False,
    lists_ids: bool = False,
) -> SentGroup:
    """Send the files of specs, submit them as one group, all or none, and print its id and the notes on its jobs.

    `lists_ids`: the ids of the jobs are printed on standard output instead, one a line.
    """
    ready = _ready(specs, state_dir, yes=yes, strict=strict)
    with _lost_on_the_way(ready.specs):
        made = ready.client.submit_group(group._asdict(), ready.specs, strict=strict)
    sent = SentGroup(made.group, made.ids, made.known)
    # The id first: it must not be lost with the connection that the rest asks over.
    if as_json:
        say_json({"group": sent.view, "ids": sent.ids})
    else:
        for each in sent.ids if lists_ids or sent.view is None else (sent.view["id"],):
            print(each, flush=True)
    _print_about(ready, made.gpu_by_default, made.notes, made.with_earlier_files)
    print(_group_words(sent, _groups_of(ready.client, sent.known)), file=sys.stderr)
    if not set(sent.ids) - set(sent.known) and (group.max_running, group.max_failures) != (None, None):
        print("the limits of a group count for its new jobs, and there are none", file=sys.stderr)
    return sent


def _ready(specs: Sequence[Mapping[str, Any]], state_dir: Path | None, *, yes: bool, strict: bool) -> _Ready:
    """Send the files of specs."""
    here = is_here(state_dir)
    missing = file_notes(specs, strict=strict, here=here)
    programs: dict[str, str] = {}
    if here:
        specs, programs = with_shells(specs, os.environ)
    asked = client(state_dir)
    in_place = all(spec["payload"]["kind"] == "script" for spec in specs)
    sent = asked.send_folders(specs, directory(state_dir), Terminal(yes=yes, in_place=in_place))
    return _Ready(asked, sent.specs, sent.folders, missing, programs)


@contextmanager
def _lost_on_the_way(specs: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Within, a connection that is lost is an absent controller, with what to do about the submission."""
    try:
        yield
    except LinkLost as error:
        keyed = all(spec["key"] is not None for spec in specs)
        remedy = (
            "Submit it again once a controller runs: under the same key it is the same job"
            if keyed
            else "`hostler jobs` lists it if it was submitted. With --key KEY it could be submitted again in any case, "
            "with the same --key"
        )
        raise ControllerAbsent(f"{error}. {remedy}") from error


def _print_about(
    ready: _Ready, gpu_by_default: int, notes: Sequence[Mapping[str, Any]], with_earlier_files: Sequence[str]
) -> None:
    """Print, on standard error, what submitted jobs run with and start from, and the notes on them."""
    print_environments(ready.client, ready.specs, ready.programs)
    print_sent(ready.sent)
    if gpu_by_default:
        print(_gpu_words(gpu_by_default, len(ready.specs)), file=sys.stderr)
    for note in (*ready.missing, *note_texts(notes, with_earlier_files)):
        text = f"note: {note}"
        for line in paragraph(text, rest="  ") if sys.stderr.isatty() else [clean(text)]:
            print(line, file=sys.stderr)


def _groups_of(asked: Client, jobs: Sequence[str]) -> Sequence[str]:
    """The groups that jobs are in, the oldest first."""
    found = {str(job["group"]) for job in asked.named(jobs) if job["group"]} if jobs else set[str]()
    return sorted(found, key=lambda name: (len(name), name))


def _group_words(sent: SentGroup, known_in: Sequence[str]) -> str:
    """The size of a group, and how many of its jobs are new."""
    known = set(sent.known)
    begin = "" if sent.view is None else f"{sent.view['id']}: "
    fresh = [each for each in sent.ids if each not in known]
    span = "".join([f", {fresh[0]}" if fresh else "", f" to {fresh[-1]}" if len(fresh) > 1 else ""])
    if not known:
        return f"{begin}{_jobs(len(fresh))}{span}"
    before = "was submitted before under its key" if len(known) == 1 else "were submitted before under their keys"
    groups = f", in {', '.join(known_in)}" if known_in else ""
    return f"{begin}{_jobs(len(fresh), 'new ')}{span}; {len(known)} {before}{groups}"


def _jobs(count: int, kind: str = "") -> str:
    return f"{count or 'no'} {kind}job{'' if count == 1 else 's'}"


def _gpu_words(count: int, jobs: int) -> str:
    """That jobs wait for a GPU, and how to have it otherwise."""
    some = "" if count == jobs else f" for {count} of {jobs} jobs"
    return f"device → gpu{some} (the fleet has GPUs; --device any or cpu takes CPU slots)"


def followed(asked: Client, ids: Sequence[str], *, follow: bool) -> int:
    """Wait for jobs, or print the output of the only one, until they have ended; returns the exit status."""
    if follow:
        from hostler.cli.logs import follow_job

        return follow_job(asked, ids[0])
    from hostler.cli.waiting import wait_for

    return wait_for(asked, asked.named(ids))


def waited(asked: Client, sent: SentGroup, *, by_job: bool) -> int:
    """Wait until the jobs of a group have ended; returns the exit status. `by_job`: print a line for each of them."""
    if by_job:
        return followed(asked, sent.ids, follow=False)
    from hostler.cli.waiting import wait_for_groups

    groups = [] if sent.view is None else [sent.view]
    return wait_for_groups(asked, asked.named(sent.known) if sent.known else (), groups)
