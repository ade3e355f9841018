"""Placing anew, round by round, what can be stopped: who should run where, of those that run and those that wait.

Only jobs that save their own work take part, and only where the owner has asked for rounds (`placement.round_s`). One
plan is made for all of them together; who is to move or to make way is asked to, and the devices are kept for whom
they are meant.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import TypeAlias

from hostler.core import gates, roundbids
from hostler.core.index import Index
from hostler.core.state import Job, State
from hostler.model.events import AttemptLeased, Event, PreemptRequested
from hostler.model.record import record
from hostler.model.work import JobState
from hostler.policy import fit, placement

Emit: TypeAlias = Callable[[Event], None]

CHORE = "round"
PRICE_DIGITS = 1
STANDS_S = 3600.0
"""How long a plan stands while nobody comes or goes."""
STOPPABLE = (JobState.LAUNCHING, JobState.RUNNING)
"""An order that its node may not have yet is not called back in the same breath."""


@record
class Move:
    """A job that should have a device of a class; `None` keeps it waiting."""

    job: Job
    to: str | None


def play(state: State, index: Index, emit: Emit) -> None:
    """Place anew, if a round has begun; and put on their devices those whose devices have come free since."""
    round_s = state.rules.placement.round_s
    if round_s and _has_begun(index, round_s):
        _plan(state, index, emit)
    for name, devices in list(index.seats.items()):
        _seat(state, index, state.jobs[name], devices, emit)


def _plan(state: State, index: Index, emit: Emit) -> None:
    for name in list(index.seats):
        _give_up(index, name)
    jobs = _movable(state, index)
    capacity = _capacity(state, index)
    if not jobs:
        return
    if _is_as_before(index, jobs, capacity) and not roundbids.is_closing(state, index, len(jobs)):
        return
    bids = roundbids.bids(state, index, jobs)
    now = roundbids.market(state, index, bids, capacity)
    wanted = placement.plan(bids, capacity, now, state.rules.placement)
    moves = [Move(job=job, to=wanted.get(job.id)) for job in jobs if _is_elsewhere(index, job, wanted.get(job.id))]
    _carry_out(state, index, moves, emit)


def _is_as_before(index: Index, jobs: list[Job], capacity: Mapping[str, int]) -> bool:
    """Whether nobody has come or gone since the last plan, which is not old: then it still stands."""
    prices = {cls: round(price, PRICE_DIGITS) for cls, price in index.prices.items()}
    seen = (frozenset(job.id for job in jobs), capacity, prices)
    if seen == index.round_seen and index.now - index.round_at < STANDS_S:
        return True
    index.round_seen, index.round_at = seen, index.now
    index.known_bids = {name: known for name, known in index.known_bids.items() if name in seen[0]}
    return False


def _seat(state: State, index: Index, job: Job, devices: tuple[str, ...], emit: Emit) -> None:
    """Put the job on the devices that were kept for it, as soon as they are empty and it is there to be put."""
    if job.state.final or any(name not in index.open for name in devices if not state.devices[name].attempts):
        _give_up(index, job.id)
        return
    if job.state is not JobState.PENDING or any(state.devices[name].attempts for name in devices):
        return
    refused = gates.refusal(state, index, job, state.devices[devices[0]])
    _give_up(index, job.id)
    if refused is None:
        cls = fit.class_label(index.classes[devices[0]])
        emit(
            AttemptLeased(
                job=job.id,
                attempt=f"{job.id}.{state.skipped + job.attempts + 1}",
                device=devices[0],
                others=tuple(devices[1:]),
                why=f"planned for {cls} this round, waited {index.now - job.submitted_at:.0f} s",
            )
        )


def _give_up(index: Index, job: str) -> None:
    for name in index.seats.pop(job):
        index.reserved.pop(name, None)
        index.kept_until.pop(name, None)


def _has_begun(index: Index, round_s: float) -> bool:
    """Whether a round begins now; the next one is on the clock then."""
    first = index.next_round is None
    if not first and CHORE not in index.chores:
        return False
    index.chores.discard(CHORE)
    due = index.now + round_s if index.next_round is None else index.next_round
    while due <= index.now:
        due += round_s
    index.next_round = due
    index.do_later(CHORE, due)
    return True


def _movable(state: State, index: Index) -> list[Job]:
    """Jobs that can be stopped: those that wait, and those that run and were not asked to go."""
    waiting = [
        job
        for heap in list(index.ready.values())
        for entry in heap
        if (job := state.jobs[entry[2]]).spec.checkpoints
        and index.is_ready(job, entry)
        and gates.owner_limit(index, job) is None
    ]
    running = [job for name in index.movable if _may_be_asked(state, index, job := state.jobs[name])]
    return sorted({job.id: job for job in (*waiting, *running)}.values(), key=lambda job: job.rank)


def _may_be_asked(state: State, index: Index, job: Job) -> bool:
    attempt = job.attempt
    if attempt is None or attempt.yielding is not None or job.state not in STOPPABLE:
        return False
    return attempt.device in index.places and not state.is_cordoned(attempt.device)


def _capacity(state: State, index: Index) -> Mapping[str, int]:
    """Devices by class that are free, or held by what can be stopped."""
    return Counter(index.classes[name] for name in index.places if _is_to_be_had(state, index, name))


def _is_to_be_had(state: State, index: Index, name: str) -> bool:
    if name in index.reserved or state.is_cordoned(name):
        return False
    attempts = state.devices[name].attempts
    if not attempts:
        return name in index.open
    jobs = (state.jobs[each.rpartition(".")[0]] for each in attempts)
    return all(job.spec.checkpoints and job.state in STOPPABLE for job in jobs)


def _is_elsewhere(index: Index, job: Job, cls: str | None) -> bool:
    if job.attempt is None:
        return cls is not None
    return index.classes.get(job.attempt.device) != cls


def _carry_out(state: State, index: Index, moves: list[Move], emit: Emit) -> None:
    """Ask those to go whose place is meant for others, and put the others there, or keep it for them."""
    free: defaultdict[str, list[str]] = defaultdict(list)
    for name in index.open:
        if not state.devices[name].attempts and name not in index.reserved:
            free[index.classes[name]].append(name)
    for move in moves:
        if move.job.attempt is not None:
            for name in move.job.attempt.devices:
                if name in index.places:  # a node may have been found with fewer devices since
                    free[index.classes[name]].append(name)
            why = "waits for others" if move.to is None else f"does better on {move.to}"
            emit(PreemptRequested(attempt=move.job.attempt.id, by=None, why=f"{move.job.id} {why}, this round"))
    for move in moves:
        if move.to is not None:
            _give(state, index, move.job, move.to, free[move.to])


def _give(state: State, index: Index, job: Job, cls: str, free: list[str]) -> None:
    wanted = fit.devices_needed(job.spec.resources, index.samples[cls])
    able = [name for name in free if gates.misfit(state, index, job, state.devices[name]) is None]
    names = _of_one_node(state, able, wanted)
    if len(names) < wanted:
        return
    for name in names:
        free.remove(name)
        index.reserved[name] = job.id
    index.seats[job.id] = tuple(names)


def _of_one_node(state: State, free: list[str], wanted: int) -> list[str]:
    """Free devices of one node, the fullest one that has enough; those that are empty now first."""
    by_node: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(free, key=lambda each: (len(state.devices[each].attempts), each)):
        by_node[state.devices[name].spec.node].append(name)
    able = [names for names in by_node.values() if len(names) >= wanted]
    return min(able, key=lambda names: (len(names), names[0]), default=[])[:wanted]
