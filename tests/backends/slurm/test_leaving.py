"""A controller leaves, and another comes: nothing that nobody wants stays in the cluster's queue."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from hostler.backends.slurm import pool
from hostler.model.inputs import Closed, Ended
from hostler.model.pools import Batch, BatchTask, Mode, Span

from .scripted import DOWN, PATIENCE_S, until
from .stage import Stage, order, stage, terms

TIME = Span(seconds=3600.0, longest=False, saves=False)

pytestmark = pytest.mark.usefixtures("quick")


def from_journal(token: str, *attempts: str, job: str | None = "100", mode: Mode = "job") -> Batch:
    slots = (BatchTask(slot="cuda0", attempts=attempts),)
    return Batch(
        token=token, node="gpu", mode=mode, tasks=slots, wants="", time=TIME, requested_at=time.time(), job=job
    )


def barred(it: Stage) -> dict[str, str]:
    """Whom the tasks are claimed for that are to do nothing."""
    files = [item for each in it.post.ops("prepare") for item in each["files"].items()]
    return {path: json.loads(text)["job"] for path, text in files if path.endswith("/claim")}


async def _stopped_under_way(it: Stage) -> asyncio.Event:
    """An attempt is stopped while its submission has not answered, nor the queue shown it; the event lets it answer."""
    held = it.table.held["sbatch"] = asyncio.Event()
    it.table.lists = False  # before a look at the queue can find it there
    await it.pool.launch([order("j1.1")])
    await until(lambda: it.table.submitted)
    await it.pool.stop(["j1.1"], "why")
    assert (await it.ended("j1.1")).reason == "stopped"
    return held


async def test_who_leaves_waits_for_the_answer_and_cancels(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        held = await _stopped_under_way(it)
        leaving = asyncio.create_task(it.pool.release())
        await asyncio.sleep(0.05)
        assert not leaving.done()
        held.set()
        await leaving
        assert it.table.cancelled == ["100"]
        assert barred(it) == {"0/claim": "nobody"}, "should it have been submitted twice, the other does nothing"


async def test_where_no_answer_comes_the_job_finds_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "ANSWERS_S", 0.1)
    async with stage(tmp_path) as it:
        await _stopped_under_way(it)
        await it.pool.release()
        assert barred(it) == {"0/claim": "nobody"}
        assert it.all(Closed) == [], "who comes next looks for it"


async def test_where_nothing_can_be_cancelled_the_job_finds_nothing_to_do(tmp_path: Path) -> None:
    async with stage(tmp_path, "array") as it:
        token = await it.submitted(order("j1.1"), order("j2.1", "cuda1"))
        it.table.fails["scancel"] = [DOWN] * 50
        await it.pool.stop(["j2.1"], "why")
        await it.pool.release()
        assert it.table.cancelled == []
        assert barred(it) == {"1/claim": "nobody"}, "what is wanted runs"
        assert it.job(token, 0).state == "PENDING"


async def test_who_leaves_does_not_wait_for_what_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes next finds it by its name."""
    monkeypatch.setattr(pool, "ANSWERS_S", 3600.0)
    async with stage(tmp_path) as it:
        held = it.table.held["sbatch"] = asyncio.Event()
        await it.pool.launch([order("j1.1")])
        await until(lambda: it.table.submitted)
        async with asyncio.timeout(PATIENCE_S):
            await it.pool.release()
        assert it.table.cancelled == []
        assert barred(it) == {}
        held.set()


async def test_stopped_while_its_folder_is_written_it_is_not_submitted(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        it.post.mute.add("prepare")
        await it.pool.launch([order("j1.1")])
        await until(lambda: it.post.ops("prepare"))
        await it.pool.stop(["j1.1"], "why")
        await it.ended("j1.1")
        it.post.send({"id": it.post.ops("prepare")[0]["id"], "ok": True, "folder": "/shared"})
        await it.closed()
        assert it.table.submitted == []


async def test_what_is_found_again_and_given_nothing_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks that an earlier controller had taken back: the journal knows of none in the batch."""
    monkeypatch.setattr(pool, "UNCLAIMED_S", 0.1)
    it = Stage(tmp_path, terms("pilot"))
    it.table._submit(terms().options(order("j1.1").ask, "pilot", "t", 1, "/"))  # type: ignore[arg-type]
    it.table._submit(terms().options(order("j1.1").ask, "pilot", "u", 1, "/"))  # type: ignore[arg-type]
    it.pool.remember([from_journal("t", job=None, mode="pilot"), from_journal("u", "j2.1", job="200", mode="pilot")])
    await it.join()
    await it.closed()
    assert it.table.cancelled == ["100_0"]
    assert [each.token for each in it.all(Closed)] == ["t"]
    assert it.all(Ended) == []
    await it.leave()


async def test_what_runs_is_found_again_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "UNCLAIMED_S", 0.05)
    it = Stage(tmp_path, terms("pilot"))
    it.table._submit(terms().options(order("j1.1").ask, "pilot", "t", 1, "/"))  # type: ignore[arg-type]
    it.table.of("t").state = "RUNNING"
    it.post.begin("t", "100")
    it.pool.remember([from_journal("t", mode="pilot")])
    await it.join()
    await it.rest()
    assert it.table.cancelled == []
    await it.leave()


async def test_of_what_was_submitted_twice_all_are_cancelled_by_who_leaves(tmp_path: Path) -> None:
    async with stage(tmp_path, "array") as it:
        await it.submitted(order("j1.1"), order("j2.1", "cuda1"))
        it.table._submit(it.table.submitted[-1])
        await it.looks()
        it.table.fails["scancel"] = [DOWN]
        await it.pool.stop(["j2.1"], "why")
        await until(lambda: it.table.calls["scancel"])
        await it.pool.release()
        assert {"100_1", "200_1"} <= set(it.table.cancelled)
        assert not {"100_0", "200_0"} & set(it.table.cancelled)
        assert barred(it) == {"1/claim": "nobody"}
