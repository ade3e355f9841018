"""Reports in order, and what follows once they are durable."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, strategies as st

from hostler.backends.outbox import Outbox
from hostler.model.errors import LinkLost
from hostler.model.inputs import Input, Trouble


def word(text: str) -> Input:
    return Trouble(where="here", what=text)


async def test_in_order_and_to_the_end() -> None:
    box, done = Outbox(itertools.count(1)), list[str]()
    box.post(word("a"), word("b"))
    box.post(then=lambda: done.append("c"))
    box.end("it broke")
    assert (await box.next()).inputs == (word("a"), word("b"))
    report = await box.next()
    assert (report.inputs, report.receipt) == ((), 1)
    with pytest.raises(LinkLost, match="it broke"):
        await box.next()


def test_after_the_end_nothing_is_taken_and_nothing_follows() -> None:
    box, done = Outbox(itertools.count(1)), list[str]()
    box.post(word("a"), then=lambda: done.append("a"))
    box.end("it broke")
    box.end("again")
    with pytest.raises(LinkLost, match="it broke"):
        box.post(word("b"))
    box.acknowledge(1)
    assert done == []


@given(given=st.lists(st.booleans(), max_size=20), acks=st.lists(st.integers(0, 25), max_size=10))
def test_what_follows_follows_once_in_order_and_only_of_what_is_durable(given: list[bool], acks: list[int]) -> None:
    numbers = itertools.count(1)
    earlier, box, done = Outbox(numbers), Outbox(numbers), list[int]()
    earlier.post(then=lambda: done.append(-1))
    for at, awaited in enumerate(given):
        box.post(then=(lambda at=at: done.append(at)) if awaited else None)  # type: ignore[misc]
    awaited_ones = [at for at, awaited in enumerate(given) if awaited]
    for ack in acks:
        box.acknowledge(ack)
    most = max(acks, default=0)
    assert done == [at for number, at in enumerate(awaited_ones, start=2) if number <= most]
