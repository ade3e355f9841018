"""What the controller wants done in the world. Commands follow from events, and are executed once these are durable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from hostler.model.batch import Ask
from hostler.model.files import Fetch
from hostler.model.learning import Match
from hostler.model.planning import Instance
from hostler.model.record import record
from hostler.model.work import DeviceKind


@record
class Setup:
    """What is to be done on the node before the process of an attempt starts, in the folder that it starts in."""

    python: str
    """The interpreter that an environment is made from."""
    file: str | None = None
    """The file that states the Python environment; `None`: the imports of the script are checked."""
    checked_as: str | None = None
    """Commands that were found to lack nothing under the same name are not checked again."""


@record
class AttemptOrder:
    """One execution of a job, complete: the backend needs to know nothing else. Carried out once per `id`."""

    id: str
    queue: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    """A folder of this machine, or of the node once its files are there."""
    walltime_s: float | None
    memory_bytes: int | None
    grace_s: float
    inputs: Mapping[str, Any] | None
    """Results of the jobs this one comes after, by name and by id; the process finds them in `$HOSTLER_INPUTS`."""
    files: tuple[str, ...] | None = None
    """What of `cwd`, a folder of this machine, goes to nodes elsewhere; `None`: all of it."""
    snapshot: str | None = None
    """The digest of the snapshot that is laid out for it; `cwd` is then the folder in which it was."""
    lease_s: float | None = None
    """The node ends it when it has heard nothing from a controller for so long; `None`: never."""
    tell_s: float | None = None
    """How often at most it is told what it has left as its result so far, in seconds; `None`: never."""
    ask: Ask | None = None
    """What its pool is to ask the cluster for; `None`: its node is a machine."""
    disk_bytes: int | None = None
    """The node starts it only with so much free space where it writes; `None`: with whatever there is."""
    setup: Setup | None = None
    """`None`: nothing; so it is everywhere but on machines with an agent of their own."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Variables whose values are secrets, by the names of these."""
    secret_values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The values of these variables, once they are known: just before the order goes to its node."""


@record
class WorkerOrder:
    """A warm worker for one sweep on one device."""

    id: str
    queue: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    digest: str
    params: Mapping[str, Any]
    silence_s: float
    start_s: float
    cwd: str | None = None
    files: tuple[str, ...] | None = None
    """As of an attempt."""
    snapshot: str | None = None
    """The digest of the snapshot that is laid out for the workers of its sweep."""
    sweep: str | None = None
    """The sweep with a snapshot: its workers on one node share the folder with this name."""
    lease_s: float | None = None
    """The same as for attempts."""
    ask: Ask | None = None
    """The same."""


@record
class ChunkOrder:
    """One chunk for a worker. Carried out once per `id`."""

    id: str
    start: int
    stop: int


@record
class Launch:
    """Start an attempt."""

    node: str
    order: AttemptOrder


@record
class Stop:
    """End an attempt, gently first."""

    node: str
    attempt: str
    reason: str


@record
class Lend:
    """Give a chunk to a worker; the worker is declared with it."""

    node: str
    worker: WorkerOrder
    chunk: ChunkOrder


@record
class Recall:
    """Ask for a chunk back."""

    node: str
    chunk: str
    reason: str


@record
class Trim:
    """Let a chunk end earlier: what lies from `stop` on is another's."""

    node: str
    chunk: str
    stop: int


@record
class CloseWorker:
    """End a worker that has no more to do."""

    node: str
    worker: str


@record
class CanaryOrder:
    """One run of the canary of a device, complete."""

    device: str
    kind: DeviceKind
    queue: str
    argv: tuple[str, ...]
    """Empty: the agent's own program."""
    env: Mapping[str, str]


@record
class Prove:
    """Run the canary of a device that has nothing to do; the answer is `DeviceProved`. Asked anew on every link."""

    node: str
    order: CanaryOrder


@record
class ReadDevices:
    """Read the memory and the processes of a node's devices now; the answer is `Telemetry`."""

    node: str


@record
class Discard:
    """Forget an attempt's directory on its node."""

    node: str
    attempt: str


@record
class Collect:
    """Fetch what an attempt has left; the answer is `Fetched`."""

    node: str
    attempt: str
    fetch: Fetch
    cwd: str | None = None
    """Where it ran, on this machine; `None`: in a directory of its own."""


@record
class Secure:
    """Fetch artifacts of an attempt that runs, which count once they are here; what has come is told as `Secured`."""

    node: str
    attempt: str
    artifacts: tuple[str, ...]


@record
class Clear:
    """What was laid out on the node for an attempt to run in may go; what it said, and its folder, stay."""

    node: str
    attempt: str
    """Or the sweep whose workers ran there."""
    output: bool = True
    """Whether the controller keeps what it said first: its node may be gone tomorrow."""


@record
class LetGo:
    """Tell a node that is about to go that all it had is here."""

    node: str


@record
class Keep:
    """Of what was laid out on the node, only that of these attempts and sweeps is needed still."""

    node: str
    attempts: tuple[str, ...]
    sweeps: tuple[str, ...] = ()
    """Sweeps with a snapshot that have workers there."""


NodeCommand = (
    Launch
    | Stop
    | Lend
    | Recall
    | Trim
    | CloseWorker
    | Discard
    | Collect
    | Secure
    | Clear
    | Keep
    | Prove
    | LetGo
    | ReadDevices
)
"""What a backend does on a node."""


@record
class Fit:
    """Fit the ratings of a config to these of its first `through` matches; the answer is `Fitted`.

    `frozen` has players who take part no more, at the rating they had: opponents, but not rated again.
    """

    config: str
    anchors: Mapping[str, float]
    frozen: Mapping[str, float]
    matches: tuple[Match, ...]
    through: int


@record
class Solve:
    """Find the best plan for the whole fleet; the answer is `Planned`. Asked for anew where none comes."""

    instance: Instance


Command = NodeCommand | Fit | Solve
