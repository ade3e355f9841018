"""The output of attempts on other machines is read while they run, within bounds, and kept for when they are away."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hostler.backends.base import Backend
from hostler.model.errors import LinkLost, NotFound
from hostler.model.events import Entry
from hostler.model.views import LogChunk
from hostler.runtime import outputs
from hostler.runtime.keptlogs import KeptLogs
from hostler.runtime.outputs import Outputs
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.anyio


class Time:
    """A clock that a test turns: each sleep lets others run and goes on at once."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.turned = asyncio.Event()

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        self.turned.set()
        await asyncio.sleep(0.001)

    async def reaches(self, at: float) -> None:
        """Wait until it is so late."""
        while self.at < at:
            self.turned.clear()
            async with asyncio.timeout(PATIENCE_S):
                await self.turned.wait()


class Node:
    """A node with attempts that have written something; `away` is what reading raises."""

    def __init__(self, kind: str = "ssh", **written: bytes) -> None:
        self.kind = kind
        self.written = dict(written)
        self.reads: list[tuple[str, int, int]] = []
        self.away: Exception | None = None

    async def read_log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        if stream == "out":
            self.reads.append((attempt, offset, limit))
        if self.away is not None:
            raise self.away
        whole = self.written.get(attempt.partition(".")[0], b"") if stream == "out" else b""
        data = whole[offset : offset + limit]
        return LogChunk(attempt=attempt, stream=stream, offset=offset, data=data, size=len(whole), ended=False)


class World:
    """Outputs over one node whose attempts all run."""

    def __init__(self, folder: Path, node: Node) -> None:
        self.kept = KeptLogs(folder)
        self.node = node
        self.clock = Time()
        self.troubles: list[str] = []
        self.outputs = Outputs(self.kept, self.clock, self.backend_of, self.story, self.running, self.troubles.append)

    async def backend_of(self, attempt: str) -> Backend:
        return self.node  # type: ignore[return-value]

    async def story(self, job: str) -> Sequence[Entry]:
        return ()

    def running(self) -> Iterator[tuple[str, Backend]]:
        yield from ((f"{name}.1", self.node) for name in self.node.written)  # type: ignore[misc]

    async def run_for(self, seconds: float) -> None:
        """Let the reading go on for so long, by its own clock."""
        until = self.clock.at + seconds
        task = asyncio.create_task(self.outputs.run())
        await self.clock.reaches(until)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def told(self, attempt: str = "j1.1", at: int = 0) -> bytes:
        piece = await self.outputs.output(attempt, at, 0, 1 << 20)
        return b"".join(base64.b64decode(each.data) for each in piece.pieces)


async def test_last_words_before_a_cut_are_kept_though_nobody_asked(tmp_path: Path) -> None:
    world = World(tmp_path, Node(j1=b"step 1\n"))
    await world.run_for(10)
    world.node.written["j1"] += b"Traceback\n"
    await world.run_for(30)
    world.node.away = LinkLost("cut")
    assert await world.told() == b"step 1\nTraceback\n"
    assert (await world.outputs.log("j1.1", "out", -10, 100)).data == b"Traceback\n"


async def test_output_that_somebody_saw_is_kept_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, Node(j1=b"seen\n"))
    assert await world.told() == b"seen\n"
    world.node.away = LinkLost("cut")
    assert await world.told() == b"seen\n"


async def test_output_on_this_machine_is_not_copied(tmp_path: Path) -> None:
    world = World(tmp_path, Node("local", j1=b"here\n"))
    await world.run_for(30)
    assert world.node.reads == []
    assert await world.told() == b"here\n"
    assert world.kept.seen("j1.1") is None


async def test_silent_attempts_are_read_less_often(tmp_path: Path) -> None:
    world = World(tmp_path, Node(j1=b"once\n"))
    await world.run_for(300)
    assert len(world.node.reads) < 300 / outputs.LOOK_S / 2


async def test_reads_of_a_large_fleet_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "READS_PER_S", 5)
    world = World(tmp_path, Node())
    world.node.written = {f"j{number}": b"" for number in range(60)}
    await world.run_for(60)
    turns = 60 / outputs.LOOK_S + 2
    assert len(world.node.reads) <= turns * 5 * outputs.LOOK_S
    assert {attempt for attempt, _, _ in world.node.reads} == {f"j{number}.1" for number in range(60)}, "each its turn"


async def test_of_fast_output_the_newest_is_kept(tmp_path: Path) -> None:
    world = World(tmp_path, Node(j1=b"".join(b"%09d\n" % number for number in range(100_000))))
    await world.run_for(10)
    world.node.away = LinkLost("cut")
    assert max(limit for _, _, limit in world.node.reads) <= outputs.READ_BYTES
    assert (await world.told()).endswith(b"000099999\n")


async def test_a_node_that_does_not_answer_is_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "PATIENCE_S", 0.01)
    world = World(tmp_path, Node(j1=b"seen\n"))
    world.node.read_log = hang  # type: ignore[method-assign]
    with pytest.raises(LinkLost, match="has not answered"):
        await world.told()


async def hang(attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), ValueError("odd"), LinkLost("cut"), NotFound("no")]
)
async def test_what_goes_wrong_with_one_attempt_does_not_end_the_reading(tmp_path: Path, error: Exception) -> None:
    world = World(tmp_path, Node(j1=b"x\n"))
    world.node.away = error
    await world.run_for(30)
    assert len(world.node.reads) > 1
    assert len(world.troubles) == (0 if isinstance(error, LinkLost | NotFound) else 1)
