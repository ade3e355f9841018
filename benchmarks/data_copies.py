"""Second copies of small files: how fast where few lack one, and where many do, beside rclone and rsync."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from common import Row
from hostler.core import Core
from hostler.model.artifacts import HUB, ReplicationRules
from hostler.model.events import Entry, SegmentsMade
from hostler.model.inputs import Input
from hostler.model.learning import SegmentRef
from hostler.runtime.clock import SteadyClock
from hostler.runtime.pacing import Bandwidth
from hostler.runtime.places import Located
from hostler.runtime.replicating import Replicator
from hostler.runtime.verdicts import Verdicts
from hostler.store import Batch, Journal, open_journal
from hostler.stores.base import ObjectName
from hostler.stores.directory import DirectoryStore

STORES = ("shelf", "vault")
"""Folders, each a failure domain of its own: every file wants one copy in either."""
BYTES = 20_000
JOB = 200
"""Segments that one fact tells of."""
FEW, MANY = 1_000, 20_000
"""Files that lack a copy."""
ENOUGH = 4_000
"""Copies after which the rate of the many is known."""


def copies(folder: Path, *, quick: bool) -> Iterator[Row]:
    """A row for each way."""
    many = 4 * FEW if quick else MANY
    for count in (FEW, many):
        yield _row("Hostler", count, *asyncio.run(_ours(folder / f"ours-{count}", count)))
    files = _Files(folder / "peers", FEW)
    files.fill()
    yield _row("rsync -a --fsync", FEW, *_timed(files, "rsync", "-a", "--fsync"))
    yield _row("rclone copy", FEW, *_timed(files, "rclone", "--config", "/dev/null", "copy", "--transfers", "8"))


def _row(way: str, short: int, done: int, wall: float, cpu: float) -> Row:
    return {
        "copies": way,
        "files that lack one": short,
        "copied": done,
        "files/s": done / wall,
        "CPU ms per file": 1000 * cpu / done,
    }


@dataclass
class _Files:
    """Random files under the names of their hashes, in a folder."""

    folder: Path
    count: int
    refs: list[SegmentRef] = field(default_factory=list)

    def fill(self) -> None:
        for _ in range(self.count):
            content = os.urandom(BYTES)
            sha256 = hashlib.sha256(content).hexdigest()
            path = self.folder / HUB / ObjectName(sha256, ".segment.npz").path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            self.refs.append(SegmentRef(sha256=sha256, bytes=BYTES, games=16, positions=900))
        os.sync()


async def _ours(folder: Path, count: int) -> tuple[int, float, float]:
    """As the controller does, without the rest of it: copies told, seconds, and those computed."""
    files = _Files(folder, count)
    files.fill()
    for name in STORES:
        (folder / name).mkdir()
    journal = open_journal(folder)
    try:
        return await _measured(_Controller(folder, journal, _made(journal, files.refs), min(count, ENOUGH)))
    finally:
        journal.close()


def _made(journal: Journal, refs: Sequence[SegmentRef]) -> int:
    """All of it told; returns the number of the last fact."""
    seq = 0
    for seq, start in enumerate(range(0, len(refs), JOB), 1):
        event = SegmentsMade(config="c", job="j", player="p", segments=tuple(refs[start : start + JOB]), cpu_s=None)
        journal.append([Batch(entries=[Entry(seq=seq, at=time.time(), event=event)], jobs=())])
    return seq


class _Controller:
    """What of a controller has to do with copies."""

    def __init__(self, folder: Path, journal: Journal, seq: int, wanted: int) -> None:
        self.told = 0
        self.enough, self._wanted = asyncio.Event(), wanted
        self._journal = journal
        self._core, self._clock = Core(), SteadyClock()
        self._core.state.seq = seq
        stores = {name: DirectoryStore(folder / name) for name in (HUB, *STORES)}
        places = {
            name: Located(store=store, domain=name, bandwidth=Bandwidth(None), keeps=True)
            for name, store in stores.items()
        }
        verdicts = Verdicts(journal, places, self._clock, self._tell, _refuse)
        root, rules = folder / HUB, ReplicationRules()
        self.replicator = Replicator(journal, places, root, rules, self._clock, verdicts, _refuse)

    async def _tell(self, given: Input) -> None:
        outcome = self._core.handle(self._clock.now(), given)
        await asyncio.to_thread(self._journal.append, [Batch(entries=outcome.entries, jobs=())])
        self.told += len(getattr(given, "verified", ()))
        if self.told >= self._wanted:
            self.enough.set()
        self.replicator.wake()


def _refuse(trouble: str) -> None:
    raise RuntimeError(trouble)


async def _measured(controller: _Controller) -> tuple[int, float, float]:
    began, cpu = time.perf_counter(), time.process_time()
    running = asyncio.create_task(controller.replicator.run())
    try:
        async with asyncio.timeout(600):
            await controller.enough.wait()
        return controller.told, time.perf_counter() - began, time.process_time() - cpu
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _timed(files: _Files, *command: str) -> tuple[int, float, float]:
    """Half of the shelves to each store, both at the same time."""
    objects = files.folder / HUB / "objects"
    shelves = sorted(each.name for each in objects.iterdir())
    targets = [files.folder / f"{command[0]}-{name}" for name in STORES]
    began, cpu = time.perf_counter(), _children_s()
    running = []
    for number, target in enumerate(targets):
        chosen = "".join(f"/{name}/**\n" for name in shelves[number :: len(targets)])
        (rules := files.folder / f"{target.name}.rules").write_text(chosen)
        filters = _filters(command[0], rules)
        running.append(subprocess.Popen([*command, *filters, f"{objects}/", f"{target}/"]))
    if any(each.wait() for each in running):
        raise SystemExit(f"{command[0]} failed")
    done = sum(1 for target in targets for _ in target.rglob("*.npz"))
    if done != files.count:
        raise SystemExit(f"{command[0]} copied {done} of {files.count} files")
    return done, time.perf_counter() - began, _children_s() - cpu


def _filters(program: str, rules: Path) -> Sequence[str]:
    if program == "rclone":
        return ["--include-from", str(rules)]
    return ["--include", "*/", f"--include-from={rules}", "--exclude", "*"]


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
