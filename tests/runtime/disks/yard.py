"""A state directory with a real catalogue, two stores beside it, and a cleaner: what tests of retention look at."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostler.backends.base import KeepsEnvironments
from hostler.core import Core
from hostler.model.artifacts import HUB, ReplicationRules, Standing, Wanted
from hostler.model.disks import Keeping, RetentionRules
from hostler.model.events import DatasetMade, Entry, Event, SegmentsMade
from hostler.model.inputs import CopiesTold, Input
from hostler.model.learning import DatasetRef, SegmentRef
from hostler.model.rules import Targets
from hostler.runtime.disks.cleaning import Cleaner
from hostler.runtime.disks.needs import Needs
from hostler.runtime.pacing import Bandwidth
from hostler.runtime.places import Located
from hostler.store import Batch, Journal, catalogue, open_journal
from hostler.stores.base import ObjectName
from hostler.stores.directory import DirectoryStore
from tests.journals import new_journal

SUFFIX = ".segment.npz"
DAY_S = 86_400.0
RULES = RetentionRules(artifacts_s=0.0, logs_s=7 * DAY_S)
COPIES = ReplicationRules(
    wanted={**ReplicationRules().wanted, Standing.GAMES: Wanted(copies=2, domains=2)},
)


class Ended(BaseException):
    """The controller is killed here."""


@dataclass
class Clock:
    """Time that passes when somebody says so."""

    at: float

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here waits")


@dataclass
class Yard:
    """Everything of one controller that retention has to do with."""

    path: Path
    mode: str = "dry-run"
    targets: Targets = field(default_factory=Targets)
    clock: Clock = field(default_factory=lambda: Clock(1_000_000_000.0))
    core: Core = field(default_factory=Core)
    entries: list[Entry] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    needed: set[str] = field(default_factory=set)
    live: set[str] = field(default_factory=set)
    orders: dict[str, Any] = field(default_factory=dict)
    builders: dict[str, KeepsEnvironments] = field(default_factory=dict)
    on_told: Callable[[Input], None] = lambda _: None
    on_step: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        self.journal: Journal = open_journal(new_journal(self.path))
        self.roots = {name: self.path / name for name in ("artifacts", "logs")}
        self.stores = {
            HUB: DirectoryStore(self.roots["artifacts"]),
            "shelf": DirectoryStore(self.path / "shelf"),
            "attic": DirectoryStore(self.path / "attic"),
        }
        for folder in (*(each.root for each in self.stores.values()), self.roots["logs"]):
            folder.mkdir(exist_ok=True)
        self.located = {
            name: Located(store=store, domain=name, bandwidth=Bandwidth(None)) for name, store in self.stores.items()
        }
        self.cleaner = self.begun()

    def begun(self) -> Cleaner:
        """A controller starts on what there is."""
        return Cleaner(
            self.journal,
            self.located,
            self.roots,
            COPIES,
            Keeping(mode=self.mode, rules=RULES),  # type: ignore[arg-type]
            self.clock,
            now=lambda: max(self.clock.at, self.core.index.now),
            needs=lambda _: Needs(
                artifacts=frozenset(self.needed), attempts=frozenset(self.live), jobs=100, orders=dict(self.orders)
            ),
            targets=lambda: self.targets,
            tell=self.tell,
            trouble=self.troubles.append,
            passing=lambda step: self.on_step(step),
            builders=lambda: self.builders,
        )

    async def tell(self, *given: Input) -> None:
        outcome = self.core.handle(self.clock.at, *given)
        self.journal.append([Batch(entries=outcome.entries, jobs=())])
        self.entries += outcome.entries
        for each in given:
            self.on_told(each)

    def happens(self, event: Event) -> None:
        """A fact that the core is not asked about."""
        seq = self.core.state.seq = self.core.state.seq + 1
        entry = Entry(seq=seq, at=max(self.clock.at, self.core.index.now), event=event)
        self.journal.append([Batch(entries=[entry], jobs=())])

    def segment(self, content: bytes, *, games: int = 1, exported: bool = True) -> str:
        """A segment in the controller's store."""
        sha256 = hashlib.sha256(content).hexdigest()
        self.put(HUB, sha256, content)
        made = SegmentRef(sha256=sha256, bytes=len(content), games=games, positions=games)
        self.happens(SegmentsMade(config="c", job="j1", player="random", segments=(made,), cpu_s=None))
        if exported:
            self.dataset(b"dataset of " + content, sha256)
        return sha256

    def dataset(self, content: bytes, *segments: str) -> str:
        """A dataset in the controller's store, made from these."""
        sha256 = hashlib.sha256(content).hexdigest()
        path = self.stores[HUB].root / ObjectName(sha256, ".dataset.npz").path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.aged(path, 10 * DAY_S)
        ref = DatasetRef(sha256=sha256, bytes=len(content), games=1, positions=1)
        self.happens(DatasetMade(config="c", job="j2", dataset=ref, segments=tuple(segments)))
        return sha256

    def put(self, place: str, sha256: str, content: bytes) -> Path:
        """A file of that name, whatever is in it."""
        path = self.file(place, sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return self.aged(path, 10 * DAY_S)

    async def copy(self, sha256: str, *places: str) -> None:
        """Copies elsewhere that were read back just now."""
        for place in places:
            self.put(place, sha256, self.file(HUB, sha256).read_bytes())
            await self.tell(CopiesTold(place=place, verified=(sha256,)))

    def log(self, path: str, age_s: float = 30 * DAY_S) -> Path:
        """What an attempt has said."""
        return self.aged(self.roots["logs"] / path, age_s)

    def aged(self, path: Path, age_s: float) -> Path:
        """A file that was written so long ago."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text("something was said")
        at = self.clock.at - age_s
        os.utime(path, (at, at))
        return path

    def file(self, place: str, sha256: str) -> Path:
        return self.stores[place].root / ObjectName(sha256, SUFFIX).path

    def holders(self, sha256: str) -> set[str]:
        """Places elsewhere that hold all of its bytes."""
        return {name for name in ("shelf", "attic") if _is_whole(self.file(name, sha256), sha256)}

    def is_here(self, sha256: str) -> bool:
        """Whether its bytes are in the controller's store, or buried there."""
        own = self.file(HUB, sha256)
        tombs = self.roots["artifacts"].glob(".tombstones/*/*")
        return _is_whole(own, sha256) or any(_is_whole(each, sha256) for each in tombs)

    def told(self, kind: type) -> list[Any]:
        return [entry.event for entry in self.entries if isinstance(entry.event, kind)]

    def known_copies(self, sha256: str) -> set[str]:
        with self.journal.catalogue() as connection:
            return {copy.place for copy in catalogue.copies_of(connection, [sha256])[sha256] if not copy.damaged}

    async def plan(self) -> list[str]:
        return [each.path for each in await self.cleaner.plan(10**6, fresh=True)]

    async def clean(self, *files: str, most: int = 1000) -> Any:
        return await self.cleaner.clean("ask", "ann", files or None, most)

    async def undo(self, *files: str) -> Any:
        return await self.cleaner.undo("ask", "ann", files or None)

    async def later(self, seconds: float) -> None:
        """Time goes by, and what is due is done."""
        self.clock.at += seconds
        await self.cleaner.turn()


def _is_whole(path: Path, sha256: str) -> bool:
    return path.is_file() and not path.is_symlink() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256
