"""`wait`: the ends of jobs, one line each, as they come."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from hostler.cli.common import JobNames, StateDir, client
from hostler.cli.outcomes import FAILED, LISTED, exit_status, is_over, outcome_line, print_interrupted
from hostler.cli.show import clean, standing
from hostler.model.errors import LinkError, StoreError, UsageError
from hostler.model.units import duration

if TYPE_CHECKING:
    from hostler.client import Client, View

commands = typer.Typer()

T = TypeVar("T")

TIMED_OUT = 124
"""The exit status of timeout(1)."""
POLL_S = (0.1, 0.2, 0.3, 0.5, 1.0)
"""Rests between two questions for the states of jobs; the last one is repeated."""
JOBS_PER_S = 1000
"""States asked for in a second at most: of more jobs they are asked for less often."""

Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="S", help="Give up after so many seconds, with exit status 124.")
]


@commands.command()
def wait(names: JobNames, timeout_s: Timeout = None, state_dir: StateDir = None) -> int:
    """Wait until jobs have ended; print one line for each.

    The exit status is that of the job: 0 if it is done, otherwise that of its last process, or 1. Of several jobs it
    is 1 if one of them is not done. With --timeout it is 124 if one of them has not ended by then. If the controller
    is restarted meanwhile, the command keeps waiting.

    \b
    Example:
      hostler wait j17 && hostler fetch j17
      hostler wait train eval --timeout 3600
    """
    expect_timeout(timeout_s)
    asked = client(state_dir)
    return wait_for(asked, asked.named(names), timeout_s)


def expect_timeout(timeout_s: float | None) -> None:
    """Raise `UsageError` unless somebody can wait so long."""
    if timeout_s is not None and not timeout_s >= 0:
        raise UsageError(f"--timeout is {timeout_s:g}; give a number of seconds, 0 or more")


def wait_for(asked: Client, jobs: Sequence[View], timeout_s: float | None = None) -> int:
    """Print a line for each job as it ends; returns the exit status of `wait`."""
    open_ = {job["id"]: job for job in jobs}
    try:
        return _wait(asked, open_, timeout_s)
    except KeyboardInterrupt:
        print_interrupted(list(open_))
        raise


def _wait(asked: Client, open_: dict[str, View], timeout_s: float | None) -> int:
    ends_at = math.inf if timeout_s is None else time.monotonic() + timeout_s
    patience = _Patience()
    ended: list[View] = []
    seen: Sequence[View] = list(open_.values())
    rests = chain(POLL_S, repeat(POLL_S[-1]))
    while True:
        for job in seen:
            open_[job["id"]] = job
            if is_over(job):
                ended.append(open_.pop(job["id"]))
                print(outcome_line(job), flush=True)
        if not open_:
            return _status(asked, ended, patience)
        left_s = ends_at - time.monotonic()
        if left_s <= 0:
            return _give_up(list(open_.values()), timeout_s)
        time.sleep(min(max(next(rests), len(open_) / JOBS_PER_S), left_s))
        seen = patience.ask(lambda: asked.named(list(open_))) or ()


class _Patience:
    """Asks a controller that may be away for a while; the absence is printed once, and so is its end."""

    def __init__(self) -> None:
        self._is_away = False

    def ask(self, question: Callable[[], T]) -> T | None:
        """The answer; `None` while the controller cannot be reached."""
        try:
            answer = question()
        except (LinkError, StoreError) as error:
            if not self._is_away:
                self._say(f"the controller cannot be reached, and the command keeps waiting: {clean(error)}")
            self._is_away = True
            return None
        if self._is_away:
            self._say("the controller answers again")
        self._is_away = False
        return answer

    def _say(self, what: str) -> None:
        print(f"hostler: {what}", file=sys.stderr, flush=True)


def _status(asked: Client, ended: Sequence[View], patience: _Patience) -> int:
    if len(ended) != 1:
        return FAILED if any(job["state"] != "done" for job in ended) else 0
    while (status := patience.ask(lambda: exit_status(asked, ended[0]))) is None:
        time.sleep(POLL_S[-1])
    return status


def _give_up(jobs: Sequence[View], timeout_s: float | None) -> int:
    listed = ", ".join(f"{job['id']} ({standing(job)})" for job in jobs[:LISTED])
    more = f" and {len(jobs) - LISTED} more" if len(jobs) > LISTED else ""
    what = "1 job has" if len(jobs) == 1 else f"{len(jobs)} jobs have"
    print(f"hostler: {what} not ended after {duration(timeout_s)}: {listed}{more}", file=sys.stderr)
    return TIMED_OUT
