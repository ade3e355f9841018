"""Somebody tries to make retention delete what is not proved: for as long as hypothesis likes, and never with success.

Copies vanish, are damaged, are told gone or damaged; files are swapped, links are planted, the clock jumps, the
controller is killed between any two steps. After each step what is not here any more has two whole copies elsewhere,
all bytes of which are read by the test itself, and what retention does not know is untouched.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hostler.model.artifacts import HUB
from hostler.model.disk_events import FilesDeleted, FilesRetired
from hostler.model.inputs import CopiesTold, FilesTold, Input
from hostler.model.rules import Targets
from tests.runtime.disks.yard import DAY_S, RULES, Ended, Yard

FULL = Targets(disk_store=0.0001, disk_roomy_gb=1e6, disk_free_gb=0.0)
NUMBERS = st.integers(0, 2)
OFTEN_BOTH = [("shelf", "attic"), ("shelf", "attic"), ("shelf",), ("attic",)]
PLACES = st.sampled_from(["shelf", "attic"])
STEPS = st.sampled_from(["listed", "opened", "moved", "brought back", "deleted", "closed"])
SECRET = "of somebody else"


class Adversary(RuleBasedStateMachine):
    """`names` are the newest segments by number; `spoilt` are those whose bytes here the adversary has taken itself."""

    @initialize(mode=st.sampled_from(["dry-run", "clean"]))
    def begin(self, mode: str) -> None:
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp(prefix="never-"))
        self.yard = Yard(self.folder, mode=mode, targets=FULL)
        self.names: dict[int, str] = {}
        self.played = 0
        self.all: set[str] = set()
        self.spoilt: set[str] = set()
        self.gone: set[str] = set()
        self.unknown: dict[Path, str] = {}
        outside = self.folder / "outside"
        outside.mkdir()
        self.stranger(outside / "out")
        self.stranger(outside / ("ab" * 32 + ".segment.npz"))
        self.stranger(self.yard.roots["artifacts"] / "objects" / "README")
        for number in range(3):
            self.play(number, exported=True, places=("shelf", "attic"))

    def teardown(self) -> None:
        if hasattr(self, "yard"):
            self.runner.close()
            self.yard.journal.close()
            shutil.rmtree(self.folder)

    @rule(number=NUMBERS, exported=st.sampled_from([True, True, False]), places=st.sampled_from(OFTEN_BOTH))
    def play(self, number: int, exported: bool, places: tuple[str, ...]) -> None:
        """A segment comes to be; of one that is gone or spoilt there is another."""
        known = self.names.get(number)
        if known is None or known in self.gone | self.spoilt:
            self.played += 1
            self.names[number] = self.yard.segment(b"games %d" % self.played, exported=exported)
            self.all.add(self.names[number])
            self.copy(number, places)

    @rule(number=NUMBERS, places=st.sampled_from(OFTEN_BOTH))
    def copy(self, number: int, places: tuple[str, ...]) -> None:
        if (name := self.here(number)) is not None:
            self.do(self.yard.copy(name, *places))

    @rule(number=NUMBERS, place=PLACES)
    def lose(self, number: int, place: str) -> None:
        if number in self.names:
            self.yard.file(place, self.names[number]).unlink(missing_ok=True)

    @rule(number=NUMBERS, place=PLACES)
    def damage(self, number: int, place: str) -> None:
        if number in self.names and self.yard.file(place, self.names[number]).exists():
            self.yard.file(place, self.names[number]).write_bytes(b"gamez %d" % number)

    @rule(number=NUMBERS, place=PLACES, damaged=st.booleans())
    def tell(self, number: int, place: str, damaged: bool) -> None:
        if number in self.names:
            some = (self.names[number],)
            told = CopiesTold(place=place, damaged=some if damaged else (), gone=() if damaged else some, why="read")
            self.do(self.yard.tell(told))

    @rule(number=NUMBERS, place=PLACES)
    def lie(self, number: int, place: str) -> None:
        """A copy is told of that nobody has made."""
        if number in self.names:
            self.do(self.yard.tell(CopiesTold(place=place, verified=(self.names[number],))))

    @rule(number=NUMBERS)
    def need(self, number: int) -> None:
        if number in self.names:
            self.yard.needed ^= {self.names[number]}

    @rule(number=NUMBERS, folder=st.booleans())
    def plant_a_link(self, number: int, folder: bool) -> None:
        """In the place of a file, or of the folder that it lies in; what was there lies elsewhere then."""
        if (name := self.here(number)) is None:
            return
        file = self.yard.file(HUB, name)
        self.spoilt |= {each for each in self.all if each[:2] == name[:2]} if folder else {name}
        victim = file.parent if folder else file
        victim.rename(self.folder / f"taken {len(list(self.folder.iterdir()))}")
        victim.symlink_to(self.folder / "outside" if folder else self.folder / "outside" / "out")

    @rule(number=NUMBERS)
    def rename(self, number: int) -> None:
        """What has another name is unknown from then on."""
        if (name := self.here(number)) is not None:
            file = self.yard.file(HUB, name)
            target = file.with_name(f"was {number} {len(self.unknown)}")
            file.rename(target)
            self.spoilt.add(name)
            self.unknown[target] = target.read_text()

    @rule(number=st.integers(0, 3), stranger=st.booleans())
    def say(self, number: int, stranger: bool) -> None:
        path = self.yard.roots["logs"] / (f"j{number}.1" if not stranger else f"of somebody {number}") / "out"
        if stranger:
            self.stranger(path)
        elif not path.exists():
            self.yard.log(f"j{number}.1/out", age_s=number * 4 * DAY_S)

    @rule(seconds=st.sampled_from([-2 * DAY_S, -60.0, 60.0, DAY_S, 3 * DAY_S, 20 * DAY_S]))
    def jump(self, seconds: float) -> None:
        self.yard.clock.at += seconds

    @rule()
    def plan(self) -> None:
        self.do(self.yard.plan())

    @rule(swap=st.none() | NUMBERS, link=st.booleans())
    def clean(self, swap: int | None, link: bool) -> None:
        """Something comes into the place of a file at the last moment: after it was told, before it is moved."""
        strangers: list[Path] = []

        def last_moment(given: Input) -> None:
            if not isinstance(given, FilesTold) or not given.retired or swap is None:
                return
            if link:
                self.plant_a_link(swap, folder=False)
            elif not strangers and (name := self.here(swap)) is not None:
                self.spoilt.add(name)
                strangers.append(self.yard.file(HUB, name))
                strangers[0].unlink()
                self.stranger(strangers[0])

        self.yard.on_told = last_moment
        self.acts(self.yard.clean())
        self.yard.on_told = lambda _: None
        for each in strangers:
            # Under the name of an artifact it is a damaged copy, and may have been set aside where a person finds it.
            aside = self.yard.roots["artifacts"] / "quarantine" / each.name
            found = each if each.exists() else aside
            assert found.read_text() == self.unknown.pop(each)
            found.unlink()

    @rule()
    def undo(self) -> None:
        self.acts(self.yard.undo())

    @rule(seconds=st.sampled_from([1.0, 2 * DAY_S, 2 * DAY_S]))
    def turn(self, seconds: float) -> None:
        self.acts(self.yard.later(seconds))

    @rule(step=STEPS, undo=st.booleans())
    def kill(self, step: str, undo: bool) -> None:
        """The controller is killed at that step of whatever it does, and the next one starts."""

        def passing(reached: str) -> None:
            if reached == step:
                raise Ended

        self.yard.on_step = passing
        with suppress(Ended):
            self.acts(self.yard.undo() if undo else self.yard.clean())
        with suppress(Ended):
            self.acts(self.yard.later(1.0))
        self.yard.on_step = lambda _: None
        self.yard.cleaner = self.yard.begun()
        self.acts(self.yard.cleaner.settle())

    @invariant()
    def strangers_are_untouched(self) -> None:
        if hasattr(self, "yard"):
            assert {path: path.read_text() for path in self.unknown} == self.unknown

    @invariant()
    def what_was_buried_was_told_with_its_proof(self) -> None:
        if not hasattr(self, "yard"):
            return
        for retired in self.yard.told(FilesRetired):
            for each in retired.files:
                assert each.sha256 is None or len(each.proof) >= RULES.copies
        buried = {path for event in self.yard.told(FilesRetired) for path in (each.path for each in event.files)}
        assert {path for event in self.yard.told(FilesDeleted) for path in event.files} <= buried

    def acts(self, doing: Coroutine[Any, Any, Any]) -> None:
        """Let retention act; what leaves the controller's store by it has its copies at this very moment."""
        before = {name for name in self.all if self.yard.file(HUB, name).is_file()} - self.spoilt
        try:
            self.do(doing)
        finally:
            self.check(before)

    def check(self, before: set[str]) -> None:
        for name in self.all - self.spoilt - self.gone:
            left = name in before and not self.yard.file(HUB, name).exists()
            lost = not self.yard.is_here(name)
            if left or lost:
                assert self.yard.holders(name) == {"shelf", "attic"}, name
                assert name not in self.yard.needed or name not in before
            if lost:
                self.gone.add(name)

    def here(self, number: int) -> str | None:
        """A segment that lies in the controller's store under its name, in no folder that is a link."""
        name = self.names.get(number)
        if name is None:
            return None
        file = self.yard.file(HUB, name)
        return name if file.is_file() and not file.is_symlink() and not file.parent.is_symlink() else None

    def stranger(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SECRET)
        self.yard.aged(path, 99 * DAY_S)
        self.unknown[path] = SECRET

    def do(self, doing: Coroutine[Any, Any, Any]) -> None:
        self.runner.run(doing)


class TestNothingUnprovedIsEverDeleted(Adversary.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(max_examples=10, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.long
class TestNothingUnprovedIsEverDeletedByMany(Adversary.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(max_examples=200, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow])
