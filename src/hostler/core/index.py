"""What could be computed from the state at any time, kept beside it so that a decision does not depend on its size.

Nothing here is journalled: `Index.rebuilt(state)` makes it anew, and `validate()` compares.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import islice

from hostler.core.access.state import Sharing
from hostler.core.alerting.state import Watching
from hostler.core.care.state import Heard
from hostler.core.conduct import Conduct
from hostler.core.dependencies import unfinished
from hostler.core.kinds import Kinds
from hostler.core.metering.state import Metered
from hostler.core.poolsight import PoolSight
from hostler.core.roll import Roll, ascending
from hostler.core.state import Attempt, Device, Job, Node, State
from hostler.core.uses import Able, Backlog, DeviceUse, Group, Known, Learnt, Live, Load, NodeUse, Ranked, Table, Worth
from hostler.model.commands import WorkerOrder
from hostler.model.fleet import NodeSpec
from hostler.model.planning import Plan
from hostler.model.record import entity
from hostler.model.work import DeviceKind, JobState, Resources, ScriptPayload, SweepPayload, WorkKind, disk_need
from hostler.policy import duration, fit
from hostler.policy.fit import Refusal, Site
from hostler.policy.priority import Claim
from hostler.policy.share import QuotaTarget

LOOP = "loop "
"""What the name of a timer begins with that is due for a config, which follows; no job is called so."""
DEVICE = "device "
"""The same for a device that may be given something again then."""
AGAIN = "again "
"""The same for a job that keeps away from some devices until then."""
CHORE = "chore "
"""The same for what the core does from time to time."""
CARE = "care "
"""What the name of a chore begins with that looks whether a node, which follows, has fallen silent."""

UNKNOWN_CHUNK_S = 1e-3
"""What a chunk of unknown duration counts in a sweep's attained service, so that equals take turns."""


@entity
class Confirming:
    """What nodes are asked about orders without an answer (`core.confirming`). Volatile."""

    is_armed: bool = False
    """Whether there is a timer for the next look."""
    since: dict[str, float] = field(default_factory=dict)
    """Since when something has been seen to wait that has no time of its own."""
    asked: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Attempts and chunks that a node was asked for."""
    again: list[tuple[str, str, bool]] = field(default_factory=list)
    """Orders to be given once more: node, attempt or chunk, and whether the node has it."""


@entity
class Index:
    """The queue by group, timers, dependencies, open devices, loads."""

    now: float = 0.0
    """The time of the input being handled, or of the newest event; never falls."""
    before: float = 0.0
    """The time of the event before the one being folded."""
    counts: dict[JobState, int] = field(default_factory=lambda: dict.fromkeys(JobState, 0))
    kinds: Kinds = field(default_factory=Kinds)
    ready: dict[Group, list[Ranked]] = field(default_factory=dict)
    """Heaps of jobs that could run now. Entries go stale and are dropped when they surface."""
    needs: dict[Resources, Resources] = field(default_factory=dict)
    """One object for each need, so that the groups that are ready and need the same can be told by that."""
    fresh_groups: dict[Group, None] = field(default_factory=dict)
    """Groups that have got something new to do since the last decision."""
    sites: dict[str, Site] = field(default_factory=dict)
    """What never changes about a device of the fleet."""
    classes: dict[str, str] = field(default_factory=dict)
    """The class of each device; devices of one class are the same to every policy."""
    samples: dict[str, Site] = field(default_factory=dict)
    """One device of each class."""
    members: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    """The devices of each class, in a fixed order."""
    backlog: dict[tuple[Group, tuple[str, ...]], Backlog] = field(default_factory=dict)
    """By group, and by the models that their owners name: jobs that are not over."""
    fits: dict[tuple[WorkKind, Resources], dict[str, Refusal | None]] = field(default_factory=dict)
    """Whether a need fits on a class, once asked."""
    fitting: dict[tuple[WorkKind, Resources], list[str]] = field(default_factory=dict)
    """Classes in the fleet that a need fits on, once asked; forgotten when the classes change."""
    able: dict[str, Able] = field(default_factory=dict)
    """The ready groups as each class sees them, once asked; forgotten when the classes change."""
    tables: dict[Group, Table] = field(default_factory=dict)
    """What classes are to the first job of a group, once asked; forgotten when the classes change."""
    rated: dict[Group, tuple[int, Mapping[str, float]]] = field(default_factory=dict)
    """Relative speeds by class at the stages of configs, after so many lessons; forgotten when the classes change."""
    worths: dict[Group, Worth] = field(default_factory=dict)
    """What classes bring at the stages of configs, for the slow loop."""
    predicted: dict[str, Learnt] = field(default_factory=dict)
    """How long a family takes on a model of device, once asked."""
    lessons: Counter[str] = field(default_factory=Counter)
    """By work kind × training config: durations learnt."""
    open_in: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    """The open devices of each class."""
    nodes: dict[str, NodeUse] = field(default_factory=lambda: defaultdict(NodeUse))
    uses: dict[str, DeviceUse] = field(default_factory=lambda: defaultdict(DeviceUse))
    live: dict[str, Live] = field(default_factory=lambda: defaultdict(Live))
    """By account (`core.accounts`)."""
    trainings: Counter[str] = field(default_factory=Counter)
    """Trainings that hold devices, by the config they are for."""
    playing: Counter[str] = field(default_factory=Counter)
    """Self-play jobs that hold devices, by the config they are for."""
    group_running: Counter[str] = field(default_factory=Counter)
    """Jobs that hold devices, or are sweeps that have begun, by job group."""
    failing_groups: dict[str, None] = field(default_factory=dict)
    """Job groups of which one more job has failed than may, until the rest of them is cancelled in the same step."""
    swap_at: float = 0.0
    """When it is asked again whether two jobs should change places."""
    movable: dict[str, None] = field(default_factory=dict)
    """Jobs that hold devices and can be stopped without losing their work."""
    yieldable: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    """Devices by class on which nothing but self-play runs that was not asked to go: they can be had, if need be."""
    begun: dict[str, list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))
    """Heaps of those by class: minus when the newest work was put there, and the device. Entries go stale."""
    newly_yieldable: dict[str, None] = field(default_factory=dict)
    """Devices that have joined them since it was last asked."""
    roomless: dict[str, float] = field(default_factory=dict)
    """Jobs for which no device was to be had, and until when only new ones are looked at."""
    room_at: float = math.inf
    """When a job that waits may take devices; there is a timer for it."""
    room_changed: bool = True
    """Whether something has changed about who wants to take devices from self-play, or which are to be had."""
    room_again_at: float = 0.0
    """When that is looked at whatever has changed."""
    room_held: bool = False
    """Whether somebody would take some, and self-play has too little of its share to yield."""
    plan: Plan | None = None
    """The slow loop's newest answer. Volatile."""
    known_bids: dict[str, Known] = field(default_factory=dict)
    """What jobs that are placed anew every round offer, as far as it does not change."""
    speeds: dict[tuple[tuple[str, float], ...], Mapping[str, float]] = field(default_factory=dict)
    """Tables of relative speed: jobs of one family share one."""
    seats: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Devices kept for jobs in this round. Volatile."""
    round_seen: tuple[frozenset[str], Mapping[str, int], Mapping[str, float]] | None = None
    """What the last round was planned with, and when."""
    round_at: float = 0.0
    round_over_at: float | None = None
    """When all that was planned for then is done, at the soonest; `None`: nobody knows."""
    next_round: float | None = None
    """When what can be stopped is placed anew. Volatile."""
    planned_at: float | None = None
    """When the slow loop was last asked."""
    unplanned: int = 0
    """Devices that have come or gone since then."""
    prices: Mapping[str, float] = field(default_factory=dict)
    """What a device of each class is worth, the dearest 1. Volatile: made from the newest plan."""
    aims: dict[str, Mapping[str, QuotaTarget]] = field(default_factory=dict)
    """What is meant for each config of a tier's time, once asked; forgotten when configs or rules change."""
    claims: dict[str, tuple[float, Claim]] = field(default_factory=dict)
    """What speaks for each config, and when that was looked at."""
    tier_s: dict[str, tuple[float, float]] = field(default_factory=dict)
    """When it was last summed up what all configs had of a tier, and the sum in device seconds. For reasons alone."""
    reserved: dict[str, str] = field(default_factory=dict)
    """Devices kept for a job. Volatile: what is not in here after a restart is reserved again."""
    keeps: dict[str, float] = field(default_factory=dict)
    """When devices may be kept again for a job that several were kept for. Volatile."""
    kept_until: dict[str, float] = field(default_factory=dict)
    """When reservations that wait for other devices to come free are given up."""
    gates: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each gate has refused something on each node since the controller began. Volatile, for show."""
    active: set[str] = field(default_factory=set)
    """Sweeps that may be given devices."""
    attained_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Device time a sweep has had or has leased."""
    fleet_per_s: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    """Measured speed of each device at work on a sweep; 0 where it is not measured yet."""
    pace_per_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """The sum of these speeds."""
    swept_at: dict[str, float] = field(default_factory=dict)
    """When a device last handed in a chunk."""
    unmeasured: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """How many of the devices at work on a sweep have no measured speed yet."""
    tails_at: float = 0.0
    """When the ends of sweeps may be looked at again."""
    tails_due: float = 0.0
    """When they will be, whatever happens."""
    timers: list[tuple[float, str]] = field(default_factory=list)
    blocked: dict[str, set[str]] = field(default_factory=dict)
    """Unfinished dependencies of a job."""
    dependents: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    """Jobs that are not done, by what they come after."""
    roll: Roll = field(default_factory=Roll)
    places: set[str] = field(default_factory=set)
    """Devices of the fleet as it is described now; others may still end what they have."""
    open: dict[str, None] = field(default_factory=dict)
    """Reachable devices that had room when last looked at, in a fixed order."""
    fresh: dict[str, None] = field(default_factory=dict)
    """Open devices that have changed since the last decision."""
    new_work: bool = False
    """Whether any open device may have got something to do, as when a sweep was submitted."""
    doubted: set[str] = field(default_factory=set)
    """Devices about which something was learnt since it was last asked whether they can be trusted."""
    unproved: dict[str, None] = field(default_factory=dict)
    """Devices that may have to be proved now."""
    proving: dict[str, float] = field(default_factory=dict)
    """Devices whose canary was ordered on this link and has not answered, and when it was. Volatile."""
    confirming: Confirming = field(default_factory=Confirming)
    looked_at: float = -math.inf
    """When it was last arranged that everything open is looked at again."""
    looks: dict[str, float] = field(default_factory=dict)
    """When devices are to be looked at again."""
    chores: set[str] = field(default_factory=set)
    """What is due now of what the core does from time to time."""
    sharing: Sharing = field(default_factory=Sharing)
    draining: bool = False
    """Nothing new is put on any device."""
    loops_due: set[str] = field(default_factory=set)
    """Training configs about which something has changed since it was last decided what they need."""
    open_configs: set[str] = field(default_factory=set)
    """Training configs that want something more."""
    eager: dict[str, str] = field(default_factory=dict)
    """Those that want self-play, and why."""
    waiting_play: int = 0
    """Jobs of self-play that wait. They fill what others leave, however many they are."""
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
    telemetry: dict[str, Heard] = field(default_factory=dict)
    """By node: what it told last of how it is. Volatile: a controller that begins knows nothing."""
    metered: Metered = field(default_factory=Metered)
    watching: Watching = field(default_factory=Watching)
    """What the rules of alerts measured last. Volatile."""
    left_at: dict[str, float] = field(default_factory=dict)
    """When work last left a device. Volatile."""
    unread: dict[str, None] = field(default_factory=dict)
    """Nodes whose devices must be read before what waits for them is decided. Volatile."""
    pools: PoolSight = field(default_factory=PoolSight)
    """What was last seen of nodes that are pools. Volatile."""
    conduct: dict[str, Conduct] = field(default_factory=lambda: defaultdict(Conduct))
    """By node: its faults of late. Volatile."""
    devices_at: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    """Devices by node, those that it had once among them."""
    loads: dict[str, Load] = field(default_factory=lambda: defaultdict(Load))
    workers: dict[tuple[str, str], WorkerOrder] = field(default_factory=dict)

    def count(self, job: Job, old: JobState | None, new: JobState) -> None:
        """A job went from one state to another."""
        if old is not None:
            self.counts[old] -= 1
        self.counts[new] += 1
        self.kinds.move(job.spec.work, job.number, old, new)
        if job.spec.work is WorkKind.SELFPLAY:
            self.waiting_play += (new is JobState.PENDING) - (old is JobState.PENDING)
        if job.group is not None:
            self.group_running[job.group] += new.held - (old is not None and old.held)

    def enqueue(self, state: State, job: Job) -> None:
        """A pending job is to be considered as soon as its dependencies and its rest allow."""
        if self.blocked.get(job.id):
            return
        if job.not_before > self.now:
            heapq.heappush(self.timers, (job.not_before, job.id))
            return
        if isinstance(job.spec.payload, SweepPayload):
            self.new_work = True
            self._activate(state, job)
            return
        group = group_of(job)
        if group not in self.ready:
            group = group._replace(need=self.needs.setdefault(group.need, group.need))
            self.ready[group] = []
            for cls, able in self.able.items():
                able.add(group, self.ready[group], self.misfit(group.need, group.work, cls))
        self.fresh_groups[group] = None
        self.room_changed = True
        heapq.heappush(self.ready[group], (*job.rank, job.id))

    def expect(self, job: Job, sign: int) -> None:
        """There is a job more to do, or one less; how much there is of it is what its owner expects."""
        expected_s = job.spec.expected_s
        if not expected_s or isinstance(job.spec.payload, SweepPayload):
            return
        key = group_of(job), tuple(sorted(expected_s))
        left = self.backlog.setdefault(key, Backlog(serves=job.spec.serves is not None))
        left.jobs += sign
        for model, seconds in expected_s.items():
            left.seconds[model] += sign * seconds * (1.0 - job.progress)
        if not left.jobs:
            del self.backlog[key]

    def await_dependencies(self, state: State, job: Job) -> None:
        """Note what a job waits for."""
        if job.state is JobState.DONE:
            return
        missing = unfinished(state, job)
        for name in job.after:
            self.dependents[name][job.id] = None
        if missing and job.state is JobState.PENDING:
            self.blocked[job.id] = missing

    def forget_dependent(self, job: Job) -> None:
        """A job needs no more what it comes after."""
        for name in job.after:
            others = self.dependents.get(name, {})
            others.pop(job.id, None)
            if not others:
                self.dependents.pop(name, None)

    def release_dependents(self, state: State, done: str) -> None:
        """A job or a group is done: jobs that waited for it alone may be considered."""
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
            elif name.startswith(DEVICE):
                self.opened(state, name.removeprefix(DEVICE))
            elif name.startswith(AGAIN):
                self._look_at(state, state.jobs[name.removeprefix(AGAIN)])
            elif name.startswith(CHORE):
                self.chores.add(name.removeprefix(CHORE))
            else:
                self._requeue(state, name)

    def rest_loop(self, config: str, until: float) -> None:
        """A stage of a config rests until then."""
        heapq.heappush(self.timers, (until, LOOP + config))
        self.loops_due.add(config)

    def devices_of(self, account: str) -> float:
        """How many devices an account has out now."""
        live = self.live.get(account)
        return 0.0 if live is None else live.devices

    def look_again(self, device: str, at: float) -> None:
        """A device may be given something then that it may not be given now."""
        if self.now < self.looks.get(device, self.now) <= at:
            return  # it is asked before, and says then when it is to be asked again
        self.looks[device] = at
        heapq.heappush(self.timers, (at, DEVICE + device))

    def reconsider(self, job: str, at: float) -> None:
        """A job may be given devices then that it keeps away from now."""
        heapq.heappush(self.timers, (at, AGAIN + job))

    def do_later(self, chore: str, at: float) -> None:
        """A chore is due then."""
        heapq.heappush(self.timers, (at, CHORE + chore))

    def expire_later(self, state: State, node: str, at: float | None = None) -> None:
        """Something was decided on a node's telemetry: look then, or as soon as it may be, whether it still tells."""
        heard = self.telemetry.setdefault(node, Heard())
        if heard.armed:
            return
        targets = state.rules.targets
        usual = (state.at if heard.at is None else heard.at) + targets.telemetry_max_age_s + targets.unknown_hold_s
        heard.armed = True
        self.do_later(CARE + node, usual if at is None else at)

    def wake_loop(self, config: str, at: float) -> None:
        """A config may want something then."""
        heapq.heappush(self.timers, (at, LOOP + config))

    def next_timer(self) -> float | None:
        """When the next rest is over."""
        return self.timers[0][0] if self.timers else None

    def head(self, state: State, group: Group) -> Job | None:
        """The first ready job of a group; a group that has none is forgotten."""
        heap = self.ready[group]
        while heap:
            job = state.jobs[heap[0][2]]
            if self.is_ready(job, heap[0]):
                return job
            heapq.heappop(heap)
        del self.ready[group]
        for cls, able in self.able.items():
            able.remove(group, self.misfit(group.need, group.work, cls))
        self.tables.pop(group, None)
        self.fresh_groups.pop(group, None)
        return None

    def left(self, state: State, job: Job) -> None:
        """A job waits no more, though no device has looked at it: its group may be one that no device looks at."""
        if not isinstance(job.spec.payload, SweepPayload) and group_of(job) in self.ready:
            self._look_at_group(state, group_of(job))

    def peek(self, state: State, group: Group) -> Job | None:
        """The first ready job of a group, if it is at the top of its heap; the queue is left as it is."""
        heap = self.ready.get(group)
        job = state.jobs[heap[0][2]] if heap else None
        return job if job is not None and heap and self.is_ready(job, heap[0]) else None

    def heads(self, state: State, group: Group, most: int) -> Iterator[Job]:
        """The first ready jobs of a group, in order, after `head`; so many entries of its heap are looked at."""
        previous = None
        for entry in islice(ascending(self.ready.get(group, [])), most):
            job = state.jobs[entry[2]]
            if entry != previous and self.is_ready(job, entry):
                yield job
            previous = entry

    def misfit(self, need: Resources, work: WorkKind, cls: str) -> Refusal | None:
        """Why work with this need will never run on devices of a class; `None` where it may."""
        known = self.fits.setdefault((work, need), {})
        if cls not in known:
            known[cls] = fit.refusal(need, self.samples[cls], work)
        return known[cls]

    def able_on(self, cls: str) -> Able:
        """The groups that are ready, as a class of devices sees them."""
        known = self.able.get(cls)
        if known is None:
            known = self.able[cls] = Able()
            for group, heap in self.ready.items():
                known.add(group, heap, self.misfit(group.need, group.work, cls))
        return known

    def suits(self, job: Job, device: str) -> bool:
        """Whether the job may ever run on a device of the fleet."""
        if (
            device not in self.places
            or self.misfit(job.spec.resources, job.spec.work, self.classes[device]) is not None
        ):
            return False
        return fit.node_refusal(job.spec.resources, self.sites[device].node.name) is None

    def join(self, node: NodeSpec) -> None:
        """A node is described: these are its devices."""
        self.known_bids.clear()
        for spec in node.devices:
            self.places.add(spec.id)
            self.devices_at[node.name][spec.id] = None
            site = fit.site(node, spec)
            self.sites[spec.id], cls = site, fit.device_class(site)
            self.classes[spec.id] = cls
            if not self.members[cls]:
                self._show(cls, site)
                self._forget_classes()
            self.members[cls][spec.id] = None

    def part(self, node: NodeSpec) -> None:
        """The devices of a node, as it was described, are in the fleet no more."""
        self.known_bids.clear()
        for spec in node.devices:
            self.closed(spec.id)
            self.places.discard(spec.id)
            site = self.sites.pop(spec.id)
            cls = self.classes.pop(spec.id)
            self.yieldable[cls].pop(spec.id, None)
            self.members[cls].pop(spec.id, None)
            if not self.members[cls]:
                del self.members[cls]
                self._forget_classes()
                self.new_work = True  # scripts that waited for a GPU may take CPU slots once there is none
            elif self.samples[cls] is site:
                self._show(cls, self.sites[next(iter(self.members[cls]))])

    def _show(self, cls: str, sample: Site) -> None:
        """What is said of a class names this device of it; it must not name one that has left the fleet."""
        self.samples[cls] = sample
        for known in self.fits.values():
            known.pop(cls, None)

    def _forget_classes(self) -> None:
        self.fitting.clear()
        self.able.clear()
        self.tables.clear()
        self.rated.clear()
        self.room_changed = True

    def in_order(self, state: State) -> Iterator[Job]:
        """Ready scripts, first to last; the queue is left as it is, and what is not asked for is not sorted."""
        previous = None
        for entry in heapq.merge(*map(ascending, self.ready.values())):
            job = state.jobs[entry[2]]
            if entry != previous and self.is_ready(job, entry):
                yield job
            previous = entry

    def opened(self, state: State, name: str) -> None:
        """A device may have room again."""
        device = state.devices[name]
        if not state.trust.takes(name, self.now, busy=bool(device.attempts or device.chunks)):
            self.unproved[name] = None
            return
        if name in self.places and state.puts_work_on(name):
            self.open[name] = None
            self.fresh[name] = None
            self.open_in[self.classes[name]][name] = None

    def closed(self, name: str) -> None:
        """A device is full, gone or out of reach."""
        self.open.pop(name, None)
        self.fresh.pop(name, None)
        if name in self.classes:
            self.open_in[self.classes[name]].pop(name, None)

    def at_work(self, sweep: str, device: str, per_s: float) -> None:
        """A device works on a sweep, this fast."""
        speeds = self.fleet_per_s[sweep]
        before = speeds.get(device)
        self.pace_per_s[sweep] += per_s - (before or 0.0)
        self.unmeasured[sweep] += (per_s == 0.0) - (before == 0.0)
        speeds[device] = per_s

    def off_work(self, sweep: str, device: str) -> None:
        """A device has nothing of a sweep any more."""
        speeds = self.fleet_per_s[sweep]
        before = speeds.pop(device, None)
        self.pace_per_s[sweep] -= before or 0.0
        self.unmeasured[sweep] -= before == 0.0
        if not speeds:
            del self.fleet_per_s[sweep], self.pace_per_s[sweep], self.unmeasured[sweep]

    def attempt_put(self, state: State, job: Job, attempt: Attempt) -> None:
        """An attempt was put on its devices."""
        for name in attempt.devices:
            load = self.loads[name]
            load.attempts_s += attempt.predicted_s or 0.0
            load.attempts_unknown += attempt.predicted_s is None
        self._use(state, job, attempt, 1)
        if state.devices[attempt.device].spec.kind is not DeviceKind.CPU:
            use = self.nodes[state.devices[attempt.device].spec.node]
            use.started_at = max(use.started_at or 0.0, attempt.leased_at)

    def attempt_taken(self, state: State, job: Job, attempt: Attempt) -> None:
        """An attempt left its devices."""
        for name in attempt.devices:
            load, device = self.loads[name], state.devices[name]
            load.attempts_s = load.attempts_s - (attempt.predicted_s or 0.0) if device.attempts else 0.0
            load.attempts_unknown -= attempt.predicted_s is None
            self.left_at[name] = self.now
        self._use(state, job, attempt, -1)

    def _use(self, state: State, job: Job, attempt: Attempt, sign: int) -> None:
        """Note, or forget, what an attempt takes of its node and its devices."""
        need, node = job.spec.resources, self.nodes[state.devices[attempt.device].spec.node]
        node.scripts += sign * (job.spec.work is WorkKind.SCRIPT)
        node.cpus += sign * need.cpus
        node.memory_gb += sign * (need.memory_gb or 0.0)
        node.disk_gb += sign * disk_need(need, job.spec.work)
        for name in attempt.devices:
            use = self.uses[name]
            use.vram_gb += sign * need.vram_gb / (len(attempt.devices) if need.shards else 1)
            use.unshared += sign * (not need.shared)
        if job.spec.checkpoints and sign > 0:
            self.movable[job.id] = None
        elif job.spec.checkpoints:
            self.movable.pop(job.id, None)
        if job.spec.serves is not None and job.spec.work is WorkKind.TRAINING:
            self.trainings[job.spec.serves] += sign
            self.room_changed = True
        if job.spec.serves is not None and job.spec.work is WorkKind.SELFPLAY:
            self.playing[job.spec.serves] += sign

    def made_way(self, state: State, job: Job, node: Node) -> None:
        """A job that has left its devices may have been what kept others off devices that it did not hold."""
        limits = node.spec.limits
        if node.spec.cpus is not None or limits.scripts is not None or limits.memory_gb is not None:
            for device in node.spec.devices:
                if device.id in self.open:
                    self.fresh[device.id] = None
        if job.spec.work is WorkKind.TRAINING and job.spec.serves is not None:
            kept = (each for each in self.ready if each.work is WorkKind.TRAINING and each.label == job.spec.serves)
            self.fresh_groups.update(dict.fromkeys(kept))
        if job.max_running is not None:
            limited = (each for each in self.ready if each.limited_by == job.group)
            self.fresh_groups.update(dict.fromkeys(limited))

    def chunk_put(self, sweep: str, device: str, expected_s: float | None) -> None:
        """A chunk was put on a device."""
        load = self.loads[device]
        load.chunks_s += expected_s or 0.0
        load.chunks_unknown += expected_s is None
        self.sweeping.add(device)
        self.attained_s[sweep] += expected_s or UNKNOWN_CHUNK_S

    def chunk_shortened(self, sweep: str, device: str, by_s: float) -> None:
        """A chunk on a device is expected to last so much less."""
        self.loads[device].chunks_s -= by_s
        self.attained_s[sweep] -= by_s

    def chunk_taken(self, sweep: str, device: Device, expected_s: float | None) -> None:
        """A chunk left a device."""
        load = self.loads[device.spec.id]
        load.chunks_s = load.chunks_s - (expected_s or 0.0) if device.chunks else 0.0
        load.chunks_unknown -= expected_s is None
        if not device.chunks:
            self.sweeping.discard(device.spec.id)
        self.attained_s[sweep] -= expected_s or UNKNOWN_CHUNK_S
        self.swept_at[device.spec.id] = self.now

    def is_ready(self, job: Job, entry: Ranked) -> bool:
        """Whether an entry of a heap is its job's own, and the job could run now."""
        if job.state is not JobState.PENDING or job.not_before > self.now:
            return False
        return entry[0] == -job.priority and entry[1] == job.number

    def _activate(self, state: State, job: Job) -> None:
        if job.cancelling is None and state.sweeps[job.id].given_up is None:
            self.active.add(job.id)

    def _look_at(self, state: State, job: Job) -> None:
        if job.state is JobState.PENDING and job.id not in state.sweeps and group_of(job) in self.ready:
            self.fresh_groups[group_of(job)] = None
            self.room_changed = True

    def _look_at_group(self, state: State, group: Group) -> None:
        """Another job may come first in a group now."""
        if self.head(state, group) is not None:
            self.fresh_groups[group] = None

    def _requeue(self, state: State, name: str) -> None:
        job = state.jobs[name]
        if job.state is JobState.PENDING:
            self.enqueue(state, job)


def group_of(job: Job) -> Group:
    """The group a job is in, while it waits."""
    payload = job.spec.payload
    limited_by = None if job.max_running is None else job.group
    if job.spec.serves is not None:
        return Group(job.spec.work, job.spec.serves, job.spec.resources, limited_by)
    assert isinstance(payload, ScriptPayload), f"{job.id} is a sweep"
    return Group(job.spec.work, duration.family(job.spec.name, payload.argv[0]), job.spec.resources, limited_by)
