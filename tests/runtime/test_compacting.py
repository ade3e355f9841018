"""A controller packs its journal's old entries while it works, and answers nothing otherwise than before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from hostler.model.errors import CorruptState, StoreFenced, StoreLost
from hostler.model.events import Entry, TroubleRecorded
from hostler.model.inputs import Trouble
from hostler.model.rules import CompactRules
from hostler.model.work import JobState
from hostler.runtime import compacting as packing
from hostler.runtime.clock import SteadyClock
from hostler.runtime.compacting import AGAIN_S, MOST, SHARE, SOON_S, Compactor, Pace
from hostler.runtime.controller import USUAL, Controller
from hostler.runtime.parts import COMPACTION
from hostler.runtime.places import located
from hostler.runtime.snapshots import recovered, snapshot_of
from hostler.runtime.standby import Standby
from hostler.runtime.statedir import StateDir
from hostler.runtime.term import adopt_identity
from hostler.store import Batch, Claim, Journal, Place, compacting, open_journal, segments
from hostler.store.dialect import engine_of
from hostler.store.segments import Segment
from hostler.store.tables import metadata
from tests import postgres
from tests.backends.fake import FakeNode
from tests.runtime.conftest import script, submit, until, until_state

pytestmark = pytest.mark.anyio

RULES = CompactRules(after_s=0.0, keep_entries=5)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of ten entries, and looks that come soon."""
    monkeypatch.setattr(compacting, "ENTRIES", 10)
    monkeypatch.setattr(packing, "LOOK_S", 0.02)
    monkeypatch.setattr(packing, "REST_S", 0.0)


@asynccontextmanager
async def packer(directory: StateDir, *nodes: FakeNode) -> AsyncIterator[Controller]:
    by_name = {node.name: node for node in nodes}
    async with Controller(directory, "test", by_name, SteadyClock(), 10**9, compact=RULES) as controller:
        yield controller


def cover(place: Place) -> int:
    """Snapshots of all that is written now; how many entries that is."""
    with closing(open_journal(place)) as journal:
        core = recovered(journal, pytest.fail)
        journal.save_snapshot(snapshot_of(core))
        for old in [each.seq for each in journal.snapshots() if each.seq != core.state.seq]:
            forget(place, old)
        return core.state.seq


def forget(place: Place, seq: int) -> None:
    engine = engine_of(place)
    table = metadata.tables["snapshots"]
    with engine.begin() as connection:
        connection.execute(table.delete().where(table.c.seq == seq))
    engine.dispose()


def packed(place: Place) -> int:
    with closing(open_journal(place)) as journal:
        return journal.sizes().packed.entries


def flip(place: Place) -> None:
    """One bit in the first segment is another one."""
    engine, table = engine_of(place), metadata.tables["segments"]
    with engine.begin() as connection:
        row = connection.execute(table.select().order_by(table.c.first).limit(1)).one()
        data = bytearray(row.data)
        data[len(data) // 2] ^= 1
        connection.execute(table.update().where(table.c.first == row.first).values(data=bytes(data)))
    engine.dispose()


async def test_it_packs_what_snapshots_cover_and_answers_as_before(directory: StateDir) -> None:
    async with packer(directory, FakeNode()) as controller:
        names = await submit(controller, *(script(f"s{number}") for number in range(12)))
        for name in names:
            await until_state(controller, name, JobState.DONE)
        story = await controller.story(names[0])
        assert packed(directory.place) == 0
        covered = cover(directory.place)
        await until(lambda: packed(directory.place) >= (covered - 5) // 10 * 10)
        assert await controller.story(names[0]) == story
        assert next(part for part in controller.parts() if part.name == COMPACTION).times
    async with packer(directory, FakeNode()) as again:
        assert await again.story(names[0]) == story
        assert again.job(names[0]).job.state is JobState.DONE


STEP_S, ENTRIES = 0.3, 2_000


@pytest.mark.parametrize(("per_s", "keeps_up"), [(500.0, True), (2_000.0, True), (4_000.0, True), (20_000.0, False)])
def test_it_takes_more_time_while_more_is_due_than_it_packs(per_s: float, keeps_up: bool) -> None:
    """Usually steps pack 1,333 entries a second, and 5,000 at most."""
    late_s, shares = packed_for(3.0, lambda _: per_s)
    assert (late_s < 600.0) == keeps_up
    assert max(shares) <= MOST


def test_a_backlog_that_becomes_smaller_is_no_reason_for_haste() -> None:
    late_s, shares = packed_for(3.0, lambda _: 100.0, backlog_s=WEEK_S)
    assert 5 * 86_400.0 < late_s < 6 * 86_400.0
    assert set(shares) == {SHARE}


def test_a_crowded_hour_in_a_backlog_makes_haste_for_its_time() -> None:
    crowded = -6.5 * 86_400.0
    _, shares = packed_for(3.0, lambda at: 4_000.0 if crowded < at < crowded + 600.0 else 100.0, WEEK_S)
    assert max(shares) == MOST
    assert sum(share > SHARE for share in shares) < len(shares) / 4
    assert shares[-1] == SHARE


def test_what_waits_for_a_snapshot_is_late_and_no_reason_for_haste() -> None:
    """One step at a time is due, of what is old already; then nothing is."""
    pace = Pace()
    for turn in range(1000):
        pace.stepped(turn * 60.0, turn * 60.0 - 86_400.0)
        pace.is_done()
    assert pace.share == SHARE


WEEK_S = 7 * 86_400.0


def packed_for(hours: float, per_s: Callable[[float], float], backlog_s: float = 0.0) -> tuple[float, list[float]]:
    """How late it is after some hours, and the share of each step; so many entries a second were written at a time."""
    pace, now, packed, shares = Pace(), 0.0, -backlog_s, list[float]()
    while now < hours * 3600.0:
        began = now
        while now - began < packing.TURN_S:
            due = packed + ENTRIES / per_s(packed)
            if due > now:
                pace.is_done()
                break
            now, packed = now + STEP_S, due
            pace.stepped(now, packed)
            shares.append(pace.share)
            now += max(0.1, pace.rest_s(STEP_S))
        now += 30.0
    return now - packed, shares


async def test_a_damaged_segment_is_named_and_keeps_no_controller_from_starting(directory: StateDir) -> None:
    async with packer(directory, FakeNode()) as controller:
        names = await submit(controller, *(script(f"s{number}") for number in range(6)))
        for name in names:
            await until_state(controller, name, JobState.DONE)
        cover(directory.place)
        await until(lambda: packed(directory.place) >= 20)
    flip(directory.place)
    async with packer(directory, FakeNode()) as again:
        with pytest.raises(CorruptState, match="the segment of entries 1 to 10 is damaged"):
            await again.story(names[0])
        (late,) = await submit(again, script("late"))
        await until_state(again, late, JobState.DONE)
        assert await again.story(late)
    with closing(open_journal(directory.place)) as journal, pytest.raises(CorruptState, match="entries 1 to 10"):
        list(journal.read())


async def test_a_standby_that_lags_reads_from_segments(tmp_path: Path, server: postgres.Server) -> None:
    address = server.database()
    one, other = StateDir(tmp_path / "a"), StateDir(tmp_path / "b")
    for each in (one, other):
        each.take()
        each.set_store(address)
        adopt_identity(each)
    places = located((), other.artifacts, "here")
    waiting = Standby(other, "test", SteadyClock(), places=places, copies=USUAL, alert_origins={})
    assert waiting.status().seq == 0
    async with waiting, packer(one, FakeNode()) as controller:
        names = await submit(controller, *(script(f"s{number}") for number in range(8)))
        for name in names:
            await until_state(controller, name, JobState.DONE)
        cover(address)
        await until(lambda: packed(address) >= 30)
        seq = controller.status().seq
        while waiting.status().seq < seq:
            assert await waiting.look() is None
        assert waiting.job(names[0]).job.state is JobState.DONE
        assert await waiting.story(names[0]) == await controller.story(names[0])


@dataclass
class Told:
    """A journal whose steps go as they are told to, and a clock."""

    steps: list[Any]
    at: float = 1000.0
    slept: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    beats: int = 0

    def compact(self, rules: CompactRules, now: float) -> object:
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def compactor(self) -> Compactor:
        def beat() -> None:
            self.beats += 1

        def failed(where: str, what: str) -> None:
            self.failures.append(f"{where}: {what}")

        return Compactor(cast(Journal, self), RULES, self, failed, beat)


def segment() -> Segment:
    return segments.pack([segments.Row(seq=1, at=1.0, job=None, data="{}", epoch=1)])


async def test_a_turn_goes_on_until_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told([segment(), segment(), None])
    await told.compactor().turn()
    assert (told.steps, told.beats, len(told.slept)) == ([], 2, 2)


async def test_a_turn_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "TURN_S", 0.0)
    told = Told([segment()])
    await told.compactor().turn()
    assert len(told.steps) == 1


async def test_one_that_leads_no_more_says_nothing() -> None:
    told = Told([StoreFenced("another leads")])
    await told.compactor().turn()
    assert (told.steps, told.beats) == ([], 0)


@pytest.mark.parametrize(("error", "rest_s"), [(CorruptState("a gap"), AGAIN_S), (StoreLost("away"), SOON_S)])
async def test_what_cannot_be_packed_is_told_and_left_alone_for_a_while(error: Exception, rest_s: float) -> None:
    told = Told([error, None])
    compactor = told.compactor()
    with pytest.raises(type(error)):
        await compactor.turn()
    told.at += rest_s - 1.0
    await compactor.turn()
    assert len(told.steps) == 1
    told.at += 1.0
    await compactor.turn()
    assert told.steps == []


async def test_a_gap_goes_on_record(directory: StateDir) -> None:
    with closing(open_journal(directory.place)) as journal:
        journal.begin_epoch(1.0, Claim("v"))
        entries = [Entry(seq=seq, at=1.0, event=TroubleRecorded(where="x", what="y")) for seq in range(1, 31)]
        journal.append([Batch(entries=entries, jobs=())])
    cover(directory.place)
    engine = engine_of(directory.place)
    with engine.begin() as connection:
        connection.exec_driver_sql("delete from journal where seq = 5")
    engine.dispose()
    async with packer(directory) as controller:

        def told() -> bool:
            with closing(open_journal(directory.place)) as journal:
                return any("there is no entry 5" in str(entry.event) for entry in journal.read(30))

        await until(told)
        await controller.tell(Trouble(where="x", what="it works on"))
