"""Jobs: listing, detail, reasons, and changes of mind."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from hostler.cli.common import JobName, Json, StateDir, client, local_results
from hostler.cli.completing import complete_group, complete_job_or_device, complete_node
from hostler.cli.declarations import Argument, Option
from hostler.cli.entries import entry_lines
from hostler.cli.errors import print_error, status_of
from hostler.cli.groups import OPEN, JobsOrGroups, count, expect_group, is_group, parameters_text
from hostler.cli.show import (
    BELOW,
    UNLIMITED,
    Column,
    age,
    clean,
    compact,
    kind_of,
    maybe,
    paragraph,
    plural,
    say,
    say_json,
    standing,
    table,
    table_rows,
    table_width,
    terminal_width,
    wrapped,
)
from hostler.client.outcomes import headline, is_over, not_kept, reason_of
from hostler.model.errors import AnswerError, HostlerError, LinkError, NotFound, StoreError
from hostler.model.units import duration

if TYPE_CHECKING:
    from hostler.client import Client, View


SHOWN = 50
FILES_SHOWN = 20
INDENT = 11


class Only(NamedTuple):
    """Conditions of a list of jobs besides their states: a job group, a node, a pattern of the name, and the owner."""

    group: str | None = None
    node: str | None = None
    called: str | None = None
    mine: bool = False


class State(StrEnum):
    """`hostler.model.work.JobState`, which would cost every command the import of pydantic."""

    PENDING = "pending"
    LEASED = "leased"
    LAUNCHING = "launching"
    RUNNING = "running"
    COLLECTING = "collecting"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


WIDE = 100
"""Columns of a terminal that has room for all of `JOB_COLUMNS`."""
JOB_COLUMNS: Mapping[Column, Callable[[View, float], object]] = {
    Column("ID"): lambda job, now: job["id"],
    Column("STATE"): lambda job, now: standing(job),
    Column("WORK"): lambda job, now: kind_of(job),
    Column("PRIO", right=True): lambda job, now: job["priority"],
    Column("AGE", right=True): lambda job, now: age(job["submitted_at"], now),
    Column("TRIES", right=True): lambda job, now: job["attempts"],
    Column("DURATION", right=True): lambda job, now: _duration(job, now),
    Column("DEVICE", yields=True): lambda job, now: job["device"] or "-",
    Column("NAME", yields=True): lambda job, now: job["name"],
}
WHY = Column("WHY", yields=True)
"""The last column where a program reads the list; on a terminal, a reason stands below its row."""
USUAL_WAITS = ("all ", "a device would take it", "the device it fits on is taken")
"""Beginnings of what a job waits for that is in its turn (`core.waits`): `queue` has them."""
QUEUE_MOST = 1000
ONLY_WIDE = frozenset({"PRIO", "AGE"})
"""Columns that a narrow terminal has no room for."""


def jobs(
    state: Annotated[list[State] | None, Option(help="Only jobs in this state; repeat for several.")] = None,
    group: Annotated[
        str | None, Option(metavar="GROUP", help="Only jobs of this job group (g1).", complete=complete_group)
    ] = None,
    node: Annotated[
        str | None,
        Option(
            metavar="NODE", help="Only jobs whose last or only attempt was placed on this node.", complete=complete_node
        ),
    ] = None,
    name: Annotated[
        str | None,
        Option(
            metavar="PATTERN",
            help="Only jobs with such a name: a pattern as of a shell (*, ?, [abc]), or a part of it.",
        ),
    ] = None,
    mine: Annotated[bool, Option("--mine", help="Only jobs that belong to the owner of your token.")] = False,
    limit: Annotated[
        int | None, Option(min=1, help=f"The newest so many; {SHOWN} by default, all with --json.")
    ] = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """List jobs, oldest first.

    DURATION is the time since the start of a running job, and how long the last attempt of an ended one ran. A
    terminal of 100 or more columns shows priority and age, too; --json has every field.

    Example:
      hostler jobs --state failed --state cancelled
      hostler jobs --group g1 --node rig-1 --name 'train-*'
      hostler jobs --json | jq -r '.[] | select(.attempts > 1) | .id'
    """
    if group is not None:
        expect_group(group, "`hostler jobs --json` has the groups of jobs")
    only = Only(group, node, None if name is None else _pattern(name), mine)
    asked = client(state_dir)
    found, left_out = _newest(asked, state or [], limit if as_json else limit or SHOWN, only)
    if as_json:
        say_json(list(found))
        return
    now = time.time()
    shown = [each for each in JOB_COLUMNS if terminal_width() >= WIDE or each.title not in ONLY_WIDE]
    waits = _waits(asked) if any(job["state"] == State.PENDING for job in found) else {}
    rows = [[JOB_COLUMNS[each](job, now) for each in shown] for job in found]
    say(_job_lines(shown, rows, [_reason(job, waits) for job in found]) if found else ["no jobs"])
    if left_out:
        print(f"and {left_out} older; `--limit {left_out + len(found)}` shows them, too", file=sys.stderr)


def _job_lines(shown: Sequence[Column], rows: Sequence[Sequence[object]], reasons: Sequence[str]) -> Iterator[str]:
    """On a terminal, each job with its reason below it, both wrapped; otherwise a line that has all of it."""
    if table_width() == UNLIMITED:
        yield from table([*shown, WHY], [[*row, reason] for row, reason in zip(rows, reasons, strict=True)])
        return
    titles, *lines = table_rows(shown, rows)
    yield from titles
    for row, reason in zip(lines, reasons, strict=True):
        yield from row
        if reason:
            yield from paragraph(reason, BELOW, BELOW)


def _reason(job: View, waits: Mapping[str, str]) -> str:
    """Why a job has ended as it has, or what it waits for that is not just its turn."""
    if is_over(job):
        return reason_of(job) or not_kept(job)
    return waits.get(job["id"]) or headline(job["why"] or "")


def _waits(asked: Client) -> Mapping[str, str]:
    """What jobs of the queue wait for, those aside that wait for their turn."""
    return {
        row["job"]: row["waits_for"]
        for row in asked.queue(QUEUE_MOST)
        if row["waits_for"] and not row["waits_for"].startswith(USUAL_WAITS)
    }


def show(name: JobName, as_json: Json = False, state_dir: StateDir = None) -> None:
    """Show everything about one job, and what happened to it.

    Example:
      hostler job show j17
    """
    asked = client(state_dir)
    detail, story = asked.job(name), asked.story(name)
    if as_json:
        say_json({**detail, "story": story})
        return
    say(_detail_lines(detail, time.time(), local_results(state_dir)))
    print()
    say(line for entry in story for line in entry_lines(entry))


def explain(
    name: Annotated[
        str,
        Argument(
            metavar="ID", help="Id, key or unique name of a job, or id of a device.", complete=complete_job_or_device
        ),
    ],
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Tell why a job waits, or why it runs where it runs, per device; or why a device does what it does.

    Of a job that waits it tells what would change that, and when it is expected to start.

    Example:
      hostler explain j17
      hostler explain rig-1/cuda0
    """
    asked = client(state_dir)
    told, lines = _explained(asked, name)
    if as_json:
        say_json(told)
        return
    say(lines(told, time.time()))
    if told.get("state") == State.DONE and (refused := not_kept(asked.job(name))):
        say(paragraph(refused, "- ", "  "))


def cancel(
    names: JobsOrGroups,
    reason: Annotated[str | None, Option(help="Why; it is kept in the job's story.")] = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> int:
    """End jobs, or all jobs of groups, at whatever point they are.

    Jobs that come after them fail. Each name is tried, also after one that cannot be cancelled; the exit status is
    that of the first error.

    Example:
      hostler cancel j17 j18 --reason "wrong data"
      hostler cancel g1
    """
    asked = client(state_dir)
    return _change_each(names, lambda name: _cancelled(asked, name, reason), as_json)


def retry(
    names: JobsOrGroups,
    only_failed: Annotated[bool, Option("--failed", help="Only those that failed, not cancelled ones.")] = False,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> int:
    """Try failed or cancelled jobs, or those of groups, again, with fresh budgets.

    What failed because of them is tried again, too. Each name is tried, also after one that cannot be tried again; the
    exit status is that of the first error.

    Example:
      hostler retry j17
      hostler retry g1 --failed
    """
    asked = client(state_dir)
    return _change_each(names, lambda name: _retried(asked, name, only_failed=only_failed), as_json)


def priority(
    name: JobName,
    value: Annotated[int, Argument(metavar="N", help="Higher goes first; 0 is usual.")],
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Rank a job anew.

    Jobs of one priority go in the order of their submission.

    Example:
      hostler job priority j17 10
    """
    changed = client(state_dir).set_priority(name, value)
    if as_json:
        say_json([changed])
        return
    print(f"{_standing_line(changed)}, priority {changed['priority']}")


def _explained(asked: Client, name: str) -> tuple[View, Callable[[View, float], Iterator[str]]]:
    """What is told of a job, or else of a device; and how to say it. Raises `NotFound`."""
    from hostler.cli.explaining import device_lines, job_lines

    try:
        return asked.explain(name), job_lines
    except NotFound:
        if "/" not in name:
            raise
    return asked.explain_device(name), device_lines


def _cancelled(asked: Client, name: str, reason: str | None) -> tuple[View, str]:
    """A job or a job group that was cancelled, and a line about it."""
    if not is_group(name):
        job = asked.cancel(name, reason)
        return job, _standing_line(job)
    open_ = count(asked.group(name), OPEN)
    group = asked.cancel_group(name, reason)
    what = "cancelling" if count(group, OPEN) else "cancelled"
    return group, f"{name} {what}: {plural(open_, 'job')}"


def _retried(asked: Client, name: str, *, only_failed: bool) -> tuple[View | None, str]:
    """A job or a job group that is tried again, and a line about it; `None` for a job that `--failed` leaves out."""
    if not is_group(name):
        if only_failed and (job := asked.named([name])[0])["state"] != "failed":
            return None, f"{job['id']} left out: {standing(job)}"
        job = asked.retry(name)
        return job, _standing_line(job)
    before = asked.group(name)
    group = asked.retry_group(name, only_failed=only_failed)
    again = ("failed",) if only_failed else ("failed", "cancelled")
    tried, size = count(before, again), int(before["size"])
    return group, f"{name} tried again: {plural(tried, 'job') if tried == size else f'{tried} of {size} jobs'}"


def _pattern(name: str) -> str:
    """The pattern that `--name` asks for: that of the user, or else any name that has this text as a part."""
    return name if any(each in name for each in "*?[") else f"*{name}*"


def _newest(asked: Client, states: Sequence[str], limit: int | None, only: Only) -> tuple[Sequence[View], int]:
    """The newest jobs, at most `limit`, oldest first; and how many were left out."""
    if states or limit is None or only != Only():
        found = list(asked.all_jobs(states, **only._asdict()))
        kept = found if limit is None else found[-limit:]
        return kept, len(found) - len(kept)
    known = sum(asked.status()["jobs"].values())
    newest = deque(asked.all_jobs(after=max(0, known - limit)), maxlen=limit)
    return list(newest), known - len(newest)


def _duration(job: View, now: float) -> str:
    """The time since the start of a running job, or how long the last attempt of an ended one ran."""
    if job["duration_s"] is not None:
        return duration(job["duration_s"])
    if job["started_at"] is None or is_over(job):
        return "-"
    return duration(max(now - job["started_at"], 0.0)) if job["state"] in (State.RUNNING, State.COLLECTING) else "-"


def _detail_lines(detail: View, now: float, results: Path | None) -> Iterator[str]:
    facts = _facts(detail, now)
    for name, fact in facts.items():
        first, *others = str(fact).split("\n") if name == "why" else [fact]
        yield from wrapped(f"{name:<{INDENT}}", clean(first))
        for line in others:  # what a build printed
            yield from wrapped(" " * INDENT, clean(line))
    yield from _file_lines(detail, results)
    if detail["sweep"]:
        yield ""
        from hostler.cli.fleet import SWEEP_COLUMNS, sweep_row

        yield from table(SWEEP_COLUMNS, [sweep_row(detail["sweep"])])


def _facts(detail: View, now: float) -> Mapping[str, object]:
    """The facts about a job by title, its files aside."""
    job, payload = detail["job"], detail["spec"]["payload"]
    return {
        "job": f"{job['id']} {job['name']}",
        "key": job["key"] or "-",
        "owner": job.get("owner") or "-",
        **_group_fact(detail),
        "state": standing(job),
        "why": job["why"] or "-",
        "submitted": f"{age(job['submitted_at'], now)} ago",
        "started": "-" if job["started_at"] is None else f"{age(job['started_at'], now)} ago",
        "ended": "-" if job["ended_at"] is None else f"{age(job['ended_at'], now)} ago",
        "duration": _duration(job, now),
        "priority": job["priority"],
        "after": ", ".join(detail["after"]) or "-",
        "attempts": f"{job['attempts']}, failures {compact(detail['failures'])}",
        "command": compact(payload.get("argv") or payload.get("worker")),
        "device": job["device"] or "-",
        "process": _process(detail["attempt"]),
        "result": compact(detail["result"]),
        **({"not kept": detail["unfetched"]} if detail.get("unfetched") else {}),
    }


def _group_fact(detail: View) -> Mapping[str, object]:
    """The group of a job and its parameters there: `g1, parameters lr=0.1 bs=16`; empty where it has none."""
    group, parameters = detail["job"].get("group"), detail["spec"].get("parameters")
    if group is None:
        return {}
    return {"group": f"{group}, parameters {parameters_text(parameters)}" if parameters else group}


def _file_lines(detail: View, results: Path | None) -> Iterator[str]:
    """The files that a job left: their absolute paths here, one a line and never broken, or how they come here."""
    title = f"{'files':<{INDENT}}"
    files = [str(file["path"]) for file in detail["files"]]
    is_script, job = detail["spec"]["payload"]["kind"] == "script", detail["job"]
    here = [] if results is None or not is_script else [str(results.absolute() / path) for path in files]
    if here and all(map(os.path.lexists, here[:FILES_SHOWN])):
        yield title + clean(here[0])
        yield from (" " * INDENT + clean(path) for path in here[1:FILES_SHOWN])
        if len(files) > FILES_SHOWN:
            yield f"{' ' * INDENT}and {len(files) - FILES_SHOWN} more below {clean(os.path.commonpath(here))}"
        return
    shown = [path.partition("/")[2] if is_script else path for path in files]
    more = f" and {len(files) - FILES_SHOWN} more" if len(files) > FILES_SHOWN else ""
    named = ", ".join(shown[:FILES_SHOWN]) + more
    is_kept = bool(files) and is_script and job["state"] == "done"
    copied = f"; `hostler fetch {job['id']}` copies them here" if is_kept else ""
    yield from wrapped(title, clean(named + copied or "-"))


def _process(attempt: View | None) -> str:
    if attempt is None:
        return "-"
    known = f"{attempt['process']}, pid {maybe(attempt['pid'])}"
    if attempt["link"] == "up":
        return f"{known}; its node is connected"
    return f"{known} at the last report of its node, which is unreachable"


def _standing_line(job: View) -> str:
    return f"{job['id']} {standing(job)}"


def _change_each(names: Sequence[str], change: Callable[[str], tuple[View | None, str]], as_json: bool) -> int:
    """Change jobs and groups one after the other, with a line for each; the exit status is that of the first error."""
    errors: list[HostlerError] = []
    changed: list[View] = []
    for name in names:
        try:
            view, line = change(name)
        except HostlerError as error:
            errors.append(error)
            print_error(str(error))
            if isinstance(error, LinkError | StoreError | AnswerError):
                break  # no other name would fare better
            continue
        if view is not None:
            changed.append(view)
        if not as_json:
            print(line, flush=True)
    if as_json and (changed or not errors):
        say_json(changed)
    return status_of(errors[0]) if errors else 0
