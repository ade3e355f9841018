"""`fetch`: files that a job, or each job of a group, left, copied to folders here."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from hostler.cli.common import Json, StateDir, client
from hostler.cli.declarations import Argument, Option
from hostler.cli.errors import print_error, status_of
from hostler.cli.groups import JobOrGroup, counted, is_group
from hostler.cli.show import Column, clean, plural, say, say_json, table
from hostler.client.downloads import ignore
from hostler.client.folders import JOB, folders_of
from hostler.client.results import ENDED
from hostler.model.errors import AnswerError, Conflict, HostlerError, LinkError, UsageError
from hostler.model.units import file_size

if TYPE_CHECKING:
    from hostler.client import Client, View


T = TypeVar("T")

COLUMNS = (Column("BYTES", right=True), Column("SHA-256"), Column("FILE"))
SHOWN = 12
"""Of a SHA-256."""
ERRORS_SHOWN = 5
"""Jobs of a group whose errors are printed."""
RESTS_S = (0.5, 2.0, 5.0)
"""Rests before a request for the files of a job of a group is repeated that lost its connection."""

Directory = Annotated[
    Path | None,
    Argument(metavar="DIR", help="Where to; by default a folder here with the id of the job or group."),
]


def fetch(
    name: JobOrGroup,
    directory: Directory = None,
    force: Annotated[bool, Option("--force", help="Replace files that are there with other content.")] = False,
    only_list: Annotated[bool, Option("--list", help="List the files and their sizes; copy nothing.")] = False,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> int:
    """Copy the files that a job, or each job of a group, left to a folder here.

    These are the outputs of its accepted attempt. Each file appears whole and with the right hash, or not at all. A
    file that is there with the same content is not copied again, and one with other content is an error before
    anything is copied. A download that was cut is taken up where it broke. It works from any machine: $HOSTLER_URL and
    $HOSTLER_TOKEN name the controller.

    The files of each job of a group go to a folder of their own, named by the parameters of the job (lr=0.1,bs=16), or
    by its id where that names no other. The command can be repeated: it copies what is missing.

    Example:
      hostler fetch j17
      hostler fetch g1 runs
      hostler fetch train runs/best --force
      hostler fetch j17 --list
    """
    if only_list and (directory is not None or force):
        raise UsageError("--list copies nothing; leave out DIR and --force")
    _expect_folder(name, directory)
    if only_list:
        return _list_group(client(state_dir), name, as_json) if is_group(name) else _list(name, as_json, state_dir)
    if is_group(name):
        return _fetch_group(client(state_dir), name, directory, force=force, as_json=as_json)
    is_new = directory is None or not directory.exists()
    rows = client(state_dir).fetch(name, directory, force=force, told=None if as_json else _say)
    if is_new and rows:
        ignore(Path(rows[0]["file"]).parents[len(Path(rows[0]["path"]).parts) - 1])
    _note(rows)
    if as_json:
        say_json(rows)
        return 0
    print(_summary(rows))
    return 0


def _expect_folder(name: str, directory: Path | None) -> None:
    """Raise `UsageError` where DIR is the id of another job or group, whose folder would get the files of this one."""
    word = str(directory)
    if directory is not None and word != name and (is_group(word) or JOB.fullmatch(word)):
        raise UsageError(
            f"DIR is {word!r}, the id of another job or group, and one is fetched at a time. Run `hostler fetch "
            f"{word}` for its files, or give a folder of another name for those of {name}"
        )


def _list(name: str, as_json: bool, state_dir: Path | None) -> int:
    from hostler.client.downloads import nothing_left

    asked = client(state_dir)
    files = asked.files(name)
    if as_json:
        say_json(files)
        return 0
    if not files:
        raise nothing_left(asked.job(name))
    say(table(COLUMNS, _listed(files)))
    return 0


def _list_group(asked: Client, group: str, as_json: bool) -> int:
    """List the files of all jobs of a group, each with the folder that `fetch` copies it to."""
    rows = list(asked.group_results(group))
    folders = folders_of(rows)
    files = {row["job"]: asked.files(row["job"]) for row in rows if row["state"] == "done"}
    if as_json:
        say_json([{"job": job, "folder": folders[job], **file} for job, some in files.items() for file in some])
        return 0
    shown = [row for job, some in files.items() for row in _listed(some, f"{folders[job]}/")]
    if shown:
        say(table(COLUMNS, shown))
    return _end(rows, [job for job, some in files.items() if some], group, did="listed")


def _listed(files: Sequence[Any], before: str = "") -> list[tuple[object, ...]]:
    from hostler.client.downloads import checked

    return [(each.size, each.sha256[:SHOWN], before + each.path) for each in checked(files)]


def _fetch_group(asked: Client, group: str, directory: Path | None, *, force: bool, as_json: bool) -> int:
    """Copy the files of all jobs of a group that are done; the errors of one job do not keep others from it."""
    rows = list(asked.group_results(group))
    folders = folders_of(rows)
    here = Path(group) if directory is None else directory
    is_new = directory is None or not directory.exists()
    found = _Found(silent=as_json)
    left_some: list[str] = []
    errors: list[HostlerError] = []
    for job in (row["job"] for row in rows if row["state"] == "done"):
        try:
            if _resumed(partial(_copy, asked, job, here / folders[job], force, found)):
                left_some.append(job)
        except HostlerError as error:
            if isinstance(error, LinkError | AnswerError) or isinstance(error.__cause__, OSError):
                raise  # without a link, or room, or permission, no other job fares better
            errors.append(error)
            left_some.append(job)
            if len(errors) <= ERRORS_SHOWN:
                print_error(f"{job}: {error}")
    if is_new and found.rows:
        ignore(here)
    if as_json:
        say_json(found.rows)
    elif found.rows:
        print(f"{plural(len(left_some) - len(errors), 'job')}: {_summary(found.rows)}")
    if len(errors) > ERRORS_SHOWN:
        print(f"and {plural(len(errors) - ERRORS_SHOWN, 'job')} more with errors", file=sys.stderr)
    status = _end(rows, left_some, group, did="fetched")
    return status_of(errors[0]) if errors else status


class _Found:
    """Files of a group that are here, each printed once, however often its job was begun."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self._by_file: dict[str, View] = {}

    @property
    def rows(self) -> list[View]:
        """A row for each file: that of `fetch`, with its job."""
        return list(self._by_file.values())

    def add(self, job: str, row: Mapping[str, Any]) -> None:
        """A file that has come."""
        if row["file"] in self._by_file:
            return
        self._by_file[row["file"]] = {"job": job, **row}
        if not self._silent:
            _say(row)


def _copy(asked: Client, job: str, folder: Path, force: bool, found: _Found) -> bool:
    """Copy the files of one job; whether it left some."""
    if not asked.files(job):
        return False
    _note(asked.fetch(job, folder, force=force, told=partial(found.add, job)), f"{job}: ")
    return True


def _note(rows: Sequence[View], about: str = "") -> None:
    """Print why some files that the job left have not come to the controller."""
    why = getattr(rows, "unfetched", None)
    if why:
        print(f"note: {about}{clean(why)}", file=sys.stderr)


def _resumed(work: Callable[[], T]) -> T:
    """The value of the work, which is repeated where its connection is lost."""
    for rest_s in RESTS_S:
        try:
            return work()
        except LinkError:
            time.sleep(rest_s)
    return work()


def _end(rows: Sequence[View], left_some: Iterable[str], group: str, *, did: str) -> int:
    """Print how many jobs left no files. Raises `Conflict` where none did."""
    some = set(left_some)
    without = Counter(str(row["state"]) for row in rows if row["job"] not in some)
    if not without:
        return 0
    what = f"{without.total()} of {plural(len(rows), 'job')} {'has' if without.total() == 1 else 'have'} left no files"
    if some:
        print(f"{what}: {counted(without)}", file=sys.stderr)
        return 0
    if without.keys() - set(ENDED):
        remedy = f"Files are there once a job is done: `hostler wait {group}` waits for that"
    elif "done" in without:
        remedy = "Name those to keep with `hostler submit --output PATTERN` (as `--output 'out/*.pt'`)"
    else:
        remedy = f"Only jobs that are done leave files: `hostler retry {group}` runs these again"
    raise Conflict(f"nothing of {group} was {did}: {what}, {counted(without)}. {remedy}")


def _summary(rows: Sequence[View]) -> str:
    copied = [row for row in rows if row["copied"]]
    same = f", {plural(len(rows) - len(copied), 'file')} there already" if len(copied) < len(rows) else ""
    return f"{plural(len(copied), 'file')} copied, {file_size(sum(row['size'] for row in copied))}{same}"


def _say(row: Mapping[str, Any]) -> None:
    print(clean(row["file"]) + ("" if row["copied"] else " (there already)"), flush=True)
