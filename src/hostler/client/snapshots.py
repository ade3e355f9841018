"""Snapshots at submission: the folders of jobs are read and sent, taken up where a connection broke."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from hostler.client.calls import API, RECONNECT_S, Answer, Ask, Work, decoded, get, rows
from hostler.client.forms import REMEDY
from hostler.model.errors import AnswerError, Conflict, ControllerAbsent, FilesChanged, FilesError, LinkLost, UsageError
from hostler.model.units import file_size

if TYPE_CHECKING:
    from hostler.snapshots.folder import FolderSnapshot

PATH = f"{API}/snapshots"
AS_BYTES = {"Content-Type": "application/octet-stream"}
LOCAL = "local"
"""The backend of nodes on the controller's own machine."""
LARGE_BYTES = 10**9
"""A folder that holds more is sent only if its owner confirms it."""
CHANGES_MAX = 3
"""Times that a snapshot is taken again because a file changed while it was sent."""

Spec: TypeAlias = Mapping[str, Any]
Patterns: TypeAlias = tuple[str, ...] | None


class SentFolder(NamedTuple):
    """A folder whose files the controller has."""

    snapshot: FolderSnapshot
    size: int
    """Bytes of files that were sent; 0: the controller had all contents."""


class SentFolders(NamedTuple):
    """Specs whose folders were sent, and these."""

    specs: list[dict[str, Any]]
    folders: list[SentFolder]


def expect_small(sizes: FolderSnapshot, allow_large: bool) -> None:
    """Raise `UsageError` for a folder that is larger than is sent without being asked for."""
    size = sizes.manifest.size
    if size > LARGE_BYTES and not allow_large:
        raise UsageError(
            f"{sizes.folder} has {len(sizes.manifest.files)} files, {file_size(size)}, that would be sent; "
            f"more than {file_size(LARGE_BYTES)} needs allow_large=True. Leave out what the job does not need by "
            f"{sizes.folder}/.hostlerignore, or give a smaller folder as cwd"
        )


class Watch(Protocol):
    """What a submitter wants of the folders that are sent."""

    remedy: str
    """How a job does without the folder, for the error where it cannot be sent."""

    def confirm(self, snapshot: FolderSnapshot) -> None:
        """Called with the files of a folder and their sizes, before they are read and sent; they have no digests yet.

        Raises `UsageError` where they are not to be sent.
        """

    def sending(self, snapshot: FolderSnapshot) -> Callable[[int], None]:
        """Called when a folder is sent; what it returns is called with the bytes of files in each request."""


def send_folders(specs: Sequence[Spec], skip: Path | None, watch: Watch) -> Answer[SentFolders]:
    """The specs with a snapshot in place of each folder, which is sent first, and scripts with the file of it that
    states the Python environment. Specs without a folder are left as they are.

    `skip` is the controller's own folder, if it is on this machine. Raises `UsageError` where a folder cannot be sent.
    """
    sent: dict[tuple[str, Patterns], SentFolder] = {}
    starts: dict[tuple[str, Patterns, str, str | None], dict[str, Any]] = {}
    made = []
    if any(_is_sent(spec["payload"]) for spec in specs):
        yield from get("/status")  # a large folder is read for nothing where no controller answers
    for spec in specs:
        payload = dict(spec["payload"])
        if _is_sent(payload):
            patterns = None if payload.get("files") is None else tuple(payload["files"])
            key = (payload["cwd"], patterns)
            if key not in sent:
                snapshot = yield from _taken(Path(payload["cwd"]), patterns, skip, watch)
                yield from _start_of(snapshot, payload)  # before it is sent: the job may be refused for it
                sent[key] = yield from _send(snapshot, patterns, skip, watch)
            start = (*key, payload["kind"], payload.get("python_env"))
            if start not in starts:  # once for all jobs of a group: the digest and the environment are read from files
                starts[start] = yield from _start_of(sent[key].snapshot, payload)
            payload |= starts[start]
        made.append({**spec, "payload": payload})
    return SentFolders(made, list(sent.values()))


def send_snapshot(snapshot: FolderSnapshot, sent: Callable[[int], None] | None) -> Answer[str]:
    """The digest of the snapshot once the controller has all of it.

    Raises `LinkLost` or `ControllerAbsent` when `RECONNECT_S` is used up without progress, `FilesChanged` where a file
    is not what it was, and what the controller refuses.
    """
    failures, before = 0, None
    known = {file.sha256: file.size for file in snapshot.manifest.files}
    while True:
        try:
            told = yield Ask("POST", PATH, snapshot.data, AS_BYTES)
            missing: dict[str, int] = decoded(told, "POST", "/snapshots")["missing"]
            if not missing:
                return snapshot.digest
            if missing == before or any(not 0 <= at <= known.get(name, -1) for name, at in missing.items()):
                raise AnswerError(
                    f"{told.url} lacks contents that the folder does not have, or that were sent to it. {REMEDY}"
                )
            before = missing
            from hostler.snapshots.upload import bodies

            for body in bodies(snapshot.sources(missing)):
                yield Ask("POST", f"{PATH}/contents", body.data, AS_BYTES)
                failures = 0
                if sent is not None:
                    sent(body.contents)
        except FilesChanged as error:
            changed = [file.path for file in snapshot.manifest.files if file.sha256 in str(error)]
            raise FilesChanged(f"{changed[0]} changed while it was sent: {error}" if changed else str(error)) from error
        except (LinkLost, ControllerAbsent, Conflict) as error:
            # A conflict: another client sends the same content, and this one's piece does not follow what is there.
            if failures == len(RECONNECT_S):
                raise error from None
            before = None
            yield RECONNECT_S[failures]
            failures += 1


def _is_sent(payload: Mapping[str, Any]) -> bool:
    is_run = payload["kind"] in ("script", "sweep")
    return is_run and payload.get("cwd") is not None and not payload.get("in_place")


def _start_of(snapshot: FolderSnapshot, payload: Spec) -> Answer[dict[str, Any]]:
    """What takes the place of a folder in a payload. Raises as `_environment`."""
    start: dict[str, Any] = {"snapshot": snapshot.digest, "cwd": None, "files": None}
    if payload["kind"] == "script":
        start["environment"] = yield from _environment(snapshot, payload)
    return start


def _environment(snapshot: FolderSnapshot, payload: Mapping[str, Any]) -> Answer[dict[str, str] | None]:
    """The file of a snapshot that states the environment of a job. Raises `UsageError` where it cannot be built."""
    from hostler.snapshots.python_env import found_in

    paths = {file.path for file in snapshot.manifest.files}
    try:
        found = found_in(snapshot.folder, paths, payload.get("python_env"))
    except FilesError as error:
        nodes = yield from rows("/nodes")
        if payload.get("python_env") is None and all(node["backend"] == LOCAL for node in nodes):
            return None  # nobody asked for it, and nothing is built on this machine
        raise UsageError(str(error)) from error
    return None if found is None else {"file": found.file, "sha256": found.sha256}


def _send(snapshot: FolderSnapshot, patterns: Patterns, skip: Path | None, watch: Watch) -> Answer[SentFolder]:
    for left in range(CHANGES_MAX, -1, -1):
        count = _Count(watch.sending(snapshot))
        try:
            yield from send_snapshot(snapshot, count)
        except FilesChanged:
            if not left:
                raise
            snapshot = yield from _taken(snapshot.folder, patterns, skip, watch)
        else:
            return SentFolder(snapshot, count.size)
    raise AssertionError("unreachable")


class _Count:
    """Adds up the bytes of files that were sent."""

    def __init__(self, then: Callable[[int], None]) -> None:
        self.size = 0
        self._then = then

    def __call__(self, size: int) -> None:
        self.size += size
        self._then(size)


def _taken(folder: Path, patterns: Patterns, skip: Path | None, watch: Watch) -> Answer[FolderSnapshot]:
    """The snapshot of a folder, whose files are read once its size is confirmed: hashing takes seconds per gigabyte."""
    from hostler.snapshots.folder import hashed, measured

    sizes = Work(lambda: measured(folder, patterns, skip))
    try:
        yield sizes
        watch.confirm(sizes.value)
        snapshot = Work(lambda: hashed(sizes.value))
        yield snapshot
    except FilesError as error:
        raise UsageError(f"{error}. {watch.remedy}") from error
    return snapshot.value
