"""Job groups among the words of a command line, and job groups as lines: `g1` is a group, any other word is a job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from hostler.cli.completing import complete_group, complete_job_or_group
from hostler.cli.declarations import Argument
from hostler.cli.show import plural
from hostler.client.results import ENDED
from hostler.model.errors import UsageError
from hostler.model.units import duration

if TYPE_CHECKING:
    from hostler.client import View

GROUP = r"g[0-9]{1,18}"
OPEN = ("pending", "running")

JobOrGroup = Annotated[
    str,
    Argument(
        metavar="ID", help="Id, key or unique name of a job; or id of a job group (g1).", complete=complete_job_or_group
    ),
]
JobsOrGroups = Annotated[
    list[str],
    Argument(
        metavar="ID", help="Ids, keys or unique names of jobs; ids of job groups (g1).", complete=complete_job_or_group
    ),
]
GroupNames = Annotated[
    list[str] | None,
    Argument(
        metavar="[GROUP]...", help="Ids of job groups (g1); none: the groups are listed.", complete=complete_group
    ),
]


class Named(NamedTuple):
    """Jobs and job groups that a command line names, each in the order of the words."""

    jobs: Sequence[str]
    groups: Sequence[str]


def named(words: Sequence[str]) -> Named:
    """The words that name jobs, and those that name job groups."""
    return Named([word for word in words if not is_group(word)], [word for word in words if is_group(word)])


def is_group(word: str) -> bool:
    """Whether a word is the id of a job group."""
    return re.fullmatch(GROUP, word) is not None


def expect_group(word: str, instead: str) -> str:
    """The word, if it is the id of a job group. Raises `UsageError`, which recommends something `instead`."""
    if not is_group(word):
        raise UsageError(f"{word!r} is not the id of a job group: such an id is g and a number, as in g1. {instead}")
    return word


def count(group: View, states: Sequence[str]) -> int:
    """Jobs of a group that are in one of these states."""
    return sum(int(group["jobs"].get(state, 0)) for state in states)


def is_group_over(group: View) -> bool:
    """Whether all jobs of a group have ended."""
    return group["ended_at"] is not None


def is_group_done(group: View) -> bool:
    """Whether all jobs of a group are done."""
    return count(group, ("done",)) == int(group["size"])


def group_line(group: View) -> str:
    """A group that has ended: `g1 done: 4 of 4 jobs in 12 s`, `g1 ended: 3 done, 1 failed of 4 in 12 s; …`."""
    took = f" in {duration(max(group['ended_at'] - group['submitted_at'], 0.0))}"
    if is_group_done(group):
        return f"{group['id']} done: {group['size']} of {plural(group['size'], 'job')}{took}"
    return f"{group['id']} ended: {counted(group['jobs'])} of {group['size']}{took}; hostler results {group['id']}"


def counted(jobs: Mapping[str, int]) -> str:
    """Numbers of jobs by state, those of ended jobs first and none of 0: `3 done, 1 failed`."""
    ordered = [*ENDED, *(state for state in jobs if state not in ENDED)]
    return ", ".join(f"{jobs[state]} {state}" for state in ordered if jobs.get(state))


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Parameters of a job: `lr=0.1 bs=16`."""
    return " ".join(f"{name}={value}" for name, value in parameters.items())
