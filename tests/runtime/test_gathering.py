"""What work needs comes into the controller's own store before it is sent, from wherever there is a copy of it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from hostler.model.artifacts import HUB
from hostler.model.errors import FilesError, LinkLost
from hostler.runtime import gathering
from hostler.runtime.gathering import Gatherer
from hostler.runtime.pacing import Bandwidth
from hostler.runtime.places import Located
from hostler.snapshots.reserve import RESERVE
from hostler.stores.base import ObjectName, Pace
from hostler.stores.directory import DirectoryStore
from tests.patience import PATIENCE_S
from tests.runtime.test_replicating import SUFFIX, Yard, forgetting, yard

__all__ = ["yard"]
UNKNOWN = "0" * 64


class Slow(DirectoryStore):
    """A directory that gives when somebody says so, and counts how often it did."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.may, self.began, self.got = threading.Event(), threading.Event(), 0

    def get(self, name: ObjectName, target: Path, pace: Pace) -> None:
        self.began.set()
        assert self.may.wait(PATIENCE_S)
        self.got += 1
        super().get(name, target, pace)


def gatherer(yard: Yard) -> Gatherer:
    return Gatherer(yard.journal, yard.located, yard.stores[HUB].root, yard.clock, yard.verdicts)


async def lies_elsewhere(yard: Yard, content: bytes = b"games") -> str:
    """A segment that was copied, and then retention deleted it at home."""
    name = yard.segment(content)
    await yard.settle()
    assert "bucket" in yard.copies(name)
    yard.file(HUB, name).unlink()
    return name


def alone_in(yard: Yard, place: str, store: DirectoryStore) -> None:
    """Nothing is left but that place, behind another store."""
    for each in set(yard.located) - {HUB, place}:
        del yard.located[each]
    yard.located[place] = Located(store=store, domain="s3", bandwidth=Bandwidth(None))


async def test_it_comes_home_and_counts_there(yard: Yard) -> None:
    name = await lies_elsewhere(yard)
    yard.clock.at += 500
    await gatherer(yard).gather({name, UNKNOWN})
    assert yard.file(HUB, name).read_bytes() == b"games"
    assert yard.copies(name)[HUB].verified_at == yard.clock.at


async def test_what_is_at_home_is_not_read(yard: Yard) -> None:
    name = yard.segment(b"games")
    yard.located.clear()
    await gatherer(yard).gather([name])


async def test_a_damaged_copy_is_set_aside_and_another_one_taken(yard: Yard) -> None:
    name = await lies_elsewhere(yard)
    await gatherer(yard).gather([name])
    yard.stores["shelf"].put(ObjectName(name, SUFFIX), yard.file(HUB, name), lambda _: None)
    await yard.verdicts.say(gathering.CopiesTold(place="shelf", verified=(name,)))
    yard.file(HUB, name).unlink()
    yard.file("bucket", name).write_bytes(b"gamed")
    await gatherer(yard).gather([name])
    assert yard.file(HUB, name).read_bytes() == b"games"
    assert yard.copies(name)["bucket"].damaged


async def test_where_no_copy_is_left_it_says_where_they_were(yard: Yard) -> None:
    name = await lies_elsewhere(yard)
    yard.file("bucket", name).unlink()
    with pytest.raises(FilesError, match=r"cannot be read elsewhere any more \(it was said to be in: bucket\)"):
        await gatherer(yard).gather([name])
    assert "bucket" not in yard.copies(name)


async def test_a_store_that_does_not_answer_is_waited_for(yard: Yard) -> None:
    name = await lies_elsewhere(yard)
    located = yard.located["bucket"]
    located.away_until, located.trouble = yard.clock.at + 60, "nobody answers"
    with pytest.raises(LinkLost, match="in bucket: nobody answers"):
        await gatherer(yard).gather([name])
    yard.clock.at += 61
    await gatherer(yard).gather([name])
    assert yard.file(HUB, name).exists()


async def test_a_store_that_left_the_fleet_has_nothing(yard: Yard) -> None:
    name = await lies_elsewhere(yard)
    del yard.located["bucket"]
    with pytest.raises(FilesError, match="cannot be read elsewhere"):
        await gatherer(yard).gather([name])


async def test_what_is_lost_is_told_before_what_does_not_answer(yard: Yard) -> None:
    lost, silent = await lies_elsewhere(yard), await lies_elsewhere(yard, b"others")
    await yard.verdicts.say(gathering.CopiesTold(place="bucket", gone=(lost,), why="somebody deleted it"))
    yard.located["bucket"].away_until = yard.clock.at + 60
    with pytest.raises(FilesError, match=lost):
        await gatherer(yard).gather([lost, silent])


async def test_what_two_need_is_fetched_once_even_if_one_gives_up(yard: Yard) -> None:
    name, slow = await lies_elsewhere(yard), Slow(yard.stores["bucket"].root)
    alone_in(yard, "bucket", slow)
    both = gatherer(yard)
    first, second = asyncio.create_task(both.gather([name])), asyncio.create_task(both.gather([name]))
    assert await asyncio.to_thread(slow.began.wait, PATIENCE_S)
    first.cancel()
    slow.may.set()
    await second
    assert slow.got == 1
    assert yard.file(HUB, name).exists()


async def test_without_room_nothing_is_fetched(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    name = await lies_elsewhere(yard)
    monkeypatch.setattr(RESERVE, "bytes", 1 << 62)
    with pytest.raises(OSError, match=r"no room for 5 bytes: 0 are free beside"):
        await gatherer(yard).gather([name])
    assert not yard.file(HUB, name).exists()


async def test_what_came_counts_once_it_was_read_back(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was right on its way, and this disk has kept something else."""
    name = await lies_elsewhere(yard)
    read_at = yard.copies(name)[HUB].verified_at
    forgetting(yard, monkeypatch)
    yard.clock.at += 500
    with pytest.raises(FilesError, match=r"here: what was written of .* is not what is read: its disk is failing"):
        await gatherer(yard).gather({name})
    assert read_at is not None
    assert yard.copies(name)[HUB].damaged
