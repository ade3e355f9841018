"""Files are dealt out to who copies them, and what came of many is told in one fact."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hostler.model.artifacts import HUB
from hostler.model.events import CopiesVerified
from hostler.runtime.copying import FILE_BYTES, PARCEL_BYTES, Copier, Move, parcels
from hostler.stores.base import ObjectName
from tests.runtime.test_replicating import SUFFIX, Clock, Yard, yard

__all__ = ["yard"]
SIZES = st.lists(st.integers(0, 3 * PARCEL_BYTES), max_size=200)


def moves(sizes: list[int]) -> list[Move]:
    names = (ObjectName(f"{number:064x}", SUFFIX) for number in range(len(sizes)))
    return [Move(name, size, HUB, "bucket") for name, size in zip(names, sizes, strict=True)]


@given(SIZES, st.integers(0, 5))
def test_the_first_are_dealt_out_and_nobody_has_more_than_enough(sizes: list[int], count: int) -> None:
    wanted = moves(sizes)
    hands = parcels(wanted, count)
    dealt = [each for hand in hands for each in hand]
    assert len(hands) <= count
    assert all(hands), "nobody goes with nothing"
    assert sorted(dealt) == sorted(wanted[: len(dealt)]), "the most urgent"
    for hand in hands:
        assert sum(each.bytes + FILE_BYTES for each in hand[:-1]) < PARCEL_BYTES
    if len(dealt) < len(wanted) and count:
        assert all(sum(each.bytes + FILE_BYTES for each in hand) >= PARCEL_BYTES for hand in hands)


def test_the_most_urgent_begin_and_all_have_something_to_do() -> None:
    wanted = moves([10] * 10)
    assert [hand[0] for hand in parcels(wanted, 4)] == wanted[:4]
    assert sorted(len(hand) for hand in parcels(wanted, 4)) == [2, 2, 3, 3]
    assert parcels(wanted, 0) == []


def segments(yard: Yard, count: int) -> list[Move]:
    contents = [f"games {number}".encode() for number in range(count)]
    return [Move(ObjectName(yard.segment(each), SUFFIX), len(each), HUB, "bucket") for each in contents]


def copier(yard: Yard) -> Copier:
    return Copier(yard.located, yard.stores[HUB].root, yard.clock, yard.verdicts)


def told(yard: Yard) -> list[int]:
    return [len(each.artifacts) for each in yard.facts(CopiesVerified) if each.place == "bucket"]


async def test_many_that_were_copied_are_told_of_in_one_fact(yard: Yard) -> None:
    wanted = segments(yard, 20)
    await copier(yard).move(wanted)
    assert told(yard) == [20]
    assert all(set(yard.copies(each.name.sha256)) == {HUB, "bucket"} for each in wanted)


async def test_what_takes_long_is_told_now_and_then(yard: Yard) -> None:
    class Slow(Clock):
        def now(self) -> float:
            self.at += 0.1
            return self.at

    wanted = segments(yard, 20)
    yard.clock = yard.verdicts._clock = Slow()
    await copier(yard).move(wanted)
    assert len(told(yard)) > 3
    assert sum(told(yard)) == 20


async def test_what_was_copied_before_a_store_went_away_counts_and_the_rest_is_left(yard: Yard) -> None:
    wanted, bucket = segments(yard, 5), yard.stores["bucket"]
    whole, puts = bucket.put, []

    def put(*of: object) -> None:
        puts.append(of)
        bucket.away = len(puts) > 2
        whole(*of)  # type: ignore[arg-type]

    bucket.put = put  # type: ignore[method-assign]
    await copier(yard).move(wanted)
    assert told(yard) == [2]
    assert len(puts) == 3, "nobody is asked on who has just not answered"


async def test_one_that_is_damaged_keeps_no_other_from_being_copied(yard: Yard) -> None:
    wanted = segments(yard, 5)
    yard.file(HUB, wanted[2].name.sha256).write_bytes(b"gamez")
    await copier(yard).move(wanted)
    assert told(yard) == [4]
    assert yard.copies(wanted[2].name.sha256)[HUB].damaged


async def test_nothing_is_put_where_there_is_no_room_and_what_lies_there_is_read(yard: Yard) -> None:
    first, second = segments(yard, 2)
    await copier(yard).move([first])
    yard.located["bucket"].full_until = yard.clock.at + 60
    await copier(yard).move([Move(first.name, first.bytes, "bucket", "bucket"), second])
    assert told(yard) == [1, 1]
    assert set(yard.copies(second.name.sha256)) == {HUB}
