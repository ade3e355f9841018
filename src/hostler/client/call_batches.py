"""A batch of function calls as files that the worker of `hostler.workloads.calls` reads on nodes."""

from __future__ import annotations

import hashlib
import importlib.util
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hostler.model.calls import FOLDER
from hostler.model.errors import UsageError
from hostler.snapshots.folder import FolderSnapshot, take
from hostler.snapshots.manifest import SnapshotFile, encode, manifest_of
from hostler.snapshots.upload import Source

FORMAT = 1
RECORD = struct.Struct("<QQQQ")
CALLS_MAX = 100_000
"""Calls of one batch; more are several."""
BATCH_BYTES = 256 << 20
"""Pickles of one batch, as far as it is more than one call."""
CALL_BYTES = 1 << 30
"""Pickles of one call."""


class PickledCall(NamedTuple):
    """A call as it travels."""

    function: bytes
    arguments: bytes

    @property
    def size(self) -> int:
        """In bytes; a function that several calls share counts for each."""
        return len(self.function) + len(self.arguments)


def pickler() -> Callable[[Any], bytes]:
    """The function that pickles functions and arguments."""
    import cloudpickle

    dumps: Callable[[Any], bytes] = cloudpickle.dumps
    return dumps


def write_batch(folder: Path, calls: Sequence[PickledCall]) -> str:
    """Write the files of a batch; returns the SHA-256 of its calls. Equal functions are written once."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "worker.py").write_bytes(_source("hostler.workloads.calls.worker").read_bytes())
    package = folder / "cloudpickle"
    package.mkdir(exist_ok=True)
    for file in _source("cloudpickle").parent.glob("*.py"):
        (package / file.name).write_bytes(file.read_bytes())
    at, places, index = 0, dict[bytes, int](), bytearray()
    digest = hashlib.sha256()
    with (folder / "calls.pkl").open("wb") as output:

        def written(data: bytes) -> int:
            nonlocal at
            output.write(data)
            digest.update(data)
            at += len(data)
            return at - len(data)

        for call in calls:
            if call.function not in places:
                places[call.function] = written(call.function)
            index += RECORD.pack(
                places[call.function], len(call.function), written(call.arguments), len(call.arguments)
            )
    digest.update(index)
    (folder / "index").write_bytes(index)
    return digest.hexdigest()


def params_of(calls: int, trust: bool, batch: str) -> Mapping[str, Any]:
    """The parameters of the sweep; the worker compares them before it unpickles anything."""
    return {
        "format": FORMAT,
        "python": list(sys.version_info[:2]),
        "implementation": sys.implementation.name,
        "calls": calls,
        "trust": trust,
        "batch": batch,
    }


class BatchSnapshot(FolderSnapshot):
    """The files of a batch, together with those of a folder of the client's."""

    project: FolderSnapshot | None = None

    def sources(self, missing: Mapping[str, int]) -> list[Source]:
        """As of a folder; each file is where it is."""
        own = super().sources({each.sha256: missing[each.sha256] for each in self._own() if each.sha256 in missing})
        found = {source.sha256 for source in own}
        rest = {name: offset for name, offset in missing.items() if name not in found}
        return [*own, *([] if self.project is None else self.project.sources(rest))]

    def _own(self) -> list[SnapshotFile]:
        return [file for file in self.manifest.files if file.path.startswith(f"{FOLDER}/")]


def snapshot_of(folder: Path, project: FolderSnapshot | None) -> BatchSnapshot:
    """The snapshot of a batch that was written to `folder/FOLDER`, with the files of the project."""
    files = [] if project is None else project.manifest.files
    if any(file.path.split("/")[0] == FOLDER for file in files):
        raise UsageError(f"the folder has a {FOLDER}, which is the name of the calls' own folder. Rename it")
    batch = take(folder, [f"{FOLDER}/**"])
    manifest = manifest_of([*files, *batch.manifest.files])
    made = BatchSnapshot(folder, manifest, encode(manifest), ())
    made.project = project
    return made


def _source(module: str) -> Path:
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise UsageError(f"the source of {module} is not installed as a file. Install Hostler with its dependencies")
    return Path(found.origin)
