"""The job that a name means: its id, its idempotency key, or its own name where no other job has the same."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from itertools import islice

from hostler.core.state import Job, State
from hostler.model.errors import NotFound, UsageError
from hostler.model.groups import GROUP_ID

LISTED = 5
"""Jobs that an error names."""
SHOWN = 100
"""Characters of a name that an error repeats."""
COMPARED = 2000
"""Jobs, the newest, with whose names a name is compared that no job has."""
CLOSE = 0.7
"""How much alike two names are at least, as `difflib` counts, of which one is suggested for the other."""


def find_job(state: State, name: str) -> Job:
    """The job of this id, idempotency key or unique name. Raises `NotFound`, and `UsageError` where several have it."""
    (found,) = find_jobs(state, (name,))
    return found


def find_jobs(state: State, names: Sequence[str]) -> list[Job]:
    """The job of each name, in this order; raises as `find_job`.

    Names that are neither ids nor keys are looked for among all jobs of the state, once for all of them.
    """
    known = {name: by_handle(state, name) for name in names}
    others = called(state, names)
    return [known[name] or the_only(name, others.get(name, ()), state) for name in names]


def by_handle(state: State, name: str) -> Job | None:
    """The job of this id or idempotency key; `None` where the state has none."""
    return state.jobs.get(name) or state.jobs.get(state.keys.get(name, ""))


def called(state: State, words: Collection[str]) -> dict[str, list[Job]]:
    """By name: the jobs that have it, for those of the words that are neither ids nor keys."""
    names = {word for word in words if by_handle(state, word) is None}
    found: dict[str, list[Job]] = {}
    if names:
        for job in state.jobs.values():
            if job.spec.name in names:
                found.setdefault(job.spec.name, []).append(job)
    return found


def the_only(name: str, jobs: Sequence[Job], state: State | None = None) -> Job:
    """The job that has a name. Raises `NotFound` where none has it, `UsageError` where several have.

    The error names a job of the state whose name is much like it.
    """
    if len(jobs) == 1:
        return jobs[0]
    if GROUP_ID.fullmatch(name):
        told = f"`hostler jobs --group {name[:SHOWN]}` lists the jobs of a group"
        raise NotFound(f"there is no job {name[:SHOWN]!r}; {told}")
    if not jobs:
        raise NotFound(f"there is no job {name[:SHOWN]!r}{_similar(state, name)}; `hostler jobs` lists them")
    listed = ", ".join(f"{job.id} ({job.state})" for job in sorted(jobs, key=lambda job: -job.number)[:LISTED])
    more = f" and {len(jobs) - LISTED} more" if len(jobs) > LISTED else ""
    raise UsageError(f"{len(jobs)} jobs are named {name[:SHOWN]!r}: {listed}{more}. Name one of them by its id")


def _similar(state: State | None, name: str) -> str:
    """The name of a job that is most like this one, for an error; nothing where none is much like it."""
    if state is None or len(name) > SHOWN:
        return ""
    newest = islice(reversed(state.jobs.values()), COMPARED)
    close = get_close_matches(name, {job.spec.name for job in newest}, n=1, cutoff=CLOSE)
    return f"; did you mean {close[0][:SHOWN]!r}?" if close else ""
