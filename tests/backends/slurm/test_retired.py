"""A partition that is in the fleet file no more: what runs ends there, what waits goes elsewhere, nothing stays."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hostler.backends.base import Store
from hostler.backends.slurm import RetiredPool, left_there
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Ended, NodeFound, Returned, Searched, Trouble
from hostler.model.pools import Batch, BatchTask, Mode, Pool, Span

from .scripted import until
from .stage import Stage, chunks, order, terms, worker

WHY = "gpu was taken out of the fleet file"
TIME = Span(seconds=3600.0, longest=False, saves=False)
KNOWN = NodeSpec(name="gpu", backend="slurm", devices=(), pool=Pool(partition="gone", max_pending=3))

pytestmark = pytest.mark.usefixtures("quick")


def from_journal(token: str, *attempts: str, job: str | None = "100", mode: Mode = "job") -> Batch:
    slots = (BatchTask(slot="cuda0", attempts=attempts),)
    return Batch(
        token=token, node="gpu", mode=mode, tasks=slots, wants="", time=TIME, requested_at=time.time(), job=job
    )


def retired(path: Path, *batches: Batch, agent: str | None = "/shared", mode: Mode = "job") -> Stage:
    """A stage for a partition of which these batches are known, all of them submitted in this order."""
    it = Stage(path, terms(mode))
    store = Store(results=path / "results", artifacts=path / "artifacts")
    it.pool = RetiredPool("gpu", it.cluster, terms(mode), controller="test", store=store, terms=KNOWN)
    it.pool.agent = agent
    for batch in batches:
        it.table._submit(terms().options(order("j1.1").ask, batch.mode, batch.token, 1, "/"))  # type: ignore[arg-type]
        it.post.files[batch.token] = {"intent.json": "{}"}
    it.pool.remember(batches)
    return it


async def joins(it: Stage) -> None:
    """It tries to, in vain."""
    with pytest.raises(IndexError):
        await it.join()


async def test_what_waits_goes_elsewhere_and_is_cancelled(tmp_path: Path) -> None:
    idle, waits = from_journal("t", mode="pilot"), from_journal("u", "j2.1", job="200")
    it = retired(tmp_path, idle, waits)
    assert (await it.join()).attempts == ("j2.1",)
    assert it.all(NodeFound)[-1].node == KNOWN, "nothing can be put there, and it need not be in the cluster any more"
    assert ((await it.ended("j2.1")).reason, (await it.ended("j2.1")).error) == ("stopped", WHY)
    await it.closed(2)
    assert sorted(it.table.cancelled) == ["100_0", "200"]
    await it.leave()


async def test_what_was_asked_for_and_never_submitted_is_forgotten(tmp_path: Path) -> None:
    it = retired(tmp_path)
    it.pool.remember([from_journal("t", "j1.1", job=None)])
    it.post.files["t"] = {"intent.json": "{}"}
    assert (await it.join()).attempts == ()
    await it.closed()
    await it.leave()


async def test_what_runs_is_awaited_and_its_allocation_ends_then(tmp_path: Path) -> None:
    it = retired(tmp_path, from_journal("t", "j1.1", mode="pilot"), mode="pilot")
    it.table.of("t").state = "RUNNING"
    agent = it.post.begin("t", "100")
    agent.attempts.append({"id": "j1.1", "begun": True, "started_at": 1.0, "exit": None})
    assert (await it.join()).attempts == ("j1.1",)
    await until(lambda: agent.asked("shutdown"))
    assert agent.asked("shutdown")[0]["when"] == "idle"
    await it.looks(3)
    assert it.table.cancelled == []
    it.post.tell(agent, "ended", attempt="j1.1", reason=None, exit_code=0)
    assert (await it.ended("j1.1")).exit_code == 0
    it.post.end(it.table.known[0].name, "told")
    it.table.of("t").state = "COMPLETED"
    await it.closed()
    await it.leave()


async def test_what_runs_can_be_stopped(tmp_path: Path) -> None:
    it = retired(tmp_path, from_journal("t", "j1.1"))
    it.table.of("t").state = "RUNNING"
    agent = it.post.begin("t", "100")
    await it.join()
    await it.pool.stop(["j1.1"], "cancelled")
    await until(lambda: agent.asked("stop"))
    await it.leave()


async def test_nothing_is_begun(tmp_path: Path) -> None:
    """Not even in a pilot that could."""
    it = retired(tmp_path, from_journal("t", "j1.1", mode="pilot"), mode="pilot")
    it.table.of("t").state = "RUNNING"
    it.post.begin("t", "100")
    await it.join()
    await it.pool.launch([order("j5.1")])
    assert ((await it.ended("j5.1")).reason, (await it.ended("j5.1")).error) == ("stopped", WHY)
    await it.pool.lend(worker(queue="cuda1"), chunks("j9.1"))
    assert (await it.returned("j9.1")).reason == "recalled"
    await it.rest()
    assert len(it.table.submitted) == 1
    await it.leave()


async def test_chunks_that_run_there_run_on_and_count(tmp_path: Path) -> None:
    """Those that have just ended, too; what may be there without anybody knowing comes back from where it is."""
    it = retired(tmp_path, from_journal("t", mode="pilot"), mode="pilot")
    it.table.of("t").state = "RUNNING"
    agent = it.post.begin("t", "100")
    agent.chunks.append(["j9.1", 40, "d", []])
    agent.noted("chunk_done", chunk="j9.2", start=0, stop=100, digest="d", hits=[], elapsed_s=1.0)
    await it.join()
    await it.first(Searched, lambda each: each.chunk == "j9.2")
    await it.pool.lend(worker(), chunks("j9.1", "j9.2", "j9.3"))
    await until(lambda: agent.asked("recall"))
    assert [each["chunks"] for each in agent.asked("recall")] == [["j9.3"]]
    assert agent.asked("trim")[0]["chunks"] == [["j9.1", 100]], "it may have been cut while nobody could say so"
    assert agent.asked("chunks") == []
    await it.pool.close_worker(worker().id)
    await until(lambda: agent.asked("close"))
    it.post.tell(agent, "returned", chunk="j9.3", position=7, digest="d", hits=[], reason="recalled", error=None)
    assert (await it.returned("j9.3")).position == 7
    it.post.tell(agent, "chunk_done", chunk="j9.1", start=0, stop=100, digest="d", hits=[], elapsed_s=1.0)
    await it.first(Searched, lambda each: each.chunk == "j9.1")
    it.post.end("t", "told")
    it.table.of("t").state = "COMPLETED"
    await it.closed()
    assert [each.chunk for each in it.all(Returned)] == ["j9.3"]
    await it.leave()


async def test_what_waits_to_begin_anew_goes_elsewhere(tmp_path: Path) -> None:
    it = retired(tmp_path, from_journal("t", "j1.1", mode="pilot"), mode="pilot")
    it.table.of("t").state = "RUNNING"
    it.post.begin("t", "100")
    await it.join()
    it.table.of("t").state = "PENDING"
    await it.ended("j1.1")
    await until(lambda: it.table.cancelled)
    await it.closed()
    await it.leave()


@pytest.mark.parametrize("agent", ["/elsewhere", None])
async def test_of_work_in_another_cluster_nothing_is_said(tmp_path: Path, agent: str | None) -> None:
    """Its folder is another one, or has nothing of the work."""
    it = retired(tmp_path, from_journal("t", "j1.1"), agent=agent)
    del it.post.files["t"]
    await joins(it)
    assert "scancel -n t" in it.lost[0]
    assert it.table.cancelled == []
    assert it.all(Ended) == []
    await it.leave()


async def test_what_is_in_another_cluster_is_named_once_and_given_up_when_it_is_not_wanted(tmp_path: Path) -> None:
    """Also what was not wanted before anybody knew that it is elsewhere."""
    it = retired(tmp_path, from_journal("t", "j1.1"), agent="/elsewhere")
    await it.pool.stop(["j1.1"], "cancelled")
    for _ in range(2):
        await joins(it)
    assert (await it.ended("j1.1")).reason == "unknown"
    (trouble,) = it.all(Trouble)
    assert "scancel -n t" in trouble.what
    await it.pool.stop(["j2.1"], "cancelled")
    await it.pool.recall(["j9.1"], "cancelled")
    await joins(it)
    assert (await it.ended("j2.1")).reason == "unknown"
    assert (await it.returned("j9.1")).error == "cancelled"
    assert len(it.all(Trouble)) == 1
    await it.leave()


async def test_what_cannot_be_asked_for_a_while_is_not_given_up(tmp_path: Path) -> None:
    it = retired(tmp_path, from_journal("t", "j1.1"))
    it.post.faults["probe"] = "the file system hangs"
    await it.pool.stop(["j1.1"], "cancelled")
    await joins(it)
    assert it.all(Ended) == []
    del it.post.faults["probe"]
    await it.join()
    assert (await it.ended("j1.1")).reason == "stopped"
    await it.leave()


async def test_what_was_never_even_prepared_is_forgotten(tmp_path: Path) -> None:
    """It has no folder: nobody has asked the cluster for it."""
    it = retired(tmp_path)
    it.pool.remember([from_journal("t", "j1.1", job=None)])
    assert (await it.join()).attempts == ()
    await it.closed()
    await it.leave()


async def test_of_what_is_in_the_queue_the_folder_must_be_there(tmp_path: Path) -> None:
    it = retired(tmp_path, from_journal("t", "j1.1", job=None))
    del it.post.files["t"]
    await joins(it)
    assert "scancel -n t" in it.lost[0]
    await it.leave()


def test_what_is_left_is_named_in_words() -> None:
    said = left_there("gpu", [("t", "823"), ("u", None)])
    assert "job 823 (`scancel -n t`), job ? (`scancel -n u`); put it back" in said
    assert "and 2 more" in left_there("gpu", [(f"t{at}", None) for at in range(7)])
