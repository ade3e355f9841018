"""What could be computed from the state at any time, kept beside it so that a decision does not depend on its size.

Nothing here is journalled: `Index.rebuilt(state)` makes it anew, and `validate()` compares.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field

from hostler.core.state import Device, Job, State, Sweep, speed_key, sweep_payload
from hostler.model.commands import WorkerOrder
from hostler.model.fleet import Link
from hostler.model.record import entity
from hostler.model.work import JobState, Resources, SweepPayload, WorkKind

Ranked = tuple[int, int, str]
"""A job in the ready queue: its rank, then its id."""

LOOP = "loop "
"""What the name of a timer begins with that is due for a config, which follows; no job is called so."""

UNKNOWN_CHUNK_S = 1e-3
"""What a chunk of unknown duration counts in a sweep's attained service, so that equals take turns."""


@entity
class Load:
    """Expected seconds of work put on a device; `unknown` counts what cannot be predicted."""

    attempts_s: float = 0.0
    attempts_unknown: int = 0
    chunks_s: float = 0.0
    chunks_unknown: int = 0

    @property
    def attempts(self) -> float | None:
        """Seconds of queued attempts, `None` if one of them is unpredictable."""
        return None if self.attempts_unknown else self.attempts_s

    @property
    def chunks(self) -> float | None:
        """Seconds of queued chunks, `None` if one of them is unpredictable."""
        return None if self.chunks_unknown else self.chunks_s


@entity
class Index:
    """The queue by need, timers, dependencies, open devices, loads."""

    now: float = 0.0
    """The time of the input being handled, or of the newest event; never falls."""
    before: float = 0.0
    """The time of the event before the one being folded."""
    counts: dict[JobState, int] = field(default_factory=lambda: dict.fromkeys(JobState, 0))
    ready: dict[Resources, list[Ranked]] = field(default_factory=dict)
    """Heaps of scripts that could run now, by what they need. Entries go stale and are dropped when they surface."""
    active: set[str] = field(default_factory=set)
    """Sweeps that may be given devices."""
    attained_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Device time a sweep has had or has leased."""
    fleet_per_s: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    """Measured speed of each device at work on a sweep; 0 where it is not measured yet."""
    pace_per_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """The sum of these speeds."""
    timers: list[tuple[float, str]] = field(default_factory=list)
    blocked: dict[str, set[str]] = field(default_factory=dict)
    """Unfinished dependencies of a job."""
    dependents: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    places: set[str] = field(default_factory=set)
    """Devices of the fleet as it is described now; others may still end what they have."""
    open: dict[str, None] = field(default_factory=dict)
    """Reachable devices that had room when last looked at, in a fixed order."""
    fresh: dict[str, None] = field(default_factory=dict)
    """Open devices that have changed since the last decision."""
    new_work: bool = False
    draining: bool = False
    """Nothing new is put on any device."""
    loops_due: set[str] = field(default_factory=set)
    """Training configs about which something has changed since it was last decided what they need."""
    open_configs: set[str] = field(default_factory=set)
    """Training configs that want something more."""
    eager: dict[str, str] = field(default_factory=dict)
    """Those that want self-play, and why."""
    selfplaying: int = 0
    """Devices at self-play."""
    selfplay_at: float = 0.0
    """When a device last got or left self-play."""
    selfplay_turn_s: float = 0.0
    """How long the one that left last had been at it."""
    sweeping: set[str] = field(default_factory=set)
    """Devices that hold chunks."""
    sweep_at: float = 0.0
    """When a device was last given a chunk."""
    loads: dict[str, Load] = field(default_factory=lambda: defaultdict(Load))
    workers: dict[tuple[str, str], WorkerOrder] = field(default_factory=dict)

    def count(self, old: JobState | None, new: JobState) -> None:
        """A job went from one state to another."""
        if old is not None:
            self.counts[old] -= 1
        self.counts[new] += 1

    def enqueue(self, state: State, job: Job) -> None:
        """A pending job is to be considered as soon as its dependencies and its rest allow."""
        if self.blocked.get(job.id):
            return
        if job.not_before > self.now:
            heapq.heappush(self.timers, (job.not_before, job.id))
            return
        self.new_work = True
        if isinstance(job.spec.payload, SweepPayload):
            self._activate(state, job)
            return
        heapq.heappush(self.ready.setdefault(job.spec.resources, []), (*job.rank, job.id))

    def await_dependencies(self, state: State, job: Job) -> None:
        """Note what a job waits for."""
        missing = {name for name in job.after if state.jobs[name].state is not JobState.DONE}
        for name in job.after:
            self.dependents[name].append(job.id)
        if missing and job.state is JobState.PENDING:
            self.blocked[job.id] = missing

    def release_dependents(self, state: State, done: str) -> None:
        """A job is done: whoever waited for it alone may be considered."""
        for name in self.dependents.get(done, ()):
            missing = self.blocked.get(name)
            if missing is None or done not in missing:
                continue
            missing.remove(done)
            if not missing:
                del self.blocked[name]
                self._requeue(state, name)

    def wake(self, state: State, now: float) -> None:
        """Time goes on to `now`: queue the jobs whose rest is over."""
        self.now = max(self.now, now)
        while self.timers and self.timers[0][0] <= self.now:
            _, name = heapq.heappop(self.timers)
            if name.startswith(LOOP):
                self.loops_due.add(name.removeprefix(LOOP))
            else:
                self._requeue(state, name)

    def rest_loop(self, config: str, until: float) -> None:
        """A stage of a config rests until then."""
        heapq.heappush(self.timers, (until, LOOP + config))
        self.loops_due.add(config)

    def next_timer(self) -> float | None:
        """When the next rest is over."""
        return self.timers[0][0] if self.timers else None

    def head(self, state: State, need: Resources) -> Job | None:
        """The first ready script of this need; a need that nothing ready has is forgotten."""
        heap = self.ready[need]
        while heap:
            job = state.jobs[heap[0][2]]
            if self._is_ready(job, heap[0]):
                return job
            heapq.heappop(heap)
        del self.ready[need]
        return None

    def in_order(self, state: State) -> Iterator[Job]:
        """Ready scripts, first to last; the queue is left as it is, and what is not asked for is not sorted."""
        previous = None
        for entry in heapq.merge(*map(_ascending, self.ready.values())):
            job = state.jobs[entry[2]]
            if entry != previous and self._is_ready(job, entry):
                yield job
            previous = entry

    def opened(self, state: State, name: str) -> None:
        """A device may have room again."""
        if name in self.places and state.nodes[state.devices[name].spec.node].link is Link.UP:
            self.open[name] = None
            self.fresh[name] = None

    def closed(self, name: str) -> None:
        """A device is full, gone or out of reach."""
        self.open.pop(name, None)
        self.fresh.pop(name, None)

    def at_work(self, sweep: str, device: str, per_s: float) -> None:
        """A device works on a sweep, this fast."""
        speeds = self.fleet_per_s[sweep]
        self.pace_per_s[sweep] += per_s - speeds.get(device, 0.0)
        speeds[device] = per_s

    def off_work(self, sweep: str, device: str) -> None:
        """A device has nothing of a sweep any more."""
        speeds = self.fleet_per_s[sweep]
        self.pace_per_s[sweep] -= speeds.pop(device, 0.0)
        if not speeds:
            del self.fleet_per_s[sweep], self.pace_per_s[sweep]

    def attempt_put(self, device: str, predicted_s: float | None) -> None:
        """An attempt was put on a device."""
        load = self.loads[device]
        load.attempts_s += predicted_s or 0.0
        load.attempts_unknown += predicted_s is None

    def attempt_taken(self, device: Device, predicted_s: float | None) -> None:
        """An attempt left a device."""
        load = self.loads[device.spec.id]
        load.attempts_s = load.attempts_s - (predicted_s or 0.0) if device.attempts else 0.0
        load.attempts_unknown -= predicted_s is None

    def chunk_put(self, sweep: str, device: str, expected_s: float | None) -> None:
        """A chunk was put on a device."""
        load = self.loads[device]
        load.chunks_s += expected_s or 0.0
        load.chunks_unknown += expected_s is None
        self.sweeping.add(device)
        self.attained_s[sweep] += expected_s or UNKNOWN_CHUNK_S

    def chunk_taken(self, sweep: str, device: Device, expected_s: float | None) -> None:
        """A chunk left a device."""
        load = self.loads[device.spec.id]
        load.chunks_s = load.chunks_s - (expected_s or 0.0) if device.chunks else 0.0
        load.chunks_unknown -= expected_s is None
        if not device.chunks:
            self.sweeping.discard(device.spec.id)
        self.attained_s[sweep] -= expected_s or UNKNOWN_CHUNK_S

    def _is_ready(self, job: Job, entry: Ranked) -> bool:
        return job.state is JobState.PENDING and entry[:2] == job.rank and job.not_before <= self.now

    def _activate(self, state: State, job: Job) -> None:
        if job.cancelling is None and state.sweeps[job.id].given_up is None:
            self.active.add(job.id)

    def _requeue(self, state: State, name: str) -> None:
        job = state.jobs[name]
        if job.state is JobState.PENDING:
            self.enqueue(state, job)


def _ascending(heap: list[Ranked]) -> Iterator[Ranked]:
    """The entries of a heap in order: each child is looked at only after its parent."""
    front = [(heap[0], 0)] if heap else []
    while front:
        entry, at = heapq.heappop(front)
        yield entry
        for child in (2 * at + 1, 2 * at + 2):
            if child < len(heap):
                heapq.heappush(front, (heap[child], child))


def rebuilt(state: State) -> Index:
    """The index of a state, from nothing."""
    index = Index(now=state.at)
    for job in state.jobs.values():
        index.count(None, job.state)
        index.await_dependencies(state, job)
    for job in sorted(state.jobs.values(), key=lambda each: each.rank):
        if job.state is JobState.PENDING or (job.id in state.sweeps and not job.state.final):
            index.enqueue(state, job)
        if job.attempt is not None:
            index.attempt_put(job.attempt.device, job.attempt.predicted_s)
    for sweep in state.sweeps.values():
        _index_sweep(state, index, sweep)
    index.places = {device.id for node in state.nodes.values() for device in node.spec.devices}
    for name in state.devices:
        index.opened(state, name)
    _index_loops(state, index)
    return index


def _index_loops(state: State, index: Index) -> None:
    index.loops_due = set(state.configs)
    for config in state.configs.values():
        for rest in config.rests.values():
            index.rest_loop(config.spec.name, rest.until)
        for name, stage in config.jobs.items():
            index.selfplaying += stage is WorkKind.SELFPLAY and state.jobs[name].attempt is not None


def _index_sweep(state: State, index: Index, sweep: Sweep) -> None:
    index.attained_s[sweep.job] += sweep.served_s
    payload = sweep_payload(state.jobs[sweep.job])
    for lease in sweep.leases.values():
        index.chunk_put(sweep.job, lease.device, lease.expected_s)
        speed = state.speeds.get(speed_key(lease.device, payload))
        index.at_work(sweep.job, lease.device, 0.0 if speed is None else speed.per_s)
