"""What somebody wants done: jobs, their payloads, what they need, how often they may fail."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from hostler.model.numbers import Count, Some
from hostler.model.record import record

NAME_MAX = 256
JOB_ID = re.compile(r"j[0-9]+")
RESERVED_NAME = re.compile(r"[gj][0-9]+")
"""The form of the ids of jobs and of job groups, which no key may have."""
PARAMETERS_MAX = 100
ARGV_MAX_BYTES = 1 << 20
GIGABYTES_MAX = 2**20
SECONDS_MAX = 10**9

ParameterName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
ParameterValue: TypeAlias = Annotated[str, Field(max_length=1 << 16)]
Priority: TypeAlias = Annotated[int, Field(ge=-(2**31), lt=2**31)]
"""A rank, higher goes first; 32 bits with a sign."""
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=SECONDS_MAX)]
Rest: TypeAlias = Annotated[float, Field(ge=0, le=SECONDS_MAX)]
"""Seconds that may be none."""


class WorkKind(StrEnum):
    """What a job does for its owner; the unit of quota and of per-device permission."""

    SELFPLAY = "selfplay"
    TRAINING = "training"
    EVALUATION = "evaluation"
    EXPORT = "export"
    SWEEP = "sweep"
    SCRIPT = "script"
    RL = "rl"


BY_NAME: Mapping[str, WorkKind] = {kind.value: kind for kind in WorkKind}
"""Looked up for every job at every decision; calling the enum takes four times as long."""


class JobState(StrEnum):
    """Where a job stands. `lost` is no state: a job whose attempt was lost is pending again."""

    PENDING = "pending"
    LEASED = "leased"
    LAUNCHING = "launching"
    RUNNING = "running"
    COLLECTING = "collecting"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether nothing more happens to the job by itself."""
        return self in FINAL_STATES

    @property
    def held(self) -> bool:
        """Whether an attempt of the job has a place."""
        return self in HELD_STATES


FINAL_STATES = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})
HELD_STATES = frozenset({JobState.LEASED, JobState.LAUNCHING, JobState.RUNNING, JobState.COLLECTING})


class FailureClass(StrEnum):
    """Why an attempt came to nothing. The class decides which budget it is taken from."""

    EXIT = "exit"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    SPAWN = "spawn"
    RESULT = "result"
    WORKER = "worker"
    LOST = "lost"
    DEPENDENCY = "dependency"
    IMPORT = "import"
    """A program or a library it needs is not on that node."""
    DEVICE = "device"
    """The device or its driver failed."""
    PROTOCOL = "protocol"
    """It did not speak as it must: a worker's messages, a stage's contract."""
    FILES = "files"
    """What it needs could not be brought to its node."""


class DeviceKind(StrEnum):
    """What a device is made of."""

    CPU = "cpu"
    CUDA = "cuda"
    ROCM = "rocm"
    MPS = "mps"
    """The GPU of an Apple chip, which shares the memory of its machine."""


CONSTRAINTS_MAX = 100
Wanted: TypeAlias = Annotated[str, Field(pattern=r"^[^\x00-\x1f]*[A-Za-z0-9][^\x00-\x1f]*$", max_length=NAME_MAX)]
"""A name or a part of one, with at least a letter or a digit."""
LabelName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$")]
LabelValue: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9._/:-]{1,63}$")]
Label: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}=[A-Za-z0-9._/:-]{1,63}$")]


DeviceWanted: TypeAlias = Literal["any", "cpu", "gpu"] | None
Gigabytes: TypeAlias = Annotated[float, Field(ge=0, le=GIGABYTES_MAX)]
MemoryGb: TypeAlias = Annotated[float, Field(gt=0, le=GIGABYTES_MAX)]
DeviceCount: TypeAlias = Annotated[int, Field(ge=1, le=64)]
Cores: TypeAlias = Annotated[float, Field(ge=0, le=4096)]
Tiers: TypeAlias = tuple[Literal[1, 2, 3], ...]
WantedNames: TypeAlias = Annotated[tuple[Wanted, ...], Field(max_length=CONSTRAINTS_MAX)]
Labels: TypeAlias = Annotated[tuple[Label, ...], Field(max_length=CONSTRAINTS_MAX)]


@record
class Resources:
    """What one attempt needs of the device it is put on. Zero or `None` asks for nothing."""

    device: DeviceWanted = None
    """`None`: not stated. Then a script waits for a GPU if the fleet has one that it may take; other work takes any."""
    vram_gb: Gigabytes = 0.0
    memory_gb: MemoryGb | None = None
    """Most resident memory of its processes together, in GiB; beyond it the agent ends the attempt."""
    gpus: DeviceCount = 1
    """Devices of one node that it takes at once."""
    shards: bool = False
    """Whether `vram_gb` may be spread over devices of one node; it takes as many of them as that needs."""
    shared: bool = False
    """Whether others may run on its GPU at the same time, as far as the `vram_gb` of all of them fits."""
    cpus: Cores = 0.0
    """Host cores it keeps busy."""
    tiers: Tiers = ()
    """Tiers of nodes it may run on, best first; none named: any."""
    cpu_too: bool = False
    """With `device: any`: whether a CPU slot does as well, whatever `vram_gb` and `tiers` ask of a GPU."""
    disk_gb: Gigabytes | None = None
    """Free space (GiB) that it needs where it writes, kept for it while it runs; `None`: as usual for its kind."""
    nodes: WantedNames = ()
    """Nodes it may run on; none named: any. The same holds for the constraints that follow."""
    exclude_nodes: WantedNames = ()
    gpu_models: WantedNames = ()
    """Models of GPU, by whole words of their names: `4090` is an `NVIDIA GeForce RTX 4090`."""
    exclude_gpu_models: WantedNames = ()
    providers: WantedNames = ()
    labels: Labels = ()
    """`name=value` of labels that its node must have, all of them."""

    @property
    def takes_any_device(self) -> bool:
        """Whether neither a GPU nor a CPU slot is stated."""
        return self.device in (None, "any")


USUAL_DISK_GB: Mapping[WorkKind, float] = {
    WorkKind.SELFPLAY: 0.1,
    WorkKind.TRAINING: 1.0,
    WorkKind.EVALUATION: 0.1,
    WorkKind.EXPORT: 1.0,
}
"""What a kind of work writes where nobody said more; of others nothing is known, and nothing kept for them."""


def disk_need(need: Resources, work: WorkKind) -> float:
    """Free space (GiB) that an attempt needs."""
    return USUAL_DISK_GB.get(work, 0.0) if need.disk_gb is None else need.disk_gb


DEFAULT_BUDGETS: Mapping[FailureClass, int] = {
    FailureClass.EXIT: 2,
    FailureClass.SIGNAL: 3,
    FailureClass.TIMEOUT: 1,
    FailureClass.MEMORY: 3,
    FailureClass.SPAWN: 3,
    FailureClass.RESULT: 2,
    FailureClass.WORKER: 5,
    FailureClass.LOST: 10,
    FailureClass.DEPENDENCY: 1,
    FailureClass.IMPORT: 3,
    FailureClass.DEVICE: 5,
    FailureClass.PROTOCOL: 2,
    FailureClass.FILES: 3,
}


@record
class Retry:
    """How often a job may fail, by class, and how long it rests before it tries again.

    A job that failed rests `backoff_s · 2^(n-1)` seconds, at most `backoff_max_s`, where n counts its failures. A job
    whose node was lost does not rest: it was not its fault.
    """

    max_attempts: Mapping[FailureClass, Some] = field(default_factory=dict)
    """Attempts that may end this way before the job fails; classes not named keep `DEFAULT_BUDGETS`."""
    backoff_s: Rest = 1.0
    backoff_max_s: Rest = 300.0


@record
class SubmitterShell:
    """How the submitter's shell would run the command. It counts on nodes of the controller's own machine."""

    program: str | None = None
    """The path of the first word of the command, found by the submitter's PATH; `None`: it is a path, or not found."""
    env: Mapping[str, str] = field(default_factory=dict)
    """PATH and the variables of the active Python environment."""


VariableName: TypeAlias = Annotated[str, Field(pattern=r"^[^=\x00]+$", max_length=NAME_MAX)]
SecretRef: TypeAlias = Annotated[str, Field(pattern=r"^(job:[0-9a-f]{32}|[A-Za-z0-9_][A-Za-z0-9_.-]{0,99})$")]
"""The name of a secret: one that a person has set, or `job:` and the number of a value that came with a submission."""
SECRETS_MAX = 100
"""Environment variables of one job that are secrets."""


NO_ENVIRONMENT = "none"
"""As `python_env` of a script: neither is an environment built nor are imports checked."""


PathBelow: TypeAlias = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^/\x00-\x1f][^\x00-\x1f]*$")]
"""The path of a file below a folder."""


SnapshotDigest: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""The SHA-256 of a snapshot's manifest."""


@record
class EnvironmentFile:
    """A file of a snapshot that states the Python environment of its scripts."""

    file: PathBelow
    """Its path in the snapshot."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The digest of its content and of the files that it includes."""


@record
class ScriptPayload:
    """Any command. It has succeeded when it exits 0 and, if it left a `$HOSTLER_RESULT`, that is JSON."""

    kind: Literal["script"] = "script"
    schema: Literal[1]
    argv: Annotated[tuple[str, ...], Field(min_length=1)]
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Annotated[Mapping[VariableName, SecretRef], Field(max_length=SECRETS_MAX)] = field(default_factory=dict)
    """Environment variables whose values are secrets, by the names of these; the values are not part of the job."""
    plain: bool = False
    """Whether values of `env` under names that look like credentials are journalled like all others."""
    submitter: SubmitterShell | None = None
    """The shell it was submitted from, if that was on the controller's machine."""
    python_env: PathBelow | None = None
    """The file of its folder that states the Python environment which it runs in on every node; `none`: it runs with
    what its node has. By default it runs in `environment`, on machines other than the controller's."""
    environment: EnvironmentFile | None = None
    """The file that the client has found, or the one that `python_env` names, with its digest."""
    snapshot: SnapshotDigest | None = None
    """The digest of the snapshot whose files each attempt starts from, in a folder of its own."""
    cwd: str | None = None
    """Where the process starts, without a snapshot; `None` is a directory of the attempt's own."""
    in_place: bool = False
    """Whether `cwd` is not copied: it runs only where that is the same folder."""
    files: tuple[str, ...] | None = None
    """Patterns of what of `cwd` goes to nodes elsewhere; `None`: all of it, but for what its owner has it ignore."""
    outputs: tuple[str, ...] = ()
    """Patterns of files it leaves where it ran. They are fetched, and it has not succeeded without them. None named,
    with a snapshot: what is new or changed is fetched."""
    require_result: bool = False
    """Whether a missing `$HOSTLER_RESULT` is a failure."""


@record
class SweepPayload:
    """One program over every integer of `[start, stop)`, cut into chunks.

    `worker` is a command that speaks the worker protocol (docs/reference/worker-protocol.md); its first word may be
    `{python}`, the node's Python. `digest` is the SHA-256 of the canonical JSON of `params`: every result carries it,
    and a result with another one is refused.
    """

    kind: Literal["sweep"] = "sweep"
    schema: Literal[1]
    start: int
    stop: int
    worker: Annotated[tuple[str, ...], Field(min_length=1)]
    params: Mapping[str, Any]
    snapshot: SnapshotDigest | None = None
    """The digest of the snapshot whose files workers start from: those of one node share one folder with them."""
    cwd: str | None = None
    """Where the worker starts, without a snapshot; `None` is a directory of its own."""
    files: tuple[str, ...] | None = None
    """As of a script."""
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    chance: Annotated[float, Field(ge=0, le=1)] | None = None
    """Probability that an item is a hit by chance; `None` where the program cannot say."""
    kernel: str | None = None
    """What the speed of a device is measured for; sweeps of one kernel share it. `None`: the digest."""
    target_s: Seconds | None = None
    """How long a chunk should take; `None`: as is good for it (see `policy/chunking`)."""
    min_chunk: Annotated[int, Field(ge=1)] = 1
    max_chunk: Annotated[int, Field(ge=1)] | None = None
    max_hits: Count = 100_000
    """More hits than this fail the sweep: a search that finds everything has found nothing."""
    silence_s: Seconds = 30.0
    start_s: Seconds = 120.0
    uneven: bool = False
    """Whether its items may differ in length by orders of magnitude, as calls of functions do. Then speeds are measured
    for this sweep alone, and a worker that reports is at work even while its position does not move."""


@record
class StagePayload:
    """One stage of a training config's loop. Its order and its result are laid down in docs/reference/learning.md."""

    kind: Literal["selfplay", "training", "evaluation", "export"]
    schema: Literal[1]
    config: str
    argv: Annotated[tuple[str, ...], Field(min_length=1)]
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Annotated[Mapping[VariableName, SecretRef], Field(max_length=SECRETS_MAX)] = field(default_factory=dict)
    """As of a script."""
    cwd: str | None = None
    order: Mapping[str, Any]


BatchWord: TypeAlias = Annotated[str, Field(pattern=r"^[^\s\x00-\x1f-][^\x00-\x1f]{0,255}$")]


@record
class BatchOptions:
    """What a job wants of a batch system such as Slurm, where one runs it. `None`: as the cluster's settings say."""

    account: BatchWord | None = None
    qos: BatchWord | None = None
    constraint: BatchWord | None = None
    reservation: BatchWord | None = None
    gpu_type: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] | None = None
    """As the cluster calls it: `h100`."""
    cpus: Annotated[int, Field(ge=1, le=4096)] | None = None
    """Cores of its allocation."""
    memory_gb: Annotated[float, Field(gt=0, le=GIGABYTES_MAX)] | None = None
    """Memory of its allocation, in GiB."""
    time_s: Seconds | None = None
    """Wall time of its allocation."""
    requeue: bool | None = None
    """Whether the batch system may start it again after a preemption, or when its node is lost."""
    extra: tuple[str, ...] = ()
    """More options, as `--exclusive`, on top of the cluster's own."""


ANYWHERE = Resources()
UNEXPECTED: Mapping[str, float] = {}
NO_PARAMETERS: Mapping[str, str] = {}
USUAL_RETRY = Retry()
"""What most jobs need and how most jobs retry; one object for all of them, because there may be very many."""

Payload = Annotated[ScriptPayload | SweepPayload | StagePayload, Field(discriminator="kind")]


def snapshot_of(payload: Payload) -> str | None:
    """The digest of the snapshot that work starts from; stages start from none."""
    return None if isinstance(payload, StagePayload) else payload.snapshot


@record
class JobSpec:
    """One job as its owner asked for it. Immutable; `priority` alone can be changed later."""

    name: Annotated[str, Field(min_length=1, max_length=NAME_MAX)]
    payload: Payload
    key: Annotated[str, Field(min_length=1, max_length=NAME_MAX)] | None = None
    """Idempotency key: a second submission under the same key is the first job again, if the specs are equal."""
    resources: Resources = field(default_factory=lambda: ANYWHERE)
    priority: Priority = 0
    """Higher goes first. Jobs of one priority go in the order of their submission."""
    after: tuple[str, ...] = ()
    """Ids or keys of jobs that must be done first; keys of the same submission count."""
    retry: Retry = field(default_factory=lambda: USUAL_RETRY)
    walltime_s: Seconds | None = None
    grace_s: Rest = 10.0
    work_as: WorkKind | None = None
    """The work kind whose shares, tiers and preferences a script goes by; by default `script`."""
    config: Annotated[str, Field(min_length=1, max_length=NAME_MAX)] | None = None
    """The training config a script works for; two trainings of one config never run at the same time."""
    expected_s: Mapping[str, Seconds] = field(default_factory=lambda: UNEXPECTED)
    """How long it will take by model of device, `*` for any other, as far as its owner knows."""
    checkpoints: bool = False
    """Whether it may be stopped and started anew without losing its work: it saves it itself, on SIGTERM and often."""
    batch: BatchOptions | None = None
    """What it wants of a batch system, where one runs it."""
    parameters: Annotated[Mapping[ParameterName, ParameterValue], Field(max_length=PARAMETERS_MAX)] = field(
        default_factory=lambda: NO_PARAMETERS
    )
    """The values that its command was made with, by name: those of its place in a grid, for lists and folders."""

    @property
    def work(self) -> WorkKind:
        """The work kind it counts as."""
        return self.work_as or BY_NAME[self.payload.kind]

    @property
    def serves(self) -> str | None:
        """The training config it works for."""
        return self.payload.config if isinstance(self.payload, StagePayload) else self.config
