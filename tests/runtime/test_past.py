"""Jobs that have left a controller's memory, asked for as anybody asks: on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hostler.core import groups
from hostler.model.errors import Conflict, NotFound, StoreFull
from hostler.model.events import JobDone
from hostler.model.inputs import Cancel, Configure, Ended, Retry, Submit, Tick
from hostler.model.rules import PastRules, Rules
from hostler.model.work import FailureClass, JobState, Retry as Budget
from hostler.runtime import past
from hostler.runtime.controller import Controller
from hostler.runtime.statedir import StateDir
from tests.backends.fake import FakeNode
from tests.core.test_groups import end, grid, submit as submit_group
from tests.core.test_past import Keeper
from tests.patience import PATIENCE_S
from tests.runtime.conftest import running, script, submit, until

pytestmark = pytest.mark.anyio

AT_ONCE = Rules(past=PastRules(keep_finished=0, keep_finished_s=0.0))


@asynccontextmanager
async def leaving(directory: StateDir, node: FakeNode) -> AsyncIterator[Controller]:
    """A controller whose jobs leave as soon as they may."""
    async with running(directory, node) as controller:
        await controller.tell(Configure(rules=AT_ONCE))
        yield controller


def ends(order: Any) -> Ended:
    """Jobs that are called `false` fail."""
    code = 1 if order.argv[0] == "false" else 0
    return Ended(attempt=order.id, started_at=1.0, ended_at=2.0, exit_code=code, result=list(order.argv))


async def gone(controller: Controller) -> None:
    """Wait until every job has left."""
    async with asyncio.timeout(PATIENCE_S):
        while controller.jobs(None, 0, 1):
            await controller.tell(Tick())


async def test_nothing_that_has_left_is_unknown(anywhere: StateDir) -> None:
    once = Budget(max_attempts={FailureClass.EXIT: 1})
    async with leaving(anywhere, FakeNode(behave=ends)) as controller:
        await submit(controller, script("a", "one"), script("b", "false", retry=once), script("c", "three"))
        await gone(controller)
        with pytest.raises(NotFound):
            controller.job("a")
        seen = (await controller.having("a")).job()
        assert (seen.job.id, seen.job.state, seen.result) == ("j1", JobState.DONE, ["one"])
        assert "j2 failed" in (await controller.having("j2")).explain().summary
        assert [type(entry.event) for entry in await controller.story("c")][-1] is JobDone
        assert [job.id for job in await controller.named(["j2", "a", "c", "a"])] == ["j2", "j1", "j3", "j1"]
        assert [job.id for job in await controller.all_jobs(None, 0, 10)] == ["j1", "j2", "j3"]
        assert [job.id for job in await controller.all_jobs(None, 1, 1)] == ["j2"]
        assert [job.id for job in await controller.all_jobs(frozenset({JobState.FAILED}), 0, 10)] == ["j2"]
        assert [job.id for job in await controller.all_jobs(frozenset({JobState.DONE}), 1, 10)] == ["j3"]
        assert await controller.undone((), 0) == ["j2"]
        assert controller.status().jobs[JobState.DONE] == 2
        with pytest.raises(NotFound, match="no job 'nobody'"):
            await controller.having("nobody")


async def test_what_is_asked_of_them_is_answered_as_ever(anywhere: StateDir) -> None:
    once = Budget(max_attempts={FailureClass.EXIT: 1})
    node = FakeNode(behave=ends)
    async with leaving(anywhere, node) as controller:
        await submit(controller, script("a", "one"), script("b", "false", retry=once))
        await gone(controller)
        assert await submit(controller, script("a", "one")) == ("j1",)
        with pytest.raises(Conflict, match="submitted with other values"):
            await submit(controller, script("a", "two"))
        (refused,) = await controller.tell(Cancel(job="a", reason="no"))
        assert isinstance(refused, Conflict)
        node.launched.clear()
        assert await submit(controller, script("after", after=("a", "j2"))) == ("j3",)
        assert (await controller.having("j3")).job().job.failure is FailureClass.DEPENDENCY
        await gone(controller)
        assert await controller.tell(Retry(job="b")) == [None]
        await until(lambda: "j2.2" in node.launched)
    async with running(anywhere, FakeNode()) as controller:
        assert await submit(controller, script("a", "one")) == ("j1",)


async def test_submissions_that_cross_with_their_job_leaving_make_no_second_one(anywhere: StateDir) -> None:
    async with leaving(anywhere, FakeNode()) as controller:
        for _ in range(20):
            answers = await asyncio.gather(*(controller.tell(Submit(specs=(script("a"),))) for _ in range(5)))
            assert [answer for (answer,) in answers] == [("j1",)] * 5
            await gone(controller)
        assert controller.newest_job == 1


async def test_what_cannot_be_written_is_not_said_to_be_unknown(
    directory: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with leaving(directory, FakeNode()) as controller:
        await submit(controller, script("a"))
        await gone(controller)
        jobs, written = controller._past, controller._past.written
        # What has left the state is written a moment later, on a busy machine a long one.
        await until(lambda: jobs._written >= controller._core.state.past.seq)
        with monkeypatch.context() as unwritten:
            unwritten.setattr(past, "PATIENCE_S", 0.05)
            unwritten.setattr(jobs, "written", lambda seq: None)
            unwritten.setattr(jobs, "_written", 0)
            with pytest.raises(StoreFull, match="could not be written within"):
                await controller.having("a")
        written(controller._core.state.past.seq)
        assert (await controller.having("a")).job().job.id == "j1"


async def test_a_backup_of_it_is_whole(directory: StateDir, tmp_path: Any) -> None:
    from hostler.runtime import backing
    from hostler.store import archive

    async with leaving(directory, FakeNode()) as controller:
        await submit(controller, *(script(f"s{n}") for n in range(5)))
        await gone(controller)
        await submit(controller, script("s2"))
    made = await asyncio.to_thread(backing.create, directory, tmp_path / "b.backup", 1.0)
    assert made.manifest["rows"]["past"] == 5
    with archive.opened(made.path) as opened:
        from hostler.runtime.restoring import _folded

        (tmp_path / "again").mkdir()
        (tmp_path / "again" / "copy").mkdir()
        from hostler.store.copying import copy_in

        copy_in(opened, tmp_path / "again" / "copy")
        journal, core = _folded(opened, tmp_path / "again" / "copy")
        journal.close()
    assert core.state.past.total + len(core.state.jobs) == 5


async def test_results_of_a_group_have_jobs_that_leave_while_the_store_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keeper = Keeper(devices=3)
    group = submit_group(keeper, *grid(3))
    end(keeper, "j1", result=1)
    for _ in range(2):
        keeper.tell(Tick(), after_s=30.0)
    end(keeper, "j2", result=2)
    end(keeper, "j3", exit_code=1)
    assert list(keeper.state.jobs) == ["j2", "j3"]
    jobs = past.PastJobs(keeper.core, None)  # type: ignore[arg-type]

    async def leave(names: Collection[str]) -> dict[str, str]:
        for _ in range(2):
            keeper.tell(Tick(), after_s=30.0)
        return {name: keeper.kept[name].data for name in names}

    monkeypatch.setattr(jobs, "_texts", leave)
    rows = await jobs.group_results(group, 0, 10)
    assert not keeper.state.jobs
    assert [(row.job, row.state, row.result) for row in rows] == [
        ("j1", JobState.DONE, 1),
        ("j2", JobState.DONE, 2),
        ("j3", JobState.FAILED, None),
    ]


async def test_results_of_jobs_that_have_left_are_those_they_had(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = Keeper(devices=3)
    group = submit_group(keeper, *grid(4))
    end(keeper, "j1", result={"loss": 0.5, "more": [1, None, "ü"]})
    end(keeper, "j2", exit_code=1)
    keeper.tell(Cancel(job="j4"))
    attempt = keeper.state.jobs["j4"].attempt
    assert attempt is not None
    keeper.tell(Ended(attempt=attempt.id, started_at=1.0, ended_at=2.0, signal=15))
    end(keeper, "j3")
    before = [groups.result(keeper.state.jobs[name]) for name in ("j1", "j2", "j3", "j4")]
    for _ in range(2):
        keeper.tell(Tick(), after_s=30.0)
    assert not keeper.state.jobs
    jobs = past.PastJobs(keeper.core, None)  # type: ignore[arg-type]

    async def found(names: Collection[str]) -> dict[str, str]:
        return {name: keeper.kept[name].data for name in names}

    monkeypatch.setattr(jobs, "_texts", found)
    assert await jobs.group_results(group, 0, 10) == before
