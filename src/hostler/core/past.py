"""Jobs that have been over for long leave the state, and come back where somebody asks for what needs them.

What a job was goes into the store beside the fact that it left, in one transaction (`Outcome.left`). Sums stay: counts
by state, device time, what it cost. Nothing leaves that something in the state may still ask for: what a job
comes after as long as that is not done, sweeps with workers on nodes that nobody could tell to end them, and what
made segments that a loop may look at (`loop.leaving`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any, TypeAlias

from pydantic import ValidationError

from hostler.core import dependencies
from hostler.core.access import sharing
from hostler.core.index import AGAIN, Index
from hostler.core.loop import leaving
from hostler.core.roll import without
from hostler.core.state import Job, Spent, State, Sweep
from hostler.model import events, inputs
from hostler.model.codec import adapter, explain
from hostler.model.errors import Conflict, CorruptState, IllegalTransition, Outdated
from hostler.model.events import Event
from hostler.model.fleet import Link
from hostler.model.inputs import Input
from hostler.model.past import PastJob
from hostler.model.record import entity
from hostler.model.work import FINAL_STATES, FailureClass, JobState, StagePayload, WorkKind

Emit: TypeAlias = Callable[[Event], None]
Take: TypeAlias = Callable[[State, Index, Any, Emit], Any]

PIECE = 1000
"""Jobs that leave in one step at most: others wait while they do."""
PAUSE_S = 1.0
"""Between two such steps."""
LOOK_S = 60.0
"""Between two looks otherwise: one entry for many jobs."""
CHORE = "past"
ARRIVED_S = 60.0
"""What a node was told so long ago, on a link that still stands, it has heard."""
EARLIER = "earlier"
"""Under which name what sweeps that have left used up is kept; no job is called so."""


@entity
class Kept:
    """All there is of a job."""

    job: Job
    sweep: Sweep | None = None


def dumped(state: State, job: Job) -> PastJob:
    """A job of the state as it goes to the store."""
    kept = Kept(job=job, sweep=state.sweeps.get(job.id))
    data = adapter(Kept).dump_json(kept).decode()
    return PastJob(id=job.id, number=job.number, key=job.spec.key, work=job.spec.work, state=job.state, data=data)


def loaded(data: str) -> Kept:
    """What is kept of a job, from what `dumped` made of it. Raises `CorruptState`."""
    try:
        kept: Kept = adapter(Kept).validate_json(data)
    except ValidationError as error:
        raise CorruptState(f"not a job of this version: {data[:200]!r}: {explain(error)}") from error
    return kept


def beside(state: State, jobs: Collection[PastJob]) -> State:
    """A state that has these jobs and no others, with the fleet and the configs as they are: for views of them."""
    kept = [loaded(each.data) for each in jobs]
    return State(
        at=state.at,
        seq=state.seq,
        next_job=state.next_job,
        jobs={each.job.id: each.job for each in kept},
        keys={each.job.spec.key: each.job.id for each in kept if each.job.spec.key is not None},
        sweeps={each.job.id: each.sweep for each in kept if each.sweep is not None},
        nodes=state.nodes,
        devices=state.devices,
        configs=state.configs,
        groups=state.groups,
        speeds=state.speeds,
    )


def named(given: Input) -> tuple[str, ...]:
    """Ids and keys that an input names of jobs that there may be, or may have been."""
    return tuple(dict.fromkeys(_named(given)))


def expanded(state: State, names: Collection[str]) -> tuple[str, ...]:
    """The names with jobs in place of groups, and the jobs that failed because of any of them and have left."""
    found: dict[str, None] = {}
    for name in names:
        group, job = state.groups.get(name), state.jobs.get(name)
        if group is not None:
            found |= dict.fromkeys((*group.jobs, *group.in_vain))
        else:
            found |= dict.fromkeys((name, *(() if job is None else _in_vain(state, job))))
    return tuple(found)


def _in_vain(state: State, job: Job) -> tuple[str, ...]:
    """Jobs that have left and failed because the job did, or because its group did."""
    return job.in_vain if job.group is None else (*job.in_vain, *state.groups[job.group].in_vain)


def unknown(state: State, names: Collection[str]) -> tuple[str, ...]:
    """Those that the state does not have: the store may."""
    return tuple(name for name in names if name not in state.jobs and name not in state.keys)


def needed(state: State, jobs: Collection[PastJob]) -> tuple[str, ...]:
    """What has to come back with jobs, should they: what they come after, and what failed because they did."""
    here = {each.id for each in jobs}
    open_ = [loaded(each.data).job for each in jobs if each.state is not JobState.DONE]
    wanted = expanded(state, [name for job in open_ for name in (*job.after, *_in_vain(state, job))])
    return tuple(name for name in wanted if name not in state.jobs and name not in here)


def knowing(take: Take) -> Take:
    """How what is asked for is taken together with what the store knows; `take` is how it is taken otherwise."""

    def taken(state: State, index: Index, given: inputs.Knowing, emit: Emit) -> Any:
        if given.looked.at != state.past.seq:
            raise Outdated("jobs have left the state since it was looked for those that are named; look again")
        asked = given.given.given if isinstance(given.given, inputs.Asked) else given.given
        fresh = [each for each in given.looked.jobs if each.id not in state.jobs]
        if isinstance(given.given, inputs.Asked):
            found = [loaded(each.data).job for each in fresh]
            sharing.expect_own(state, index, given.given, found)
        if fresh and isinstance(asked, inputs.Cancel | inputs.SetPriority | inputs.Retry):
            _refuse_if_over(state, fresh, asked)
        if isinstance(asked, inputs.RetryGroup):
            fresh = _without_done(state, fresh, asked.group)
        for each in _dependencies_first(fresh):
            emit(events.JobCameBack(job=each.id, record=each.data))
        return take(state, index, given.given, emit)

    return taken


def review(state: State, index: Index, emit: Emit) -> None:
    """Let jobs go that have been over for long enough, some at a time."""
    roll, rule = index.roll, state.rules.past
    index.chores.discard(CHORE)
    if index.now < roll.look_at or roll.first() is None:
        return
    over = sum(index.counts[each] for each in FINAL_STATES) - state.past.total
    gone: list[str] = []
    by_loops: set[str] | None = None
    for job in _aged(state, index):
        if over - len(gone) <= rule.keep_finished or len(gone) == PIECE:
            roll.ended(job.number, job.ended_at or 0.0)
            break
        if by_loops is None and isinstance(job.spec.payload, StagePayload):
            by_loops = leaving.needed(state)
        if job.id in (by_loops or ()) or _is_needed(state, index, job):
            roll.ended(job.number, index.now)
        else:
            gone.append(job.id)
    if gone:
        emit(events.JobsLeft(jobs=tuple(gone)))
    _look_later(state, index, over - len(gone), again=len(gone) == PIECE)


def _look_later(state: State, index: Index, over: int, *, again: bool) -> None:
    """There is no timer where none could leave by then: what ends meanwhile has its own step."""
    roll, rule = index.roll, state.rules.past
    roll.look_at = index.now + (PAUSE_S if again else min(LOOK_S, rule.keep_finished_s))
    first = roll.first()
    if first is not None and over > rule.keep_finished:
        index.do_later(CHORE, max(roll.look_at, first[0] + rule.keep_finished_s + PAUSE_S))


def _aged(state: State, index: Index) -> Iterator[Job]:
    """Jobs that have been over for long enough, the one that ended first in front; each is taken out of the heap."""
    roll, before = index.roll, index.now - state.rules.past.keep_finished_s
    while (first := roll.first()) is not None and first[0] < before:
        roll.take()
        job = state.jobs[f"j{first[1]}"]
        if job.ended_at is not None:  # it was tried again otherwise, and will end once more
            yield job


def _is_needed(state: State, index: Index, job: Job) -> bool:
    if any(index.dependents.get(name) for name in dependencies.names_of(job)):
        return True
    if job.spec.work is WorkKind.SELFPLAY and index.now - (job.ended_at or 0.0) <= _longest_s(state):
        return True  # alerts count its games by where it ran
    sweep = state.sweeps.get(job.id)
    if sweep is None:
        return False
    nodes = {state.devices[name].spec.node for name in sweep.workers}
    return any(not _has_heard(state, index, node) for node in nodes)


def _has_heard(state: State, index: Index, node: str) -> bool:
    known = state.nodes[node]
    return known.link is Link.UP and known.since <= index.now - ARRIVED_S


def _longest_s(state: State) -> float:
    return max((rule.window_s or LOOK_S * 60 for rule in state.rules.alerts), default=0.0)


def _dependencies_first(jobs: Collection[PastJob]) -> Iterator[PastJob]:
    by_id = {each.id: each for each in jobs}
    after = {name: loaded(each.data).job.after for name, each in by_id.items()}
    return (by_id[name] for name in TopologicalSorter(after).static_order() if name in by_id)


def _without_done(state: State, found: Sequence[PastJob], name: str) -> list[PastJob]:
    """Jobs without those of a group that are done and that no other of the jobs comes after."""
    group = state.groups.get(name)
    own = frozenset() if group is None else frozenset(group.jobs)
    open_ = (loaded(each.data).job for each in found if each.state is not JobState.DONE)
    before = set(expanded(state, [after for job in open_ for after in job.after]))
    return [each for each in found if each.state is not JobState.DONE or each.id not in own or each.id in before]


def _refuse_if_over(
    state: State, found: Collection[PastJob], asked: inputs.Cancel | inputs.SetPriority | inputs.Retry
) -> None:
    job = next((each for each in found if asked.job in (each.id, each.key)), None)
    if job is None:
        return
    stage = isinstance(loaded(job.data).job.spec.payload, StagePayload)
    if isinstance(asked, inputs.Retry) and job.state in (JobState.FAILED, JobState.CANCELLED) and not stage:
        return
    if isinstance(asked, inputs.Retry):
        raise Conflict(
            f"{job.id} belongs to a loop, which orders what it needs anew by itself"
            if stage
            else f"{job.id} is {job.state}; only a failed or a cancelled job can be tried again"
        )
    cancel = isinstance(asked, inputs.Cancel)
    means = "there is nothing to cancel" if cancel else "its priority means nothing any more"
    raise Conflict(f"{job.id} is {job.state} already; {means}")


def _named(given: Input) -> Iterator[str]:
    match given:
        case inputs.Asked(given=wish):
            yield from _named(wish)
        case inputs.Submit(specs=specs) | inputs.SubmitGroup(jobs=specs):
            for spec in specs:
                yield from () if spec.key is None else (spec.key,)
                yield from spec.after
        case inputs.Cancel(job=name) | inputs.SetPriority(job=name) | inputs.Retry(job=name):
            yield name
        case inputs.RetryGroup(group=name):
            yield name
        case inputs.Spawn(key=str(key)):
            yield key


def _left(state: State, index: Index, event: events.JobsLeft) -> None:
    jobs = [state.jobs[name] for name in event.jobs]
    for job in jobs:
        if not job.state.final or index.dependents.get(job.id):
            raise IllegalTransition(f"{job.id} cannot leave: it is {job.state}, or something comes after it")
        _drop(state, index, job)
    leaving.leave(state, jobs)
    state.past.seq = state.seq
    index.roll.drop({job.number for job in jobs})
    _forget(state, index, {job.id for job in jobs})


def _drop(state: State, index: Index, job: Job) -> None:
    del state.jobs[job.id]
    if job.failure is FailureClass.DEPENDENCY:
        for before in (state.groups.get(name) or state.jobs[name] for name in job.after):
            before.in_vain = tuple(dict.fromkeys((*before.in_vain, job.id)))
    index.forget_dependent(job)
    index.dependents.pop(job.id, None)
    if job.spec.key is not None:
        del state.keys[job.spec.key]
    _count(state, job, 1)
    sweep = state.sweeps.pop(job.id, None)
    if sweep is not None:
        _add_up(state, sweep, 1)
        for spent in (state.spent.pop(f"{job.spec.work} {job.id}", None),):
            if spent is not None:
                key = f"{job.spec.work} {EARLIER}"
                state.spent[key] = _sum(state.spent.get(key, Spent()), spent)
        index.attained_s.pop(job.id, None)
    index.known_bids.pop(job.id, None)
    index.roomless.pop(job.id, None)
    index.watching.learners.pop(job.id, None)


def _forget(state: State, index: Index, names: Collection[str]) -> None:
    """Entries that have gone stale and lie deep in heaps: they name jobs that are there no more."""
    without(index.timers, {*names, *(AGAIN + name for name in names)})
    for group, heap in list(index.ready.items()):
        if without(heap, names):
            index.head(state, group)


def _came_back(state: State, index: Index, event: events.JobCameBack) -> None:
    if event.job in state.jobs:
        raise IllegalTransition(f"{event.job} cannot come back: it is there")
    kept = loaded(event.record)
    job = kept.job
    state.jobs[job.id] = job
    if job.spec.key is not None:
        state.keys[job.spec.key] = job.id
    _count(state, job, -1)
    if kept.sweep is not None:
        state.sweeps[job.id] = kept.sweep
        _add_up(state, kept.sweep, -1)
        index.attained_s[job.id] += kept.sweep.served_s
    index.await_dependencies(state, job)
    index.roll.add(job.number)
    assert job.ended_at is not None, f"{job.id} came back and is not over"
    # As if it had ended now: whoever asked for it may ask for more.
    index.roll.ended(job.number, state.at)


FOLDS: Mapping[type, Callable[[State, Index, Any], None]] = {events.JobsLeft: _left, events.JobCameBack: _came_back}


def _count(state: State, job: Job, sign: int) -> None:
    key = f"{job.spec.work} {job.state}"
    state.past.counts[key] = state.past.counts.get(key, 0) + sign
    if not state.past.counts[key]:
        del state.past.counts[key]


def _add_up(state: State, sweep: Sweep, sign: int) -> None:
    state.past.chunks += sign * sweep.chunks_done
    state.past.items += sign * sweep.ledger.done_items


def _sum(one: Spent, other: Spent) -> Spent:
    return Spent(
        device_s=one.device_s + other.device_s,
        cost=one.cost + other.cost,
        unpriced_s=one.unpriced_s + other.unpriced_s,
    )
