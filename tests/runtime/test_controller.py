"""The controller on a backend that is no machine: what it promises whatever runs the attempts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace

import pytest

from hostler.backends.base import Backend, KeepsReports, ReadsLogs, Releases, RunsChunks
from hostler.core import Core
from hostler.model.artifact_views import Sought
from hostler.model.codec import digest
from hostler.model.commands import AttemptOrder, ChunkOrder, WorkerOrder
from hostler.model.errors import Conflict, LinkRefused, NotFound, StoreFull
from hostler.model.events import AttemptEnded, ControllerStarted, JobDone, TroubleRecorded
from hostler.model.fleet import Link, Process
from hostler.model.inputs import Cancel, Ended, Submit, WorkerRefused
from hostler.model.work import JobSpec, JobState, SweepPayload
from hostler.runtime import controller as runtime_controller, link, pump
from hostler.runtime.clock import SteadyClock
from hostler.runtime.controller import Controller
from hostler.runtime.elsewhere import Forgotten
from hostler.runtime.snapshots import fold_in_background, recovered
from hostler.runtime.statedir import StateDir
from hostler.store import Batch, Journal, open_journal
from tests.backends.fake import FakeNode
from tests.patience import PATIENCE_S
from tests.runtime.conftest import running, script, submit, until, until_state

pytestmark = pytest.mark.anyio


def sweep(name: str, stop: int, **values: object) -> JobSpec:
    payload = SweepPayload(schema=1, start=0, stop=stop, worker=("w",), params={}, digest=digest({}), **values)  # type: ignore[arg-type]
    return JobSpec(name=name, key=name, payload=payload)


def test_the_fake_is_a_whole_backend() -> None:
    node = FakeNode()
    assert all(isinstance(node, protocol) for protocol in (Backend, RunsChunks, KeepsReports, ReadsLogs, Releases))


async def test_scripts_run_to_their_results_and_reports_are_acknowledged(directory: StateDir) -> None:
    node = FakeNode()
    async with running(directory, node) as controller:
        names = await submit(controller, *(script(f"s{at}", "echo", str(at)) for at in range(20)))
        await controller.ended(until_idle=True)
        assert [controller.job(name).result for name in names] == [["echo", str(at)] for at in range(20)]
        await until(lambda: node.acknowledged == 40)
    assert sorted(node.launched) == sorted(f"{name}.1" for name in names)


async def test_an_answer_comes_only_after_its_events_are_durable(directory: StateDir) -> None:
    async with running(directory, FakeNode()) as controller:
        (name,) = await submit(controller, script("a"))
        other = open_journal(directory.path)
        assert [entry.event.job for entry in other.story(name) if entry.event.kind == "job.submitted"] == [name]  # type: ignore[union-attr]
        other.close()


def held_back(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The journal writes nothing from now on until the event that is returned is set."""
    may_write = threading.Event()
    append = Journal.append

    def held(journal: Journal, batches: Sequence[Batch]) -> None:
        may_write.wait(PATIENCE_S)
        append(journal, batches)

    monkeypatch.setattr(Journal, "append", held)
    return may_write


async def test_story_of_a_job_has_all_that_its_state_shows(
    directory: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(directory, FakeNode()) as controller:
        (name,) = await submit(controller, script("a"))
        await until_state(controller, name, JobState.DONE)
        may_write = held_back(monkeypatch)
        answer = asyncio.ensure_future(submit(controller, script("b")))
        await until(lambda: len(controller.jobs(None, 0, 10)) == 2)
        story = asyncio.ensure_future(controller.story("b"))
        await asyncio.sleep(0.1)
        assert not story.done()
        may_write.set()
        (second,) = await answer
        assert [entry.event.kind for entry in await story][:1] == ["job.submitted"]
        assert second != name


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda controller, name: controller.hits(name, 0, 10), id="hits"),
        pytest.param(lambda controller, name: controller.proof(name), id="proof"),
        pytest.param(lambda controller, name: controller.artifacts(Sought(), None, 10), id="artifacts"),
        pytest.param(lambda controller, name: controller.artifact("0" * 64), id="artifact"),
        pytest.param(lambda controller, name: controller.lineage("0" * 64, 1, 10), id="lineage"),
        pytest.param(lambda controller, name: controller.content("0" * 64), id="content"),
        pytest.param(lambda controller, name: controller.verify("0" * 64, None, 0.0), id="verify"),
    ],
)
async def test_view_read_from_the_journal_has_all_that_the_state_shows(
    directory: StateDir,
    monkeypatch: pytest.MonkeyPatch,
    look: Callable[[Controller, str], Coroutine[object, object, object]],
) -> None:
    async with running(directory, FakeNode()) as controller:
        (name,) = await submit(controller, sweep("a", 100))
        await until_state(controller, name, JobState.DONE)
        await controller.story(name)
        may_write = held_back(monkeypatch)
        submitted = asyncio.ensure_future(submit(controller, script("b")))
        await until(lambda: len(controller.jobs(None, 0, 10)) == 2)
        view = asyncio.ensure_future(look(controller, name))
        await asyncio.sleep(0.1)
        early = view.done()
        may_write.set()
        await asyncio.wait([view, submitted])
        assert not early
        # An unknown artifact is unknown only once all is written.
        assert view.exception() is None or isinstance(view.exception(), NotFound)


async def test_view_on_a_full_disk_has_the_artifacts_that_are_written_and_no_hits(
    directory: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(directory, FakeNode()) as controller:
        (name,) = await submit(controller, sweep("a", 100))
        await until_state(controller, name, JobState.DONE)
        await controller.story(name)
        has_room = held_back(monkeypatch)
        submitted = asyncio.ensure_future(submit(controller, script("b")))
        await until(lambda: len(controller.jobs(None, 0, 10)) == 2)
        monkeypatch.setattr(pump, "PATIENCE_S", 0.1)
        listed = await asyncio.gather(
            controller.artifacts(Sought(), None, 10), controller.hits(name, 0, 10), return_exceptions=True
        )
        has_room.set()
        await submitted
        assert listed[0] == ([], None)
        assert isinstance(listed[1], StoreFull)


async def test_a_refused_submission_leaves_nothing(directory: StateDir) -> None:
    async with running(directory, FakeNode()) as controller:
        await submit(controller, script("a"))
        with pytest.raises(Conflict, match="another key"):
            await submit(controller, script("b"), script("a", "other"))
        assert [job.name for job in controller.jobs(None, 0, 10)] == ["a"]


async def test_who_asks_hears_what_ended_the_controller_and_not_that_the_disk_is_full(
    directory: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def contradict(*_: object) -> None:
        raise ZeroDivisionError("the state contradicts itself")

    with pytest.raises(ExceptionGroup, match="unhandled errors") as closing:  # noqa: PT012
        async with running(directory, FakeNode()) as controller:
            monkeypatch.setattr(Core, "handled", contradict)
            with pytest.raises(ExceptionGroup) as told:
                await controller.tell(Submit(specs=(script("a"),)))
    assert "contradicts itself" in str(told.value.exceptions)
    assert told.value is closing.value


async def test_a_sweep_covers_its_range_and_closes_its_workers(directory: StateDir) -> None:
    node = FakeNode()
    async with running(directory, node) as controller:
        (name,) = await submit(controller, sweep("s", 10**6))
        await controller.ended(until_idle=True)
        proof = await controller.proof(name)
        assert (proof.complete, proof.done, proof.fault) == (True, 10**6, None)
        await until(lambda: len(node.closed) == 2)


async def test_hits_are_kept_in_order(directory: StateDir) -> None:
    node = FakeNode(slots=1)
    node.hold_chunks = True
    async with running(directory, node) as controller:
        (name,) = await submit(controller, sweep("s", 3, max_chunk=1))
        for at in range(3):
            await until(lambda at=at: f"{name}.{at + 1}" in node.chunks)  # type: ignore[misc]
            node.search(f"{name}.{at + 1}", hits=({"at": at, "note": "here"},))
        await controller.ended(until_idle=True)
        assert [hit.at for hit in await controller.hits(name, 0, 10)] == [0, 1, 2]
        assert controller.job(name).result == {"hits": 3, "items": 3}


async def test_a_restart_goes_on_where_the_last_controller_stopped(directory: StateDir) -> None:
    node = FakeNode(behave=lambda order: None)
    async with running(directory, node) as controller:
        names = await submit(controller, script("a"), script("b"), script("c"))
        await until_state(controller, names[1], JobState.RUNNING)
    async with running(directory, node) as controller:
        assert controller.status().epoch == 2
        await until(lambda: controller.nodes()[0].link is Link.UP)
        assert controller.job(names[0]).attempt is not None
        assert controller.job(names[0]).attempt.process is Process.ALIVE  # type: ignore[union-attr]
        for name in ("j1.1", "j2.1"):
            node.finish(Ended(attempt=name, started_at=1.0, ended_at=2.0, exit_code=0))
        await until(lambda: "j3.1" in node.running)
        node.finish(Ended(attempt="j3.1", started_at=1.0, ended_at=2.0, exit_code=0))
        await controller.ended(until_idle=True)
    assert node.launched == ["j1.1", "j2.1", "j3.1"]
    assert node.epochs == [1, 2]


async def test_a_cut_link_restarts_nothing_and_loses_nothing(directory: StateDir) -> None:
    node = FakeNode(behave=lambda order: None)
    async with running(directory, node) as controller:
        (name,) = await submit(controller, script("a"))
        await until_state(controller, name, JobState.RUNNING)
        node.cut()
        await until(lambda: controller.nodes()[0].link is Link.DOWN)
        detail = controller.job(name)
        assert (detail.job.state, detail.attempt and detail.attempt.link) == (JobState.RUNNING, Link.DOWN)
        assert "out of reach" in controller.explain(name).devices["fake/cpu0"]
        node.finish(Ended(attempt="j1.1", started_at=1.0, ended_at=2.0, exit_code=0, result={"kept": True}))
        node.mend()
        await controller.ended(until_idle=True)
        assert controller.job(name).result == {"kept": True}
    assert node.launched == ["j1.1"]


async def test_cancelling_while_the_link_is_down_takes_effect_when_it_is_up(directory: StateDir) -> None:
    node = FakeNode(behave=lambda order: None)
    async with running(directory, node) as controller:
        (name,) = await submit(controller, script("a"))
        await until_state(controller, name, JobState.RUNNING)
        node.cut()
        await until(lambda: controller.nodes()[0].link is Link.DOWN)
        assert (await controller.tell(Cancel(job=name)))[0] is None
        assert controller.job(name).job.cancelling
        node.mend()
        await until_state(controller, name, JobState.CANCELLED)
    assert node.stopped == ["j1.1"]


async def test_draining_starts_nothing_new_and_waits_for_what_runs(directory: StateDir) -> None:
    node = FakeNode(slots=1, behave=lambda order: None)
    async with running(directory, node) as controller:
        names = await submit(controller, script("a"), script("b"))
        await until_state(controller, names[0], JobState.RUNNING)
        controller.drain()
        ending = asyncio.create_task(controller.ended(until_idle=False))
        node.finish(Ended(attempt="j1.1", started_at=1.0, ended_at=2.0, exit_code=0))
        async with asyncio.timeout(PATIENCE_S):
            await ending
        assert [controller.job(name).job.state for name in names] == [JobState.DONE, JobState.PENDING]


async def test_selection_of_a_card_that_is_not_there_is_a_trouble(directory: StateDir) -> None:
    node = FakeNode()
    node.selection_faults = ("gpus.only of n: 7 names no GPU that is found there",)  # type: ignore[attr-defined]
    async with running(directory, node) as controller:
        assert "gpus.only of n: 7 names no GPU that is found there" in controller.troubles()


async def test_an_error_in_the_core_ends_the_controller_and_is_not_swallowed(
    directory: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Core, now: float, *inputs: object) -> None:
        raise RuntimeError("the core is broken")

    async def run_into_it() -> None:
        async with running(directory, FakeNode()) as controller:
            monkeypatch.setattr(Core, "handled", broken)
            controller.drain()
            async with asyncio.timeout(PATIENCE_S):
                await controller.ended(until_idle=False)

    with pytest.raises(ExceptionGroup) as caught:
        await run_into_it()
    assert "the core is broken" in str(caught.value.exceptions)


async def test_a_broken_journal_thread_ends_the_controller(
    directory: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Journal, batches: object) -> None:
        raise ZeroDivisionError("a bug in the store")

    async def run_into_it() -> None:
        async with running(directory, FakeNode()) as controller:
            monkeypatch.setattr(Journal, "append", broken)
            telling = asyncio.create_task(submit(controller, script("a")))
            async with asyncio.timeout(PATIENCE_S):
                await controller.ended(until_idle=False)
            telling.cancel()

    with pytest.raises(ExceptionGroup) as caught:
        await run_into_it()
    assert "a bug in the store" in str(caught.value.exceptions)
    monkeypatch.undo()
    async with running(directory, FakeNode()) as controller:
        assert controller.jobs(None, 0, 10) == []
        await submit(controller, script("a"))
        await until_state(controller, "a", JobState.DONE)


async def test_readers_see_the_past_and_then_the_present_without_a_gap(directory: StateDir) -> None:
    async with running(directory, FakeNode()) as controller:
        await submit(controller, *(script(f"s{at}") for at in range(5)))
        await controller.ended(until_idle=True)
        seen: list[int] = []
        done = 0
        async for entry in controller.entries(after=0):
            seen.append(entry.seq)
            if isinstance(entry.event, JobDone):
                done += 1
                if done == 5:
                    asyncio.get_running_loop().create_task(submit(controller, script("late")))
                if done == 6:
                    break
        assert seen == list(range(1, len(seen) + 1))


async def test_output_is_read_through_the_backend(directory: StateDir) -> None:
    async with running(directory, FakeNode()) as controller:
        await submit(controller, script("a"))
        await controller.ended(until_idle=True)
        assert (await controller.log("j1.1", "out", 0, 100)).data == b"hello"
        with pytest.raises(NotFound):
            await controller.log("j9.1", "out", 0, 100)


class SlowToBegin(FakeNode):
    """Its agent has not begun with an attempt until it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.may_begin = asyncio.Event()

    async def launch(self, orders: Sequence[AttemptOrder]) -> Sequence[Ended]:
        await self.may_begin.wait()
        return await super().launch(orders)


async def test_output_of_an_attempt_that_its_node_has_not_begun_is_empty(directory: StateDir) -> None:
    node = SlowToBegin()
    async with running(directory, node) as controller:
        await submit(controller, script("a"))
        await until(lambda: controller.job("j1").job.attempts == 1)
        piece = await controller.log("j1.1", "out", 0, 100)
        assert (piece.data, piece.size, piece.ended) == (b"", 0, False)
        with pytest.raises(NotFound):
            await controller.log("j1.2", "out", 0, 100)
        node.may_begin.set()
        await controller.ended(until_idle=True)
        assert (await controller.log("j1.1", "out", 0, 100)).data == b"hello"


@pytest.mark.parametrize("left", [None, True, False])
async def test_output_that_its_node_lost_is_not_called_empty(directory: StateDir, left: bool | None) -> None:
    def ends(order: AttemptOrder) -> Ended:
        return Ended(attempt=order.id, ended_at=2.0, exit_code=0, left=left)

    node = FakeNode(behave=ends)
    async with running(directory, node) as controller:
        await submit(controller, script("a"))
        await controller.ended(until_idle=True)
        journal = open_journal(directory.path)
        await until(lambda: any(isinstance(entry.event, AttemptEnded) for entry in journal.story("j1")))
        journal.close()
        node.launched.clear()
        if left is False:
            piece = await controller.log("j1.1", "out", 0, 100)
            assert (piece.data, piece.ended) == (b"", True)
        else:
            with pytest.raises(NotFound):
                await controller.log("j1.1", "out", 0, 100)


async def test_a_snapshot_folded_beside_the_controller_equals_the_whole_replay(directory: StateDir) -> None:
    async with running(directory, FakeNode()) as controller:
        await submit(controller, *(script(f"s{at}") for at in range(30)), sweep("w", 1000))
        await controller.ended(until_idle=True)
        await fold_in_background(directory.path)
    journal = open_journal(directory.path)
    whole = Core()
    whole.replay(journal.read())
    from_snapshot = recovered(journal, pytest.fail)
    assert from_snapshot.state == whole.state
    from_snapshot.validate()
    journal.close()


async def test_two_controllers_in_turn_have_two_epochs(directory: StateDir) -> None:
    for _ in range(2):
        async with running(directory, FakeNode()) as controller:
            await until(lambda: controller.nodes() and controller.nodes()[0].link is Link.UP)
    journal = open_journal(directory.path)
    started = [entry.event for entry in journal.read() if isinstance(entry.event, ControllerStarted)]
    assert [event.epoch for event in started] == [1, 2]
    journal.close()


async def test_the_same_submission_twice_is_one_job(directory: StateDir) -> None:
    async with running(directory, FakeNode()) as controller:
        first = await submit(controller, script("a"))
        second = await submit(controller, script("a"))
        assert first == second
        (refusal,) = await controller.tell(Submit(specs=(replace(script("a"), priority=3),)))
        assert isinstance(refusal, Conflict)


class Stumbles(FakeNode):
    """Raises what is no error of the link, once, when it is told something."""

    def __init__(self, fault: Exception) -> None:
        super().__init__()
        self.faults = [fault]
        self.hung_up = 0

    async def launch(self, orders: Sequence[AttemptOrder]) -> Sequence[Ended]:
        self._stumble()
        return await super().launch(orders)

    async def lend(self, worker: WorkerOrder, chunks: Sequence[ChunkOrder]) -> Sequence[WorkerRefused]:
        self._stumble()
        return await super().lend(worker, chunks)

    def hang_up(self) -> None:
        self.hung_up += 1
        self.cut()
        asyncio.get_running_loop().call_later(0.05, self.mend)

    def _stumble(self) -> None:
        if self.faults:
            raise self.faults.pop()


@pytest.mark.parametrize("fault", [KeyError("missing"), FileNotFoundError(2, "No such file"), LinkRefused("no")])
@pytest.mark.parametrize("spec", [script("a"), sweep("a", 10)], ids=["script", "sweep"])
async def test_what_a_node_cannot_be_told_ends_no_controller(
    directory: StateDir, monkeypatch: pytest.MonkeyPatch, fault: Exception, spec: JobSpec
) -> None:
    """It is on record, and the node is connected to anew: then it is told what it never got."""
    monkeypatch.setattr(link, "REST_S", (0.01,))
    node = Stumbles(fault)
    async with running(directory, node) as controller:
        await submit(controller, spec)
        if isinstance(fault, LinkRefused):
            await until(lambda: not node.faults)
            node.hang_up()
        await until_state(controller, "a", JobState.DONE)
        assert node.hung_up == 1
    journal = open_journal(directory.path)
    told = [entry.event.what for entry in journal.read() if isinstance(entry.event, TroubleRecorded)]
    journal.close()
    assert ["told in vain" in what for what in told] == ([] if isinstance(fault, LinkRefused) else [True])


@pytest.mark.parametrize("spec", [script("a"), sweep("a", 10)], ids=["script", "sweep"])
async def test_work_of_a_node_that_is_forgotten_can_be_cancelled(directory: StateDir, spec: JobSpec) -> None:
    """Also where the controller that was told to is gone before it is done."""
    old = FakeNode("old", behave=lambda order: None)
    old.hold_chunks = True
    async with running(directory, old) as controller:
        await submit(controller, spec)
        await until(lambda: bool(old.running or old.chunks))

    def forgotten(cls: type[Forgotten]) -> Controller:
        return Controller(
            directory, "test", {}, SteadyClock(), 10**9, lambda node, _agent: cls(node.name, "ssh", SteadyClock())
        )

    class Deaf(Forgotten):
        async def stop(self, attempts: Sequence[str], reason: str) -> None:
            """As if the controller ended in that moment."""

        async def recall(self, chunks: Sequence[str], reason: str) -> None:
            """So too."""

    async with forgotten(Deaf) as controller:
        await controller.tell(Cancel(job="a"))
        assert controller.job("a").job.cancelling
    async with forgotten(Forgotten) as controller:
        await until_state(controller, "a", JobState.CANCELLED)


async def test_what_came_of_files_that_nobody_waits_for_is_deleted(directory: StateDir) -> None:
    old = FakeNode("old", behave=lambda order: None)
    async with running(directory, old) as controller:
        await submit(controller, script("a"))
        await until_state(controller, "a", JobState.RUNNING)
    for name in ("j1.1", "j7.1"):
        (directory.path / "incoming" / name).mkdir(parents=True)
        (directory.path / "incoming" / name / "part").touch()
    async with running(directory, old):
        assert [path.name for path in (directory.path / "incoming").iterdir()] == ["j1.1"]


class _Keeps(FakeNode):
    """A node that lets go of what idles there only once it is told to, if ever."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.go = asyncio.Event()
        self.let_go: bool | None = None

    async def release(self) -> None:
        self.let_go = False
        await self.go.wait()
        self.let_go = True


async def test_nodes_are_released_side_by_side_and_one_that_hangs_is_not_waited_for(
    directory: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, fine, gone = _Keeps("a"), _Keeps("b"), _Keeps("c")
    fine.go.set()
    monkeypatch.setattr(runtime_controller, "RELEASE_S", 0.3)
    monkeypatch.setattr(gone, "release", _fails)
    async with running(directory, hangs, fine, gone) as controller:
        async with asyncio.timeout(PATIENCE_S):
            await controller.release_nodes()
        assert (hangs.let_go, fine.let_go) == (False, True)


async def _fails() -> None:
    raise LinkRefused("it is not there")


async def test_who_stops_to_wait_for_nodes_leaves_nothing_running(directory: StateDir) -> None:
    hangs = _Keeps("a")
    async with running(directory, hangs) as controller:
        releasing = asyncio.create_task(controller.release_nodes())
        await until(lambda: hangs.let_go is False)
        releasing.cancel()
        await asyncio.gather(releasing, return_exceptions=True)
        assert releasing.cancelled()
        assert "a" not in {task.get_name() for task in asyncio.all_tasks()}
