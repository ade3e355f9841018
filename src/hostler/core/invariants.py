"""Every invariant of the state, written as checks that name what contradicts what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from operator import is_

from hostler.core import cordons, dependencies, pools
from hostler.core.access import folds as access
from hostler.core.alerting.invariants import alert_faults
from hostler.core.care.invariants import care_faults
from hostler.core.holdings import holding_faults
from hostler.core.index import Index
from hostler.core.loop.invariants import loop_faults
from hostler.core.rebuilding import rebuilt
from hostler.core.state import Device, Job, State, Sweep, sweep_payload
from hostler.core.trust import canary
from hostler.model.errors import BrokenInvariant
from hostler.model.fleet import NodeSpec
from hostler.model.work import JobState, WorkKind


def validate(state: State, index: Index) -> None:
    """Raise `BrokenInvariant` with everything that is wrong; return if nothing is."""
    Audit().check(state, index)


class Audit:
    """The same after every step of one core: what was found right and cannot have changed since is not looked at again.

    That is a job that is over, until it is tried again; what a node says of itself, until it says something else; and
    the segments of a config, until they are judged anew.
    """

    def __init__(self) -> None:
        self._settled: dict[str, JobState] = {}
        self._specs: list[NodeSpec] = []
        self._judged: Counter[str] = Counter()
        self._left_at = 0

    def check(self, state: State, index: Index) -> None:
        """Raise `BrokenInvariant` with everything that is wrong; return if nothing is."""
        if self._left_at != state.past.seq:
            self._settled = {name: each for name, each in self._settled.items() if name in state.jobs}
            self._left_at = state.past.seq
        by_name = {name: job for name, job in state.jobs.items() if self._settled.get(name) is not job.state}
        jobs = by_name.values()
        specs = [node.spec for node in state.nodes.values()]
        same = len(specs) == len(self._specs) and all(map(is_, specs, self._specs))
        before = Counter(self._settled[job.id] for job in jobs if job.id in self._settled)
        settled = Counter(self._settled.values()) - before
        fresh = rebuilt(state, jobs, index if same else None)
        fresh.counts = {each: fresh.counts[each] + settled[each] for each in JobState}
        problems = [
            *_jobs(state, by_name),
            *_roll(state, index),
            *_devices(state, jobs),
            *_sweeps(state),
            *_groups(state),
            *loop_faults(state, jobs, self._judged),
            *_index(state, index, fresh, jobs),
            *care_faults(state, index),
            *alert_faults(state),
            *canary.faults(state, index),
            *cordons.faults(state),
            *pools.faults(state),
            *access.faults(state),
        ]
        if problems:
            raise BrokenInvariant("; ".join(problems))
        self._specs = specs
        for job in jobs:
            self._settled.pop(job.id, None)
            if job.state.final:
                self._settled[job.id] = job.state


def _jobs(state: State, jobs: Mapping[str, Job]) -> Iterator[str]:
    for name, job in jobs.items():
        if job.id != name or job.number >= state.next_job:
            yield f"{name}: wrong id or number"
        if name not in state.sweeps and job.state.held != (job.attempt is not None):
            yield f"{name} is {job.state} with attempt {job.attempt}"
        if job.state.final != (job.ended_at is not None):
            yield f"{name} is {job.state}, ended at {job.ended_at}"
        if job.attempt is not None and job.attempt.id not in state.devices[job.attempt.device].attempts:
            yield f"{job.attempt.id} is not on its device {job.attempt.device}"
        if job.state not in (JobState.PENDING, JobState.FAILED, JobState.CANCELLED):
            yield from _dependencies(state, job)


def _dependencies(state: State, job: Job) -> Iterator[str]:
    # What a job that is done came after may have left.
    left = [name for name in job.after if name not in state.jobs and name not in state.groups]
    if left and job.state is not JobState.DONE:
        yield f"{job.id} is {job.state} and what it comes after has left: {left}"
    undone = [name for name in job.after if name not in left and not dependencies.is_done(state, name)]
    if undone:
        yield f"{job.id} is {job.state} before {undone}"


def _groups(state: State) -> Iterator[str]:
    """Groups count the ends of their jobs as these are, and no more of them run than may."""
    if not state.groups:
        return
    counts: dict[str, Counter[JobState]] = {}
    running: Counter[str] = Counter()
    for job in state.jobs.values():
        if job.group is not None:
            counts.setdefault(job.group, Counter())[job.state] += 1
            running[job.group] += job.attempt is not None and job.id not in state.sweeps
    for name, counted in counts.items():
        group = state.groups[name]
        left = group.size - counted.total()
        noted = {JobState.DONE: group.done, JobState.FAILED: group.failed, JobState.CANCELLED: group.cancelled}
        if any(not 0 <= noted[each] - counted[each] <= left for each in noted):
            yield f"{name} counts {noted}, its jobs here are {dict(counted)}, and {left} of them have left"
        if group.spec.max_running is not None and running[name] > group.spec.max_running:
            yield f"{running[name]} jobs of {name} hold devices, more than its {group.spec.max_running}"


def _roll(state: State, index: Index) -> Iterator[str]:
    """Jobs are listed in order, and each that is over is among those that may leave."""
    if index.roll.numbers != sorted(job.number for job in state.jobs.values()):
        yield "the numbers of jobs are others than those that are noted"
    missing = [name for name, job in state.jobs.items() if job.state.final and job.number not in index.roll.over]
    if missing:
        yield f"over, and not among those that may leave: {missing}"
    strange = [key for key, name in state.keys.items() if name not in state.jobs]
    if strange:
        yield f"keys of jobs that are not there: {strange}"


def _devices(state: State, jobs: Collection[Job]) -> Iterator[str]:
    """Everything that is out is on its own devices, once on each, and nowhere else."""
    held = Counter(
        (name, part) for name, device in state.devices.items() for part in (*device.attempts, *device.chunks)
    )
    attempts = [job.attempt for job in jobs if job.attempt is not None]
    leases = [(lease.device, chunk) for sweep in state.sweeps.values() for chunk, lease in sweep.leases.items()]
    should = Counter([*leases, *((name, attempt.id) for attempt in attempts for name in attempt.devices)])
    names = {part for _, part in should}
    for name, part in sorted(held - should):
        yield f"on two devices: {part}, on {name} as well" if part in names else f"{part} is on {name}, and is not out"
    for name, part in sorted(should - held):
        yield f"{part} is not on its device {name}"
    twice = {attempt.id for attempt in attempts} & {chunk for _, chunk in leases}
    if twice:
        yield f"attempts and chunks at once: {sorted(twice)}"


def _sweeps(state: State) -> Iterator[str]:
    for name, sweep in state.sweeps.items():
        job = state.jobs[name]
        sweep.ledger.validate()
        if set(sweep.leases) != set(sweep.ledger.leased):
            yield f"{name}: its leases are not those of its ledger"
        if job.state.final and sweep.leases:
            yield f"{name} is {job.state} and has chunks out"
        too_many = sweep.hits > sweep_payload(job).max_hits and job.state.final
        if sweep.ledger.complete != (job.state is JobState.DONE) and not (sweep.ledger.complete and too_many):
            yield f"{name} is {job.state}, its ledger complete: {sweep.ledger.complete}"
        yield from _lease_places(state, sweep)
        unknown = (sweep.barred.keys() | sweep.in_a_row.keys()) - state.devices.keys()
        if unknown or not sweep.struck.keys() <= sweep.strikes.keys():
            yield f"{name}: failures on devices that are unknown ({sorted(unknown)}) or at places without failures"


def _lease_places(state: State, sweep: Sweep) -> Iterator[str]:
    for chunk, lease in sweep.leases.items():
        if chunk not in state.devices[lease.device].chunks:
            yield f"{chunk} is not on its device {lease.device}"


def _index(state: State, index: Index, fresh: Index, jobs: Collection[Job]) -> Iterator[str]:
    """The index says what it would say if it were made anew."""
    if index.counts != fresh.counts:
        yield f"counts are {index.counts}, should be {fresh.counts}"
    yield from _kinds(index, fresh)
    if index.selfplaying != fresh.selfplaying:
        yield f"devices at self-play are {index.selfplaying}, should be {fresh.selfplaying}"
    if index.waiting_play != fresh.waiting_play:
        yield f"waiting jobs of self-play are {index.waiting_play}, should be {fresh.waiting_play}"
    if +index.group_running != +fresh.group_running:
        yield f"jobs of groups that hold devices are {index.group_running}, should be {fresh.group_running}"
    if index.sweeping != fresh.sweeping:
        yield f"devices that hold chunks are {index.sweeping}, should be {fresh.sweeping}"
    if index.active != fresh.active:
        yield f"active sweeps are {index.active}, should be {fresh.active}"
    if index.blocked != fresh.blocked:
        yield f"blocked jobs are {index.blocked}, should be {fresh.blocked}"
    yield from holding_faults(state, index, fresh, jobs)
    yield from _queue(state, index, jobs)
    yield from _bars(state, index)
    yield from _paces(index, fresh)
    yield from _backlog(index, fresh)
    for name, device in state.devices.items():
        yield from _load(index, fresh, name, device)
        if name in index.open and not state.puts_work_on(name):
            yield f"{name} is open though its node cannot be reached, or one of them is cordoned"


def _kinds(index: Index, fresh: Index) -> Iterator[str]:
    """What is not over is counted by kind as it is; the kinds add up."""
    for (work, state), should in fresh.kinds.counts.items():
        if not state.final and index.kinds.counts[work, state] != should:
            yield f"{work} jobs that are {state} are {index.kinds.counts[work, state]}, should be {should}"
    for state, should in index.counts.items():
        if sum(index.kinds.counts[work, state] for work in WorkKind) != should:
            yield f"jobs that are {state} do not add up to {should} by kind: {index.kinds.counts}"
    for work, waiting in fresh.kinds.waiting.items():
        if index.kinds.waiting[work] != waiting or index.kinds.oldest(work) != min(waiting, default=None):
            yield f"the {work} jobs that wait are others than those that are noted"


def _paces(index: Index, fresh: Index) -> Iterator[str]:
    if {name: speeds for name, speeds in index.fleet_per_s.items() if speeds} != fresh.fleet_per_s:
        yield f"devices at work are {index.fleet_per_s}, should be {fresh.fleet_per_s}"
    for name, pace in fresh.pace_per_s.items():
        if abs(index.pace_per_s[name] - pace) > 1e-6 * (1 + pace):
            yield f"{name} goes at {index.pace_per_s[name]}, should go at {pace}"


def _backlog(index: Index, fresh: Index) -> Iterator[str]:
    if {key: left.jobs for key, left in index.backlog.items()} != {
        key: left.jobs for key, left in fresh.backlog.items()
    }:
        yield f"what is left to do is {index.backlog}, should be {fresh.backlog}"
        return
    for key, left in fresh.backlog.items():
        for model, seconds in left.seconds.items():
            if abs(index.backlog[key].seconds[model] - seconds) > 1e-6 * (1 + seconds):
                yield f"of {key}, {index.backlog[key]} is left to do, should be {left}"


def _bars(state: State, index: Index) -> Iterator[str]:
    """A sweep that goes on has a device to go on with, or none that it fits on."""
    for job in (state.jobs[name] for name in index.active if state.sweeps[name].barred):
        fitting = {name for name in index.places if index.suits(job, name)}
        if fitting and fitting <= state.sweeps[job.id].barred.keys():
            yield f"{job.id} goes on and is barred everywhere"


def _queue(state: State, index: Index, jobs: Collection[Job]) -> Iterator[str]:
    ready = [job.id for job in index.in_order(state)]
    should = {
        job.id
        for job in jobs
        if job.state is JobState.PENDING and job.id not in state.sweeps and job.id not in index.blocked
    }
    resting = {name for at, name in index.timers if at > index.now}
    if len(ready) != len(set(ready)) or not should - resting <= set(ready) <= should:
        yield f"the queue holds {ready}, should hold {sorted(should - resting)}"


def _load(index: Index, fresh: Index, name: str, device: Device) -> Iterator[str]:
    load, should = index.loads[name], fresh.loads[name]
    same = (load.attempts_unknown, load.chunks_unknown) == (should.attempts_unknown, should.chunks_unknown)
    drift = abs(load.attempts_s - should.attempts_s) + abs(load.chunks_s - should.chunks_s)
    if not same or drift > 1e-6 * (1 + should.attempts_s + should.chunks_s):
        yield f"the load of {name} is {load}, should be {should} ({len(device.attempts)} attempts)"
