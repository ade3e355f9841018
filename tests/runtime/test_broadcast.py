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
    assert sum(queue.qsize() for queue in sent._readers) == 0


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
