"""Copies come to be where they are wanted, are mended where they are damaged, and nothing is told that was not read."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import shutil
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hostler.core import Core
from hostler.model.artifacts import HUB, Copy, ReplicationRules
from hostler.model.errors import LinkLost
from hostler.model.events import CopiesDamaged, CopiesGone, CopiesVerified, Entry, SegmentsMade
from hostler.model.inputs import CopiesTold, Input
from hostler.model.learning import SegmentRef
from hostler.runtime import replicating
from hostler.runtime.pacing import Bandwidth
from hostler.runtime.places import Located, Places
from hostler.runtime.replicating import Replicator
from hostler.runtime.verdicts import Verdicts
from hostler.store import Batch, Journal, catalogue, open_journal
from hostler.stores.base import ObjectName, Pace, at_once
from hostler.stores.directory import DirectoryStore
from tests.journals import new_journal
from tests.patience import PATIENCE_S
from tests.stores.test_trouble import forgetful

SUFFIX = ".segment.npz"


Told = TypeVar("Told")


@dataclass
class Clock:
    """Time that passes when somebody says so, or waits."""

    at: float = 1000.0
    then: Callable[[], None] = lambda: None
    """What happens while somebody waits."""

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        self.then()


class Flaky(DirectoryStore):
    """A directory that sometimes does not answer."""

    away = False
    broken = False
    checks = 0

    def check(self, name: ObjectName, pace: Pace) -> int:
        self.checks += 1
        if self.broken:
            raise OSError(errno.EIO, "Input/output error")
        return super().check(name, pace)

    def free_bytes(self) -> int | None:
        if self.broken:
            raise OSError(errno.ESTALE, "Stale file handle")
        return super().free_bytes()

    def put(self, name: ObjectName, source: Path, pace: Pace) -> None:
        if self.away:
            raise LinkLost("nobody answers")
        super().put(name, source, pace)


@dataclass
class Yard:
    """A controller's store, two others, and the journal that knows of them."""

    path: Path
    journal: Journal
    clock: Clock = field(default_factory=Clock)
    core: Core = field(default_factory=Core)
    troubles: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stores = {name: Flaky(self.path / name) for name in (HUB, "shelf", "bucket")}
        for store in self.stores.values():
            store.root.mkdir()
        domains = {HUB: "home", "shelf": "home", "bucket": "s3"}
        self.located = {
            name: Located(store=store, domain=domains[name], bandwidth=Bandwidth(None))
            for name, store in self.stores.items()
        }
        self.verdicts = Verdicts(self.journal, self.located, self.clock, self.tell, self.troubles.append)
        self.replicator = self.begun(self.located)

    def begun(self, located: Places) -> Replicator:
        """Of a controller that starts with these places."""
        rules, root = ReplicationRules(), self.stores[HUB].root
        return Replicator(self.journal, located, root, rules, self.clock, self.verdicts, self.troubles.append)

    async def tell(self, given: Input) -> None:
        outcome = self.core.handle(self.clock.at, given)
        self.journal.append([Batch(entries=outcome.entries, jobs=())])

    def segment(self, content: bytes, *, unread: bool = False) -> str:
        """A segment that a stage has left in the controller's store, read back or not."""
        sha256 = hashlib.sha256(content).hexdigest()
        source = self.path / "source"
        source.write_bytes(content)
        self.stores[HUB].put(ObjectName(sha256, SUFFIX), source, at_once)
        made = SegmentRef(sha256=sha256, bytes=len(content), games=1, positions=1)
        event = SegmentsMade(config="c", job="j1", player="random", segments=(made,), cpu_s=None, unread=unread)
        seq = self.core.state.seq + 1
        self.core.state.seq = seq
        self.journal.append([Batch(entries=[Entry(seq=seq, at=self.clock.at, event=event)], jobs=())])
        return sha256

    def facts(self, kind: type[Told]) -> list[Told]:
        return [entry.event for entry in self.journal.read() if isinstance(entry.event, kind)]

    def copies(self, sha256: str) -> dict[str, Copy]:
        with self.journal.catalogue() as connection:
            return {each.place: each for each in catalogue.copies_of(connection, [sha256])[sha256]}

    def file(self, place: str, sha256: str) -> Path:
        return self.stores[place].root / ObjectName(sha256, SUFFIX).path

    async def settle(self) -> None:
        """Look until there is nothing more to do."""
        async with asyncio.timeout(PATIENCE_S):
            await self.replicator.settled()


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    journal = open_journal(new_journal(tmp_path))
    made = Yard(tmp_path, journal)
    yield made
    assert made.troubles == []
    journal.close()


async def test_a_store_that_keeps_nothing_takes_nothing_from_the_copy_it_was_given(yard: Yard, tmp_path: Path) -> None:
    """That it is not there was taken for its source's being gone: nobody would have copied it any more."""
    if shutil.which("rclone") is None:
        pytest.skip("no rclone: apt-get install rclone")
    (tmp_path / "far").mkdir()
    yard.located["bucket"].store = forgetful(tmp_path)
    name = yard.segment(b"games")
    await yard.settle()
    assert set(yard.copies(name)) == {HUB, "shelf"}
    assert "is not there" in (yard.located["bucket"].trouble or "")
    yard.located["bucket"].store = yard.stores["bucket"]
    yard.clock.at += 1000.0
    await yard.settle()
    assert set(yard.copies(name)) >= {HUB, "bucket"}


async def test_what_is_lost_for_good_keeps_nothing_else_from_its_copies(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest are looked at first, so many at once: if all of these were hopeless, no other was ever seen."""
    monkeypatch.setattr(replicating, "MOST", 3)
    lost = [yard.segment(f"lost {number}".encode()) for number in range(4)]
    for name in lost:
        yard.file(HUB, name).unlink()
    await yard.tell(CopiesTold(place=HUB, gone=tuple(lost), why="its disk broke"))
    name = yard.segment(b"games")
    await yard.settle()
    assert set(yard.copies(name)) == {HUB, "bucket"}
    assert yard.replicator.backlog.at_risk == 3, "what is lost is told of as well"
    assert "no copy is known any more" in yard.replicator.backlog.shortfalls[0]


async def test_a_store_that_is_put_back_gives_back_what_it_alone_had(yard: Yard) -> None:
    """A controller that was started once with another fleet file gave it up, and it was never found again."""
    name = yard.segment(b"games")
    await yard.settle()
    yard.file(HUB, name).unlink()
    await yard.tell(CopiesTold(place=HUB, gone=(name,), why="it was spare"))
    yard.replicator = yard.begun({place: each for place, each in yard.located.items() if place != "bucket"})
    await yard.settle()
    assert yard.copies(name) == {}
    assert "1 artifacts have no other" in yard.troubles.pop()
    yard.replicator = yard.begun(yard.located)
    await yard.settle()
    assert set(yard.copies(name)) == {HUB, "bucket"}


async def test_what_only_another_store_has_is_not_taken_for_gone_while_there_is_no_room_here(yard: Yard) -> None:
    """It was to go from there to a third, was read where it is not, and was told to be gone where it is."""
    name = yard.segment(b"games")
    await yard.settle()
    yard.file(HUB, name).unlink()
    await yard.tell(CopiesTold(place=HUB, gone=(name,), why="it was spare"))
    yard.located[HUB].full_until = yard.clock.at + 1e6
    await yard.settle()
    assert set(yard.copies(name)) == {"bucket"}
    assert yard.replicator.backlog.shortfalls == (
        "the controller's own disk, through which copies go, has no room for it",
    )
    yard.located[HUB].full_until = 0.0
    await yard.settle()
    assert set(yard.copies(name)) == {HUB, "bucket"}


async def test_many_small_files_cost_few_looks_and_few_facts(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was looked again after each that was copied, through all that was not: 20,000 took an hour of a core."""
    looks, look = [0], yard.replicator._look

    def counted(*given: Any, **named: Any) -> replicating.Found:
        looks[0] += 1
        return look(*given, **named)

    monkeypatch.setattr(yard.replicator, "_look", counted)
    del yard.located["shelf"]
    names = [yard.segment(f"games {number}".encode()) for number in range(100)]
    await yard.settle()
    assert all(set(yard.copies(each)) == {HUB, "bucket"} for each in names)
    assert looks[0] <= 3
    assert len([each for each in yard.facts(CopiesVerified) if each.place == "bucket"]) <= 4


async def test_there_is_no_look_for_a_while_after_one_that_took_long(yard: Yard) -> None:
    """And what is out of reach is looked for less often still: all that lacks copies is walked through for that."""
    times = iter(range(0, 1000, 2))
    located, root = yard.located, yard.stores[HUB].root
    slow = Replicator(
        yard.journal,
        located,
        root,
        ReplicationRules(),
        yard.clock,
        yard.verdicts,
        yard.troubles.append,
        timer=lambda: next(times),
    )
    await slow.turn()
    begun = yard.clock.at
    slow.wake()
    await slow._rest()
    assert yard.clock.at - begun >= replicating.LOOK_SHARE * 2.0
    assert slow._reach_at == begun + replicating.REACH_SHARE * 2.0


async def test_what_was_out_of_reach_a_moment_ago_is_told_until_it_is_back(yard: Yard) -> None:
    name = yard.segment(b"games")
    yard.located[HUB].away_until = yard.clock.at + 100
    await yard.replicator.turn()
    await yard.replicator.turn(thorough=False)
    assert yard.replicator.backlog.artifacts == 1
    yard.clock.at += 101
    await yard.replicator.turn(thorough=False)
    await asyncio.gather(*yard.replicator._running.values())
    assert set(yard.copies(name)) == {HUB, "bucket"}
    await yard.replicator.turn(thorough=False)
    assert yard.replicator.backlog.artifacts == 0


async def test_games_come_to_another_domain(yard: Yard) -> None:
    names = [yard.segment(f"games {number}".encode()) for number in range(10)]
    await yard.settle()
    for name in names:
        assert set(yard.copies(name)) == {HUB, "bucket"}
        assert yard.file("bucket", name).read_bytes() == yard.file(HUB, name).read_bytes()
    assert yard.replicator.backlog.artifacts == 0


async def test_a_store_that_does_not_answer_is_left_alone_and_asked_again(yard: Yard) -> None:
    del yard.located["shelf"]
    name = yard.segment(b"games")
    yard.stores["bucket"].away = True
    await yard.settle()
    assert set(yard.copies(name)) == {HUB}
    assert yard.replicator.backlog.artifacts == 1
    assert yard.located["bucket"].trouble == "nobody answers"
    yard.stores["bucket"].away = False
    await yard.replicator.turn()
    assert set(yard.copies(name)) == {HUB}, "not yet"
    await yard.settle()
    assert set(yard.copies(name)) == {HUB, "bucket"}
    assert yard.located["bucket"].trouble is None


async def test_whoever_waits_for_copies_waits_for_a_store_that_is_back_soon(yard: Yard) -> None:
    del yard.located["shelf"]
    name = yard.segment(b"games")
    yard.stores["bucket"].away = True
    yard.clock.then = lambda: setattr(yard.stores["bucket"], "away", False)
    await yard.settle()
    assert set(yard.copies(name)) == {HUB, "bucket"}


async def test_a_store_that_hangs_keeps_no_other_waiting(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one does on a network's file system whose server is gone."""
    monkeypatch.setattr(replicating, "ANSWERS_S", 0.01)
    answers = threading.Event()

    def hangs() -> int | None:
        answers.wait()
        return None

    monkeypatch.setattr(yard.stores["shelf"], "free_bytes", hangs)
    sha256 = yard.segment(b"games")
    try:
        async with asyncio.timeout(PATIENCE_S):
            await yard.settle()
            while set(yard.copies(sha256)) != {HUB, "bucket"}:  # on a busy machine the others may answer too late, too
                yard.clock.at += replicating.LOOKED_S
                await yard.settle()
        assert "has not answered" in (yard.located["shelf"].trouble or "")
        for _ in range(3):
            yard.clock.at += 700.0
            await yard.replicator.turn()
            assert yard.clock.at < yard.located["shelf"].away_until, "nothing is begun there meanwhile"
    finally:
        answers.set()
    monkeypatch.setattr(replicating, "ANSWERS_S", PATIENCE_S)
    await asyncio.gather(*yard.replicator._looks.values())
    yard.clock.at += 700.0
    await yard.replicator.turn()
    assert yard.located["shelf"].trouble is None


async def test_a_copy_that_is_damaged_before_it_was_copied_is_told_and_set_aside(yard: Yard) -> None:
    name = yard.segment(b"games")
    yard.file(HUB, name).write_bytes(b"gamez")
    await yard.settle()
    assert yard.copies(name)[HUB].damaged
    assert (yard.stores[HUB].root / "quarantine" / f"{name}{SUFFIX}").read_bytes() == b"gamez"
    assert "bucket" not in yard.copies(name)


async def test_what_was_damaged_is_fetched_from_where_it_is_right(yard: Yard) -> None:
    name = yard.segment(b"games")
    await yard.settle()
    yard.file(HUB, name).write_bytes(b"gamez")
    yard.clock.at += ReplicationRules().verified_within_s + 1
    await yard.settle()
    assert yard.file(HUB, name).read_bytes() == b"games"
    assert not any(copy.damaged for copy in yard.copies(name).values())
    assert set(yard.copies(name)) == {HUB, "bucket"}


async def test_a_copy_that_somebody_deleted_is_made_again(yard: Yard) -> None:
    name = yard.segment(b"games")
    await yard.settle()
    yard.file("bucket", name).unlink()
    yard.clock.at += ReplicationRules().verified_within_s + 1
    await yard.settle()
    assert yard.file("bucket", name).read_bytes() == b"games"


async def test_copies_in_one_domain_are_not_enough(yard: Yard) -> None:
    name = yard.segment(b"games")
    yard.stores["bucket"].away = True
    await yard.settle()
    yard.stores["shelf"].put(ObjectName(name, SUFFIX), yard.file(HUB, name), at_once)
    yard.stores["bucket"].away = False
    yard.clock.at += 6
    await yard.settle()
    assert "bucket" in yard.copies(name)


async def test_nothing_is_looked_for_that_the_places_could_never_hold(tmp_path: Path, yard: Yard) -> None:
    yard.segment(b"games")
    for name in ("shelf", "bucket"):
        del yard.located[name]
    await yard.settle()
    assert yard.replicator.backlog.artifacts == 0


async def test_a_disk_that_fails_is_neither_the_end_nor_asked_on_and_on(yard: Yard) -> None:
    name = yard.segment(b"games")
    await yard.settle()
    store = yard.stores["bucket"]
    store.broken, before = True, store.checks
    yard.clock.at += ReplicationRules().verified_within_s + 1
    await yard.settle()
    assert yard.located["bucket"].trouble is not None
    assert 1 <= store.checks - before <= 5
    assert not yard.copies(name)["bucket"].damaged, "not to be able to read proves nothing"
    store.broken = False
    yard.clock.at += 61
    await yard.settle()
    assert yard.copies(name)["bucket"].verified_at == yard.clock.at


async def test_a_database_that_fails_is_said_once(yard: Yard) -> None:
    yard.segment(b"games")
    yard.replicator._open = lambda *_, **__: 1 / 0  # type: ignore[assignment,method-assign,return-value]
    await yard.settle()
    await yard.settle()
    (said,) = yard.troubles
    assert "ZeroDivisionError" in said
    yard.troubles.clear()


async def test_what_is_new_is_read_back_and_told_of_in_one_fact(yard: Yard) -> None:
    names = [yard.segment(f"games {number}".encode(), unread=True) for number in range(10)]
    assert all(yard.copies(name) == {HUB: Copy(place=HUB, verified_at=None)} for name in names)
    yard.clock.at += 2
    await yard.settle()
    told = [each for each in yard.facts(CopiesVerified) if each.place == HUB]
    assert [each.artifacts for each in told] == [tuple(names)]
    for name in names:
        assert set(yard.copies(name)) == {HUB, "bucket"}
        assert yard.copies(name)[HUB].verified_at == 1002.0
    assert yard.replicator.backlog.artifacts == 0


async def test_a_file_that_vanished_after_its_stage_was_believed_is_missed_at_once(yard: Yard) -> None:
    """It counted for three weeks, as read at a moment when nobody had opened it."""
    gone, there = (yard.segment(content, unread=True) for content in (b"games", b"other games"))
    yard.file(HUB, gone).unlink()
    await yard.settle()
    assert [each.artifacts for each in yard.facts(CopiesGone)] == [(gone,)]
    assert yard.copies(gone) == {}
    assert set(yard.copies(there)) == {HUB, "bucket"}
    assert yard.replicator.backlog.at_risk == 1
    assert "no copy is known any more" in yard.replicator.backlog.shortfalls[0]


async def test_a_file_that_was_damaged_before_it_was_read_back_never_counts(yard: Yard) -> None:
    wrong, right = (yard.segment(content, unread=True) for content in (b"games", b"other games"))
    yard.file(HUB, wrong).write_bytes(b"gamez")
    await yard.settle()
    assert [each.artifacts for each in yard.facts(CopiesDamaged)] == [(wrong,)]
    assert all(wrong not in each.artifacts for each in yard.facts(CopiesVerified))
    assert yard.copies(wrong) == {HUB: Copy(place=HUB, verified_at=None, damaged=True)}
    assert (yard.stores[HUB].root / "quarantine" / f"{wrong}{SUFFIX}").read_bytes() == b"gamez"
    assert set(yard.copies(right)) == {HUB, "bucket"}


async def test_what_is_old_and_lacks_copies_keeps_nothing_new_from_being_read(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while a store does not answer: the oldest are looked at first, so many at once."""
    monkeypatch.setattr(replicating, "MOST", 3)
    for name in ("shelf", "bucket"):
        yard.stores[name].away = True
    for number in range(4):
        yard.segment(f"old {number}".encode())
    new = yard.segment(b"new", unread=True)
    await yard.settle()
    assert yard.copies(new)[HUB].verified_at is not None


async def test_much_that_is_new_is_read_in_parts(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicating, "NEW_BYTES", 20)
    monkeypatch.setattr(replicating, "NEW_FILES", 3)
    contents = [b"%020d" % number if number == 4 else b"%05d" % number for number in range(9)]
    names = [yard.segment(each, unread=True) for each in contents]
    yard.located.pop("bucket"), yard.located.pop("shelf")
    await yard.settle()
    parts = [names[:3], names[3:4], names[4:5], names[5:8], names[8:]]
    assert [list(each.artifacts) for each in yard.facts(CopiesVerified)] == parts


async def test_one_that_cannot_be_read_back_keeps_no_other_waiting(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    puzzling, name = (yard.segment(content, unread=True) for content in (b"games", b"other games"))
    whole, refuses = yard.stores[HUB].check, [True]

    def check(wanted: ObjectName, pace: Pace) -> int:
        if wanted.sha256 == puzzling and refuses:
            raise OSError(errno.EIO, "Input/output error")
        return whole(wanted, pace)

    monkeypatch.setattr(yard.stores[HUB], "check", check)
    await yard.settle()
    assert yard.copies(name)[HUB].verified_at is not None
    assert yard.copies(puzzling) == {HUB: Copy(place=HUB, verified_at=None)}, "not to be able to read proves nothing"
    refuses.clear()
    later = yard.segment(b"later games", unread=True)
    await yard.settle()
    assert all(yard.copies(each)[HUB].verified_at is not None for each in (puzzling, later))


async def test_one_that_cannot_be_read_here_keeps_no_other_from_coming_home(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried at each look, and the store was taken for full after each."""
    name = yard.segment(b"games")
    await yard.settle()
    puzzling, whole = yard.segment(b"other games", unread=True), yard.stores[HUB].check

    def check(wanted: ObjectName, pace: Pace) -> int:
        if wanted.sha256 == puzzling:
            raise OSError(errno.EIO, "Input/output error")
        return whole(wanted, pace)

    monkeypatch.setattr(yard.stores[HUB], "check", check)
    await yard.settle()
    yard.file(HUB, name).unlink()
    await yard.tell(CopiesTold(place=HUB, gone=(name,), why="somebody deleted it"))
    await yard.settle()
    assert yard.copies(name)[HUB].verified_at is not None
    assert "Input/output error" in (yard.located[HUB].trouble or "")


async def test_who_was_killed_before_it_told_reads_again(yard: Yard) -> None:
    name = yard.segment(b"games", unread=True)
    reading = asyncio.create_task(yard.replicator._read_new(yard.replicator._unread_here()))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert yard.copies(name)[HUB].verified_at is None
    yard.replicator = yard.begun(yard.located)
    await yard.settle()
    assert set(yard.copies(name)) == {HUB, "bucket"}


async def test_it_is_read_soon_without_anybody_waiting(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody ends here: it is the word of a stage that wakes whoever reads."""
    told, say = asyncio.Event(), yard.verdicts.say

    async def heard(given: CopiesTold) -> None:
        await say(given)
        told.set()

    monkeypatch.setattr(yard.verdicts, "say", heard)
    running = asyncio.create_task(yard.replicator.run())
    try:
        await asyncio.sleep(0)
        name = yard.segment(b"games", unread=True)
        yard.replicator.wake()
        async with asyncio.timeout(PATIENCE_S):
            await told.wait()
        assert yard.copies(name)[HUB].verified_at is not None
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_what_came_from_elsewhere_counts_once_it_was_read_back_here(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was right on its way, and this disk has kept something else."""
    name = yard.segment(b"games")
    await yard.settle()
    yard.file(HUB, name).unlink()
    await yard.tell(CopiesTold(place=HUB, gone=(name,), why="somebody deleted it"))
    before = len(yard.facts(CopiesVerified))
    forgetting(yard, monkeypatch)
    await yard.settle()
    assert len(yard.facts(CopiesVerified)) == before
    assert len(yard.facts(CopiesDamaged)) == 1, "it is not fetched on and on"
    assert yard.copies(name)[HUB].damaged
    assert "its disk is failing" in (yard.located[HUB].trouble or "")


def forgetting(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of the controller's own store keeps something else than what it is given out of the bucket."""
    get = yard.stores["bucket"].get

    def forgets(name: ObjectName, target: Path, pace: Pace) -> None:
        get(name, target, pace)
        target.write_bytes(b"zeros")

    monkeypatch.setattr(yard.stores["bucket"], "get", forgets)
