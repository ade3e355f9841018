"""A pool through everything that befalls it: nothing is lost, nothing is submitted twice."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.agent.protocol import ALLOCATION_ENDS
from hostler.backends.base import Store
from hostler.backends.local.workspaces import Workspaces
from hostler.backends.slurm import cluster as clusters, following, pool as pools, submitting, verdicts
from hostler.backends.slurm.commands import Options
from hostler.backends.slurm.errors import SlurmDown, SlurmRefused
from hostler.backends.slurm.pool import SlurmPool
from hostler.model.errors import LinkLost, LinkRefused, NotFound
from hostler.model.inputs import (
    Closed,
    Ended,
    LinkUp,
    NodeFound,
    PoolSeen,
    Requested,
    Returned,
    Submitted,
    Trouble,
    WorkerRefused,
)
from hostler.model.pools import Batch, BatchTask, Mode, SlotPhase, Span
from tests.snapshots.kept import kept

from .scripted import DOWN, UNHEARD, Agent, until
from .stage import Stage, chunks, order, stage, terms, worker

TIME = Span(seconds=3600.0, longest=False, saves=False)

pytestmark = pytest.mark.usefixtures("quick")


def launched(agent: Agent) -> list[str]:
    """What an agent was told to run."""
    return [each["id"] for request in agent.asked("launch") for each in request["attempts"]]


def from_journal(token: str, *attempts: str, job: str | None = "100", mode: Mode = "job") -> Batch:
    slots = (BatchTask(slot="cuda0", attempts=attempts),)
    return Batch(
        token=token, node="gpu", mode=mode, tasks=slots, wants="", time=TIME, requested_at=time.time(), job=job
    )


# --- the link ---------------------------------------------------------------------------------------------------------


async def test_it_tells_what_it_is(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        (found,), (link,) = it.all(NodeFound), it.all(LinkUp)
        assert [device.id for device in found.node.devices] == ["gpu/cuda0", "gpu/cuda1"]
        assert found.node.pool is not None
        assert (found.node.pool.partition, found.node.pool.longest_s) == ("gpu", 86400.0)
        assert (link.attempts, link.chunks) == ((), ())
        seen = it.all(PoolSeen)[0].seen
        assert seen.supply is not None
        assert seen.supply.idle == 2


async def test_a_partition_that_is_not_there_is_refused(tmp_path: Path) -> None:
    it = Stage(tmp_path, terms())
    it.table.partition = "cpu"
    with pytest.raises(LinkRefused, match="no partition 'gpu' with nodes; it has cpu"):
        async for _ in it.pool.observe(1):
            pass
    await it.leave()


async def test_nothing_is_taken_while_there_is_no_link(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        it.post.hang_up()
        await it.broken()
        for asked in (
            it.pool.launch([order("j1.1")]),
            it.pool.stop(["j1.1"], "why"),
            it.pool.lend(worker(), chunks("j9.0")),
            it.pool.recall(["j9.0"], "why"),
            it.pool.read_log("j1.1", "out", 0, 1),
        ):
            with pytest.raises(LinkLost):
                await asked
        await it.join()
        await it.rest()
        assert it.table.submitted == []
        assert it.all(Requested) == it.all(Ended) == it.all(Returned) == []


async def test_hanging_up_on_purpose(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        it.pool.hang_up()
        await it.broken()
        assert "hung up" in it.lost[0]
        with pytest.raises(LinkLost):
            await it.pool.launch([order("j1.1")])
        assert (await it.join()).attempts == ()


# --- what is put where ------------------------------------------------------------------------------------------------


async def test_the_same_order_twice_is_one(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        await it.pool.launch([order("j1.1")])
        await it.pool.launch([order("j1.1"), order("j1.1")])
        token = await it.submitted(order("j1.1"))
        await it.pool.launch([order("j1.1")])
        agent = await it.begun(token)
        await it.pool.launch([order("j1.1")])
        await it.looks(5)
        assert launched(agent) == ["j1.1"]
        assert len(it.table.submitted) == len(it.all(Requested)) == 1


async def test_an_order_that_is_too_large_for_any_agent_costs_no_allocation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostler.backends.wire.REQUEST_BYTES", 1000)
    async with stage(tmp_path) as it:
        (refused,) = await it.pool.launch([order("j1.1", inputs={"x": "y" * 2000})])
        assert (refused.attempt, refused.reason) == ("j1.1", "refused")
        await it.rest()
        assert it.table.submitted == []


async def test_an_array_for_what_is_alike(tmp_path: Path) -> None:
    async with stage(tmp_path, "array") as it:
        token = await it.submitted(*(order(f"j{at}.1", f"cuda{at}") for at in range(3)))
        (options,) = it.table.submitted
        assert options.tasks == 3
        assert [(task.slot, task.attempts) for task in it.requested.tasks] == [
            (f"cuda{at}", (f"j{at}.1",)) for at in range(3)
        ]
        agents = [await it.begun(token, task) for task in range(2)]
        assert [launched(agent) for agent in agents] == [["j0.1"], ["j1.1"]]
        it.post.tell(agents[0], "ended", attempt="j0.1", reason=None, exit_code=0)
        it.post.tell(agents[1], "ended", attempt="j1.1", reason=None, exit_code=7)
        it.job(token, 2).state = "NODE_FAIL"
        assert ((await it.ended("j0.1")).exit_code, (await it.ended("j1.1")).exit_code) == (0, 7)
        assert (await it.ended("j2.1")).reason == "lost"
        assert it.all(Closed) == []
        for task in range(2):
            it.post.end(token, "told", task)
        await it.closed()
        assert len(it.all(Ended)) == 3


async def test_what_is_not_alike_is_asked_for_apart(tmp_path: Path) -> None:
    async with stage(tmp_path, "array") as it:
        await it.pool.launch([order("j1.1"), order("j2.1", "cuda1", wants={"cpus": 7.0})])
        await until(lambda: len(it.all(Submitted)) == 2)
        assert sorted(options.cpus for options in it.table.submitted)[1] == 7


async def test_a_pilot_takes_one_after_the_other(tmp_path: Path) -> None:
    async with stage(tmp_path, "pilot") as it:
        token = await it.submitted(order("j1.1"))
        await it.pool.launch([order("j2.1", "cuda0.1")])  # it has not even begun
        agent = await it.begun(token)
        await it.pool.launch([order("j3.1")])
        await until(lambda: launched(agent) == ["j1.1", "j2.1", "j3.1"])
        assert len(it.table.submitted) == 1


@pytest.mark.parametrize(("left_s", "batches"), [(3600.0, 1), (100.0, 2)])
async def test_a_pilot_whose_time_is_nearly_up_is_given_nothing_more(
    tmp_path: Path, left_s: float, batches: int
) -> None:
    async with stage(tmp_path, "pilot") as it:
        token = await it.submitted(order("j1.1"))
        it.job(token).state = "RUNNING"
        agent = it.post.begin(token, it.job(token).id, ends_at=time.time() + left_s)
        await until(lambda: agent.requests)
        await it.pool.launch([order("j2.1")])
        await until(lambda: len(it.table.submitted) == batches and (batches == 2 or "j2.1" in launched(agent)))


@pytest.mark.parametrize(
    ("wants", "batches"), [({"expected_s": 3000.0}, 1), ({"expected_s": 7200.0}, 2), ({"longer": 2.0}, 2)]
)
async def test_a_pilot_that_waits_is_not_given_what_takes_longer(
    tmp_path: Path, wants: dict[str, float], batches: int
) -> None:
    async with stage(tmp_path, "pilot") as it:
        token = await it.submitted(order("j1.1"))
        await it.pool.launch([order("j2.1", wants=wants)])
        agent = await it.begun(token)
        await until(lambda: len(it.table.submitted) == batches and (batches == 2 or "j2.1" in launched(agent)))


async def test_a_pilot_that_leaves_just_when_it_is_given_work(tmp_path: Path) -> None:
    async with stage(tmp_path, "pilot") as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.begun(token)
        it.post.tell(agent, "ended", attempt="j1.1", reason=None, exit_code=0)
        await it.ended("j1.1")
        await it.pool.launch([order("j2.1")])
        it.job(token).state = "COMPLETED"
        it.post.end(token, "idle")
        again = await until(lambda: len(it.all(Submitted)) == 2 and it.all(Submitted)[1].token)
        assert launched(await it.begun(again)) == ["j2.1"]
        assert len(it.all(Ended)) == 1


async def test_work_for_several_devices_does_not_go_to_pilots(tmp_path: Path) -> None:
    async with stage(tmp_path, "pilot") as it:
        await it.submitted(order("j1.1", "cuda0+cuda1", wants={"devices": 2}))
        assert it.requested.mode == "job"
        await until(lambda: it.slot("cuda0") and it.slot("cuda1"))


async def test_logs_and_folders(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        it.post.faults = {"read": "gone", "discard": "busy"}
        with pytest.raises(NotFound):
            await it.pool.read_log("j1.1", "out", 0, 10)
        await it.pool.discard(["j1.1"])
        assert it.post.ops("discard")[0]["attempts"] == ["j1.1"]
        assert "cannot be deleted: busy" in (await it.first(Trouble)).what


# --- stopping ---------------------------------------------------------------------------------------------------------


async def test_stopped_while_it_is_gathered(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        await it.pool.launch([order("j1.1")])
        await it.pool.stop(["j1.1"], "why")
        assert (await it.ended("j1.1")).error == "why"
        await it.rest()
        assert it.all(Requested) == it.table.submitted == []


async def test_stopped_before_its_batch_is_durable_it_is_never_submitted(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        it.durable = False
        await it.pool.launch([order("j1.1")])
        await it.first(Requested)
        await it.pool.stop(["j1.1"], "why")
        assert (await it.ended("j1.1")).reason == "stopped"
        await it.acknowledge()
        await it.closed()
        assert it.table.submitted == []
        assert len(it.all(Ended)) == 1


async def test_stopped_while_sbatch_answers(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        held = it.table.held["sbatch"] = asyncio.Event()
        await it.pool.launch([order("j1.1")])
        await until(lambda: it.table.submitted)
        await it.pool.stop(["j1.1"], "why")
        assert (await it.ended("j1.1")).reason == "stopped"
        held.set()
        await until(lambda: it.table.cancelled)
        await it.closed()
        assert len(it.all(Ended)) == 1


@pytest.mark.parametrize("mode", ["job", "array", "pilot"])
async def test_stopped_while_it_waits(tmp_path: Path, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task of an array that is cancelled before it begins vanishes without a trace, and nobody has to explain it."""
    monkeypatch.setattr(following, "UNEXPLAINED_S", 3600.0)
    monkeypatch.setattr(verdicts, "UNEXPLAINED_S", 3600.0)
    async with stage(tmp_path, mode) as it:
        await it.submitted(order("j1.1"))
        await it.pool.stop(["j1.1"], "why")
        assert (await it.ended("j1.1")).error == "why"
        assert it.table.cancelled == ["100" if mode == "job" else "100_0"]
        await it.closed()
        await until(lambda: it.slot() is None)


async def test_many_are_cancelled_in_one_command(tmp_path: Path) -> None:
    async with stage(tmp_path, "array") as it:
        names = [f"j{at}.1" for at in range(20)]
        await it.submitted(*(order(name, f"cuda{at}") for at, name in enumerate(names)))
        await it.pool.stop(names, "why")
        await until(lambda: len(it.table.cancelled) == 20)
        assert it.table.calls["scancel"] == 1
        await it.closed()


async def test_a_cancellation_that_fails_is_repeated(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        await it.submitted(order("j1.1"))
        it.table.fails["scancel"] = [DOWN, DOWN]
        await it.pool.stop(["j1.1"], "why")
        await until(lambda: it.table.cancelled)
        await it.closed()
        assert len(it.all(Ended)) == 1


async def test_stopped_while_it_runs(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        agent = await it.running(await it.submitted(order("j1.1")), "j1.1")
        await it.pool.stop(["j1.1"], "why")
        await until(lambda: agent.asked("stop"))
        assert it.all(Ended) == []
        it.post.tell(agent, "ended", attempt="j1.1", reason="stopped", error="why")
        assert (await it.ended("j1.1")).error == "why"
        assert it.table.cancelled == []


async def test_stopped_while_its_agent_cannot_be_reached_and_never_is(tmp_path: Path) -> None:
    """What was told to begin and to stop, and heard neither, is not begun anew."""
    async with stage(tmp_path, "pilot") as it:
        token = await it.submitted(order("j1.1"))
        agent = it.post.agents[token, 0, 0] = Agent(silent=True)
        it.job(token).state = "RUNNING"
        it.post.begin(token, it.job(token).id)
        await until(lambda: it.slot() and it.slot().phase is SlotPhase.UP)  # type: ignore[union-attr]
        await it.pool.launch([order("j2.1")])
        await it.pool.stop(["j1.1", "j2.1"], "why")
        it.job(token).state = "NODE_FAIL"
        assert [((await it.ended(name)).reason, (await it.ended(name)).error) for name in ("j1.1", "j2.1")] == [
            ("stopped", "why"),
            ("stopped", "why"),
        ]
        await it.closed()
        assert agent.requests == []
        assert len(it.table.submitted) == 1


async def test_stopped_while_it_is_found_out_how_it_ended(tmp_path: Path) -> None:
    async with stage(tmp_path, "pilot") as it:
        token = await it.submitted(order("j1.1"))
        await it.begun(token)
        it.job(token).state = "COMPLETING"
        it.post.end(token, "signal")
        await it.looks(2)
        await it.pool.stop(["j1.1"], "why")
        assert it.all(Ended) == []
        it.job(token).state = "CANCELLED"
        assert (await it.ended("j1.1")).error == "why"
        await it.closed()
        assert len(it.table.submitted) == 1


async def test_stopped_while_its_end_is_held_back(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.begun(token)
        it.post.tell(agent, "ended", attempt="j1.1", reason="stopped", error=f"{ALLOCATION_ENDS}: TERM")
        it.post.end(token, "signal")
        it.job(token).state = "COMPLETING"
        await it.looks(2)
        await it.pool.stop(["j1.1"], "why")
        assert it.all(Ended) == []
        it.job(token).state = "TIMEOUT"
        assert "were over" in str((await it.ended("j1.1")).error)


async def test_what_nobody_knows_is_over(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        await it.pool.stop(["j8.1"], "why")
        await it.pool.recall(["j9.8"], "why")
        await it.pool.trim({"j9.8": 5})
        await it.pool.close_worker("w")
        assert (await it.ended("j8.1")).reason == "unknown"
        assert (await it.returned("j9.8")).reason == "recalled"


# --- chunks -----------------------------------------------------------------------------------------------------------


async def test_chunks_that_are_gathered_are_recalled_trimmed_and_not_doubled(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        await it.pool.lend(worker(), chunks("j9.0", "j9.1"))
        await it.pool.lend(worker(), chunks("j9.1", "j9.2"))
        await it.pool.trim({"j9.2": 30})
        await it.pool.recall(["j9.0"], "why")
        assert (await it.returned("j9.0")).reason == "recalled"
        token = (await it.first(Submitted)).token
        agent = await it.begun(token)
        assert [each for request in agent.asked("chunks") for each in request["chunks"]] == [
            ["j9.1", 0, 100],
            ["j9.2", 0, 30],
        ]


async def test_worker_has_its_snapshot_in_the_shared_folder_before_its_chunks_are_asked_for(tmp_path: Path) -> None:
    project, store = tmp_path / "project", Store(results=tmp_path / "results", artifacts=tmp_path / "artifacts")
    project.mkdir()
    (project / "words").write_text("old")
    async with stage(tmp_path) as it:
        it.pool._workspaces = Workspaces(store, lambda: tmp_path / "trees")
        order = worker(snapshot=kept(store.snapshots, project), sweep="j9")
        (project / "words").write_text("edited")
        assert await it.pool.lend(order, chunks("j9.0")) == ()
        assert await it.pool.lend(order, chunks("j9.1")) == ()
        agent = await it.begun((await it.first(Submitted)).token)
        (opened,) = [each for each in agent.requests if each["type"] == "open"]
        assert opened["worker"]["cwd"] == str(tmp_path / "trees" / "j9")
        assert (tmp_path / "trees" / "j9" / "words").read_text() == "old"
        await it.pool.keep([], ["j9"])
        assert (tmp_path / "trees" / "j9").exists()
        await it.pool.clear("j9")
        assert list((tmp_path / "trees").iterdir()) == []
        (refused,) = await it.pool.lend(worker("w2", snapshot="ab" * 32, sweep="j8"), chunks("j8.0"))
        assert (refused.worker, "is not kept any more" in refused.error) == ("w2", True)


async def test_chunks_that_are_recalled_before_anything_is_submitted(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        await it.pool.lend(worker(), chunks("j9.0"))
        await it.pool.recall(["j9.0"], "why")
        it.durable = False
        await it.pool.lend(worker("w2", "cuda1"), chunks("j9.1"))
        await it.first(Requested)
        await it.pool.recall(["j9.1"], "why")
        assert (await it.returned("j9.1")).error == "why"
        await it.acknowledge()
        await it.closed()
        assert it.table.submitted == []


async def test_chunks_that_wait_with_their_allocation_are_recalled(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.lent("j9.0", "j9.1")
        await it.pool.recall(["j9.0"], "why")
        assert it.table.cancelled == []
        await it.pool.recall(["j9.1"], "why")
        await until(lambda: it.table.cancelled == ["100_0" if it.job(token).task is not None else "100"])
        await it.closed()
        assert sorted(back.chunk for back in it.all(Returned)) == ["j9.0", "j9.1"]


async def test_chunks_recalled_while_it_is_found_out_come_back_with_what_was_done(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.lent("j9.0")
        agent = await it.begun(token)
        agent.chunks.append(["j9.0", 40, "d", []])
        it.job(token).state = "COMPLETING"
        it.post.end(token, "signal")
        await it.looks(2)
        await it.pool.recall(["j9.0"], "why")
        it.job(token).state = "TIMEOUT"
        assert (await it.returned("j9.0")).position == 40


# --- requeues ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", [True, False])
async def test_requeued_work_of_the_first_run_ends_and_the_second_has_nothing_to_do(tmp_path: Path, seen: bool) -> None:
    """The queue may have shown that it waits, or the second run has begun before anybody looked."""
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        await it.running(token, "j1.1")
        if seen:
            it.job(token).state = "PENDING"
        else:
            it.post.begin(token, it.job(token).id, run=1)
        end = await it.ended("j1.1")
        assert end.reason == "stopped"
        assert "begins it anew" in str(end.error)
        if seen:
            await until(lambda: it.table.cancelled)
        else:
            await until(lambda: it.post.agents[token, 0, 1].requests)
            it.post.end(token, "idle", run=1)
        await it.closed()
        assert len(it.all(Ended)) == 1


async def test_the_second_run_begins_while_the_end_of_the_first_is_found_out(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.running(token, "j1.1")
        it.post.tell(agent, "ended", attempt="j1.1", reason="stopped", error=f"{ALLOCATION_ENDS}: TERM")
        it.job(token).state = "COMPLETING"
        it.post.end(token, "signal")
        await it.looks(2)
        second = await it.begun(token, run=1)
        end = await it.ended("j1.1")
        assert (end.reason, "begins it anew" in str(end.error)) == ("stopped", True)
        assert launched(second) == []
        it.post.end(token, "idle", run=1)
        await it.closed()


async def test_a_requeued_pilot_is_used_again(tmp_path: Path) -> None:
    async with stage(tmp_path, "pilot") as it:
        token = await it.submitted(order("j1.1"))
        await it.running(token, "j1.1")
        it.job(token).state = "PENDING"
        await it.ended("j1.1")
        await until(lambda: it.slot() and it.slot().phase is SlotPhase.WAITING)  # type: ignore[union-attr]
        await it.pool.launch([order("j1.2")])
        second = await it.begun(token, run=1)
        assert launched(second) == ["j1.2"]
        assert len(it.table.submitted) == 1
        it.post.tell(second, "ended", attempt="j1.2", reason=None, exit_code=0)
        assert (await it.ended("j1.2")).exit_code == 0


async def test_what_comes_back_with_an_allocation_that_is_requeued_is_nobodys_fault(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        await it.begun(token)
        it.job(token).state = "PENDING"
        assert (await it.ended("j1.1")).reason == "stopped"
        await until(lambda: "100" in it.table.cancelled)
        await it.closed()


async def test_a_look_that_is_older_than_the_beginning_is_no_requeue(tmp_path: Path) -> None:
    """squeue takes its time on a busy login node; the job begins meanwhile, and says so."""
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        await it.looks()
        held = it.table.held["squeue"] = asyncio.Event()
        seen = it.table.calls["squeue"]
        await until(lambda: it.table.calls["squeue"] > seen)  # it is going to say that it waits
        agent = await it.running(token, "j1.1")
        held.set()
        await it.looks(10)
        assert it.all(Ended) == []
        it.post.tell(agent, "ended", attempt="j1.1", reason=None, exit_code=0)
        assert (await it.ended("j1.1")).exit_code == 0


# --- submissions ------------------------------------------------------------------------------------------------------


async def test_an_answer_that_never_came_is_looked_for(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        it.table.fails["sbatch"], it.table.unheard = [UNHEARD], {"sbatch"}
        token = await it.submitted(order("j1.1"))
        await it.looks(5)
        assert (len(it.table.submitted), len(it.all(Submitted))) == (1, 1)
        assert launched(await it.begun(token)) == ["j1.1"]


async def test_a_job_that_has_begun_and_ended_before_its_answer_is_not_submitted_again(tmp_path: Path) -> None:
    """Nobody finds it any more, but it has told everything itself."""
    async with stage(tmp_path) as it:
        it.table.accounts = None
        held = it.table.held["sbatch"] = asyncio.Event()
        it.table.fails["sbatch"], it.table.unheard = [UNHEARD], {"sbatch"}
        await it.pool.launch([order("j1.1")])
        await until(lambda: it.table.known)
        token = it.requested.token
        agent = await it.begun(token)
        it.job(token).listed, it.job(token).recorded = False, ""
        held.set()
        it.post.tell(agent, "ended", attempt="j1.1", reason=None, exit_code=0)
        it.post.end(token, "done")
        await it.closed()
        await it.rest()
        assert (len(it.table.submitted), len(it.all(Submitted)), len(it.all(Ended))) == (1, 1, 1)


# --- what sbatch says -------------------------------------------------------------------------------------------------


async def test_refused_for_good_everything_in_it_comes_back(tmp_path: Path) -> None:
    """Also what was put there while sbatch had not answered."""
    async with stage(tmp_path, "pilot") as it:
        held = it.table.held["sbatch"] = asyncio.Event()
        it.table.fails["sbatch"] = [SlurmRefused("invalid account; look at `slurm.account`", setting="slurm.account")]
        it.table.unheard = {"sbatch"}
        await it.pool.launch([order("j1.1")])
        await until(lambda: it.table.submitted)
        await it.pool.launch([order("j2.1", "cuda0.1")])
        await it.pool.lend(worker(), chunks("j9.0"))
        held.set()
        for name in ("j1.1", "j2.1"):
            end = await it.ended(name)
            assert (end.reason, "slurm.account" in str(end.error)) == ("spawn", True)
        assert (await it.returned("j9.0")).reason == "worker_start"
        assert "slurm.account" in (await it.first(WorkerRefused)).error
        await it.closed()
        await until(lambda: it.slot() is None)


async def test_refused_for_now_it_is_tried_again_and_said_once(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        it.table.fails["sbatch"] = [SlurmRefused("a limit is reached", later=True) for _ in range(4)]
        await it.submitted(order("j1.1"))
        assert len(it.table.submitted) == 1
        assert [each.what for each in it.all(Trouble)] == [
            f"{it.requested.token} cannot be submitted: a limit is reached; it is tried again"
        ]
        assert it.all(Ended) == []


async def test_why_it_is_refused_for_now_is_shown_until_it_is_taken(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        refusals = it.table.fails["sbatch"] = [
            SlurmRefused("a limit is reached; lower `max_jobs`", later=True)
        ] * 10_000
        await it.pool.launch([order("j1.1")])
        await until(lambda: (slot := it.slot()) is not None and slot.stuck)
        slot = it.slot()
        assert slot is not None
        assert (slot.phase, slot.job) == (SlotPhase.ASKED, None)
        assert "a limit is reached; lower `max_jobs`" in slot.says
        refusals.clear()
        await it.first(Submitted)
        await until(lambda: (slot := it.slot()) is not None and slot.job is not None and not slot.stuck)


@pytest.mark.parametrize(
    ("said", "fails", "sizes"), [("3", 0, [3, 2]), ("3", 1, [5]), ("100000", 0, [5]), ("", 0, [5]), ("0", 0, [1] * 5)]
)
async def test_arrays_are_no_larger_than_the_cluster_allows(
    tmp_path: Path, said: str, fails: int, sizes: list[int]
) -> None:
    async with stage(tmp_path, "array") as it:
        it.table.array_size, it.table.fails["scontrol config"] = said, [DOWN] * fails
        await it.pool.launch([order(f"j{at}.1", f"cuda{at}") for at in range(5)])
        await until(lambda: len(it.all(Submitted)) == len(sizes))
        assert [options.tasks for options in it.table.submitted] == sizes


async def test_the_size_of_arrays_is_asked_for_once_on_each_desk(tmp_path: Path) -> None:
    async with stage(tmp_path, "array") as it:
        for at in range(3):
            await it.submitted(order(f"j{at}.1", f"cuda{at}"))
        assert it.table.calls["scontrol config"] == 1
        await it.cut()
        await it.submitted(order("j9.1", "cuda9"))
        assert it.table.calls["scontrol config"] == 2


def limited(it: Stage, most: int) -> None:
    """The cluster takes no more tasks than so many at a time."""
    submit = it.table.submit

    async def limited_submit(options: Options, script: str) -> str:
        waiting = sum(job.state == "PENDING" for job in it.table.known)
        if waiting + (options.tasks or 1) > most:
            it.table.calls["refused"] += 1
            raise SlurmRefused("QOSMaxSubmitJobPerUserLimit", later=True, fewer=True)
        return await submit(options, script)

    it.table.submit = limited_submit  # type: ignore[method-assign]


async def test_too_many_tasks_at_a_time_are_submitted_in_parts(tmp_path: Path) -> None:
    async with stage(tmp_path, "array") as it:
        limited(it, 3)
        await it.pool.launch([order(f"j{at}.1", f"cuda{at}") for at in range(5)])
        await it.first(Submitted)
        (whole, first, second), (closed,) = it.all(Requested)[:3], it.all(Closed)[:1]
        assert [len(each.tasks) for each in (whole, first, second)] == [5, 3, 2]
        assert (closed.token, "QOSMaxSubmitJobPerUserLimit" in closed.why) == (whole.token, True)
        assert [each.name for each in it.table.submitted] == [first.token]
        assert [task.attempts for each in (first, second) for task in each.tasks] == [(f"j{at}.1",) for at in range(5)]
        await until(lambda: (slot := it.slot("cuda3")) is not None and slot.stuck)
        assert it.slot("cuda0") is not None
        for job in it.table.known:
            job.state = "RUNNING"
        await until(lambda: sum(options.tasks or 1 for options in it.table.submitted) == 5)
        await until(lambda: len(it.all(Submitted)) == len(it.table.submitted))
        asked = {each.token: each.tasks for each in it.all(Requested)}
        for token in [each.token for each in it.all(Submitted)]:
            for number, task in enumerate(asked[token]):
                assert launched(await it.begun(token, number)) == list(task.attempts)
        assert it.all(Ended) == []


async def test_a_single_task_waits_and_the_rest_is_not_asked_for(tmp_path: Path) -> None:
    async with stage(tmp_path, "array") as it:
        limited(it, 0)
        await it.pool.launch([order(f"j{at}.1", f"cuda{at}") for at in range(8)])
        await until(lambda: it.table.calls["refused"] >= 8)
        waiting = sorted(len(each.tasks) for each in it.all(Requested))
        assert waiting == [1, 1, 2, 2, 4, 4, 8]
        assert len(it.all(Closed)) == 3
        assert len(it.all(Trouble)) == 1
        await it.pool.stop([f"j{at}.1" for at in range(8)], "not wanted")
        await it.closed(7)
        assert it.table.submitted == []


async def test_what_is_not_wanted_any_more_does_not_wait_for_its_next_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submitting, "RESTS_S", (600.0,))
    async with stage(tmp_path, "array") as it:
        limited(it, 0)
        await it.pool.launch([order(f"j{at}.1", f"cuda{at}") for at in range(2)])
        await until(lambda: it.table.calls["refused"] == 2)
        await it.pool.stop(["j1.1"], "not wanted")
        await it.closed(2)
        await it.pool.stop(["j0.1"], "not wanted")
        await it.closed(3)
        await until(lambda: it.slot("cuda0") is None)


async def test_what_was_put_there_meanwhile_goes_with_its_part(tmp_path: Path) -> None:
    async with stage(tmp_path, "pilot") as it:
        held = it.table.held["sbatch"] = asyncio.Event()
        it.table.unheard = {"sbatch"}
        it.table.fails["sbatch"] = [SlurmRefused("too many", later=True, fewer=True)]
        await it.pool.launch([order("j0.1"), order("j1.1", "cuda1")])
        await until(lambda: it.table.submitted)
        await it.pool.launch([order("j2.1", "cuda1.1")])
        await it.pool.stop(["j0.1"], "not wanted")
        held.set()
        await until(lambda: it.all(Submitted))
        (sent,) = it.all(Submitted)
        assert it.requested.token == sent.token
        agent = await it.begun(sent.token)
        await until(lambda: len(launched(agent)) == 2)
        assert launched(agent) == ["j1.1", "j2.1"]


async def test_down_for_a_while(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        it.table.fails["sbatch"] = [DOWN, DOWN]
        await it.submitted(order("j1.1"))
        assert len(it.table.submitted) == 1
        assert len(it.all(Trouble)) == 1


async def test_a_partition_that_can_never_run_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        await it.pool.launch([order("j1.1", wants={"walltime_s": 30 * 86400.0})])
        end = await it.ended("j1.1")
        assert (end.reason, "allows jobs" in str(end.error)) == ("spawn", True)
        assert it.all(Requested) == []


async def test_work_waits_for_room_in_a_full_folder(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        it.post.faults = {"prepare": "No space left on device"}
        await it.pool.launch([order("j1.1")])
        await it.first(Trouble, lambda each: "No space left" in each.what)
        await until(lambda: len(it.post.ops("prepare")) > 3)
        assert (it.all(Ended), it.table.submitted, len(it.all(Trouble))) == ([], [], 1)
        it.post.faults = {}
        await until(lambda: it.table.submitted)
        assert it.table.calls["find"] == 0, "what was never submitted is not looked for"


async def test_a_stop_while_its_folder_cannot_be_written(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        it.post.faults = {"prepare": "No space left on device"}
        await it.pool.launch([order("j1.1")])
        await it.first(Trouble, lambda each: "No space left" in each.what)
        await it.pool.stop(["j1.1"], "why")
        await it.ended("j1.1")
        await it.closed()
        assert it.table.submitted == []


async def test_not_wanted_any_more_after_an_answer_that_never_came(tmp_path: Path) -> None:
    """Whether it was submitted nobody knows: it is looked for, and cancelled."""
    async with stage(tmp_path) as it:
        held = it.table.held["sbatch"] = asyncio.Event()
        it.table.fails["sbatch"], it.table.unheard = [UNHEARD], {"sbatch"}
        await it.pool.launch([order("j1.1")])
        await until(lambda: it.table.submitted)
        await it.pool.stop(["j1.1"], "why")
        held.set()
        await until(lambda: it.table.cancelled)
        await it.closed()
        assert len(it.all(Ended)) == 1


# --- links that are lost ----------------------------------------------------------------------------------------------


async def test_lost_while_orders_are_gathered(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        await it.pool.launch([order("j1.1")])
        assert (await it.cut()).attempts == (), "the core orders it again"
        await it.submitted(order("j1.1"))
        assert len(it.table.submitted) == 1


async def test_lost_before_the_batch_is_durable(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        it.durable = False
        await it.pool.launch([order("j1.1")])
        token = (await it.first(Requested)).token
        assert (await it.cut()).attempts == ()
        assert (await it.first(Closed)).token == token
        await it.acknowledge()  # of the link that was lost: it is nobody's business any more
        await it.rest()
        assert it.table.submitted == []
        it.durable = True
        await it.submitted(order("j1.1"))
        assert len(it.table.submitted) == 1


@pytest.mark.parametrize("done", [True, False])
async def test_lost_during_sbatch(tmp_path: Path, done: bool) -> None:
    async with stage(tmp_path) as it:
        it.table.held["sbatch"] = asyncio.Event()
        await it.pool.launch([order("j1.1")])
        await until(lambda: it.table.submitted)
        if not done:
            it.table.known.clear()
        link = await it.cut()
        assert link.attempts == (("j1.1",) if done else ())
        it.table.held.clear()
        await it.rest()
        assert len(it.table.submitted) == 1
        if done:
            assert launched(await it.begun(it.requested.token)) == ["j1.1"]
        else:
            await it.closed()


async def test_lost_while_it_waits(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        assert (await it.cut()).attempts == ("j1.1",)
        await it.looks(5)
        assert launched(await it.begun(token)) == ["j1.1"]
        assert len(it.table.submitted) == 1


async def test_lost_while_it_runs(tmp_path: Path) -> None:
    async with stage(tmp_path, "pilot") as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.running(token, "j1.1")
        assert (await it.cut()).attempts == ("j1.1",)
        await until(lambda: len(agent.asked("hello")) == 2)
        await it.pool.launch([order("j2.1")])
        await until(lambda: launched(agent) == ["j1.1", "j2.1"])
        it.post.tell(agent, "ended", attempt="j1.1", reason=None, exit_code=0)
        assert (await it.ended("j1.1")).exit_code == 0
        assert len(it.table.submitted) == 1


async def test_lost_while_it_begins_and_ends(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        it.post.hang_up()
        await it.broken()
        it.post.watched.clear()
        it.job(token).state = "COMPLETED"
        agent = it.post.agents[token, 0, 0] = Agent()
        agent.noted("ended", attempt="j1.1", reason=None, exit_code=0)
        it.post.told[token] = []
        it.post.watched.discard(token)
        it.post.begin(token, "100")
        it.post.end(token, "done")
        assert (await it.join()).attempts == ("j1.1",)
        assert (await it.ended("j1.1")).exit_code == 0
        await it.closed()
        assert len(it.table.submitted) == 1


async def test_lost_while_it_is_found_out_how_it_ended(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        agent = await it.begun(token)
        it.post.tell(agent, "ended", attempt="j1.1", reason="stopped", error=f"{ALLOCATION_ENDS}: TERM")
        it.job(token).state = "COMPLETING"
        it.post.end(token, "signal")
        await it.looks(2)
        assert "j1.1" in (await it.cut()).attempts
        it.job(token).state = "PREEMPTED"
        assert (await it.ended("j1.1")).reason == "stopped"
        await it.closed()


async def test_what_has_ended_is_held_until_that_is_told(tmp_path: Path) -> None:
    """Ends come after the inventory, which has to name them: else they are taken for lost, and begun anew."""
    async with stage(tmp_path, "array") as it:
        names = [f"j{at}.1" for at in range(8)]
        token = await it.submitted(*(order(name, f"cuda{at}") for at, name in enumerate(names)))
        for at, name in enumerate(names):
            agent = await it.running(token, name, task=at)
            agent.attempts.clear()
            agent.noted("ended", attempt=name, reason=None, exit_code=0)
        assert sorted((await it.cut()).attempts) == names
        for name in names:
            assert (await it.ended(name)).exit_code == 0


async def test_one_agent_is_not_attended_twice_where_another_pool_keeps_the_desk(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        other = it.another("other", tmp_path, terms())
        watching = asyncio.create_task(_watch(other))
        token = await it.submitted(order("j1.1"))
        await it.running(token, "j1.1")
        it.pool.hang_up()
        await it.broken()
        it.job(token).state = "RUNNING"
        link = await it.join()
        assert link.attempts == ("j1.1",)
        await until(lambda: len(it.post.ops("listen")) == 2)
        await it.looks(10)
        assert len(it.post.ops("listen")) == 2
        assert len(it.desks) == 1
        watching.cancel()
        await asyncio.wait({watching})


async def _watch(pool: SlurmPool) -> None:
    async for _ in pool.observe(1):
        pass


async def test_news_that_come_before_the_link_is_up_belong_to_it(tmp_path: Path) -> None:
    """The desk, which another pool keeps, still tells of a batch while its pool joins anew."""
    async with stage(tmp_path) as it:
        other = it.another("other", tmp_path, terms())
        watching = asyncio.create_task(_watch(other))
        token = await it.submitted(order("j1.1"))
        it.pool.hang_up()
        await it.broken()
        held = it.table.held["sinfo"] = asyncio.Event()
        it.cluster._hosts = None
        joining = asyncio.create_task(it.join())
        await until(lambda: it.table.calls["sinfo"] >= 2)
        agent = it.post.begin(token, "100")
        it.job(token).state = "RUNNING"
        await asyncio.sleep(0.05)
        held.set()
        assert (await joining).attempts == ("j1.1",)
        await until(lambda: agent.requests)
        await it.looks(5)
        assert len(it.post.ops("listen")) == 1
        watching.cancel()
        await asyncio.wait({watching})


# --- controllers that come after --------------------------------------------------------------------------------------


async def test_remembered_before_it_was_submitted(tmp_path: Path) -> None:
    it = Stage(tmp_path, terms())
    it.pool.remember([from_journal("t", "j1.1", job=None)])
    assert (await it.join()).attempts == ()
    await it.closed()
    assert it.post.ops("forget")[0]["tokens"] == ["t"]
    assert it.table.submitted == []
    await it.leave()


async def test_remembered_after_it_was_submitted_unheard(tmp_path: Path) -> None:
    it = Stage(tmp_path, terms())
    it.table._submit(terms().options(order("j1.1").ask, "job", "t", 1, "/"))  # type: ignore[arg-type]
    it.pool.remember([from_journal("t", "j1.1", job=None)])
    assert (await it.join()).attempts == ("j1.1",)
    assert (await it.first(Submitted)).job == "100"
    agent = await it.begun("t")
    it.post.tell(agent, "ended", attempt="j1.1", reason=None, exit_code=0)
    assert (await it.ended("j1.1")).exit_code == 0
    await it.leave()


async def test_remembered_after_it_has_run_unheard_and_is_forgotten_by_the_cluster(tmp_path: Path) -> None:
    """Without accounting nobody finds it, but what it has left is there."""
    it = Stage(tmp_path, terms())
    it.table.accounts = None
    it.pool.remember([from_journal("t", "j1.1", job=None)])
    agent = it.post.agents["t", 0, 0] = Agent()
    agent.noted("ended", attempt="j1.1", reason=None, exit_code=0)
    it.post.begin("t", "77")
    it.post.end("t", "done")
    assert (await it.join()).attempts == ("j1.1",)
    assert (await it.ended("j1.1")).exit_code == 0
    assert (await it.first(Submitted)).job == "77"
    await it.closed()
    assert it.post.ops("forget") == []
    await it.leave()


async def test_remembered_while_nobody_can_say_whether_it_was_submitted(tmp_path: Path) -> None:
    it = Stage(tmp_path, terms())
    it.table.fails["squeue"] = [SlurmDown("slurmctld is down", unknown=True)] * 10_000  # as often as it is asked
    it.pool.remember([from_journal("t", "j1.1", job=None)])
    with pytest.raises(LinkLost, match="what was submitted"):
        await _watch(it.pool)
    assert it.post.ops("forget") == []
    await it.leave()


async def test_many_that_nobody_knows_of_are_looked_for_at_once(tmp_path: Path) -> None:
    it = Stage(tmp_path, terms())
    it.table._submit(terms().options(order("j1.1").ask, "job", "t7", 1, "/"))  # type: ignore[arg-type]
    it.pool.remember([from_journal(f"t{at}", f"j{at}.1", job=None) for at in range(50)])
    it.cluster._poll_s = 3600.0  # the one look that is counted, and none of those that follow
    assert (await it.join()).attempts == ("j7.1",)
    assert (it.table.calls["squeue"], it.table.calls["find"], it.table.calls["sacct"]) == (1, 0, 0)
    await it.leave()


async def test_remembered_while_it_waits_and_after_it_is_gone(tmp_path: Path) -> None:
    it = Stage(tmp_path, terms())
    it.table._submit(terms().options(order("j1.1").ask, "job", "t", 1, "/"))  # type: ignore[arg-type]
    it.pool.remember([from_journal("t", "j1.1"), from_journal("u", "j2.1", job="200")])
    assert sorted((await it.join()).attempts) == ["j1.1", "j2.1"]
    assert (await it.ended("j2.1")).reason == "lost"
    await it.closed()
    await until(lambda: it.slot() and it.slot().phase is SlotPhase.WAITING)  # type: ignore[union-attr]
    await it.leave()


@pytest.mark.parametrize("mode", ["job", "pilot"])
async def test_remembered_while_it_runs(tmp_path: Path, mode: Mode) -> None:
    it = Stage(tmp_path, terms(mode))
    it.table._submit(terms().options(order("j1.1").ask, "job", "t", 1, "/"))  # type: ignore[arg-type]
    it.table.of("t").state = "RUNNING"
    agent = it.post.begin("t", "100")
    agent.attempts += [{"id": name, "begun": True, "started_at": 1.0, "exit": None} for name in ("j1.1", "j5.1")]
    agent.noted("ended", attempt="j4.1", reason=None, exit_code=0)
    it.pool.remember([from_journal("t", "j1.1", mode=mode)])
    assert sorted((await it.join()).attempts) == ["j1.1", "j4.1", "j5.1"], "also what was put there later"
    await it.ended("j4.1")
    it.post.tell(agent, "ended", attempt="j5.1", reason=None, exit_code=0)
    await it.ended("j5.1")
    await it.pool.launch([order("j6.1")])
    if mode == "pilot":
        await until(lambda: launched(agent) == ["j6.1"])
    else:
        await until(lambda: it.table.submitted[1:])
    await it.leave()


async def test_remembered_while_a_pilot_runs_that_was_begun_anew(tmp_path: Path) -> None:
    """What its second run has is not in the journal of batches, and is not over with the first run."""
    it = Stage(tmp_path, terms("pilot"))
    it.table._submit(terms().options(order("j1.1").ask, "pilot", "t", 1, "/"))  # type: ignore[arg-type]
    it.table.of("t").state = "RUNNING"
    first, second = it.post.begin("t", "100"), it.post.begin("t", "100", run=1)
    for agent, name in ((first, "j1.1"), (first, "j2.1"), (second, "j2.1"), (second, "j5.1")):
        agent.attempts.append({"id": name, "begun": True, "started_at": 1.0, "exit": None})
    it.pool.remember([from_journal("t", "j1.1", mode="pilot")])
    assert sorted((await it.join()).attempts) == ["j1.1", "j2.1", "j5.1"]
    assert "begins it anew" in str((await it.ended("j1.1")).error)
    await it.looks(3)
    assert [each.attempt for each in it.all(Ended)] == ["j1.1"]
    await it.pool.stop(["j2.1"], "why")
    await until(lambda: second.asked("stop"))
    for name in ("j2.1", "j5.1"):
        it.post.tell(second, "ended", attempt=name, reason=None, exit_code=0)
        assert (await it.ended(name)).exit_code == 0
    await it.leave()


async def test_remembered_while_a_journal_cannot_be_read_for_a_moment(tmp_path: Path) -> None:
    it = Stage(tmp_path, terms("pilot"))
    it.table._submit(terms().options(order("j1.1").ask, "pilot", "t", 1, "/"))  # type: ignore[arg-type]
    it.table.of("t").state = "RUNNING"
    agent = it.post.begin("t", "100")
    agent.attempts.append({"id": "j5.1", "begun": True, "started_at": 1.0, "exit": None})
    it.post.faults["facts"] = "Stale file handle"
    it.pool.remember([from_journal("t", "j1.1", mode="pilot")])
    joining = asyncio.create_task(it.join())
    await until(lambda: it.post.ops("facts"))
    it.post.faults.clear()
    assert sorted((await joining).attempts) == ["j1.1", "j5.1"]
    await it.leave()


@pytest.mark.parametrize(("saves", "expected"), [(True, "stopped"), (False, "short")])
async def test_remembered_after_its_time_was_over_long_ago(tmp_path: Path, saves: bool, expected: str) -> None:
    """Its script ended well before Slurm would have ended it: accounting calls that COMPLETED."""
    it, now = Stage(tmp_path, terms()), time.time()
    it.table._submit(terms().options(order("j1.1").ask, "job", "t", 1, "/"))  # type: ignore[arg-type]
    it.table.of("t").listed, it.table.of("t").recorded = False, "COMPLETED"
    agent = it.post.begin("t", "100", at=now - 9000.0, ends_at=now - 5400.0)
    agent.noted("ended", attempt="j1.1", reason="stopped", error=f"{ALLOCATION_ENDS}: SIGTERM")
    it.post.end("t", "signal", at=now - 5500.0)
    known = from_journal("t", "j1.1")
    it.pool.remember([replace(known, time=replace(known.time, saves=saves))])
    await it.join()
    assert (await it.ended("j1.1")).reason == expected
    await it.closed()
    await it.leave()


async def test_a_controller_that_leaves_lets_go_of_what_idles(tmp_path: Path) -> None:
    async with stage(tmp_path, "pilot") as it:
        agent = await it.begun(await it.submitted(order("j1.1")))
        await it.submitted(order("j2.1", "cuda1"))
        await it.pool.release()
        await until(lambda: agent.asked("shutdown"))
        assert it.table.cancelled == [], "what waits for an allocation is not in vain"


async def test_what_is_asked_for_keeps_within_the_rules_of_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The `MaxTime` of the partition is lowered while something waits in it, which so can never begin."""
    monkeypatch.setattr(clusters, "ANEW_S", 0.0)
    async with stage(tmp_path) as it:
        old = await it.submitted(order("j1.1"))
        it.table.max_time_s = 600.0
        it.table.of(old).reason = "PartitionTimeLimit"
        it.cluster.hurry()
        await until(lambda: len(it.all(NodeFound)) > 1)
        found = it.all(NodeFound)[-1].node
        assert found.pool is not None
        assert found.pool.longest_s == 600.0
        await it.submitted(order("j2.1", "cuda1"))
        assert [asked.time_s for asked in it.table.submitted] == [12 * 3600.0, 600.0]
        await it.looks(3)
        assert len(it.all(NodeFound)) == 2, "it is told when it has changed"


async def test_a_partition_that_was_not_there_is_found_when_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "ANEW_S", 0.0)
    it = Stage(tmp_path, terms())
    it.table.partition = "cpu"
    await it.cluster.join("another", it.another("another", tmp_path, terms()))
    with pytest.raises(LinkRefused, match="no partition 'gpu'"):
        await anext(it.pool.observe(1))
    it.table.partition = "gpu"
    await it.join()
    await it.leave()
    await it.cluster.leave("another")
