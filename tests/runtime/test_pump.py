"""How much the pump gives to the core in one step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from hostler.core import Core, Outcome
from hostler.core.slices import SLICE, Slices
from hostler.model.inputs import Asked, Begin, Input, Knowing, Looked, Submit, Tick
from hostler.runtime.clock import SteadyClock
from hostler.runtime.pump import MOST_AT_ONCE, Pump
from hostler.runtime.writer import Durable, Writer
from hostler.store import Batch, open_journal
from hostler.store.leading import Claim
from tests.patience import PATIENCE_S
from tests.runtime.conftest import script

pytestmark = pytest.mark.anyio


class Watched(Core):
    """Knows what it was given, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Sequence[Input]] = []

    def handled(self, now: float, *inputs: Input) -> Slices[Outcome]:
        self.steps.append(inputs)
        return super().handled(now, *inputs)


@asynccontextmanager
async def pumping(folder: Path) -> AsyncIterator[tuple[Watched, Pump]]:
    journal, core, clock = open_journal(folder), Watched(), SteadyClock()
    writer = Writer(journal, lambda error: None, lambda error: None)
    pump = Pump(core, writer, clock, lambda commands: None, lambda entries: None)
    epoch = journal.begin_epoch(clock.now(), Claim("test"))
    running = asyncio.ensure_future(pump.run())
    try:
        await pump.tell(Begin(version="test", epoch=epoch))
        core.steps.clear()
        yield core, pump
    finally:
        running.cancel()
        assert writer.close(PATIENCE_S)
        journal.close()


def jobs(first: int, count: int) -> Submit:
    return Submit(specs=tuple(script(f"job {number}") for number in range(first, first + count)))


async def test_what_comes_together_is_one_step_up_to_its_bound(tmp_path: Path) -> None:
    async with pumping(tmp_path) as (core, pump):
        await asyncio.gather(*(pump.tell(Tick()) for _ in range(2 * MOST_AT_ONCE + 1)))
        assert [len(step) for step in core.steps] == [MOST_AT_ONCE, MOST_AT_ONCE, 1]


@pytest.mark.parametrize("way", ["plain", "asked", "knowing"])
async def test_new_jobs_count_one_by_one(tmp_path: Path, way: str) -> None:
    half = MOST_AT_ONCE // 2
    wishes = [jobs(number * half, half) for number in range(5)]
    asked = [Asked(who="me", what="submitted", given=wish) for wish in wishes]
    known = [Knowing(given=each, looked=Looked(at=0, jobs=())) for each in asked]
    given: Sequence[Input] = {"plain": wishes, "asked": asked, "knowing": known}[way]  # type: ignore[assignment]
    async with pumping(tmp_path) as (core, pump):
        await asyncio.gather(*map(pump.tell, given))
        assert [len(step) for step in core.steps] == [2, 2, 1]
        assert len(core.state.jobs) == 5 * half


async def test_one_submission_is_one_step_however_long_it_is(tmp_path: Path) -> None:
    async with pumping(tmp_path) as (core, pump):
        (names,) = await pump.tell(jobs(0, 2 * MOST_AT_ONCE))
        assert len(names) == 2 * MOST_AT_ONCE
        assert len(core.steps) == 1


async def begun(core: Core) -> None:
    """Until the first job of a submission is in the state."""
    for _ in range(100_000):
        if core.state.jobs:
            return
        await asyncio.sleep(0)
    raise AssertionError("no job came")


async def test_other_tasks_have_their_turn_while_a_large_submission_is_taken(tmp_path: Path) -> None:
    """The loop turns at least once for each `SLICE` jobs, whatever one turn costs."""
    turns, seen = 0, set[int]()

    async def others(core: Core) -> None:
        nonlocal turns
        while True:
            turns += 1
            seen.add(len(core.state.jobs))
            await asyncio.sleep(0)

    async with pumping(tmp_path) as (core, pump):
        turning = asyncio.ensure_future(others(core))
        (names,) = await pump.tell(jobs(0, 20 * SLICE))
        turning.cancel()
        assert len(names) == 20 * SLICE
        assert len(core.steps) == 1
        assert turns >= 20
        assert max(after - before for before, after in pairwise(sorted(seen))) <= SLICE


async def test_large_submission_that_is_cut_off_leaves_nothing_in_the_journal(tmp_path: Path) -> None:
    async with pumping(tmp_path) as (core, pump):
        telling = asyncio.ensure_future(pump.tell(jobs(0, 20 * SLICE)))
        await begun(core)
        assert len(core.state.jobs) < 20 * SLICE, "it is under way"
        telling.cancel()
    journal = open_journal(tmp_path)
    kinds = {entry.event.kind for entry in journal.read()}
    journal.close()
    assert kinds == {"controller.started"}


async def test_all_of_a_large_submission_is_one_transaction(tmp_path: Path) -> None:
    async with pumping(tmp_path) as (core, pump):
        batches: list[int] = []
        write = pump._writer.write

        def note(batch: Batch, durable: Durable) -> None:
            batches.append(len(batch.entries))
            write(batch, durable)

        pump._writer.write = note  # type: ignore[method-assign]
        await pump.tell(jobs(0, 5 * SLICE), Tick())
        assert batches == [5 * SLICE]
        assert core.state.seq == 5 * SLICE + 1


async def test_journal_is_awaited_from_the_beginning_of_a_step_on(tmp_path: Path) -> None:
    async with pumping(tmp_path) as (core, pump):
        telling = asyncio.ensure_future(pump.tell(jobs(0, 20 * SLICE)))
        await begun(core)
        assert not telling.done()
        await pump.written()
        assert len(core.state.jobs) == 20 * SLICE
        assert (await telling)[0][0] == "j1"
