"""A standby follows, shows, refuses, and takes over with what it has followed; in one process, on a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from hostler.core import Core
from hostler.model.artifacts import HUB
from hostler.model.errors import LinkLost, StandsBy, StoreFenced, StoreLost
from hostler.model.events import Entry, TroubleRecorded
from hostler.model.inputs import Asked, Begin, CopiesTold, Drain, Input, Submit, Trouble
from hostler.model.work import JobState
from hostler.runtime import controller as controlling, link, pump, standby as standing, term as terms
from hostler.runtime.clock import SteadyClock, monotonic
from hostler.runtime.controller import USUAL, Controller
from hostler.runtime.inheriting import WHY, inherit
from hostler.runtime.losing import JOBS
from hostler.runtime.places import located
from hostler.runtime.snapshots import recovered, snapshot_of
from hostler.runtime.standby import Standby
from hostler.runtime.statedir import StateDir
from hostler.runtime.term import Term, adopt_identity, begin
from hostler.store import Batch, Claim, Journal, Leader, Snapshot, open_journal, postgres as connecting
from hostler.store.dialect import engine_of
from tests import postgres
from tests.backends.fake import FakeNode, succeed
from tests.core.loop.builders import Loop, loop, small
from tests.patience import PATIENCE_S
from tests.runtime.conftest import running, script, submit, until, until_state

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader is not taken for dead, and keeps its connection, where this process gets no processor for seconds."""
    monkeypatch.setattr(standing, "monotonic", lambda: 0.0)
    for bound in ("IDLE_MS", "LOCK_MS"):
        monkeypatch.setattr(connecting, bound, int(1000 * PATIENCE_S))


@pytest.fixture
def directories(tmp_path: Path, server: postgres.Server) -> tuple[StateDir, StateDir]:
    """Those of two controllers of one journal."""
    address = server.database()
    made = StateDir(tmp_path / "a"), StateDir(tmp_path / "b")
    for each in made:
        each.take()
        each.set_store(address)
        adopt_identity(each)
    return made


class Hanging(FakeNode):
    """A node whose link can be broken by the controller."""

    def hang_up(self) -> None:
        self.cut()


def standby(directory: StateDir) -> Standby:
    places = located((), directory.artifacts, "here")
    return Standby(directory, "test", SteadyClock(), places=places, copies=USUAL, alert_origins={})


def leading(directory: StateDir, term: Term, *nodes: FakeNode) -> Controller:
    by_name = {node.name: node for node in nodes}
    return Controller(directory, "test", by_name, SteadyClock(), 10**9, term=term)


async def seen(by: Standby, number: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while by.status().seq < number:
            assert await by.look() is None
            await asyncio.sleep(0.01)


async def test_it_shows_what_the_leader_writes_and_changes_nothing(directories: tuple[StateDir, StateDir]) -> None:
    one, other = directories
    assert one.identity() == other.identity()
    node = FakeNode(behave=lambda order: None)
    async with running(one, node) as controller, standby(other) as waiting:
        await controller.answer_at("http://one")
        (name,) = await submit(controller, script("a"))
        await until_state(controller, name, JobState.RUNNING)
        await seen(waiting, controller.status().seq)
        assert waiting.job(name).job.state is JobState.RUNNING
        assert (waiting.status().leader, controller.status().leader) == ("http://one", None)
        assert (waiting.readings().leads, controller.readings().leads) == (False, True)
        assert [entry.seq for entry in await waiting.story(name)] == [e.seq for e in await controller.story(name)]
        (refusal,) = await waiting.tell(Asked(who="x", what="y", given=Drain(), key=None, fingerprint=None))
        assert refusal is None
        assert await waiting.tell(Trouble(where="page", what="failed")) == [None]
        with pytest.raises(StandsBy, match="http://one leads"):
            await submit(waiting, script("b"))  # type: ignore[arg-type]
        for call in (waiting.retention, lambda: waiting.cleaned("x")):
            with pytest.raises(StandsBy):
                call()
        with pytest.raises(LinkLost, match="ask http://one"):
            await waiting.log(f"{name}.1", "out", 0, 10)
        assert waiting.parts()[0].does.startswith("reads what http://one writes")
        waiting.drain()
        assert await waiting.turn() is None


async def test_who_leads_before_the_database_is_back_waits_for_it(
    directories: tuple[StateDir, StateDir], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once ended: as it had taken over, the database was started anew, or had no room."""
    monkeypatch.setattr(pump, "PATIENCE_S", 0.05)
    monkeypatch.setattr(controlling, "ANSWER_AGAIN_S", 0.05)
    append, answer_at = Journal.append, Journal.answer_at
    lost: list[str] = []

    def in_vain(name: str, work: Callable[..., None]) -> Callable[..., None]:
        def call(journal: Journal, *given: Any) -> None:
            if lost.count(name) < 3:
                lost.append(name)
                raise StoreLost("the database does not answer")
            work(journal, *given)

        return call

    monkeypatch.setattr(Journal, "append", in_vain("append", append))
    monkeypatch.setattr(Journal, "answer_at", in_vain("answer_at", answer_at))
    term = begin(directories[0], SteadyClock(), lambda _: None)
    async with leading(directories[0], term) as controller:
        await controller.answer_at("http://one")
        assert term.journal.leader().url == "http://one"
    assert sorted(lost) == ["answer_at"] * 3 + ["append"] * 3


async def test_what_is_wrong_with_a_snapshot_or_a_store_is_only_logged(directories: tuple[StateDir, StateDir]) -> None:
    journal = open_journal(directories[0].place)
    journal.append([Batch(entries=(Entry(seq=1, at=1.0, event=TroubleRecorded(where="", what="")),), jobs=())])
    journal.save_snapshot(Snapshot(seq=1, at=1.0, data=b"no snapshot"))
    journal.close()
    async with standby(directories[1]) as waiting:
        assert waiting.status().seq == 1
        waiting._trouble("100 % of it")


async def test_it_takes_over_at_once_from_one_that_gives_up(directories: tuple[StateDir, StateDir]) -> None:
    one, other = directories
    node = FakeNode(behave=lambda order: None)
    async with standby(other) as waiting:
        async with running(one, node) as controller:
            (name,) = await submit(controller, script("a"))
            await until_state(controller, name, JobState.RUNNING)
            await seen(waiting, controller.status().seq)
        term = await waiting.look()
        assert term is not None
    assert (term.epoch, term.inherited) == (2, True)
    async with leading(other, term, node) as successor:
        assert successor.job(name).job.state is JobState.RUNNING
        node.finish(succeed(node.running[f"{name}.1"]))
        await until_state(successor, name, JobState.DONE)
        await until(lambda: not term.inherited)
        (late,) = await submit(successor, script("b"))
        assert late == "j2"


class Seat:
    """One that leads by hand: a core and its journal, without nodes."""

    def __init__(self, directory: StateDir, now: float) -> None:
        self.journal = open_journal(directory.place)
        self.core = recovered(self.journal, print)
        self.epoch = self.journal.begin_epoch(now, Claim("v", "seat", "seat"))
        self.tell(now, Begin(version="v", epoch=self.epoch, nodes=()))

    def tell(self, now: float, *inputs: Input) -> None:
        out = self.core.handle(now, *inputs)
        self.journal.append([Batch(entries=out.entries, jobs=(), left=out.left, hours=out.hours)])

    def trouble(self, *times: float) -> None:
        """Entries that say nothing of jobs."""
        for now in times:
            self.tell(now, Trouble(where="x", what=str(now)))


def lose(directory: StateDir, after: int) -> None:
    """The database is another one from here on, which lagged behind."""
    engine = engine_of(directory.place)
    with engine.begin() as connection:
        connection.execute(text("delete from journal where seq > :after"), {"after": after})
    engine.dispose()


async def followed(waiting: Standby) -> Core:
    assert await waiting.look() is None
    return waiting._core


@pytest.mark.parametrize("written", [0, 1, 2, 6], ids=lambda many: f"{many} others instead")
async def test_it_begins_anew_where_the_journal_has_lost_what_it_was_told(
    directories: tuple[StateDir, StateDir], written: int
) -> None:
    """It once folded what another history went on with onto what was lost, and led with that."""
    one, other = directories
    first = Seat(one, 1.0)
    async with standby(other) as waiting:
        first.tell(2.0, Submit(specs=(script("lost-1"), script("lost-2"))))
        assert [*(await followed(waiting)).state.jobs] == ["j1", "j2"]
        readers = asyncio.create_task(anext(waiting.entries(None), None))
        await asyncio.sleep(0)
        lose(one, after=1)
        with pytest.raises(StoreFenced, match="has lost what it had confirmed"):
            first.trouble(3.0)
        second = Seat(one, 4.0)
        assert second.core.state.jobs == {}, "who was refused begins anew, too"
        second.trouble(*(5.0 + at for at in range(written)))
        assert (await followed(waiting)).state == second.core.state
        assert (list(await waiting.all_jobs(None, 0, 10)), waiting.status().seq) == ([], second.core.state.seq)
        assert await readers is None, "who listens has heard what is lost, and comes again"
        second.journal.give_up()
        term = await waiting.look()
        assert term is not None
    async with leading(other, term) as controller:
        (name,) = await submit(controller, script("after"))
        assert name == f"j{1 + JOBS}", "nodes may know of a j1"
        await until(lambda: not second.journal.leader().lost)
        whole = Core()
        whole.replay(second.journal.read())
        assert [job.spec.name for job in whole.state.jobs.values()] == ["after"]
    for each in (first, second):
        each.journal.close()


async def test_what_is_lost_while_it_takes_over_is_noticed(
    directories: tuple[StateDir, StateDir], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = directories
    first = Seat(one, 1.0)
    first.tell(2.0, Submit(specs=(script("lost"),)))
    async with standby(other) as waiting:
        await followed(waiting)
        first.journal.give_up()

        def taken(*given: Any) -> Term:
            term = terms.take(*given)
            lose(one, after=1)
            return term

        monkeypatch.setattr(standing, "take", taken)
        term = await waiting.look()
        assert term is not None
        assert term.core is waiting._core
    assert (term.core.state.seq, term.core.state.jobs) == (1, {})
    terms.end(term)
    first.journal.close()


async def test_a_standby_that_began_with_a_snapshot_notices_it_too(directories: tuple[StateDir, StateDir]) -> None:
    one, other = directories
    first = Seat(one, 1.0)
    first.tell(2.0, Submit(specs=(script("lost"),)))
    first.journal.save_snapshot(snapshot_of(first.core))
    async with standby(other) as waiting:
        assert [*waiting._core.state.jobs] == ["j1"]
        lose(one, after=1)
        second = Seat(one, 4.0)
        second.trouble(5.0, 6.0)
        assert (await followed(waiting)).state == second.core.state
    for each in (first, second):
        each.journal.close()


@pytest.mark.parametrize("more", [0, 1, 5])
def test_a_snapshot_of_what_was_lost_is_passed_over(directories: tuple[StateDir, StateDir], more: int) -> None:
    """Its maker had read the journal before the fail-over, and wrote it after that."""
    one, _ = directories
    first = Seat(one, 1.0)
    kept = snapshot_of(first.core)
    first.tell(2.0, Submit(specs=(script("lost"),)))
    lose(one, after=1)
    for each in (kept, snapshot_of(first.core)):
        first.journal.save_snapshot(each)
    entries = [Entry(seq=2 + at, at=3.0 + at, event=TroubleRecorded(where="", what="")) for at in range(more)]
    journal = open_journal(one.place)
    journal.append([Batch(entries=entries, jobs=())])
    told: list[str] = []
    core = recovered(journal, told.append)
    assert (core.state.seq, core.state.jobs) == (1 + more, {})
    assert told == ["snapshot of entry 2: the journal has lost that entry, or has another one by now"]
    for each in (first.journal, journal):
        each.close()


async def test_one_that_lives_is_left_alone_and_one_that_is_silent_is_not(
    directories: tuple[StateDir, StateDir], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = directories
    now = [100.0]
    monkeypatch.setattr(standing, "monotonic", lambda: now[0])
    first = terms.begin(one, SteadyClock(), pytest.fail)
    async with standby(other) as waiting:
        for _ in range(3):
            first.journal.renew()
            assert await waiting.look() is None
            now[0] += 4.0
        first.settled()  # it is silent from here on, once a renewal under way is over
        assert first.bridge is not None
        first.bridge.close()
        assert await waiting.look() is None
        now[0] += 5.0
        term = await waiting.look()
        assert term is not None
    assert terms.end(first) is None, "one that was overtaken takes nothing away"
    assert term.journal.leader().controller == other.own_id()
    assert terms.end(term) is None
    after = open_journal(one.place)
    assert after.leader().holder == ""
    after.close()


async def test_who_was_overtaken_ends_and_says_by_whom(directories: tuple[StateDir, StateDir]) -> None:
    one, other = directories
    seats: list[Term] = []

    async def overtaken(waiting: Standby) -> None:
        async with running(one, FakeNode()) as controller:
            await submit(controller, script("a"))
            own = waiting._journal, waiting._core
            take = partial(terms.take, other, SteadyClock(), *own, Leader(), certainly=True)
            seats.append(await asyncio.to_thread(take))
            await controller.ended(until_idle=False)

    async with standby(other) as waiting:
        with pytest.raises(ExceptionGroup) as ended:
            await overtaken(waiting)
        assert "controller 1 leads no more: 2 has taken over" in str(ended.value.exceptions)
        assert terms.end(seats[0]) is None


async def test_a_leader_that_cannot_renew_carries_no_commands(
    directories: tuple[StateDir, StateDir], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has written is still carried out once it has shown that it leads."""
    node = Hanging()
    async with running(directories[0], node) as controller:
        (first,) = await submit(controller, script("a"))
        await until_state(controller, first, JobState.DONE)
        ahead = [1000.0]
        monkeypatch.setattr(link, "monotonic", lambda: monotonic() + ahead[0])
        await until(lambda: not node.reachable)
        node.mend()
        (name,) = await submit(controller, script("b"))
        epochs = len(node.epochs)
        await asyncio.sleep(0.5)
        assert (node.launched, len(node.epochs)) == ([f"{first}.1"], epochs), "no link, no command"
        ahead[0] = 0.0
        node.mend()
        await until_state(controller, name, JobState.DONE)


async def test_a_database_that_is_away_is_told_and_waited_for(
    directories: tuple[StateDir, StateDir], server: postgres.Server
) -> None:
    async with standby(directories[1]) as waiting:
        server.kill()
        try:
            assert await waiting.look() is None
            assert waiting.store_trouble is not None
            assert waiting.parts()[0].fault is not None
        finally:
            server.start()
        term = None
        async with asyncio.timeout(PATIENCE_S):
            while term is None:
                term = await waiting.look()
        assert waiting.store_trouble is None
        terms.end(term)


async def test_copies_that_another_disk_has_are_told_to_be_gone(tmp_path: Path) -> None:
    driver: Loop = loop(small(), devices=3)
    driver.until(lambda: driver.config().promotions)
    names = sorted(driver.config().segments)
    driver.tell(CopiesTold(place=HUB, verified=tuple(names)))
    directory = StateDir(tmp_path / "state")
    directory.take()
    journal = open_journal(directory.path)
    journal.append([Batch(entries=driver.entries, jobs=())])
    said: list[CopiesTold] = []

    class Told:
        async def say(self, given: CopiesTold) -> None:
            said.append(given)

    places: Any = located((), directory.artifacts, "here")
    directory.artifacts.mkdir()
    missing = await inherit(journal, places, Told(), SteadyClock(), pytest.fail)  # type: ignore[arg-type]
    gone = [name for each in said for name in each.gone]
    assert (len(gone), len(set(gone))) == (missing, missing)
    assert set(names) <= set(gone)
    assert {(each.place, each.why) for each in said} == {(HUB, WHY)}
    journal.close()
