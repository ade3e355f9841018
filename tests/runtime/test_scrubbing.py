"""Whatever lies about its bytes is found within the promised time, at no more than the bound, and mended."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NoReturn

import pytest

from hostler.model.artifacts import HUB, ReplicationRules
from hostler.model.errors import LinkRefused, StoreLost
from hostler.policy.scrubbing import AIM, DAY_S
from hostler.runtime import places
from hostler.runtime.pacing import Bandwidth
from hostler.runtime.places import Located, label
from hostler.runtime.replicating import Replicator
from hostler.runtime.scrubbing import SAMPLE, Scrubber
from hostler.runtime.verdicts import Verdicts
from hostler.store import open_journal
from hostler.stores.base import LABEL, ObjectName
from hostler.stores.directory import DirectoryStore
from tests.journals import new_journal
from tests.patience import PATIENCE_S
from tests.runtime.test_replicating import SUFFIX, Yard
from tests.stores.conftest import SHOPS, Shop, s3

__all__ = ["s3"]

PROMISE_S = DAY_S / 2


class Time:
    """Virtual time: it jumps to the next one who sleeps once everybody does, and nobody else is at work."""

    def __init__(self, at: float = 1000.0) -> None:
        self.at = at
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = 0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self._number += 1
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.at + seconds, self._number, woken))
        await woken

    def jump(self) -> None:
        """To whoever sleeps the shortest."""
        until, _, woken = heapq.heappop(self._sleepers)
        self.at = max(self.at, until)
        if not woken.done():
            woken.set_result(None)


class Keeper:
    """A yard whose scrubber and replicator take turns in virtual time."""

    def __init__(self, yard: Yard, rules: ReplicationRules) -> None:
        self.yard = yard
        self.rules = rules
        self.woken = True
        self.begin_anew()

    def begin_anew(self) -> None:
        """As after a restart: nothing is remembered but what the catalogue says, and who is away."""
        yard = self.yard
        self.verdicts = Verdicts(yard.journal, yard.located, yard.clock, yard.tell, yard.troubles.append)
        self.replicator = Replicator(
            yard.journal, yard.located, yard.stores[HUB].root, self.rules, yard.clock, self.verdicts,
            yard.troubles.append,
        )  # fmt: skip
        self.scrubber = Scrubber(
            yard.journal, yard.located, self.rules, yard.clock, self.verdicts, yard.troubles.append, self.wake
        )
        for each in self.scrubber._readings.values():
            each.own = Bandwidth(None)  # it would wait in real time

    def wake(self) -> None:
        self.woken = True

    async def pass_time(self, seconds: float, until: Callable[[], bool] = lambda: False) -> float:
        """Live on; the time at which `until` came to be, or ended."""
        clock, end = self.yard.clock, self.yard.clock.at + seconds
        due, looked_at = dict.fromkeys(self.yard.located, clock.at), float("-inf")
        while due and clock.at < end and not until():
            place = min(due, key=lambda each: due[each])
            clock.at = max(clock.at, due[place])
            due[place] = clock.at + await self.scrubber.turn(place)
            if self.woken or clock.at - looked_at >= DAY_S / 8:
                self.woken, looked_at = False, clock.at
                await self.replicator.settled()
        return clock.at


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    journal = open_journal(new_journal(tmp_path))
    made = Yard(tmp_path, journal)
    yield made
    assert made.troubles == []
    journal.close()


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


async def test_every_copy_is_read_in_time_the_longest_unread_first(yard: Yard) -> None:
    keeper = Keeper(yard, ReplicationRules(verified_within_s=PROMISE_S))
    names = [yard.segment(bytes([number]) * 1000) for number in range(6)]
    await keeper.replicator.settled()
    began = yard.clock.at
    await keeper.pass_time(PROMISE_S)
    for name in names:
        for place, copy in yard.copies(name).items():
            assert copy.verified_at is not None
            assert copy.verified_at > began, place
            assert yard.clock.at - copy.verified_at <= PROMISE_S * (AIM + 0.01)


@pytest.mark.parametrize("where", [HUB, "bucket"])
async def test_a_flipped_bit_is_found_in_time_and_mended(yard: Yard, where: str) -> None:
    keeper = Keeper(yard, ReplicationRules(verified_within_s=PROMISE_S))
    names = [yard.segment(bytes([number]) * 1000) for number in range(6)]
    await keeper.replicator.settled()
    began = yard.clock.at
    for name in names[1::3]:
        flip(yard.file(where, name))
    found = await keeper.pass_time(
        PROMISE_S, lambda: all(yard.file(where, each).read_bytes()[:1] * 1000 == yard.file(where, each).read_bytes()
                               for each in names)
    )  # fmt: skip
    assert found - began < PROMISE_S
    for name in names:
        assert not any(copy.damaged for copy in yard.copies(name).values())
        assert len(set(yard.file(where, name).read_bytes())) == 1
    assert len(list((yard.stores[where].root / "quarantine").iterdir())) == len(names[1::3])


@pytest.mark.parametrize("kind", SHOPS)
async def test_it_is_found_in_every_kind_of_store(
    yard: Yard, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if kind == "bucket":
        pytest.importorskip("boto3", reason="no client for S3: pip install boto3")
    (tmp_path / "shop").mkdir()
    shop: Shop = SHOPS[kind](tmp_path / "shop", request)
    yard.located["bucket"] = Located(
        store=shop.store, domain="s3", bandwidth=Bandwidth(None), label=label("f", "bucket")
    )
    keeper = Keeper(yard, ReplicationRules(verified_within_s=DAY_S / 12))
    names = [yard.segment(bytes([number]) * 1000) for number in range(2)]
    await keeper.replicator.settled()
    assert shop.read(LABEL) == label("f", "bucket").encode()
    wrong, path = names[1], ObjectName(names[1], SUFFIX).path
    right = shop.read(path)
    shop.write(path, b"x" * 1000)
    began = yard.clock.at
    ended = await keeper.pass_time(DAY_S / 12, lambda: shop.read(path) == right)
    assert ended - began < DAY_S / 12
    assert not yard.copies(wrong)["bucket"].damaged
    assert shop.read(f"quarantine/{wrong}{SUFFIX}") == b"x" * 1000


async def test_a_restart_does_not_begin_anew(yard: Yard) -> None:
    """Restarted every hour, it still reads all of it once in the time, and each copy about once."""
    keeper = Keeper(yard, ReplicationRules(verified_within_s=PROMISE_S))
    names = [yard.segment(bytes([number]) * 1000) for number in range(8)]
    await keeper.replicator.settled()
    before = {place: yard.stores[place].checks for place in yard.stores}
    for _ in range(12):
        await keeper.pass_time(PROMISE_S / 12)
        keeper.begin_anew()
    for name in names:
        for copy in yard.copies(name).values():
            assert copy.verified_at is not None
            assert yard.clock.at - copy.verified_at <= PROMISE_S
    for place in (HUB, "bucket"):
        assert yard.stores[place].checks - before[place] <= 2 * len(names)


async def test_a_copy_that_is_gone_is_told_and_made_again(yard: Yard) -> None:
    keeper = Keeper(yard, ReplicationRules(verified_within_s=PROMISE_S))
    name = yard.segment(b"games")
    yard.segment(b"others")
    await keeper.replicator.settled()
    yard.file("bucket", name).unlink()
    ended = await keeper.pass_time(PROMISE_S, lambda: yard.file("bucket", name).exists())
    assert ended < 1000 + PROMISE_S


async def test_no_more_is_read_than_the_bound_allows_and_it_is_said(yard: Yard) -> None:
    rules = ReplicationRules(verified_within_s=1000.0, scrub_bytes_per_s=10.0)
    keeper = Keeper(yard, rules)
    for number in range(20):
        yard.segment(bytes([number]) * 1000)
    await keeper.replicator.settled()
    before = yard.stores[HUB].checks
    yard.located = {HUB: yard.located[HUB]}
    keeper.begin_anew()
    for _ in range(50):
        yard.clock.at += await keeper.scrubber.turn(HUB)
    passed = yard.clock.at - 1000
    assert 0 < (yard.stores[HUB].checks - before) * 1000 <= passed * 10 + 1000
    (said,) = keeper.scrubber.troubles()
    assert "controller cannot all be read" in said
    assert "scrub_mb_per_s" in said


async def test_one_that_cannot_be_read_does_not_stop_the_others(yard: Yard) -> None:
    keeper = Keeper(yard, ReplicationRules(verified_within_s=PROMISE_S))
    first = yard.segment(b"first")
    yard.clock.at += 1
    second = yard.segment(b"second")
    await keeper.replicator.settled()
    path = yard.file("bucket", first)
    path.unlink()
    path.mkdir()  # it can be opened, and not read
    began = yard.clock.at
    await keeper.pass_time(PROMISE_S * (AIM + 0.05))
    copies = yard.copies(second)["bucket"], yard.copies(first)["bucket"]
    assert copies[0].verified_at is not None
    assert copies[0].verified_at > began
    assert copies[1].verified_at is not None
    assert copies[1].verified_at <= began
    assert not copies[1].damaged


async def test_strangers_are_counted_later_where_the_journal_does_not_answer(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once ended the controller: a database was started anew while its files were listed."""
    keeper = Keeper(yard, ReplicationRules())

    def lost() -> NoReturn:
        raise StoreLost("the database does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(yard.journal, "catalogue", lost)
        await keeper.scrubber.count_strangers()
    assert keeper.scrubber.strangers is None
    assert "the database does not answer" in yard.troubles.pop()
    await keeper.scrubber.count_strangers()
    assert keeper.scrubber.strangers == 0


async def test_what_nobody_told_of_is_counted_and_left_alone(yard: Yard) -> None:
    keeper = Keeper(yard, ReplicationRules())
    name = yard.segment(b"games")
    stranger = yard.file(HUB, "ab" * 32)
    stranger.parent.mkdir(parents=True)
    stranger.write_bytes(b"whose?")
    assert keeper.scrubber.strangers is None
    await keeper.scrubber.count_strangers()
    assert keeper.scrubber.strangers == 1
    assert stranger.read_bytes() == b"whose?"
    assert list(yard.copies(name)) == [HUB]


async def test_it_runs_by_itself_and_ends_when_it_is_told_to(yard: Yard) -> None:
    time = Time()
    yard.clock = time  # type: ignore[assignment]
    keeper = Keeper(yard, ReplicationRules(verified_within_s=PROMISE_S))
    name = yard.segment(b"games")
    await keeper.replicator.settled()
    running = asyncio.create_task(keeper.scrubber.run())
    async with asyncio.timeout(PATIENCE_S):
        while (yard.copies(name)["bucket"].verified_at or 0) <= 1000.0:
            await asyncio.sleep(0.001)
            if len(time._sleepers) == 4:  # three places, and who counts strangers
                time.jump()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert time.at <= 1000 + PROMISE_S


def labelled(yard: Yard) -> None:
    for name, each in yard.located.items():
        each.label = label("f", name)


async def test_an_empty_mount_point_is_not_an_empty_store(yard: Yard) -> None:
    labelled(yard)
    keeper = Keeper(yard, ReplicationRules(verified_within_s=2 * DAY_S))
    names = [yard.segment(bytes([number]) * 1000) for number in range(3)]
    await keeper.replicator.settled()
    root, elsewhere = yard.stores["bucket"].root, yard.path / "unmounted"
    root.rename(elsewhere)
    root.mkdir()
    await keeper.pass_time(2 * DAY_S * 0.9)
    assert all("bucket" in yard.copies(name) for name in names), "nothing is believed gone"
    assert "is what it lies on mounted?" in (yard.located["bucket"].trouble or "")
    assert list(root.iterdir()) == [], "and nothing is put there"
    (said,) = places.troubles(yard.located, yard.clock.at, 3.0)
    assert "nothing there counts" in said
    assert all("shelf" in yard.copies(name) for name in names), "and as long as it is away, others have the copies"


@pytest.mark.long
async def test_a_store_that_was_away_for_long_counts_again_after_a_sample(yard: Yard) -> None:
    labelled(yard)
    keeper = Keeper(yard, ReplicationRules(verified_within_s=PROMISE_S))
    names = [yard.segment(bytes([number]) * 1000) for number in range(3)]
    await keeper.replicator.settled()
    root, elsewhere = yard.stores["bucket"].root, yard.path / "unmounted"
    root.rename(elsewhere)
    await keeper.pass_time(2 * DAY_S)
    assert not places.counts(yard.located["bucket"], yard.clock.at)
    kept = places.absences(yard.located)
    elsewhere.rename(root)
    flip(yard.file("bucket", names[2]))
    yard.located["bucket"].away_since, yard.located["bucket"].away_until = None, 0.0
    places.recall(yard.located, kept)  # as after a restart
    await keeper.pass_time(DAY_S / 4)
    assert places.counts(yard.located["bucket"], yard.clock.at)
    assert len(names) < SAMPLE, "all of them were read"
    assert (root / "quarantine" / f"{names[2]}{SUFFIX}").exists()


async def test_a_place_that_is_somebody_elses_is_not_used(yard: Yard) -> None:
    (yard.stores["bucket"].root / LABEL).write_text(label("another", "bucket"))
    labelled(yard)
    keeper = Keeper(yard, ReplicationRules())
    name = yard.segment(b"games")
    await keeper.replicator.settled()
    assert "bucket" not in yard.copies(name)
    assert "another" in (yard.located["bucket"].trouble or "")


async def test_a_store_of_before_is_known_by_what_it_has(yard: Yard) -> None:
    keeper = Keeper(yard, ReplicationRules())
    yard.segment(b"games")
    await keeper.replicator.settled()
    labelled(yard)
    bucket = yard.located["bucket"]
    places.recognise(bucket, lambda: keeper.verdicts.known("bucket"))
    assert (yard.stores["bucket"].root / LABEL).read_text() == label("f", "bucket")
    (yard.stores["bucket"].root / LABEL).unlink()
    for path in yard.stores["bucket"].root.rglob("*.npz"):
        path.unlink()
    with pytest.raises(LinkRefused, match="mounted"):
        places.recognise(bucket, lambda: keeper.verdicts.known("bucket"))


async def test_a_store_that_left_the_fleet_file_is_given_up_after_saying_so(yard: Yard) -> None:
    keeper = Keeper(yard, ReplicationRules())
    names = [yard.segment(bytes([number]) * 1000) for number in range(3)]
    await keeper.replicator.settled()
    assert "bucket" in yard.copies(names[0])
    yard.file(HUB, names[0]).unlink()
    del yard.located["bucket"]
    yard.located["attic"] = Located(
        store=DirectoryStore(yard.path / "attic"), domain="attic", bandwidth=Bandwidth(None)
    )
    (yard.path / "attic").mkdir()
    keeper.begin_anew()
    await keeper.replicator.settled()
    (said,) = yard.troubles
    yard.troubles.clear()
    assert "the 3 copies there count no longer" in said
    for name in names[1:]:
        assert set(yard.copies(name)) == {HUB, "attic"}
