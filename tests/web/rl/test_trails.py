"""Output is read once for all who look, only what is new of it, and whatever becomes of it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis.strategies import integers, lists

from hostler.model.errors import LinkLost
from hostler.model.views import LogChunk
from hostler.web.rl.trails import FAULT_REST_S, KEPT, LINES_MAX, PIECE, REST_S, TAIL, Trail, Trails
from hostler.workloads.gameboy.shown import LINE_MAX
from tests.web.core_desk import CoreDesk
from tests.web.rl.builders import line, output, told


@dataclass
class Reader:
    """A desk that counts what it is asked, in front of one attempt; its time is set by hand."""

    data: bytes = b""
    first: int = 0
    """Bytes before it were dropped."""
    ended: bool = False
    fault: Exception | None = None
    asked: list[tuple[int, int]] = field(default_factory=list)
    at: float = 100.0
    wait: asyncio.Event | None = None

    def status(self) -> Any:
        return CoreDesk().status()

    async def log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        self.asked.append((offset, limit))
        if self.wait is not None:
            await self.wait.wait()
        if self.fault is not None:
            raise self.fault
        size = len(self.data)
        begin = max(min(size, offset if offset >= 0 else max(0, size + offset)), self.first)
        piece = self.data[begin : begin + limit]
        return LogChunk(attempt=attempt, stream=stream, offset=begin, data=piece, size=size, ended=self.ended)

    def trails(self) -> Trails:
        return Trails(self, lambda: self.at)  # type: ignore[arg-type]

    async def later(self, trails: Trails, more: bytes = b"") -> Trail:
        self.data += more
        self.at += REST_S
        return await trails.look("j1.1")


def test_only_what_is_new_is_read() -> None:
    async def play() -> None:
        reader = Reader(output(3))
        trails = reader.trails()
        trail = await trails.look("j1.1")
        await reader.later(trails, output(5, begin=4))
        await reader.later(trails)
        assert trail.account.lines == 5
        assert reader.asked == [(-TAIL, TAIL), (len(output(3)), PIECE), (len(output(5)), PIECE)]

    asyncio.run(play())


def test_however_many_look_it_is_read_once() -> None:
    async def play() -> None:
        reader = Reader(output(3))
        reader.wait = asyncio.Event()
        trails = reader.trails()
        looking = [asyncio.ensure_future(trails.look("j1.1")) for _ in range(50)]
        await asyncio.sleep(0)
        reader.wait.set()
        found = await asyncio.gather(*looking)
        assert len(reader.asked) == 1
        assert {id(each) for each in found} == {id(found[0])}

    asyncio.run(play())


def test_of_old_output_only_the_end_is_read_and_half_a_line_is_none() -> None:
    async def play() -> None:
        old = b"x" * 50 + b"\n" + output(2000)
        assert len(old) > TAIL
        reader = Reader(old)
        trail = await reader.trails().look("j1.1")
        whole = old[-TAIL:].partition(b"\n")[2]
        assert trail.account.lines == whole.count(b"\n")
        assert trail.account.skipped == 0
        assert trail.account.last is not None
        assert trail.account.last.updates == 2000

    asyncio.run(play())


def test_of_long_lines_the_last_one_is_read() -> None:
    async def play() -> None:
        long = {str(number): 12 for number in range(40_000)}
        reader = Reader(line(told(1, explored=long)) + line(told(2, explored=long)))
        assert len(reader.data) > 2 * TAIL
        trail = await reader.trails().look("j1.1")
        assert trail.account.last is not None
        assert trail.account.last.updates == 2
        assert reader.asked == [(-TAIL, TAIL), (-PIECE, PIECE)]

    asyncio.run(play())


@given(lists(integers(0, 2000), max_size=12))
def test_pieces_of_any_size_are_the_same_lines(cuts: list[int]) -> None:
    whole = output(4) + b"\xff\xfe garbage\n" + line({"trouble": "t"}) + b'{"rl": 1, \n' + output(5, begin=5)

    async def play() -> None:
        reader = Reader()
        trails = reader.trails()
        trail = await trails.look("j1.1")
        for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(whole)], strict=True):
            await reader.later(trails, whole[begin:end])
        assert (trail.account.lines, trail.account.skipped, trail.account.troubles_told) == (6, 1, 1)

    asyncio.run(play())


def test_what_was_dropped_meanwhile_is_passed_over() -> None:
    async def play() -> None:
        reader = Reader(output(3) + b'{"rl": 1, "st')
        trails = reader.trails()
        trail = await trails.look("j1.1")
        reader.first = len(reader.data) + 5
        await reader.later(trails, b'eps": 5, "sec\n' + output(5, begin=5))
        assert (trail.account.lines, trail.account.skipped) == (4, 0)

    asyncio.run(play())


def test_of_a_flood_the_end_is_read() -> None:
    async def play() -> None:
        reader = Reader(output(1))
        trails = reader.trails()
        trail = await trails.look("j1.1")
        await reader.later(trails, b"noise\n" * PIECE + output(9, begin=9))
        assert reader.asked[1:] == [(len(output(1)), PIECE), (-TAIL, TAIL)]
        assert trail.account.last is not None
        assert trail.account.last.updates == 9

    asyncio.run(play())


def test_of_very_many_lines_the_last_ones_are_understood() -> None:
    async def play() -> None:
        reader = Reader(b"{\n" * (TAIL // 4) + b"\n" * (TAIL // 4) + output(1))
        trail = await reader.trails().look("j1.1")
        assert (trail.account.lines, len(trail.pending)) == (1, 0)
        assert LINES_MAX < trail.account.skipped <= TAIL // 4

    asyncio.run(play())


def test_a_line_without_end_is_not_kept() -> None:
    async def play() -> None:
        reader = Reader(b"{")
        trails = reader.trails()
        trail = await trails.look("j1.1")
        for _ in range(5):
            await reader.later(trails, b"x" * (LINE_MAX // 2))
            assert len(trail.rest) <= LINE_MAX
        await reader.later(trails, b"\n" + output(1))
        assert (trail.account.lines, trail.account.skipped) == (1, 1)

    asyncio.run(play())


def test_what_is_over_is_read_no_more_and_its_last_line_needs_no_end() -> None:
    async def play() -> None:
        reader = Reader(output(2) + line({"done": True}).rstrip(), ended=True)
        trails = reader.trails()
        trail = await trails.look("j1.1")
        await reader.later(trails)
        assert trail.account.ending is not None
        assert len(reader.asked) == 1

    asyncio.run(play())


def test_a_node_that_does_not_answer_is_asked_seldom_and_what_was_read_stays() -> None:
    async def play() -> None:
        reader = Reader(output(2))
        trails = reader.trails()
        trail = await trails.look("j1.1")
        reader.fault = LinkLost("the node does not answer")
        await reader.later(trails)
        await reader.later(trails)
        assert (trail.fault, trail.account.lines, len(reader.asked)) == ("the node does not answer", 2, 2)
        reader.fault = None
        reader.at += FAULT_REST_S
        await trails.look("j1.1")
        assert (trail.fault, trail.account.lines) == (None, 2)

    asyncio.run(play())


def test_who_goes_away_while_it_is_read_takes_nothing_with_them() -> None:
    async def play() -> None:
        reader = Reader(output(1))
        trails = reader.trails()
        trail = await trails.look("j1.1")
        reader.data += output(500, begin=2)
        reader.at += REST_S
        looking = asyncio.ensure_future(trails.look("j1.1"))
        while not trail.pending:  # noqa: ASYNC110 - what it waits for tells nobody
            await asyncio.sleep(0)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await trails.look("j1.1")
        assert trail.account.lines == 500

    asyncio.run(play())


def test_trails_that_nobody_looks_at_are_forgotten() -> None:
    async def play() -> Sequence[str]:
        trails = Reader(output(1)).trails()
        for number in range(KEPT + 10):
            await trails.look(f"j{number}.1")
        return list(trails._kept)

    names = asyncio.run(play())
    assert (len(names), names[0]) == (KEPT, "j10.1")
