"""Runs that do not end though they were asked to: the cluster ends them, if nothing else suffers that goes on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.protocol import ALLOCATION_ENDS
from hostler.backends.slurm import overdue
from hostler.backends.slurm.berths import Berth, Stop
from hostler.model.commands import ChunkOrder
from hostler.model.inputs import Started, Trouble
from tests.patience import PATIENCE_S

from .scripted import Agent, until
from .stage import Stage, chunks, order, stage, worker

pytestmark = pytest.mark.usefixtures("quick")

LATE = overdue.MARGIN_S + 11.0


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overdue, "MARGIN_S", 0.3)
    monkeypatch.setattr(overdue, "AGAIN_S", 0.3)


def berth(stops: Mapping[str, float], *others: str, heard_at: float | None = None, **more: Any) -> Berth:
    """One that began at 0, with what is to have ended by then, and what is wanted in it."""
    made = Berth(token="t", task=0, slot="cuda0", run=0, began_at=0.0, heard_at=heard_at)
    made.orders |= dict.fromkeys([*stops, *others])
    made.stops |= {name: Stop(why="why", by=by) for name, by in stops.items()}
    for name, value in more.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("it", "late"),
    [
        (berth({"j1.1": 10.0}), ["j1.1"]),
        (berth({"j1.1": 10.0}, heard_at=LATE), ["j1.1"]),
        (berth({"j1.1": 12.0}), []),
        (berth({}, "j1.1"), []),
        (berth({"j1.1": 10.0}, "j2.1", heard_at=LATE - 5), []),
        (berth({"j1.1": 10.0}, "j2.1", heard_at=5.0), ["j1.1"]),
        (berth({"j1.1": 10.0}, "j2.1"), ["j1.1"]),
        (berth({"j1.1": 10.0, "j2.1": 60.0}, heard_at=LATE), []),
        (berth({"j1.1": 10.0}, cancelled_at=LATE - overdue.AGAIN_S + 1), []),
        (berth({"j1.1": 10.0}, cancelled_at=LATE - overdue.AGAIN_S), ["j1.1"]),
        (berth({"j1.1": 10.0}, began_at=LATE - 5), []),
        (berth({"j1.1": 10.0}, run=None), []),
        (berth({"j1.1": 10.0}, ended={"why": "signal"}), []),
        (berth({"j1.1": 10.0}, orders={}), []),
    ],
    ids=[
        "alone", "alone, and its agent talks", "in time", "not asked", "beside others", "its agent fell silent",
        "its agent never talked", "beside one that has time", "cancelled already", "again", "reached a moment ago",
        "has not begun", "has ended", "has come back",
    ],
)  # fmt: skip
def test_when_an_allocation_is_cancelled(it: Berth, late: list[str]) -> None:
    assert overdue.overdue(it, LATE) == late


def test_chunks_protect_and_are_protected() -> None:
    it = berth({"j1.1": 10.0}, heard_at=LATE)
    it.chunks["j9.1"] = "w", ChunkOrder(id="j9.1", start=0, stop=1)
    assert overdue.overdue(it, LATE) == []
    it.stops["j9.1"] = Stop(why="why", by=5.0)
    assert overdue.overdue(it, LATE) == ["j1.1", "j9.1"]


async def _hangs(it: Stage, *attempts: str) -> tuple[str, Agent]:
    """A job whose agent has begun these, and does nothing more."""
    token = await it.submitted(*(order(name, grace_s=0.1) for name in attempts))
    return token, await it.running(token, attempts[0])


@pytest.mark.usefixtures("impatient")
async def test_what_is_suspended_is_cancelled_and_ends_as_it_was_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overdue, "AGAIN_S", 3600.0)
    async with stage(tmp_path) as it:
        token, _ = await _hangs(it, "j1.1")
        it.job(token).state = "SUSPENDED"
        await it.pool.stop(["j1.1"], "why")
        await until(lambda: it.table.cancelled)
        assert it.table.cancelled == ["100"]
        said = await it.first(Trouble)
        assert said.what == "j1.1: asked to end, and not heard to have; job 100 (SUSPENDED) is cancelled"
        it.job(token).state = "CANCELLED by 0"
        assert ((await it.ended("j1.1")).reason, (await it.ended("j1.1")).error) == ("stopped", "why")
        await it.closed()
        assert len(it.table.submitted) == 1


@pytest.mark.usefixtures("impatient")
async def test_it_is_cancelled_again_while_it_does_not_go(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token, _ = await _hangs(it, "j1.1")
        it.job(token).state = "COMPLETING"
        began = time.monotonic()
        await it.pool.stop(["j1.1"], "why")
        await until(lambda: it.table.calls["scancel"] >= 3)
        assert time.monotonic() - began >= 2 * overdue.AGAIN_S, "not at every look"


@pytest.mark.usefixtures("impatient")
async def test_an_agent_that_comes_to_itself_says_how_it_ended(tmp_path: Path) -> None:
    """What the cancellation made of it is not told: it was asked to end before."""
    async with stage(tmp_path) as it:
        token, agent = await _hangs(it, "j1.1")
        await it.pool.stop(["j1.1"], "why")
        await until(lambda: it.table.cancelled)
        agent.attempts.clear()
        it.post.tell(agent, "ended", attempt="j1.1", reason="stopped", error=f"{ALLOCATION_ENDS}: SIGTERM")
        it.post.end(token, "signal")
        it.job(token).state = "CANCELLED by 0"
        assert ((await it.ended("j1.1")).reason, (await it.ended("j1.1")).error) == ("stopped", "why")
        await it.closed()


@pytest.mark.usefixtures("impatient")
async def test_what_else_an_agent_that_talks_has_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overdue, "MARGIN_S", 2 * PATIENCE_S)
    async with stage(tmp_path, "pilot") as it:
        token, agent = await _hangs(it, "j1.1")
        await it.pool.launch([order("j2.1")])
        await until(lambda: len(agent.asked("launch")) == 2)
        await it.pool.stop(["j1.1"], "why")
        for heard in range(1, 6):
            it.clock.ahead_s += PATIENCE_S
            it.post.tell(agent, "started", attempt="j2.1", pid=1, pid_start=1)
            await until(lambda heard=heard: len(it.all(Started)) == heard)
            await it.looks(2)
        assert it.table.cancelled == []
        it.clock.ahead_s += 2 * PATIENCE_S  # it says nothing more
        await until(lambda: it.table.cancelled)
        it.job(token).state = "CANCELLED by 0"
        assert (await it.ended("j1.1")).reason == "stopped"
        assert (await it.ended("j2.1")).reason == "lost"


@pytest.mark.usefixtures("impatient")
async def test_chunks_that_do_not_come_back_are_fetched_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.backends.wire.WORKER_GRACE_S", 0.1)
    async with stage(tmp_path, "pilot") as it:
        token = await it.lent("j9.1")
        await it.begun(token)
        await it.pool.recall(["j9.1"], "why")
        await until(lambda: it.table.cancelled)
        it.job(token).state = "CANCELLED by 0"
        await it.returned("j9.1")
        await it.closed()


async def test_what_ends_in_time_is_not_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overdue, "MARGIN_S", PATIENCE_S)
    async with stage(tmp_path, "pilot") as it:
        _, agent = await _hangs(it, "j1.1")
        await it.pool.lend(worker(), chunks("j9.1"))
        await it.pool.stop(["j1.1"], "why")
        it.post.tell(agent, "ended", attempt="j1.1", reason="stopped", error="why")
        await it.ended("j1.1")
        await it.rest()
        it.clock.ahead_s += 2 * PATIENCE_S
        await it.looks(3)
        assert it.table.cancelled == []
