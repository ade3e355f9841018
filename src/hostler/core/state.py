"""Everything the controller knows: facts folded from events, and what is volatile beside them.

Only `core` changes these objects, and only by events; readers may look at them between two calls of `handle`. The
attributes hang together: change one by hand and `validate()` will object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any, Literal

from hostler.core.access.state import Access
from hostler.core.alerting.state import Alerts
from hostler.core.care.state import Care
from hostler.core.ledger import Ledger
from hostler.core.loop.state import Config
from hostler.core.metering.state import Metering
from hostler.core.tally import Tally
from hostler.core.trust.state import Trust
from hostler.model.calls import is_batch
from hostler.model.events import AttemptEnded, ChunkDone
from hostler.model.files import FileRef
from hostler.model.fleet import DeviceSpec, Link, NodeSpec, Process
from hostler.model.groups import GroupSpec
from hostler.model.inputs import Found
from hostler.model.pools import Batch
from hostler.model.record import entity, record
from hostler.model.rules import USUAL, Rules
from hostler.model.work import FailureClass, JobSpec, JobState, StagePayload, SweepPayload
from hostler.policy import chunking
from hostler.policy.chunking import Speed
from hostler.policy.duration import Accuracy, Estimate
from hostler.policy.share import Service


@entity
class Attempt:
    """One execution of a job on one device. `process` is what is known of it, whatever the link does."""

    id: str
    device: str
    leased_at: float
    predicted_s: float | None
    others: tuple[str, ...] = ()
    """Further devices that it holds."""
    lane: int = 0
    booked_at: float = 0.0
    """Up to when its device time is on its accounts."""
    why: str = ""
    """What made the scheduler put it there."""
    expected_s: float | None = None
    """How long it was expected to take when it was put there: as likely more as less."""
    yielding: str | None = None
    """Why it was asked to give its devices up."""
    process: Process = Process.UNKNOWN
    started_at: float | None = None
    elapsed_s: float | None = None
    """How long its process lived, by its node's clock."""
    pid: int | None = None
    pid_start: int | None = None
    ended: AttemptEnded | None = None
    """How it ended, while what it left has still to come."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Everything it holds."""
        return (self.device, *self.others)


@entity
class Job:
    """One job. Its id is `j<number>`, in order of submission; `attempt` is the one that holds a device now."""

    id: str
    number: int
    spec: JobSpec
    priority: int
    submitted_at: float
    after: tuple[str, ...] = ()
    state: JobState = JobState.PENDING
    not_before: float = 0.0
    attempts: int = 0
    attempt: Attempt | None = None
    last_device: str | None = None
    failures: dict[FailureClass, int] = field(default_factory=dict)
    avoid: dict[str, float] = field(default_factory=dict)
    """Devices and nodes it failed on and keeps away from, and until when (`core.trust`)."""
    vram_above: float | None = None
    """GB of VRAM that were too few for it; until `vram_until` it waits for a device that has more."""
    vram_until: float = 0.0
    batch_scale: float = 1.0
    """Share of its usual batch that it is to use where a device has no more VRAM than that."""
    cancelling: str | None = None
    wanted: str | None = None
    """What made the controller want it; `None` where somebody asked for it."""
    group: str | None = None
    """The job group it was submitted in."""
    owner: str | None = None
    """The person it belongs to; `None`: the user that the controller runs as."""
    max_running: int | None = None
    """Jobs of its group that may hold devices at the same time; `None`: any number."""
    why: str | None = None
    failure: FailureClass | None = None
    started_at: float | None = None
    ended_at: float | None = None
    result: Any = None
    files: tuple[FileRef, ...] = ()
    """What came of its accepted attempt."""
    unfetched: str | None = None
    """Why new and changed files of it did not come; `None`: all came."""
    progress: float = 0.0
    """Share of it that attempts have done which were stopped and had saved their work, as far as its estimate tells."""
    cut_off: int = 0
    """How many attempts ended because their allocations were too short for them."""
    preempted: int = 0
    """How often it gave its devices up for others."""
    in_vain: tuple[str, ...] = ()
    """Jobs that came after it, failed because it did, and have left (`core.past`): who tries it again means them."""
    took_s: float | None = None
    """How long the process of its last attempt ran, by its node's clock; `None`: the node has not reported that."""

    @property
    def rank(self) -> tuple[int, int]:
        """The place in the queue; lower goes first. Waiting and failing leave it as it is."""
        return -self.priority, self.number


def duration_of(job: Job) -> float | None:
    """How long the last attempt of a job ran, once that is known: by its node, or else from its start to its end."""
    if not job.state.final and job.state is not JobState.COLLECTING:
        return None
    if job.took_s is not None or job.started_at is None or job.ended_at is None:
        return job.took_s
    return max(job.ended_at - job.started_at, 0.0)


@entity
class JobGroup:
    """One job group. Its id is `g<number>`, in order of submission; its jobs have consecutive numbers from `first`.

    Counts hold the jobs that have left the state, too.
    """

    id: str
    number: int
    spec: GroupSpec
    first: int
    size: int
    submitted_at: float
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    ended_at: float | None = None
    """When a job of it ended last."""
    owner: str | None = None
    """The person it belongs to; `None`: the user that the controller runs as."""
    in_vain: tuple[str, ...] = ()
    """As of a job: jobs that came after it, failed because it did, and have left the state."""

    @property
    def jobs(self) -> Iterator[str]:
        """The ids of its jobs, in order."""
        return (f"j{number}" for number in range(self.first, self.first + self.size))

    @property
    def open(self) -> int:
        """How many of its jobs have not ended."""
        return self.size - self.done - self.failed - self.cancelled


@entity
class ChunkLease:
    """A chunk on a device. What it was last reported to have done is volatile: `position`, `hits` and all behind."""

    device: str
    leased_at: float
    expected_s: float | None
    began_at: float | None = None
    """Since when it is the first chunk of its device."""
    lent_stop: int | None = None
    """Where it ended when it was lent, if it has been shortened: a result up to there is good."""
    position: int | None = None
    hits: int = 0
    found: Found | None = None
    heard_at: float | None = None
    """When its position last moved."""
    pace_per_s: float | None = None
    """How fast it moves, in items per second."""
    told_at: float | None = None
    """When it was last reported, whether its position moved or not."""


@entity
class Sweep:
    """What a sweep job has beside its job: coverage, leases, and the devices that have a worker for it."""

    job: str
    ledger: Ledger
    leases: dict[str, ChunkLease] = field(default_factory=dict)
    workers: set[str] = field(default_factory=set)
    chunks: int = 0
    chunks_done: int = 0
    served_s: float = 0.0
    hits: int = 0
    hours: dict[int, int] = field(default_factory=dict)
    """Items accepted in each of the last hours (Unix time // 3600): what was done in a day."""
    strikes: dict[int, int] = field(default_factory=dict)
    """Worker failures by the position at which they happened: without a step forward they add up."""
    struck: dict[int, set[str]] = field(default_factory=dict)
    """The devices on which they happened."""
    in_a_row: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By device: worker failures since its last step forward, and when the latest was counted."""
    silent: dict[str, float] = field(default_factory=dict)
    """Devices that a chunk was taken from because they told nothing of it, and when; until they finish one."""
    barred: dict[str, str] = field(default_factory=dict)
    """Devices that are given nothing more of the sweep, and why; until it is tried again."""
    given_up: tuple[FailureClass, str] | None = None
    progressed_at: float | None = None
    """When something of it was accepted last."""
    speeds: dict[str, Speed] = field(default_factory=dict)
    """By device, where its items are uneven: what other sweeps taught says nothing about them."""


@entity
class Device:
    """One device: what it is, and what has been put on it, oldest first."""

    spec: DeviceSpec
    attempts: list[str] = field(default_factory=list)
    chunks: list[str] = field(default_factory=list)


NEVER_REACHED, RESTARTED = "never reached", "the controller was restarted"
"""The trouble with a node that nobody has tried to reach yet: ever, or since the controller began."""


@entity
class Node:
    """One node. `link` says whether it can be reached, and nothing else."""

    spec: NodeSpec
    link: Link = Link.DOWN
    since: float = 0.0
    agent: str | None = None
    incarnation: int | None = None
    boot: str | None = None
    trouble: str | None = NEVER_REACHED
    linked_until: float | None = None
    """While it is out of reach: up to when it may have been linked; `None`: it never was, or nobody noted it."""


@entity
class Cordon:
    """A person wants nothing new put on a node or a device, or a node that is about to go does."""

    since: float
    why: str | None
    who: str | None
    drain: bool
    now: bool
    drained_at: float | None = None
    """When nothing was left on it."""
    until: float | None = None
    """When it expires; `None`: not before it is ended."""


@entity
class EnvironmentHold:
    """A Python environment that is not built on a node, because that has failed."""

    job: str
    """Whose attempt it was built for last."""
    file: str
    why: str
    since: float
    until: float


@entity
class Past:
    """What is left of jobs that have left the state: sums."""

    seq: int = 0
    """The entry by which jobs left last; 0: none ever did."""
    counts: dict[str, int] = field(default_factory=dict)
    """By work kind and state."""
    chunks: int = 0
    """That their sweeps had done."""
    items: int = 0
    """That were in these."""

    @property
    def total(self) -> int:
        """How many they are."""
        return sum(self.counts.values())


@record
class Spent:
    """Device time, and what it cost where the price is known; `unpriced_s` is the part of unknown price."""

    device_s: float = 0.0
    cost: float = 0.0
    unpriced_s: float = 0.0


@record
class ForeignUse:
    """Use of a device by others, as it was first read."""

    kind: Literal["others", "leftover"]
    """`leftover`: processes of an attempt that has ended."""
    who: str
    vram_gb: float | None
    since: float


@entity
class State:
    """The whole. `at` is the time of the newest event, `seq` its number."""

    at: float = 0.0
    seq: int = 0
    epoch: int = 0
    begun_at: float = 0.0
    """When the controller of this epoch began."""
    next_job: int = 1
    unused: dict[int, int] = field(default_factory=dict)
    """Numbers of jobs that are never given: from the first of them, the one to go on with (`core.restoring`)."""
    restored_at: float | None = None
    """When this journal began to go on from a backup; `None`: it never did."""
    skipped: int = 0
    """The same of attempts and chunks: so many numbers are left out."""
    jobs: dict[str, Job] = field(default_factory=dict)
    next_group: int = 1
    groups: dict[str, JobGroup] = field(default_factory=dict)
    sweeps: dict[str, Sweep] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    devices: dict[str, Device] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    """Job by idempotency key."""
    speeds: dict[str, Speed] = field(default_factory=dict)
    """Measured speed by `speed_key`."""
    configs: dict[str, Config] = field(default_factory=dict)
    durations: dict[str, Estimate] = field(default_factory=dict)
    """Learnt duration by `duration_key`."""
    accuracy: dict[str, Accuracy] = field(default_factory=dict)
    """How good predictions of durations were, by work kind."""
    rules: Rules = USUAL
    care: Care = field(default_factory=Care)
    service: dict[str, Service] = field(default_factory=dict)
    """Device time of work that is over, by account (`core.accounts`), fading."""
    spent: dict[str, Spent] = field(default_factory=dict)
    """What was used up in all, by work kind and whom it was for."""
    spent_at: dict[str, Spent] = field(default_factory=dict)
    """The same by tier and provider."""
    tally: Tally = field(default_factory=Tally)
    trust: Trust = field(default_factory=Trust)
    cordons: dict[str, Cordon] = field(default_factory=dict)
    """By node."""
    device_cordons: dict[str, Cordon] = field(default_factory=dict)
    """By device: those of single devices."""
    foreign_use: dict[str, ForeignUse] = field(default_factory=dict)
    """By device: what others use."""
    environments: dict[str, dict[str, EnvironmentHold]] = field(default_factory=dict)
    """By node, and by what the environment is known by (`core.environments`)."""
    lying: dict[str, dict[str, None]] = field(default_factory=dict)
    """By node with files of its own: datasets and models that lie there, the newest last."""
    batches: dict[str, Batch] = field(default_factory=dict)
    """What clusters were asked for and is not over, by token."""
    access: Access = field(default_factory=Access)
    alerts: Alerts = field(default_factory=Alerts)
    past: Past = field(default_factory=Past)
    metering: Metering = field(default_factory=Metering)
    refused: int = 0
    troubles: int = 0

    def takes_work(self, node: str) -> bool:
        """Whether a node can be reached, and may be given something new."""
        return self.nodes[node].link is Link.UP and node not in self.cordons

    def puts_work_on(self, device: str) -> bool:
        """The same of a device: neither its node nor the device itself may be cordoned, nor used by others."""
        if device in self.device_cordons or self._is_left_to_others(device):
            return False
        return self.takes_work(self.devices[device].spec.node)

    def _is_left_to_others(self, device: str) -> bool:
        use = self.foreign_use.get(device)
        if use is None:
            return False
        rule = self.nodes[self.devices[device].spec.node].spec.foreign_use
        return rule == "wait" or (rule == "share" and use.kind == "leftover")

    def is_cordoned(self, device: str) -> bool:
        """Whether nothing new is put on a device because a person wants that, or its node is about to go."""
        return device in self.device_cordons or self.devices[device].spec.node in self.cordons


def sweep_payload(job: Job) -> SweepPayload:
    """The payload of a job that is known to be a sweep."""
    assert isinstance(job.spec.payload, SweepPayload), f"{job.id} is no sweep"
    return job.spec.payload


def is_calls(job: Job) -> bool:
    """Whether a job is a batch of function calls."""
    payload = job.spec.payload
    return isinstance(payload, SweepPayload) and is_batch(payload.worker)


def stage_of(job: Job) -> StagePayload:
    """The payload of a job that is known to be a stage's."""
    assert isinstance(job.spec.payload, StagePayload), f"{job.id} is no stage"
    return job.spec.payload


def speed_of(state: State, sweep: Sweep, device: str) -> Speed | None:
    """The measured speed of a device at a sweep; `None`: never measured."""
    payload = sweep_payload(state.jobs[sweep.job])
    return sweep.speeds.get(device) if payload.uneven else state.speeds.get(speed_key(device, payload))


def learn_speed(state: State, sweep: Sweep, device: str, items: int, event: ChunkDone) -> None:
    """Add a finished chunk of so many items to the measured speed of a device."""
    payload = sweep_payload(state.jobs[sweep.job])
    speeds, key = (sweep.speeds, device) if payload.uneven else (state.speeds, speed_key(device, payload))
    speeds[key] = chunking.learn(speeds.get(key), items, event.elapsed_s, event.overhead_s)


def speed_key(device: str, payload: SweepPayload) -> str:
    """What a speed is kept under: device × kernel."""
    return f"{device} {payload.kernel or payload.digest}"
