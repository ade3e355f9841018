"""What is not wanted any more is barred first, then cancelled, all that there is of it; and what fails is said once."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import pytest

from hostler.backends.slurm import cancelling
from hostler.backends.slurm.berths import Batch, Berth
from hostler.backends.slurm.cancelling import Canceller
from hostler.backends.slurm.errors import SlurmRefused
from hostler.model.inputs import Ended, Returned, Submitted, Trouble
from hostler.model.pools import Mode, Span

from .scripted import DOWN, PATIENCE_S, Post, desk_at, until
from .stage import Stage, order, stage

pytestmark = pytest.mark.usefixtures("quick")

REFUSED = SlurmRefused("scancel refused: Access/permission denied")


def again(it: Stage, token: str) -> None:
    """The same batch, once more: the answer of its first submission was lost."""
    it.table._submit(it.table.submitted[-1])
    assert it.table.of(token).id != "100"


def barred(it: Stage) -> list[str]:
    """Tasks that are claimed by nobody."""
    files = [item for each in it.post.files.values() for item in each.items() if item[0].endswith("/claim")]
    return [path for path, text in files if json.loads(text)["job"] == "nobody"]


@pytest.mark.parametrize("mode", ["job", "array", "pilot"])
async def test_what_was_submitted_twice_is_cancelled_twice(tmp_path: Path, mode: Mode) -> None:
    async with stage(tmp_path, mode) as it:
        again(it, await it.submitted(order("j1.1")))
        await it.pool.stop(["j1.1"], "why")
        await it.closed()
        assert set(it.table.cancelled) == ({"100", "200"} if mode == "job" else {"100_0", "200_0"})
        assert it.table.calls["scancel"] <= 2
        assert barred(it) == ["0/claim"]


async def test_of_an_array_that_was_submitted_twice_only_what_is_not_wanted_goes(tmp_path: Path) -> None:
    async with stage(tmp_path, "array") as it:
        again(it, await it.submitted(order("j1.1"), order("j2.1", "cuda1")))
        await it.pool.stop(["j2.1"], "why")
        await until(lambda: set(it.table.cancelled) == {"100_1", "200_1"})
        await it.looks(3)
        assert set(it.table.cancelled) == {"100_1", "200_1"}
        assert barred(it) == ["1/claim"]


async def test_it_has_ended_when_it_cannot_begin_any_more(tmp_path: Path) -> None:
    """Who is told that it has ended may begin it elsewhere: whether the cluster hears is not waited for."""
    async with stage(tmp_path) as it:
        await it.submitted(order("j1.1"))
        it.table.fails["scancel"] = [DOWN] * 500
        it.post.mute.add("prepare")
        await it.pool.stop(["j1.1"], "why")
        await it.looks(3)
        assert it.all(Ended) == []
        it.post.mute.clear()
        asked = it.post.ops("prepare")[-1]
        it.post.send({"id": asked["id"], **it.post._prepare(asked)})
        assert (await it.ended("j1.1")).error == "why"
        assert barred(it) == ["0/claim"]
        assert it.table.cancelled == []


async def test_a_chunk_is_back_when_it_cannot_be_begun_any_more(tmp_path: Path) -> None:
    async with stage(tmp_path, "pilot") as it:
        await it.lent("j9.1")
        it.post.mute.add("prepare")
        await it.pool.recall(["j9.1"], "why")
        await it.looks(3)
        assert it.all(Returned) == []
        it.post.mute.clear()
        asked = it.post.ops("prepare")[-1]
        it.post.send({"id": asked["id"], **it.post._prepare(asked)})
        assert (await it.returned("j9.1")).reason == "recalled"


async def test_what_begins_before_it_is_barred_is_told_to_end(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        it.post.mute.add("prepare")
        await it.pool.stop(["j1.1"], "why")
        await until(lambda: it.post.ops("prepare")[-1]["files"].keys() == {"0/claim"})
        agent = await it.running(token, "j1.1")
        await until(lambda: agent.asked("stop"))
        it.post.send({"id": it.post.ops("prepare")[-1]["id"], "ok": True})
        await it.looks(2)
        assert it.all(Ended) == []
        it.post.tell(agent, "ended", attempt="j1.1", reason="stopped", error="why")
        assert (await it.ended("j1.1")).error == "why"


async def test_where_it_cannot_be_barred_it_has_ended_all_the_same(tmp_path: Path) -> None:
    """A full shared folder: it is barred as soon as there is room, if it waits still."""
    async with stage(tmp_path) as it:
        await it.submitted(order("j1.1"))
        it.post.faults["prepare"] = "No space left on device"
        it.table.fails["scancel"] = [DOWN] * 3
        await it.pool.stop(["j1.1"], "why")
        await it.ended("j1.1")
        it.post.faults.clear()
        await it.closed()
        assert barred(it) == ["0/claim"]


async def test_a_task_that_is_stopped_while_its_array_is_prepared_is_barred(tmp_path: Path) -> None:
    async with stage(tmp_path, "array") as it:
        it.post.mute.add("prepare")
        await it.pool.launch([order("j1.1"), order("j2.1", "cuda1")])
        await until(lambda: it.post.ops("prepare"))
        await it.pool.stop(["j2.1"], "why")
        await it.ended("j2.1")
        it.post.mute.clear()
        asked = it.post.ops("prepare")[0]
        it.post.send({"id": asked["id"], **it.post._prepare(asked)})
        await until(lambda: it.table.submitted)
        assert barred(it) == ["1/claim"]


async def test_a_scancel_that_hangs_holds_up_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        await it.submitted(order("j1.1"))
        held = it.table.held["scancel"] = asyncio.Event()
        async with asyncio.timeout(PATIENCE_S):
            await it.pool.stop(["j1.1"], "why")
            await it.ended("j1.1")
            await it.submitted(order("j2.1", "cuda1"))
            await it.looks(3)
        assert it.table.calls["scancel"] == 1, "what is on its way is not sent again"
        held.set()


@pytest.mark.parametrize("state", ["RUNNING", "SUSPENDED", "ODDLY_THERE"])
async def test_what_runs_and_never_says_so_is_cancelled_until_that_is_taken(tmp_path: Path, state: str) -> None:
    """Its host hangs, say."""
    async with stage(tmp_path) as it:
        token = await it.submitted(order("j1.1"))
        it.job(token).state = state
        await it.looks(2)
        it.table.fails["scancel"] = [DOWN] * 3
        await it.pool.stop(["j1.1"], "why")
        await it.ended("j1.1")
        await until(lambda: it.table.cancelled == ["100"])
        await it.looks(5)
        assert it.table.calls["scancel"] == 4


async def test_a_look_that_is_older_than_the_submission_does_not_tell_that_it_is_gone(tmp_path: Path) -> None:
    async with stage(tmp_path) as it:
        await it.submitted(order("j0.1", "cuda1"))
        looked = it.table.held["squeue"] = asyncio.Event()
        seen = it.table.calls["squeue"]
        it.cluster.hurry()
        await until(lambda: it.table.calls["squeue"] > seen)
        answered = it.table.held["sbatch"] = asyncio.Event()
        await it.pool.launch([order("j1.1")])
        await until(lambda: it.table.calls["sbatch"] == 2)
        await it.pool.stop(["j1.1"], "why")
        await it.ended("j1.1")
        answered.set()
        await it.first(Submitted, lambda each: each.job == "200")
        looked.set()
        await until(lambda: "200" in it.table.cancelled)
        await it.closed()


async def test_what_is_refused_is_said_once_and_tried_ever_more_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cancelling, "REST_S", 0.1)
    async with stage(tmp_path) as it:
        await it.submitted(order("j1.1"))
        it.table.fails["scancel"] = [REFUSED] * 500
        began = time.monotonic()
        await it.pool.stop(["j1.1"], "why")
        await it.ended("j1.1")
        await until(lambda: it.table.calls["scancel"] >= 4)
        # After 0.1, 0.2 and 0.4 s. A look at the queue may meet the word to stop: then the first two come at once.
        assert time.monotonic() - began >= 0.6
        (said,) = it.all(Trouble)
        assert said.what == f"job 100 cannot be cancelled: {REFUSED}; it is tried again"


class _Refusing:
    """As much of a cluster as a `Canceller` meets. Its time stands still but for `time`."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.hurried, self.asked = 0, list[list[str]]()
        self.refuses: set[str] = set()
        self.clock = self.slurm = self

    def now(self) -> float:
        return self.time

    def hurry(self) -> None:
        self.hurried += 1

    async def cancel(self, names: list[str]) -> None:
        self.asked.append(list(names))
        if self.refuses & set(names):
            raise REFUSED


class _Told(list[Trouble]):
    ended = False

    def post(self, *inputs: Trouble) -> None:
        self.extend(inputs)


async def test_rests_grow_for_each_job_alone() -> None:
    cluster, told = _Refusing(), _Told()
    canceller = Canceller("gpu", cluster, told)  # type: ignore[arg-type]
    cluster.refuses = {"1"}
    rests = []
    for _ in range(12):
        await canceller.cancel(["1"])
        before = cluster.time
        while not canceller.due(["1"]):
            cluster.time += 0.01
        rests.append(cluster.time - before)
    assert rests == pytest.approx([min(cancelling.REST_S * 2**at, cancelling.AGAIN_S) for at in range(12)], abs=0.02)
    assert (len(told), cluster.hurried) == (1, 0)
    assert canceller.due(["2"])
    await canceller.cancel(["2"])
    assert cluster.hurried == 1
    assert not canceller.due(["2"]), "it was taken: it is gone soon"
    assert canceller.due(["1", "2"])


async def test_a_trouble_that_comes_back_is_said_again() -> None:
    cluster, told = _Refusing(), _Told()
    canceller = Canceller("gpu", cluster, told)  # type: ignore[arg-type]
    cluster.refuses = {"1"}
    names = [str(at) for at in range(1, 9)]
    await canceller.cancel(names)
    cluster.refuses = set()
    await canceller.cancel(names)
    cluster.refuses = {"1"}
    await canceller.cancel(names)
    await canceller.cancel(["1"])
    assert [each.what.split(" cannot")[0] for each in told] == ["job 1, 2, 3, 4, 5 and 3 more"] * 2


async def test_many_batches_are_barred_and_none_twice() -> None:
    post = Post()
    time = Span(seconds=3600.0, longest=False, saves=False)
    async with desk_at(post) as desk:
        batches = [
            Batch(token=f"t{at}", mode="array", ask=None, wants="", time=time, job=None if at == 0 else str(at),
                  berths=[Berth(token=f"t{at}", task=task, slot="cuda0") for task in range(2)])
            for at in range(40)
        ]  # fmt: skip
        places = [(batch, berth) for batch in batches for berth in batch.berths]
        await cancelling.bar(desk, places)
        await cancelling.bar(desk, places)
    assert len(post.ops("prepare")) == 39, "what was not submitted needs no bar"
    assert post.files["t7"].keys() == {"0/claim", "1/claim"}
