"""Who has much to send shares a connection for that, waits for it where that is sooner, and else has another one."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from hostler.backends import guests
from hostler.backends.courier import Courier
from hostler.backends.guests import MORE, MUCH, SOON, Guests

pytestmark = pytest.mark.anyio


class Line:
    """A connection that nothing goes over."""

    def __init__(self) -> None:
        self.broken = False

    def close(self) -> None:
        self.broken = True


class Node:
    """It can be dialled, or not."""

    def __init__(self, *, reachable: bool = True) -> None:
        self.reachable = reachable
        self.lines: list[Line] = []
        self.guests = Guests(self.dial)

    async def dial(self) -> Courier | None:
        await asyncio.sleep(0)
        if not self.reachable:
            return None
        self.lines.append(Line())
        return cast(Courier, self.lines[-1])

    async def use(self, size: int, until: asyncio.Event | None = None) -> object:
        async with self.guests.for_bytes(size) as courier:
            if until is not None:
                await until.wait()
            return courier


async def settled() -> None:
    """Everybody has come as far as they can: nothing here takes time."""
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.fixture
def node() -> Node:
    return Node()


async def test_little_goes_without_one(node: Node) -> None:
    assert await node.use(MORE - 1) is None
    assert await node.use(MUCH - 1) is None, "not worth a handshake"
    assert node.lines == []


async def test_one_that_waits_serves_for_less(node: Node) -> None:
    (first,) = [await node.use(MUCH)]
    assert first is node.lines[0]
    assert await node.use(MORE) is first
    assert await node.use(MORE - 1) is None
    assert await node.use(MUCH) is first


async def test_what_is_soon_through_is_waited_for(node: Node) -> None:
    go = asyncio.Event()
    users = [asyncio.create_task(node.use(MUCH, go)) for _ in range(5)]
    await settled()
    assert await node.use(MORE) is None, "not worth the wait"
    go.set()
    assert await asyncio.gather(*users) == [node.lines[0]] * 5


async def test_what_is_not_has_another_beside_it(node: Node) -> None:
    go = asyncio.Event()
    large = asyncio.create_task(node.use(SOON + 1, go))
    await settled()
    assert await node.use(MUCH) is node.lines[1]
    go.set()
    assert await large is node.lines[0]


async def test_where_none_can_be_had_all_go_without(node: Node) -> None:
    node.reachable = False
    assert await asyncio.gather(*(node.use(MUCH) for _ in range(3))) == [None] * 3
    node.reachable = True
    assert await node.use(MUCH) is node.lines[0]


async def test_one_that_was_not_used_to_the_end_is_not_used_again(node: Node) -> None:
    with pytest.raises(ValueError, match="half"):
        async with node.guests.for_bytes(MUCH):
            raise ValueError("half of it has come")
    assert node.lines[0].broken
    assert await node.use(MUCH) is node.lines[1]


async def test_who_waits_no_more_leaves_the_others_theirs(node: Node) -> None:
    go = asyncio.Event()
    first = asyncio.create_task(node.use(MUCH, go))
    await settled()
    second, third = (asyncio.create_task(node.use(MUCH)) for _ in range(2))
    await settled()
    second.cancel()
    go.set()
    assert await first is await third is node.lines[0]
    assert not node.lines[0].broken


async def test_the_next_in_turn_has_a_new_one_where_the_first_one_broke(node: Node) -> None:
    go = asyncio.Event()
    first = asyncio.create_task(node.use(MUCH, go))
    await settled()
    second = asyncio.create_task(node.use(MUCH))
    await settled()
    first.cancel()
    assert await second is node.lines[1]
    assert node.lines[0].broken


async def test_one_that_nothing_more_comes_for_is_hung_up_on(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "KEPT_S", 0.0)
    await node.use(MUCH)
    await settled()
    assert node.lines[0].broken
    assert node.guests._guests == []


async def test_all_are_hung_up_on_at_the_end(node: Node) -> None:
    await node.use(MUCH)
    node.guests.close()
    assert node.lines[0].broken
