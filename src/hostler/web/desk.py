"""What the web needs of a controller: the seam between HTTP and the running fleet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hostler.model.access import AuditView, Holder, TokenView
from hostler.model.alert_views import AlertView, RuleView, SilenceView, TargetView
from hostler.model.artifact_views import (
    ArtifactDetail,
    ArtifactRead,
    ArtifactView,
    LineageView,
    ReplicationView,
    Sought,
)
from hostler.model.disks import CleanView, DoomedFile, RetentionView, TombView
from hostler.model.events import Entry
from hostler.model.files import OutputFile
from hostler.model.groups import GroupResult, GroupView
from hostler.model.inputs import Input
from hostler.model.listed import ANY_JOB, FleetView, IntervalView, JobMatch, PlacedDevice
from hostler.model.readings import Gist, Part, Readings
from hostler.model.secrets import SecretView
from hostler.model.steering import CostView, Durations, QuotaView
from hostler.model.usage import UsageAsked, UsageView
from hostler.model.views import (
    BanView,
    ConfigHistory,
    ConfigView,
    DatasetView,
    DeviceExplanation,
    Explanation,
    HitView,
    JobDetail,
    JobView,
    LedgerProof,
    LedgerView,
    LogChunk,
    ModelView,
    NodeView,
    Output,
    QueueRow,
    Status,
    SubmitNote,
    SweepView,
)
from hostler.model.work import JobSpec, JobState, WorkKind
from hostler.snapshots.store import SnapshotStore


@dataclass(frozen=True, eq=False)
class Piece:
    """Consecutive journal entries, at least one. All who read live get the same object: what is made of it can be
    shared by them, for as long as any of them has it."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True, eq=False)
class Content:
    """The bytes of an artifact."""

    sha256: str
    file: str
    """What it is called as a file."""
    size: int
    """In bytes."""
    pieces: AsyncIterator[bytes]
    """All of them. The last one comes only when all together have the right hash; raises `FilesError` otherwise."""


@dataclass(frozen=True, eq=False)
class FileContent:
    """A file that a job left, and its bytes."""

    file: OutputFile
    pieces: Callable[[int, int], AsyncIterator[bytes]]
    """The bytes from an offset up to another one; raises `FilesError` where they cannot be read."""


class SecretKeeper(Protocol):
    """Where secrets are kept. Its methods read and write a disk: call them in another thread."""

    def names(self) -> Sequence[SecretView]:
        """The secrets that people have set, in the order of their names."""

    def set(self, name: str, value: str) -> SecretView:
        """Keep a value under a name. Raises `SpecError`, `Conflict`, `StoreFull`."""

    def remove(self, name: str) -> None:
        """Forget a secret. Raises `NotFound`, `StoreFull`."""

    def mark(self, value: str) -> str:
        """What tells a value from others and does not disclose it."""

    def protect(self, specs: Sequence[JobSpec]) -> tuple[JobSpec, ...]:
        """The specs with values of credentials kept here instead of in them. Raises `SpecError`, `StoreFull`."""


class JobDesk(Protocol):
    """One job, seen through the window: in the controller's memory, or as the store keeps it."""

    def job(self) -> JobDetail:
        """Everything about it but its story."""

    def explain(self) -> Explanation:
        """Why it waits, why it runs where it runs, or what became of it."""

    def ledger(self) -> LedgerView:
        """Its ledger. Raises `NotFound` where it is no sweep."""

    def intervals(self, standings: frozenset[str] | None, after: int | None, limit: int) -> Sequence[IntervalView]:
        """Its range in order, as `Desk.intervals`. Raises `NotFound` where it is no sweep."""


class Desk(Protocol):
    """The controller, as seen through the window. Readers answer at once from the state and never change it.

    A job is named by its id, its idempotency key, or its name if no other job in the controller's memory has that.
    An unknown name raises `NotFound`, as does an unknown config; a name of several jobs raises `UsageError`.
    """

    def status(self) -> Status:
        """The fleet in numbers; constant time."""

    async def durable_status(self) -> Status:
        """The same, of nothing that the journal does not have yet."""

    def gist(self) -> Gist:
        """What there is to do and what came of it, in few numbers; costs nothing that grows with the number of jobs."""

    def readings(self) -> Readings:
        """What instruments read; costs nothing that grows with the number of jobs."""

    def parts(self) -> Sequence[Part]:
        """What the controller is made of, and when each part last did something."""

    def jobs(self, states: frozenset[JobState] | None, after: int, limit: int) -> Sequence[JobView]:
        """Jobs in order of submission whose number is beyond `after`, at most `limit`; `None` takes every state.

        Those that are long over may have left the controller's memory: `all_jobs` has them, too.
        """

    def job(self, name: str) -> JobDetail:
        """One job, if it has not left the controller's memory; `having` finds all."""

    async def having(self, name: str) -> JobDesk:
        """What can be seen of a job, also of one that is long over. Raises `NotFound`, `StoreError`."""

    async def named(self, names: Sequence[str]) -> Sequence[JobView]:
        """The job of each name, in this order, also those that are long over. Raises as `having`."""

    async def all_jobs(
        self,
        states: frozenset[JobState] | None,
        after: int,
        limit: int,
        work: WorkKind | None = None,
        match: JobMatch = ANY_JOB,
    ) -> Sequence[JobView]:
        """Jobs in order of submission, also those that are long over, beyond number `after`, at most `limit`.

        Raises `NotFound` where `match` names a group that is not there.
        """

    def groups(self, after: int, limit: int) -> Sequence[GroupView]:
        """Job groups in order of submission whose number is beyond `after`, at most `limit`."""

    def newest_groups(self, before: int | None, limit: int, owner: str | None = None) -> Sequence[GroupView]:
        """Job groups whose number is below `before`, the newest first, at most `limit`; of one owner or of all."""

    def group(self, name: str) -> GroupView:
        """A job group, by its id. Raises `NotFound`."""

    async def group_results(self, name: str, after: int, limit: int) -> Sequence[GroupResult]:
        """The jobs of a group in order, also those that are long over, beyond job number `after`, at most `limit`."""

    async def all_sweeps(self, after: int, limit: int) -> Sequence[SweepView]:
        """The same of sweeps."""

    def explain(self, name: str) -> Explanation:
        """Why a job waits, or runs where it runs."""

    async def notes(self, ids: Sequence[str]) -> Sequence[SubmitNote]:
        """Which of these jobs no device can take as the fleet is now, one note for each reason."""

    async def gpu_by_default(self, ids: Sequence[str]) -> int:
        """How many of these jobs take a GPU or wait for one, as they state no device."""

    def with_earlier_files(self, specs: Sequence[JobSpec], ids: Sequence[str]) -> Sequence[str]:
        """Those of these jobs, of these specs, that keep the files of their first submission under their key."""

    def queue(self, limit: int, after: Sequence[str] = ()) -> Sequence[QueueRow]:
        """What goes next, in order, behind the last of the jobs `after` that still waits.

        Raises `UsageError` where none of them does.
        """

    def fleet(self) -> FleetView:
        """The fleet as a whole, by provider and tier, and what it achieves."""

    def node_names(self) -> Sequence[str]:
        """All nodes."""

    def nodes(self, names: Sequence[str] | None = None) -> Sequence[NodeView]:
        """Nodes with their devices: these, or all of them. Raises `NotFound`."""

    def device_ids(
        self, node: str | None = None, provider: str | None = None, tier: int | None = None
    ) -> Sequence[str]:
        """Devices of the nodes that are asked for; `None` asks for all."""

    def devices(self, ids: Sequence[str]) -> Sequence[PlacedDevice]:
        """Devices with what goes for their nodes. Raises `NotFound`."""

    def explain_device(self, name: str) -> DeviceExplanation:
        """Why a device does what it does, or nothing; an unknown one raises `NotFound`."""

    def quotas(self) -> QuotaView:
        """Shares of device time, target against achieved."""

    def durations(self) -> Durations:
        """Learnt durations, and how good predictions were."""

    def costs(self) -> CostView:
        """What work that is over has used up."""

    async def usage(self, asked: UsageAsked, limit: int, after: Sequence[str] = ()) -> Sequence[UsageView]:
        """How devices were used in each period that is asked for, by group, the oldest first: at most `limit` rows,
        behind the last of those that `model.usage.name_of` calls `after`. Raises `UsageError`, `StoreError`."""

    def bans(self) -> Sequence[BanView]:
        """Everything that is held back or put first for a while."""

    def alerts(self) -> Sequence[AlertView]:
        """What fires, the newest first; what may come to fire; what did, the one that ended last first."""

    def alert_rules(self) -> Sequence[RuleView]:
        """The rules of alerts, with what they measure now."""

    def silences(self) -> Sequence[SilenceView]:
        """Alerts that are not told for a while."""

    def targets(self) -> Sequence[TargetView]:
        """Where alerts are told, and how that goes."""

    def sweeps(self, after: int = 0, limit: int | None = None) -> Sequence[SweepView]:
        """Sweeps in order of submission whose number is beyond `after`, at most `limit`; `None`: all of them."""

    def ledger(self, name: str) -> LedgerView:
        """A sweep's ledger."""

    def intervals(
        self, name: str, standings: frozenset[str] | None, after: int | None, limit: int
    ) -> Sequence[IntervalView]:
        """A sweep's range in order, behind the interval that begins at `after`; `standings` as in `IntervalView`."""

    def configs(self) -> Sequence[ConfigView]:
        """All training configs, those that are retired too."""

    def config(self, name: str) -> ConfigView:
        """One training config."""

    def history(self, name: str) -> ConfigHistory:
        """How a training config came to where it is."""

    def models(self, name: str | None = None) -> Sequence[ModelView]:
        """All models of a training config, oldest first; `None`: of one config after the other."""

    def datasets(self, name: str | None = None) -> Sequence[DatasetView]:
        """All datasets of a training config, oldest first; `None`: of one config after the other."""

    def retention(self, node: str | None = None) -> RetentionView:
        """How full the controller's disk is, or a node's, what may go and what stays, as of when it was looked through
        last; costs nothing that grows with the files. Of nodes raises `NotFound`, `UsageError` for one that is not
        cleaned."""

    def tombs(self, limit: int, after: Sequence[str] = ()) -> Sequence[TombView]:
        """Files that were deleted and can be brought back, the oldest first: `limit` of them, behind the last of the
        rows `after` (path, a blank, until when) that is there still. Raises `UsageError` where none is."""

    async def doomed(
        self, limit: int, after: Sequence[str] = (), *, fresh: bool, node: str | None = None
    ) -> Sequence[DoomedFile]:
        """What may go from the disk, in order: looked through anew if `fresh`, or as it was lately. `limit` files,
        behind the last of the paths `after` that may go still; raises `UsageError` where none may. Of nodes raises as
        `retention`, `LinkError` and `FilesError`."""

    async def clean_disk(
        self, ask: str, who: str, files: Sequence[str] | None, most: int, node: str | None = None
    ) -> CleanView:
        """Delete what may go, at most so many files; `ask` is what this is called when it is asked again. Of nodes
        raises as `doomed`."""

    async def undo_cleaning(self, ask: str, who: str, files: Sequence[str] | None) -> CleanView:
        """Bring back what was deleted: these files, or all."""

    def cleaned(self, ask: str) -> CleanView:
        """What came of a cleaning or an undoing. Raises `Conflict` where that is not known any more."""

    async def proof(self, name: str) -> LedgerProof:
        """A sweep's ledger, folded again from the journal."""

    async def hits(self, name: str, after: int, limit: int) -> Sequence[HitView]:
        """Accepted hits of a sweep in order of acceptance, beyond the first `after`; fewer where they are large."""

    async def story(self, name: str) -> Sequence[Entry]:
        """A job's entries in the journal."""

    async def artifacts(
        self, sought: Sought, after: str | None, limit: int
    ) -> tuple[Sequence[ArtifactView], str | None]:
        """Artifacts, newest first, behind the one that is called `after`; and the one that the next page begins behind.

        That is `None` on the last page. A page may come short, or empty, and have a next one all the same. Raises
        `UsageError` where `after` is no artifact.
        """

    async def artifact(self, name: str) -> ArtifactDetail:
        """One artifact, by its SHA-256 or a beginning of it. Raises `NotFound`, `UsageError` where several begin so."""

    async def lineage(self, name: str, depth: int, limit: int) -> LineageView:
        """What an artifact was made from, and what from it: so many steps, and so many artifacts each way, at most."""

    async def left_files(self, name: str) -> Sequence[OutputFile]:
        """The files that the accepted attempt of a job left. Raises as `having`."""

    async def left_file(self, name: str, path: str) -> FileContent:
        """One of them. Raises as `having`, `NotFound` for another one, `FilesError` where it cannot be read."""

    async def content(self, name: str) -> Content:
        """The bytes of an artifact, wherever they are. Raises `FilesError` and `LinkLost` where they are nowhere."""

    async def verify(self, name: str, place: str | None, since: float) -> ArtifactRead:
        """Read the copies of an artifact again, or the one in a place, but for those that were read `since`.

        What is found is on record then.
        """

    def replication(self) -> ReplicationView:
        """How far replication has come; costs nothing that grows with the number of artifacts."""

    def secrets(self) -> SecretKeeper:
        """The secrets of this controller's machine."""

    def snapshots(self) -> SnapshotStore:
        """The files that jobs start from. Raises `StandsBy` where another controller leads."""

    async def log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        """A piece of an attempt's output (`out` or `err`); raises `LinkLost` where its node cannot be reached."""

    async def output(self, attempt: str, out: int, err: int, limit: int) -> Output:
        """A piece of both streams of an attempt in the order of their writing, from these offsets on.

        Raises `LinkLost` where its node cannot be reached and nothing is kept here.
        """

    async def tell(self, *inputs: Input) -> Sequence[Any]:
        """Give inputs to the core; returns its answers once what follows from them is durable.

        An answer is a `HostlerError` (returned, not raised) where the input was refused.
        """

    def holder(self, digest: str) -> Holder | None:
        """Who has the token with this SHA-256, one that was made; `None` where nobody has, or not any more."""

    def may_change(self, holder: Holder, owner: str | None) -> bool:
        """Whether the holder of a token may change the jobs of this owner, as far as owners decide that."""

    def tokens(self) -> Sequence[TokenView]:
        """All tokens that were made and not revoked."""

    async def audit(self, before: int | None, limit: int) -> Sequence[AuditView]:
        """Who asked for what, newest first, before journal entry number `before`."""

    def entries(self, after: int | None) -> AsyncIterator[Entry]:
        """Journal entries beyond number `after` (`None`: from now on), as they become durable, without end.

        A reader that falls too far behind gets `StopAsyncIteration`; it comes back with the last number it saw.
        """

    def pieces(self, after: int | None) -> AsyncIterator[Piece]:
        """The same entries, those that became durable together in as few pieces as is good for the others' waiting."""

    def drain(self) -> None:
        """Stop the controller gently, as SIGTERM does."""
