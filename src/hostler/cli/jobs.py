"""Jobs: listing, detail, reasons, and changes of mind."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.common import JobName, JobNames, Json, StateDir, client, complete_job, local_results
from hostler.cli.entries import entry_line
from hostler.cli.explaining import device_lines, job_lines
from hostler.cli.fleet import SWEEP_COLUMNS, sweep_row
from hostler.cli.show import (
    Column,
    age,
    clean,
    compact,
    headline,
    maybe,
    say,
    say_json,
    standing,
    table,
    terminal_width,
    wrapped,
)
from hostler.model.errors import Conflict, NotFound, UsageError

if TYPE_CHECKING:
    from hostler.client import Client, View

commands = typer.Typer()

SHOWN = 50
FILES_SHOWN = 20
INDENT = 11


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


JOB_COLUMNS = (
    Column("ID"),
    Column("STATE"),
    Column("WORK"),
    Column("PRIO", right=True),
    Column("AGE", right=True),
    Column("TRIES", right=True),
    Column("DEVICE", yields=True),
    Column("NAME", yields=True),
    Column("WHY", yields=True),
)


@commands.command()
def jobs(
    state: Annotated[list[State] | None, typer.Option(help="Only jobs in this state; repeat for several.")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help=f"The newest so many; {SHOWN} by default, all with --json.")
    ] = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """List jobs, oldest first.

    \b
    Example:
      hostler jobs --state failed --state cancelled
      hostler jobs --json | jq -r '.[] | select(.attempts > 1) | .id'
    """
    found, left_out = _newest(client(state_dir), state or [], limit if as_json else limit or SHOWN)
    if as_json:
        say_json(list(found))
        return
    now = time.time()
    say(table(JOB_COLUMNS, [_job_row(job, now) for job in found]) if found else ["no jobs"])
    if left_out:
        print(f"and {left_out} older; `--limit {left_out + len(found)}` shows them, too", file=sys.stderr)


@commands.command()
def job(name: JobName, as_json: Json = False, state_dir: StateDir = None) -> None:
    """Show everything about one job, and what happened to it.

    \b
    Example:
      hostler job j17
    """
    asked = client(state_dir)
    detail, story = asked.job(name), asked.story(name)
    if as_json:
        say_json({**detail, "story": story})
        return
    say(_detail_lines(detail, time.time(), local_results(state_dir)))
    print()
    say(entry_line(entry, terminal_width()) for entry in story)


@commands.command()
def explain(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="Id, key or unique name of a job, or id of a device.", autocompletion=complete_job
        ),
    ],
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Tell why a job waits, or why it runs where it runs, per device; or why a device does what it does.

    Of a job that waits it tells what would change that, and when it is expected to start.

    \b
    Example:
      hostler explain j17
      hostler explain rig-1/cuda0
    """
    told, lines = _explained(client(state_dir), name)
    if as_json:
        say_json(told)
        return
    say(lines(told, time.time()))


@commands.command()
def cancel(
    names: JobNames,
    reason: Annotated[str | None, typer.Option(help="Why; it is kept in the job's story.")] = None,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """End jobs, at whatever point they are.

    Jobs that come after them fail.

    \b
    Example:
      hostler cancel j17 j18 --reason "wrong data"
    """
    asked = client(state_dir)
    _tell_each((asked.cancel(name, reason) for name in names), as_json)


@commands.command()
def retry(names: JobNames, as_json: Json = False, state_dir: StateDir = None) -> None:
    """Try failed or cancelled jobs again, with fresh budgets.

    What failed because of them is tried again, too.

    \b
    Example:
      hostler retry j17
    """
    asked = client(state_dir)
    _tell_each((_retried(asked, name) for name in names), as_json)


@commands.command(context_settings={"ignore_unknown_options": True})
def priority(
    name: JobName,
    value: Annotated[int, typer.Argument(metavar="N", help="Higher goes first; 0 is usual.")],
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Rank a job anew.

    Jobs of one priority go in the order of their submission.

    \b
    Example:
      hostler priority j17 10
    """
    _tell_each([client(state_dir).set_priority(name, value)], as_json)


def _explained(asked: Client, name: str) -> tuple[View, Callable[[View, float], Iterator[str]]]:
    """What is told of a job, or else of a device; and how to say it. Raises `NotFound`."""
    try:
        return asked.explain(name), job_lines
    except NotFound:
        if "/" not in name:
            raise
    return asked.explain_device(name), device_lines


def _retried(asked: Client, name: str) -> View:
    """The job, tried again. Raises `UsageError` where it is none that can be: that is no failure of the controller."""
    try:
        return asked.retry(name)
    except Conflict as error:
        raise UsageError(str(error)) from None


def _newest(asked: Client, states: Sequence[str], limit: int | None) -> tuple[Sequence[View], int]:
    """The newest jobs, at most `limit`, oldest first; and how many were left out."""
    if states or limit is None:
        found = list(asked.all_jobs(states))
        kept = found if limit is None else found[-limit:]
        return kept, len(found) - len(kept)
    known = sum(asked.status()["jobs"].values())
    newest = deque(asked.all_jobs(after=max(0, known - limit)), maxlen=limit)
    return list(newest), known - len(newest)


def _job_row(job: View, now: float) -> Sequence[object]:
    return (
        job["id"],
        standing(job),
        job["work"],
        job["priority"],
        age(job["submitted_at"], now),
        job["attempts"],
        job["device"] or "-",
        job["name"],
        headline(job["why"] or ""),
    )


def _detail_lines(detail: View, now: float, results: Path | None) -> Iterator[str]:
    job, payload = detail["job"], detail["spec"]["payload"]
    facts = {
        "job": f"{job['id']} {job['name']}",
        "key": job["key"] or "-",
        "state": standing(job),
        "why": job["why"] or "-",
        "submitted": f"{age(job['submitted_at'], now)} ago",
        "started": "-" if job["started_at"] is None else f"{age(job['started_at'], now)} ago",
        "ended": "-" if job["ended_at"] is None else f"{age(job['ended_at'], now)} ago",
        "priority": job["priority"],
        "after": ", ".join(detail["after"]) or "-",
        "attempts": f"{job['attempts']}, failures {compact(detail['failures'])}",
        "command": compact(payload.get("argv") or payload.get("worker")),
        "device": job["device"] or "-",
        "process": _process(detail["attempt"]),
        "result": compact(detail["result"]),
        "files": _files(detail, results),
    }
    for name, fact in facts.items():
        first, *others = str(fact).split("\n") if name == "why" else [fact]
        yield from wrapped(f"{name:<{INDENT}}", clean(first))
        for line in others:  # what a build printed
            yield from wrapped(" " * INDENT, clean(line))
    if detail["sweep"]:
        yield ""
        yield from table(SWEEP_COLUMNS, [sweep_row(detail["sweep"])])


def _files(detail: View, results: Path | None) -> str:
    """The files that a job left: where they lie here, or how they come here; of a stage, their places by hash."""
    files = [str(file["path"]) for file in detail["files"]]
    if not files:
        return "-"
    is_script, job = detail["spec"]["payload"]["kind"] == "script", detail["job"]
    here = [] if results is None or not is_script else [str(results / path) for path in files]
    is_here = bool(here) and all(map(os.path.lexists, here[:FILES_SHOWN]))
    shown = here if is_here else [path.partition("/")[2] if is_script else path for path in files]
    more = f" and {len(files) - FILES_SHOWN} more" if len(files) > FILES_SHOWN else ""
    named = ", ".join(shown[:FILES_SHOWN]) + more
    is_kept = is_script and not is_here and job["state"] == "done"
    return f"{named}; `hostler fetch {job['id']}` copies them here" if is_kept else named


def _process(attempt: View | None) -> str:
    if attempt is None:
        return "-"
    return f"{attempt['process']}, pid {maybe(attempt['pid'])}, its node's link is {attempt['link']}"


def _tell_each(changed: Iterator[View] | Sequence[View], as_json: bool) -> None:
    """Tell of each job as soon as it is changed: a later one may be refused."""
    done = []
    for job in changed:
        done.append(job)
        if not as_json:
            print(f"{job['id']} {standing(job)}, priority {job['priority']}", flush=True)
    if as_json:
        say_json(done)
