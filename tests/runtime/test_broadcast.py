"""What readers of the journal hold: little, however slow they are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hostler.model.events import Entry, TroubleRecorded
from hostler.runtime import broadcast
from hostler.runtime.broadcast import Broadcast
from hostler.store import Batch, Journal, open_journal

pytestmark = pytest.mark.anyio


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return open_journal(tmp_path)


def entries(first: int, count: int) -> list[Entry]:
    event = TroubleRecorded(where="here", what="this")
    return [Entry(seq=first + each, at=1.0, event=event) for each in range(count)]


async def test_a_reader_that_takes_nothing_loses_all_of_it_and_holds_nothing(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "BUFFER", 50)
    sent = Broadcast(journal)
    slow, quick = sent.entries(None), sent.entries(None)
    waiting = [asyncio.ensure_future(anext(slow)), asyncio.ensure_future(anext(quick))]
    await asyncio.sleep(0)
    sent.publish(entries(1, 1))
    assert [(await each).seq for each in waiting] == [1, 1]
    for first in range(2, 2002, 20):
        sent.publish(entries(first, 20))
        assert [(await anext(quick)).seq for _ in range(20)] == list(range(first, first + 20))
    assert (sent.readers, sent.lost) == (1, 1)
    with pytest.raises(StopAsyncIteration):
        await anext(slow)
    assert sent.waiting == 0


async def test_who_comes_back_reads_what_it_lost_from_the_journal(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broadcast, "BUFFER", 5)
    sent = Broadcast(journal)
    slow = sent.entries(0)
    made = entries(1, 30)
    journal.append([Batch(entries=made[:10], jobs=[])])
    seen = [(await anext(slow)).seq]
    journal.append([Batch(entries=made[10:], jobs=[])])
    sent.publish(made[10:])
    seen += [entry.seq async for entry in slow]
    assert seen == list(range(1, seen[-1] + 1))
    back = sent.entries(seen[-1])
    seen += [(await anext(back)).seq for _ in range(30 - len(seen))]
    assert seen == list(range(1, 31))


async def test_who_reads_along_gets_the_same_pieces_and_none_is_long(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is made of a piece for one reader is there for all others."""
    monkeypatch.setattr(broadcast, "PIECE", 20)
    sent = Broadcast(journal)
    readers = [sent.pieces(None) for _ in range(3)]
    waiting = [asyncio.ensure_future(anext(reader)) for reader in readers]
    await asyncio.sleep(0)
    sent.publish(entries(1, 50))
    assert sent.waiting == 3 * 50
    first = await asyncio.gather(*waiting)
    rest = [[await anext(reader), await anext(reader)] for reader in readers]
    pieces = [[one, *others] for one, others in zip(first, rest, strict=True)]
    assert all(each is other for own in pieces[1:] for each, other in zip(own, pieces[0], strict=True))
    assert [[entry.seq for entry in piece.entries] for piece in pieces[0]] == [
        list(range(1, 21)),
        list(range(21, 41)),
        list(range(41, 51)),
    ]
    assert sent.waiting == 0


async def test_a_piece_that_was_read_in_part_from_the_journal_is_handed_on_in_part(journal: Journal) -> None:
    made = entries(1, 30)
    journal.append([Batch(entries=made[:10], jobs=[])])
    sent = Broadcast(journal)
    reader = sent.pieces(0)
    assert [entry.seq for entry in (await anext(reader)).entries] == list(range(1, 11))
    sent.publish(made[:5])
    sent.publish(made[5:15])
    sent.publish(made[15:])
    assert [entry.seq for entry in (await anext(reader)).entries] == list(range(11, 16))
    assert [entry.seq for entry in (await anext(reader)).entries] == list(range(16, 31))


async def test_who_has_seen_everything_is_not_sent_through_the_journal(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = entries(1, 30)
    journal.append([Batch(entries=made[:20], jobs=[])])
    sent = Broadcast(journal)
    sent.publish(made[:20])
    looks: list[int] = []
    read = sent._page

    def noted(after: int) -> list[Entry]:
        looks.append(after)
        return read(after)

    monkeypatch.setattr(sent, "_page", noted)
    # The state is ahead of what is durable: who begins now may begin beyond it.
    readers = [sent.pieces(after) for after in (20, 22, 19)]
    waiting = [asyncio.ensure_future(anext(reader)) for reader in readers]
    assert [entry.seq for entry in (await waiting[2]).entries] == [20]
    sent.publish(made[20:])
    seen = [[entry.seq for entry in (await each).entries] for each in waiting[:2]]
    assert seen == [list(range(21, 31)), list(range(23, 31))]
    assert looks == [19]
