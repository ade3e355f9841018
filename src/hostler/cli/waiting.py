"""`wait`: the ends of jobs and of job groups, one line each, as they come."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Annotated, TypeVar

from hostler.cli.common import StateDir, client
from hostler.cli.declarations import Option
from hostler.cli.groups import (
    JobsOrGroups,
    count,
    group_line,
    is_group_done,
    is_group_over,
    named,
)
from hostler.cli.outcomes import LISTED, exit_status, outcome_line, print_interrupted
from hostler.cli.show import clean, plural, standing
from hostler.client.outcomes import FAILED, is_over
from hostler.client.results import ENDED
from hostler.model.errors import LinkError, StoreError, UsageError
from hostler.model.units import duration

if TYPE_CHECKING:
    from hostler.client import Client, View


T = TypeVar("T")

TIMED_OUT = 124
"""The exit status of timeout(1)."""
POLL_S = (0.1, 0.2, 0.3, 0.5, 1.0)
"""Rests between two questions for the states of jobs; the last one is repeated."""
JOBS_PER_S = 1000
"""States asked for in a second at most: of more jobs they are asked for less often."""
GROUPS_PER_S = 20
"""Job groups asked for in a second at most; each is a request."""
FAILED_LISTED = 5
"""Failed jobs of a group whose reasons are printed."""

Timeout = Annotated[
    float | None, Option("--timeout", metavar="S", help="Give up after so many seconds, with exit status 124.")
]


def wait(names: JobsOrGroups, timeout_s: Timeout = None, state_dir: StateDir = None) -> int:
    """Wait until jobs or job groups have ended; print one line for each.

    The exit status is that of the job: 0 if it is done, otherwise that of its last process, or 1. Of several jobs, or
    of a group, it is 1 if one of them is not done. It is 125 if the environment of the job could not be set up on its
    node (`hostler logs` has what was printed). With --timeout it is 124 if one of them has not ended by then. If
    the controller is restarted meanwhile, the command keeps waiting. Of a group that has failed jobs, the first five
    are printed with their reasons.

    Example:
      hostler wait j17 && hostler fetch j17
      hostler wait train eval --timeout 3600
      hostler wait g1 && hostler results g1
    """
    expect_timeout(timeout_s)
    asked, words = client(state_dir), named(names)
    jobs, groups = asked.named(words.jobs), [asked.group(name) for name in dict.fromkeys(words.groups)]
    return wait_for_groups(asked, jobs, groups, timeout_s)


def expect_timeout(timeout_s: float | None) -> None:
    """Raise `UsageError` unless somebody can wait so long."""
    if timeout_s is not None and not timeout_s >= 0:
        raise UsageError(f"--timeout is {timeout_s:g}; give a number of seconds, 0 or more")


def wait_for(asked: Client, jobs: Sequence[View], timeout_s: float | None = None) -> int:
    """Print a line for each job as it ends; returns the exit status of `wait`."""
    return wait_for_groups(asked, jobs, (), timeout_s)


def wait_for_groups(asked: Client, jobs: Sequence[View], groups: Sequence[View], timeout_s: float | None = None) -> int:
    """Print a line for each job and each job group as it ends; returns the exit status of `wait`."""
    open_ = {each["id"]: each for each in (*jobs, *groups)}
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
        for each in seen:
            open_[each["id"]] = each
            if _is_over(each):
                ended.append(open_.pop(each["id"]))
                for line in _lines(asked, each, patience):
                    print(line, flush=True)
        if not open_:
            return _status(asked, ended, patience)
        left_s = ends_at - time.monotonic()
        if left_s <= 0:
            return _give_up(list(open_.values()), timeout_s)
        time.sleep(min(max(next(rests), _rest_s(open_)), left_s))
        seen = patience.ask(lambda: _states(asked, list(open_))) or ()


def _states(asked: Client, ids: Sequence[str]) -> Sequence[View]:
    """The present views of jobs and job groups: a request for many jobs, and one for each group."""
    words = named(ids)
    return [*asked.named(words.jobs), *(asked.group(name) for name in words.groups)]


def _rest_s(ids: Iterable[str]) -> float:
    """The least time between two questions for so many jobs and groups."""
    words = named(list(ids))
    return len(words.jobs) / JOBS_PER_S + len(words.groups) / GROUPS_PER_S


def _is_over(each: View) -> bool:
    return is_group_over(each) if "size" in each else is_over(each)


def _is_done(each: View) -> bool:
    return is_group_done(each) if "size" in each else bool(each["state"] == "done")


def _lines(asked: Client, ended: View, patience: _Patience) -> Iterator[str]:
    """A job or a job group that has ended; of a group, some failed jobs, too."""
    if "size" not in ended:
        yield outcome_line(ended)
        return
    yield group_line(ended)
    count_failed = count(ended, ("failed",))
    if not count_failed:
        return
    jobs = patience.insist(lambda: asked.jobs(["failed"], limit=FAILED_LISTED, group=ended["id"]))
    yield from (f"  {outcome_line(job)}" for job in jobs)
    if count_failed > len(jobs):
        yield f"  and {count_failed - len(jobs)} more; `hostler jobs --group {ended['id']} --state failed` lists them"


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

    def insist(self, question: Callable[[], T]) -> T:
        """The answer, as soon as the controller gives it."""
        while (answer := self.ask(question)) is None:
            time.sleep(POLL_S[-1])
        return answer

    def _say(self, what: str) -> None:
        print(f"hostler: {what}", file=sys.stderr, flush=True)


def _status(asked: Client, ended: Sequence[View], patience: _Patience) -> int:
    if len(ended) != 1 or "size" in ended[0]:
        return 0 if all(map(_is_done, ended)) else FAILED
    return patience.insist(lambda: exit_status(asked, ended[0]))


def _give_up(left: Sequence[View], timeout_s: float | None) -> int:
    listed = ", ".join(f"{each['id']} ({_standing(each)})" for each in left[:LISTED])
    more = f" and {len(left) - LISTED} more" if len(left) > LISTED else ""
    words = named([each["id"] for each in left])
    kinds = ((len(words.jobs), "job"), (len(words.groups), "group"))
    what = " and ".join(plural(number, kind) for number, kind in kinds if number)
    has = "has" if len(left) == 1 else "have"
    print(f"hostler: {what} {has} not ended after {duration(timeout_s)}: {listed}{more}", file=sys.stderr)
    return TIMED_OUT


def _standing(each: View) -> str:
    if "size" not in each:
        return standing(each)
    return f"{count(each, ENDED)} of {plural(each['size'], 'job')} ended"
