"""Jobs that have left the state: found in the store for whoever asks, and given to the core with what needs them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from pydantic import ValidationError

from hostler.core import Core, groups, past
from hostler.core.explain import explain_job
from hostler.core.index import Index
from hostler.core.listed import intervals
from hostler.core.naming import by_handle, find_job, find_jobs
from hostler.core.state import Job, State
from hostler.core.views import (
    find_sweep,
    job_detail,
    job_view,
    job_views,
    ledger_view,
    sweep_view,
    sweep_views,
)
from hostler.model.codec import adapter, explain
from hostler.model.errors import CorruptState, Outdated, StoreFull
from hostler.model.groups import GroupResult
from hostler.model.inputs import Input, Knowing
from hostler.model.listed import IntervalView, JobMatch
from hostler.model.past import Looked, PastJob
from hostler.model.views import Explanation, JobDetail, JobView, LedgerView, SweepView
from hostler.model.work import FINAL_STATES, FailureClass, JobState, StagePayload, WorkKind
from hostler.store import Journal, past as rows

AnswerT = TypeVar("AnswerT")

PATIENCE_S = 10.0
"""How long is waited until what has left is written."""
PAGE = 1000
"""Jobs that are looked through at once for those that match."""
DEEP = 1000
"""How far what jobs come after is followed back when they come back."""


class JobLooks:
    """What can be seen of one job, in the state or beside it."""

    def __init__(self, state: State, index: Index, name: str) -> None:
        self.state = state
        self._index = index
        self._name = name

    def job(self) -> JobDetail:
        """Everything about it but its story. Raises `NotFound`, like all of these."""
        return job_detail(self.state, self._index, find_job(self.state, self._name))

    def explain(self) -> Explanation:
        """Why it waits, or runs where it runs, or what became of it."""
        return explain_job(self.state, self._index, find_job(self.state, self._name))

    def ledger(self) -> LedgerView:
        """The ledger of a sweep."""
        return ledger_view(self.state, self._index, find_sweep(self.state, self._name))

    def intervals(self, standings: frozenset[str] | None, after: int | None, limit: int) -> Sequence[IntervalView]:
        """The range of a sweep, in order."""
        return intervals(find_sweep(self.state, self._name), standings, after, limit)


class PastJobs:
    """The jobs of a store that have left the state of its core.

    What has left is written a moment later: whoever looks for it waits until `written` has told of the entry by which
    it left. A core that only follows a journal has nothing that is not written.
    """

    def __init__(self, core: Core, journal: Journal) -> None:
        self._core = core
        self._journal = journal
        self._written = core.state.seq
        self._more = asyncio.Event()

    def written(self, seq: int) -> None:
        """Everything up to this entry is in the store."""
        self._written = seq
        self._more.set()

    async def having(self, name: str) -> JobLooks:
        """What can be seen of the job of this id or key, wherever it is, or of this name, if one job of the state has
        it. Raises `NotFound`, `UsageError` where several jobs have the name, `StoreError`."""
        state = self._core.state
        if by_handle(state, name) is None:
            found = await self._find((name,))
            if not found:
                return JobLooks(state, self._core.index, find_job(state, name).id)
            # It may have come back while it was looked for.
            if by_handle(state, name) is None:
                return JobLooks(past.beside(state, found), Index(now=self._core.index.now), name)
        return JobLooks(state, self._core.index, name)

    async def named(self, names: Sequence[str]) -> Sequence[JobView]:
        """The job of each name, in this order; names are resolved and errors raised as by `having`."""
        state = self._core.state
        found = await self._find(past.unknown(state, names))
        beside = await asyncio.to_thread(past.beside, state, found) if found else State()
        kept = {name: by_handle(beside, name) for name in names if by_handle(state, name) is None}
        here = iter(find_jobs(state, [name for name in names if kept.get(name) is None]))
        return [
            job_view(state, next(here)) if (away := kept.get(name)) is None else job_view(beside, away)
            for name in names
        ]

    async def jobs(
        self, states: frozenset[JobState] | None, after: int, limit: int, work: WorkKind | None = None
    ) -> Sequence[JobView]:
        """Jobs in order of submission beyond number `after`: those of the state, and those that have left."""
        found = job_views(self._core.state, self._core.index, states, after, limit, work)
        here = {int(each.id[1:]): each for each in found}
        for state, number in await self._beside(rows.page, states, after, limit, work):
            # What has come back meanwhile is told as it was.
            here.setdefault(number, job_view(state, state.jobs[f"j{number}"]))
        return [here[number] for number in sorted(here)][:limit]

    async def matching(
        self, states: frozenset[JobState] | None, after: int, limit: int, match: JobMatch
    ) -> Sequence[JobView]:
        """The same of those that `match`. Raises `NotFound` for a group that is not there."""
        group = None if match.group is None else groups.find(self._core.state, match.group)
        end = math.inf if group is None else group.first + group.size
        after = after if group is None else max(after, group.first - 1)
        found: list[JobView] = []
        while len(found) < limit and after + 1 < end:
            page = await self.jobs(states, after, PAGE)
            found += [each for each in page if match.fits(each)]
            if len(page) < PAGE:
                break
            after = int(page[-1].id[1:])
        return found[:limit]

    async def group_results(self, name: str, after: int, limit: int) -> Sequence[GroupResult]:
        """The jobs of a group in order beyond job number `after`. Raises `NotFound`."""
        state = self._core.state
        group = groups.find(state, name)
        begin = max(group.first, after + 1)
        ids = [f"j{number}" for number in range(begin, min(begin + limit, group.first + group.size))]
        # Taken before the store is asked: others may leave the state meanwhile.
        made = {name: groups.result(state.jobs[name]) for name in ids if name in state.jobs}
        away = past.unknown(state, ids)
        if away:
            made |= await asyncio.to_thread(_results_of, await self._texts(away))
        return [made[name] for name in ids if name in made]

    async def sweeps(self, after: int, limit: int) -> Sequence[SweepView]:
        """The same of sweeps."""
        here = {int(each.job[1:]): each for each in sweep_views(self._core.state, self._core.index, after, limit)}
        index = Index(now=self._core.index.now)
        for state, number in await self._beside(rows.page, None, after, limit, WorkKind.SWEEP):
            here.setdefault(number, sweep_view(state, index, state.sweeps[f"j{number}"]))
        return [here[number] for number in sorted(here)][:limit]

    async def undone(self, names: Collection[str], since: int) -> Sequence[str]:
        """Of the jobs `names` and of all scripts and sweeps submitted after job number `since`: those that have left,
        and were not done."""
        found = [each for each in await self._find(names) if each.state is not JobState.DONE]
        failed = FINAL_STATES - {JobState.DONE}
        if self._core.state.past.seq:
            found += await self._asked(rows.page, failed, since, self._core.state.past.total)
        kept = {each.id: past.loaded(each.data).job for each in found if each.id not in self._core.state.jobs}
        return [name for name, job in kept.items() if name in names or not isinstance(job.spec.payload, StagePayload)]

    async def told(self, tell: Callable[..., Any], inputs: Sequence[Input]) -> Sequence[Any]:
        """Give inputs by `tell`, each with what the store knows of the jobs it names; answers in order."""
        answers: dict[int, Any] = {}
        while len(answers) < len(inputs):
            open_ = [number for number in range(len(inputs)) if number not in answers]
            given = [await self._known(inputs[number]) for number in open_]
            for number, answer in zip(open_, await tell(*given), strict=True):
                if not isinstance(answer, Outdated):
                    answers[number] = answer
        return [answers[number] for number in range(len(inputs))]

    async def _known(self, given: Input) -> Input:
        names = past.named(given)
        if not names:
            return given
        # The state may change while the store is asked; the core compares, and has it asked again.
        at = self._core.state.past.seq
        found = {
            each.id: each
            for each in await self._find(past.unknown(self._core.state, past.expanded(self._core.state, names)))
        }
        for _ in range(DEEP):
            more = await self._find(past.needed(self._core.state, found.values()))
            if not more:
                break
            found |= {each.id: each for each in more}
        return Knowing(given=given, looked=Looked(at=at, jobs=tuple(found.values())))  # type: ignore[arg-type]

    async def _find(self, names: Collection[str]) -> Sequence[PastJob]:
        if not names or not self._core.state.past.seq:
            return ()
        return await self._asked(rows.find, names)

    async def _texts(self, ids: Collection[str]) -> Mapping[str, str]:
        return await self._asked(rows.texts, ids) if self._core.state.past.seq else {}

    async def _beside(self, ask: Callable[..., list[PastJob]], *how: Any) -> list[tuple[State, int]]:
        if not self._core.state.past.seq:
            return []
        found = await self._asked(ask, *how)
        state = await asyncio.to_thread(past.beside, self._core.state, found)
        return [(state, each.number) for each in found]

    async def _asked(self, ask: Callable[..., AnswerT], *how: Any) -> AnswerT:
        await self.settled(self._core.state.past.seq)
        return await asyncio.to_thread(self._ask, ask, *how)

    def _ask(self, ask: Callable[..., AnswerT], *how: Any) -> AnswerT:
        with self._journal.catalogue() as connection:
            return ask(connection, *how)

    async def settled(self, wanted: int) -> None:
        """Wait until everything up to this entry, and what left the state beside it, is in the store.

        Raises `StoreFull` where that takes too long.
        """
        try:
            async with asyncio.timeout(PATIENCE_S):
                while self._written < wanted:
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError as error:
            raise StoreFull(
                f"what has left the controller's memory could not be written within {PATIENCE_S:g} s; free some disk "
                "space, and ask again"
            ) from error


@dataclass(slots=True)
class _Spec:
    """Of a spec, what a `GroupResult` has; other fields are passed over, as in the following."""

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Attempt:
    device: str


@dataclass(slots=True)
class _Job:
    id: str
    spec: _Spec
    state: JobState
    attempts: int
    attempt: _Attempt | None
    last_device: str | None
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    why: str | None
    failure: FailureClass | None
    result: Any


@dataclass(slots=True)
class _Kept:
    """Of `core.past.Kept`, what a `GroupResult` has: to read a job whole takes several times as long."""

    job: _Job


def _results_of(texts: Mapping[str, str]) -> dict[str, GroupResult]:
    """The results of jobs that have left, by job id. Reading many of them takes too long for the event loop.

    Raises `CorruptState`.
    """
    return {name: groups.result(_read(text)) for name, text in texts.items()}


def _read(data: str) -> Job:
    try:
        kept: _Kept = adapter(_Kept).validate_json(data)
    except ValidationError as error:
        raise CorruptState(f"not a job of this version: {data[:200]!r}: {explain(error)}") from error
    return cast(Job, kept.job)
