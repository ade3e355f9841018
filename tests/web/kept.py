"""A real catalogue in SQLite and real stores in folders, for a desk whose journal is a list."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path

from hostler.model.artifacts import HUB, SUFFIXES, ArtifactKind, ReplicationRules
from hostler.model.events import Entry, SegmentsMade
from hostler.model.inputs import Input
from hostler.model.learning import SegmentRef
from hostler.runtime.artifacts import Artifacts
from hostler.runtime.contents import Contents
from hostler.runtime.pacing import Bandwidth
from hostler.runtime.places import Located
from hostler.runtime.replicating import Replicator
from hostler.runtime.stock import Stock
from hostler.runtime.verdicts import Verdicts
from hostler.store import Batch, Journal, open_journal
from hostler.stores.base import ObjectName, at_once
from hostler.stores.directory import DirectoryStore
from tests.core.builders import Driver
from tests.journals import new_journal

SHELF = "shelf"


class WorldClock:
    """The time of a driver's world."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def now(self) -> float:
        return self._driver.now

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here waits")


class Kept:
    """What there is of artifacts: `sync` brings the catalogue to what the driver's journal says."""

    def __init__(self, driver: Driver, tell: Callable[[Input], Awaitable[object]]) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="kept-"))
        self.journal = open_journal(new_journal(self.path))
        self.troubles: list[str] = []
        self.stores = {name: DirectoryStore(self.path / name) for name in (HUB, SHELF)}
        for store in self.stores.values():
            store.root.mkdir()
        self.located = {
            name: Located(store=store, domain=name, bandwidth=Bandwidth(None)) for name, store in self.stores.items()
        }
        rules, clock, say = ReplicationRules(), WorldClock(driver), self.troubles.append
        hub = self.stores[HUB].root
        self.artifacts = Artifacts(self.journal, self.located, rules, clock)
        verdicts = Verdicts(self.journal, self.located, clock, tell, say)
        self.contents = Contents(self.artifacts, self.located, self.path / "fetched", clock, verdicts)
        self.replicator = Replicator(self.journal, self.located, hub, rules, clock, verdicts, say, lambda _: None)
        self.stock = Stock(self.journal, self.located, rules, clock, say)
        self._driver = driver
        weakref.finalize(self, _forget, self.path, self.journal, self.contents)

    def sync(self) -> None:
        """Make durable what happened since the last time."""
        entries = self._driver.entries[self.journal.newest_seq() :]
        if entries:
            self.journal.append([Batch(entries=entries, jobs=())])

    def put(self, content: bytes, place: str = HUB, kind: ArtifactKind = ArtifactKind.GAMES) -> Path:
        """Let a place hold these bytes, under their own name; returns where."""
        name = ObjectName(hashlib.sha256(content).hexdigest(), SUFFIXES[kind])
        source = self.path / "source"
        source.write_bytes(content)
        self.stores[place].put(name, source, at_once)
        return self.stores[place].root / name.path


def made(
    driver: Driver, *contents: bytes, player: str = "random", job: str = "j1", config: str = "tiny_2p"
) -> list[str]:
    """Segments with these bytes are told of, as of a stage that came to its end; returns their names."""
    refs = tuple(
        SegmentRef(sha256=hashlib.sha256(each).hexdigest(), bytes=len(each), games=1, positions=1) for each in contents
    )
    driver.now += 1.0
    driver.state.seq += 1
    event = SegmentsMade(config=config, job=job, player=player, segments=refs, cpu_s=None)
    driver.entries.append(Entry(seq=driver.state.seq, at=driver.now, event=event))
    return [each.sha256 for each in refs]


def _forget(path: Path, journal: Journal, contents: Contents) -> None:
    contents.close()
    journal.close()
    shutil.rmtree(path, ignore_errors=True)
