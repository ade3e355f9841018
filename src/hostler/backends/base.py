"""The seam between the controller and a way to run attempts: four methods, and small protocols for what only some can.

Reachability, process state and job state are three separate facts. A backend tells what it saw; that it saw nothing is
never told as an end.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from hostler.agent.files import CHANGED_MAX
from hostler.backends.bounds import NodeFault
from hostler.model.commands import AttemptOrder, CanaryOrder, ChunkOrder, WorkerOrder
from hostler.model.errors import LinkError, PartlyFetched
from hostler.model.files import LINKS_LEFT, Fetch, FileRef
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Ended, Input, WorkerRefused
from hostler.model.pools import Batch
from hostler.model.record import record
from hostler.model.units import file_size
from hostler.model.views import LogChunk, Output
from hostler.snapshots.store import SnapshotStore


@record
class Report:
    """What a node told: inputs for the core, in order. `receipt` is to be acknowledged once they are durable."""

    inputs: tuple[Input, ...]
    receipt: int | None = None


@runtime_checkable
class Backend(Protocol):
    """One node, and one way to run attempts on it. Methods may be called side by side; `kind` names the way.

    `LinkLost` from any method says that the node cannot be reached now, and nothing else; whether an order arrived is
    then unknown, and the next `LinkUp` report tells.
    """

    kind: str

    async def probe(self) -> NodeSpec:
        """What the node is made of, as seen now. May wait for the node, a few seconds at most.

        Raises `LinkLost` where the node cannot be reached and `LinkRefused` where it cannot be used, saying why.
        """

    async def launch(self, orders: Sequence[AttemptOrder]) -> Sequence[Ended]:
        """Have attempts run. Must not wait for them to start; an order whose id the node knows is no new order.

        Returns the ends of those that can never be started, with the reason `spawn` and an error that says why.
        """

    def observe(self, epoch: int) -> AsyncIterator[Report]:
        """What happens on the node, as long as it can be reached.

        The first report holds a `NodeFound`, and after it a `LinkUp` with the whole inventory: what is not in it, the
        node does not have. Then come facts, those that were not acknowledged first. Ends by `LinkLost`, also where the
        node has been silent for longer than it may; observing again is always allowed.
        """

    async def stop(self, attempts: Sequence[str], reason: str) -> None:
        """Have attempts ended, gently first. Must not wait for it; each ends with an `Ended`, an unknown one too."""


@runtime_checkable
class LetsGo(Protocol):
    """A backend whose nodes may be about to go, and say so by `NodeGoes`."""

    async def let_go(self) -> None:
        """Nothing more is wanted of the node: all that it had is here."""


@runtime_checkable
class RunsChunks(Protocol):
    """A backend with warm workers."""

    async def lend(self, worker: WorkerOrder, chunks: Sequence[ChunkOrder]) -> Sequence[WorkerRefused]:
        """Queue chunks on a worker, which is started if there is none, once what it needs of this machine is there.

        Returns a refusal where the worker can never be started, saying why; its chunks are not queued then.
        """

    async def recall(self, chunks: Sequence[str], reason: str) -> None:
        """Ask for chunks back; each comes back with a `Returned`, or with its result if it is done by then."""

    async def trim(self, ends: Mapping[str, int]) -> None:
        """Let chunks, by id, end there; one that is further by then, or is not there, is no error."""

    async def close_worker(self, worker: str) -> None:
        """End a worker once its queue is empty; one that is not there is no error."""


@runtime_checkable
class ProvesDevices(Protocol):
    """A backend whose node can run a short job with a known answer on each device."""

    async def prove(self, orders: Sequence[CanaryOrder]) -> None:
        """Run canaries, one after the other. Must not wait for them.

        Each is answered by a `DeviceProved` report, or never, if the link is lost before.
        """


@runtime_checkable
class ReadsDevices(Protocol):
    """A backend whose node reads the use of its devices when it is asked."""

    async def read_devices(self) -> None:
        """Ask for a reading; it comes as telemetry. Must not wait for it."""


@runtime_checkable
class ListsWork(Protocol):
    """A backend whose node tells what it has when it is asked, while the link is up."""

    async def list_work(self) -> None:
        """Ask for it; the answer is a `WorkListed` report. Must not wait for it."""


@runtime_checkable
class HangsUp(Protocol):
    """A backend whose link can be broken on purpose: what the node should hold is told anew after the reconnect."""

    def hang_up(self) -> None:
        """Break the link, if there is one; `observe` ends by `LinkLost`."""


@runtime_checkable
class KeepsReports(Protocol):
    """A backend whose node keeps reports until they are acknowledged, and sends them again after a reconnect."""

    async def acknowledge(self, receipt: int) -> None:
        """Everything up to this receipt is durable here; the node may forget it."""


@runtime_checkable
class ReadsLogs(Protocol):
    """A backend that can read the output of attempts."""

    async def read_log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        """A piece of `out` or `err`; a negative offset counts from the end. Raises `NotFound`, `LinkLost`."""


@runtime_checkable
class MergesLogs(ReadsLogs, Protocol):
    """A backend that knows in which order attempts write to their two streams."""

    async def read_output(self, attempt: str, out: int, err: int, limit: int) -> Output:
        """A piece of both streams from these offsets on. Raises `NotFound`, `LinkLost`."""


@runtime_checkable
class KeepsFolders(Protocol):
    """A backend whose node keeps a folder of each attempt until told otherwise."""

    async def discard(self, attempts: Sequence[str]) -> None:
        """Delete what ended attempts have left; what is not there is no error."""


@runtime_checkable
class Remembers(Protocol):
    """A backend that asks somebody else's scheduler for what it needs, and must not ask twice."""

    def remember(self, batches: Sequence[Batch]) -> None:
        """What has been asked for by controllers before this one, and is not over. Told before `observe`."""


@runtime_checkable
class Releases(Protocol):
    """A backend that leaves something running on its node between attempts."""

    async def release(self) -> None:
        """The controller leaves and needs the node no more: what idles there may end. What runs, runs on."""


@runtime_checkable
class SelectsGpus(Protocol):
    """A backend whose node uses some of its GPUs, by `gpus` of the fleet file."""

    selection_faults: Sequence[str]
    """Why parts of that selection have no effect, as when they name a GPU that is not there."""


@runtime_checkable
class SuppliesFiles(Protocol):
    """A backend that brings files to its nodes."""

    apart: bool
    """Whether its nodes do not see the files of this machine: every order is supplied, else one with a snapshot."""

    async def supply(self, order: AttemptOrder) -> AttemptOrder:
        """Bring to the node what an order names of this machine; the order in the words of the node. May take long.

        Raises `FilesError` where that cannot be, and `LinkLost`: what has been brought is not brought again.
        """

    async def clear(self, attempt: str) -> None:
        """What was laid out for an attempt, or for the workers of a sweep, may go. Raises `LinkLost`."""

    async def keep(self, attempts: Sequence[str], sweeps: Sequence[str]) -> None:
        """Of what was laid out, only that of these attempts and sweeps is needed still. Raises `LinkLost`."""


@runtime_checkable
class FetchesFiles(Protocol):
    """A backend that brings what attempts leave."""

    async def fetch(self, attempt: str, what: Fetch, cwd: str | None) -> tuple[FileRef, ...]:
        """Bring what an attempt has left, that ran in `cwd`; everything is here, and checked, when this returns.

        May take long. Raises `FilesError` where something is not there or is another than it should be, `LinkLost`:
        what has come does not come again; and `OSError` where it cannot be written here.
        """


class Asks(Protocol):
    """A connection for a folder of a node in which copies of artifacts are kept (`agent/shelves.py`)."""

    broken: bool

    async def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """One request, one answer. Raises `LinkLost`, and `FilesError` where that tells of one."""

    async def piece(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        """The same, with bytes behind the answer."""

    async def bring(self, source: Path, path: str, size: int, sha256: str, pace: Callable[[int], None]) -> None:
        """Have this file there at `path`, unless there is one. Raises `FilesChanged` where it is another one."""

    def close(self) -> None:
        """Hang up."""


@runtime_checkable
class KeepsShelves(Protocol):
    """A backend whose node can keep copies of artifacts in a folder of its own."""

    async def shelf(self, root: str) -> Asks:
        """A connection for that folder of the node, an absolute path. Raises `LinkLost`, `LinkRefused` where it is not
        there: what is not mounted is no empty store."""


@record
class Stocked:
    """An artifact that lies on a node, as the node tells of it."""

    name: str
    """Its SHA-256 with the ending of its kind."""
    bytes: int
    unused_s: float
    """How long ago it was written, asked for or read last, by the node's clock."""


@record
class Stock:
    """Artifacts of a node, in order of their names."""

    files: tuple[Stocked, ...]
    more: bool
    """Whether others come behind the last."""
    total_bytes: int
    """Of the disk that they lie on."""
    free_bytes: int


@record
class Removed:
    """What a node has removed."""

    gone: Mapping[str, int]
    """Bytes by name."""
    left: Mapping[str, str]
    """Why the others stay, by name."""
    free_bytes: int
    """Of the disk, afterwards."""


@runtime_checkable
class KeepsEnvironments(Protocol):
    """A backend whose node builds Python environments. Raises `LinkLost`, and `FilesError` for errors of the node."""

    async def drop_environments(self, wanted_bytes: int, unused_s: float) -> Removed:
        """Remove Python environments, by key, until so much more of the disk is free: those unused for longest first,
        none that was used less long ago. Nothing from an agent that does not know how."""


@runtime_checkable
class KeepsStock(KeepsEnvironments, Protocol):
    """A backend whose node has an artifact folder of its own, where what work needed and what it made stays.

    All raise `LinkLost`, and `FilesError` where the node tells of one.
    """

    async def stock(self, after: str, limit: int) -> Stock:
        """The artifacts there, those behind the one of that name; a node tells of so many at a time, or of fewer."""

    async def drop(self, names: Sequence[str], unused_s: float) -> Removed:
        """Remove these, but for those that were used less long ago. What work is told to be there has been used."""


@record
class Store:
    """Where files of attempts are kept on this machine."""

    results: Path
    """What scripts leave, in a folder for each attempt."""
    artifacts: Path

    @property
    def snapshots(self) -> SnapshotStore:
        """The files that jobs start from."""
        return SnapshotStore(self.results.with_name("snapshots"))

    def incoming(self, attempt: str) -> Path:
        """What of an attempt is on its way: beside the results, so that it only has to get its name."""
        return self.results.with_name("incoming") / attempt


PASSING = frozenset({
    errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM,
})  # fmt: skip
"""What may be wrong with this machine, and not with the files: no work is given up for that."""


def may_pass(error: Exception) -> bool:
    """Whether what failed is worth another try: the link was lost, or something is wrong with this machine.

    What broke a limit is not: the same request would bring the same.
    """
    if isinstance(error, NodeFault):
        return False
    return isinstance(error, LinkError) or (isinstance(error, OSError) and error.errno in PASSING)


CHANGED_BYTES_MAX = 10**9
"""New and changed files that together have more are fetched only if `outputs` names them."""
GONE = "the folder that it ran in is gone: the job deleted it, or somebody else did. Nothing of it was fetched"


class Changed(NamedTuple):
    """The new and changed files of an attempt."""

    files: tuple[tuple[str, int], ...]
    """Paths and sizes: all of them or, of more than `CHANGED_MAX`, the largest."""
    number: int
    """Of all files."""
    size: int
    """Bytes of all files."""
    left: tuple[str, ...]
    """Some of the paths that cannot be read, or whose names are not UTF-8."""
    left_count: int
    links: tuple[str, ...] = ()
    """Some of the symbolic links, which are not fetched."""
    links_count: int = 0

    def expect_few(self, folder: str) -> None:
        """Raise `PartlyFetched` unless the files are few and small enough to be fetched without being named.

        `folder` is where they are, on the node.
        """
        if self.number <= CHANGED_MAX and self.size <= CHANGED_BYTES_MAX:
            return
        largest = ", ".join(
            f"{path} ({file_size(size)})" for path, size in sorted(self.files, key=lambda each: -each[1])[:3]
        )
        raise PartlyFetched(
            f"{self.number} {'file' if self.number == 1 else 'files'} of {file_size(self.size)} "
            f"{'is' if self.number == 1 else 'are'} new or changed, and without --output at most {CHANGED_MAX} files "
            f"of {file_size(CHANGED_BYTES_MAX)} are kept. The largest: {largest}. They are in {folder} on the node for "
            "a while; name those to keep with --output"
        )

    def expect_all(self, came: tuple[FileRef, ...]) -> None:
        """Raise `PartlyFetched` where some files could not be read; `came` are the others."""
        if not self.left_count:
            return expect_no_links(self.links, self.links_count, came)
        linked = f". {_links_words(self.links, self.links_count)}" if self.links_count else ""
        raise PartlyFetched(
            f"{_some(self.left, self.left_count)} cannot be read, or have names that are not UTF-8, and were not "
            f"fetched{linked}",
            came,
        )


def expect_no_links(links: Sequence[str], count: int, came: tuple[FileRef, ...]) -> None:
    """Raise `PartlyFetched` where there are symbolic links among what an attempt left; `came` are the files."""
    if count:
        raise PartlyFetched(_links_words(links, count), came)


def _links_words(links: Sequence[str], count: int) -> str:
    return f"{LINKS_LEFT}: {_some(links, count)}. Let the job copy what they lead to (`cp -L`)"


def _some(paths: Sequence[str], count: int) -> str:
    return ", ".join(paths) + (f" and {count - len(paths)} more" if count > len(paths) else "")


Facts = Mapping[str, Any]
"""A decoded JSON object from a node."""
