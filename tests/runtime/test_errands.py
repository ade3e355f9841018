"""What takes long on a node goes on beside everything else, is tried again, and ends with what it was for."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from dataclasses import replace

import pytest

from hostler.backends.bounds import LimitBroken
from hostler.model.commands import AttemptOrder, Clear, Keep, Secure
from hostler.model.errors import FilesChanged, FilesError, LinkLost, LinkRefused
from hostler.model.events import TroubleRecorded
from hostler.model.files import Fetch, FileRef
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Cancel, Ended, Input, Secured
from hostler.model.views import LogChunk
from hostler.model.work import JobSpec, JobState, Retry, ScriptPayload
from hostler.runtime import errands
from hostler.runtime.clock import SteadyClock
from hostler.runtime.keptlogs import KeptLogs
from hostler.runtime.statedir import StateDir
from hostler.store import open_journal
from tests.backends.fake import FakeNode, succeed
from tests.patience import PATIENCE_S
from tests.runtime.conftest import running, submit, until, until_state

pytestmark = pytest.mark.anyio

FILE = FileRef(path="j1.1/out", size=1, sha256="a" * 64)


class FarNode(FakeNode):
    """A fake node whose files are its own. `faults` are raised one after the other, by whatever is asked of it."""

    apart = True

    def __init__(self, *faults: Exception, slow: bool = False) -> None:
        super().__init__("far")
        self.faults = list(faults)
        self.go = asyncio.Event()
        if not slow:
            self.go.set()
        self.supplied: list[str] = []
        self.cleared: list[str] = []
        self.asked = 0

    async def probe(self) -> NodeSpec:
        return replace(await super().probe(), apart=True)

    async def supply(self, order: AttemptOrder) -> AttemptOrder:
        await self._ask()
        self.supplied.append(order.id)
        return replace(order, cwd="/there")

    async def fetch(self, attempt: str, what: Fetch, cwd: str | None) -> tuple[FileRef, ...]:
        await self._ask()
        return (FILE,)

    async def read_log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        self._require_link()
        return await super().read_log(attempt, stream, offset, limit)

    async def clear(self, attempt: str) -> None:
        self.cleared.append(attempt)

    async def keep(self, attempts: Sequence[str], sweeps: Sequence[str]) -> None:
        """Nothing of others is there."""

    async def _ask(self) -> None:
        self.asked += 1
        await self.go.wait()
        if self.faults:
            raise self.faults.pop(0)


def leaving(fault: Exception) -> FarNode:
    """A node on which everything runs well, and this is raised by whoever fetches what it has left."""

    def ends(order: AttemptOrder) -> Ended:
        node.faults.append(fault)
        return succeed(order)

    node = FarNode()
    node.behave = ends
    return node


def job(*outputs: str) -> JobSpec:
    return JobSpec(name="job", payload=ScriptPayload(schema=1, argv=("true",), cwd="/here", outputs=outputs))


async def _gather(_: object) -> None:
    """All of it is here."""


@pytest.mark.parametrize("node", [FarNode(), FarNode(FilesError("gone")), FakeNode("near")])
async def test_nothing_is_remembered_of_what_was_closed_once_it_was_fetched(
    node: FakeNode, directory: StateDir
) -> None:
    said: list[object] = []
    busy = errands.Errands(node, SteadyClock(), said.append, said.append, KeptLogs(directory.logs), _gather)
    for number in range(3):
        busy.secure(Secure(node="far", attempt=f"j{number}.1", artifacts=("a" * 64,)))
    await until(lambda: not busy._running)
    assert (busy._closed, len(said) > 0) == ({}, isinstance(node, FarNode))


class Spoilt(FarNode):
    """A node on which some of what was closed cannot be read any more."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.spoilt = set(names)

    async def fetch(self, attempt: str, what: Fetch, cwd: str | None) -> tuple[FileRef, ...]:
        self.asked += 1
        if bad := sorted(self.spoilt.intersection(what.artifacts)):
            raise FilesError(f"{bad[0]} is damaged")
        return ()


async def test_one_segment_that_cannot_be_fetched_keeps_no_other_on_a_node_that_may_vanish(
    directory: StateDir,
) -> None:
    names = tuple(f"{number:064x}" for number in range(40))
    node, said, troubles = Spoilt(names[3], names[31]), list[Input](), list[str]()
    busy = errands.Errands(node, SteadyClock(), said.append, troubles.append, KeptLogs(directory.logs), _gather)
    busy.secure(Secure(node="far", attempt="j1.1", artifacts=names))
    await until(lambda: not busy._running)
    came = [name for each in said if isinstance(each, Secured) for name in each.artifacts]
    assert sorted(came) == [name for name in names if name not in node.spoilt]
    assert [name in line for name, line in zip((names[3], names[31]), troubles, strict=True)] == [True, True]
    assert node.asked < len(names)


class NoTime:
    """Nobody waits."""

    def now(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(f"somebody waits for {seconds} s")


async def test_what_is_closed_is_fetched_without_waiting_for_anything(directory: StateDir) -> None:
    """Beside whatever else is fetched there; what is closed meanwhile follows at once."""
    node, said = FarNode(slow=True), list[Input]()
    busy = errands.Errands(node, NoTime(), said.append, said.append, KeptLogs(directory.logs), _gather)  # type: ignore[arg-type]
    for number in range(20):
        busy.secure(Secure(node="far", attempt=f"j{number}.1", artifacts=("a" * 64,)))
    await asyncio.sleep(0)
    assert node.asked == 20
    busy.secure(Secure(node="far", attempt="j0.1", artifacts=("b" * 64,)))
    node.go.set()
    await busy.over(PATIENCE_S)
    assert sorted(said, key=str)[:2] == [
        Secured(attempt="j0.1", artifacts=("a" * 64,)),
        Secured(attempt="j0.1", artifacts=("b" * 64,)),
    ]
    assert node.asked == len(said) == 21


async def test_a_job_starts_once_what_it_needs_is_there(directory: StateDir) -> None:
    node = FarNode(slow=True)
    async with running(directory, node) as controller:
        (name,) = await submit(controller, job())
        await until(lambda: node.asked == 1)
        assert (node.launched, controller.job(name).job.state) == ([], JobState.LEASED)
        node.go.set()
        await until_state(controller, name, JobState.DONE)
        assert (node.supplied, node.launched) == (["j1.1"], ["j1.1"])


async def test_a_connection_for_files_that_breaks_is_made_again(directory: StateDir) -> None:
    """The link to the agent stands meanwhile, so nobody else would ask again."""
    node = FarNode(LinkLost("cut"))
    async with running(directory, node) as controller:
        (name,) = await submit(controller, job())
        await until_state(controller, name, JobState.DONE)
        assert (len(node.epochs), node.launched) == (1, ["j1.1"])


async def test_what_cannot_be_brought_there_fails_the_attempt_with_the_reason(directory: StateDir) -> None:
    node = FarNode(*[FilesError("/here is no folder")] * 3)
    async with running(directory, node) as controller:
        (name,) = await submit(controller, replace(job(), retry=Retry(backoff_s=0.0)))
        await until_state(controller, name, JobState.FAILED)
        assert "/here is no folder" in str(controller.job(name).job.why)
        assert node.launched == []


async def test_files_that_change_on_their_way_are_brought_again(directory: StateDir) -> None:
    """Both ways: twice there, once back; it is one attempt all the same."""

    def ends(order: AttemptOrder) -> Ended:
        node.faults.append(FilesChanged("damaged"))
        return succeed(order)

    node = FarNode(FilesChanged("it changed"), FilesChanged("it changed"))
    node.behave = ends
    async with running(directory, node) as controller:
        (name,) = await submit(controller, job("out"))
        await until_state(controller, name, JobState.DONE)
        assert (node.asked, controller.job(name).job.attempts) == (5, 1)


async def test_one_that_is_cancelled_on_its_way_is_never_started(directory: StateDir) -> None:
    node = FarNode(slow=True)
    async with running(directory, node) as controller:
        (name,) = await submit(controller, job())
        await until(lambda: node.asked == 1)
        await controller.tell(Cancel(job=name))
        await until_state(controller, name, JobState.CANCELLED)
        node.go.set()
        await submit(controller, job())
        await until_state(controller, "j2", JobState.DONE)
        assert node.launched == ["j2.1"]


async def test_what_it_left_comes_before_it_counts(directory: StateDir) -> None:
    node = FarNode()
    async with running(directory, node) as controller:
        (name,) = await submit(controller, job("out"))
        await until_state(controller, name, JobState.DONE)
        assert controller.job(name).files == (FILE,)
        await until(lambda: node.cleared == ["j1.1"])


async def test_a_full_disk_of_this_machine_is_told_and_waited_for(directory: StateDir) -> None:
    def ends(order: AttemptOrder) -> Ended:
        node.faults.append(OSError(28, "No space left on device"))
        return Ended(attempt=order.id, started_at=1.0, ended_at=2.0, exit_code=0)

    node = FarNode()
    node.behave = ends
    async with running(directory, node) as controller:
        (name,) = await submit(controller, job("out"))
        await until_state(controller, name, JobState.DONE)
        assert controller.job(name).files == (FILE,)
    journal = open_journal(directory.path)
    troubles = [entry.event for entry in journal.read() if isinstance(entry.event, TroubleRecorded)]
    journal.close()
    assert ["No space left" in event.what for event in troubles] == [True]


async def test_what_it_said_can_be_read_when_its_node_is_gone(directory: StateDir) -> None:
    node = FarNode()
    async with running(directory, node) as controller:
        (name,) = await submit(controller, job())
        await until_state(controller, name, JobState.DONE)
        await until(lambda: node.cleared == ["j1.1"])
        there = await controller.log("j1.1", "out", 0, 100)
        node.reachable = False
        assert (await controller.log("j1.1", "out", 0, 100)) == there
        assert (await controller.log("j1.1", "out", -3, 100)).data == there.data[-3:]
        with pytest.raises(LinkLost):
            await controller.log("j1.2", "out", 0, 100)


async def test_files_of_a_node_that_cannot_hand_them_over_are_a_failure(directory: StateDir) -> None:
    async with running(directory, FakeNode()) as controller:
        (name,) = await submit(controller, replace(job("out"), retry=Retry(backoff_s=0.0)))
        await until_state(controller, name, JobState.FAILED)
        assert "cannot be fetched from a node of this kind" in str(controller.job(name).job.why)


async def test_what_was_not_fetched_is_not_deleted_there(directory: StateDir) -> None:
    """It is the only copy."""

    node = leaving(FilesError("too many"))
    async with running(directory, node) as controller:
        (name,) = await submit(controller, replace(job("out"), retry=Retry(backoff_s=0.0)))
        await until_state(controller, name, JobState.FAILED)
        assert "too many" in str(controller.job(name).job.why)
        assert node.cleared == []


@pytest.mark.parametrize("fault", [LinkRefused("it has no agent to offer"), OSError(errno.EIO, "Input/output error")])
async def test_what_may_pass_is_not_held_against_a_job(directory: StateDir, fault: Exception) -> None:
    """Both ways."""

    def ends(order: AttemptOrder) -> Ended:
        node.faults.append(fault)
        return succeed(order)

    node = FarNode(fault)
    node.behave = ends
    async with running(directory, node) as controller:
        (name,) = await submit(controller, job("out"))
        await until_state(controller, name, JobState.DONE)
        assert (node.launched, controller.job(name).files) == (["j1.1"], (FILE,))


@pytest.mark.parametrize("of", ["files it needs", "files it left"])
async def test_transfer_that_broke_a_limit_is_not_repeated(directory: StateDir, of: str) -> None:
    fault = LimitBroken("a line has more than 1048576 bytes")
    node = FarNode(fault) if of == "files it needs" else leaving(fault)
    async with running(directory, node) as controller:
        (name,) = await submit(controller, replace(job("out"), retry=Retry(backoff_s=0.0)))
        if of == "files it needs":  # a new attempt is another request
            await until_state(controller, name, JobState.DONE)
            assert controller.job(name).job.attempts == 2
            return
        await until_state(controller, name, JobState.FAILED)
        assert "more than 1048576 bytes" in str(controller.job(name).job.why)
        assert node.asked == 2 * controller.job(name).job.attempts, "each attempt is supplied and fetched once"


async def test_what_can_never_be_written_here_fails_the_attempt(directory: StateDir) -> None:
    node = leaving(OSError(errno.ENAMETOOLONG, "File name too long"))
    async with running(directory, node) as controller:
        (name,) = await submit(controller, replace(job("out"), retry=Retry(backoff_s=0.0)))
        await until_state(controller, name, JobState.FAILED)
        assert "File name too long" in str(controller.job(name).job.why)


async def test_a_line_that_breaks_again_and_again_is_told_of(
    directory: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errands, "RESTS_S", (0.0, 0.0))
    node = FarNode(*[LinkLost("cut")] * 5)
    async with running(directory, node) as controller:
        (name,) = await submit(controller, job())
        await until_state(controller, name, JobState.DONE)
    journal = open_journal(directory.path)
    troubles = [entry.event for entry in journal.read() if isinstance(entry.event, TroubleRecorded)]
    journal.close()
    assert ["cut; it is tried again" in event.what for event in troubles] == [True]


async def test_what_nobody_has_thought_of_is_told_and_tried_again(
    directory: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job must not be lent for ever."""
    monkeypatch.setattr(errands, "RESTS_S", (0.0,))
    node, faults = FarNode(), [ZeroDivisionError("a bug"), ZeroDivisionError("a bug")]
    launch = node.launch

    async def stumbles(orders: Sequence[AttemptOrder]) -> Sequence[Ended]:
        if faults:
            raise faults.pop()
        return await launch(orders)

    monkeypatch.setattr(node, "launch", stumbles)
    async with running(directory, node) as controller:
        (name,) = await submit(controller, job())
        await until_state(controller, name, JobState.DONE)
    journal = open_journal(directory.path)
    troubles = [entry.event.what for entry in journal.read() if isinstance(entry.event, TroubleRecorded)]
    journal.close()
    assert troubles == ["files of j1.1 cannot be brought or fetched: ZeroDivisionError: a bug; it is tried again"]


class SlowToTidy(FarNode):
    """A node that deletes what is not needed only when it may."""

    async def clear(self, attempt: str) -> None:
        await self.go.wait()
        await super().clear(attempt)

    async def keep(self, attempts: Sequence[str], sweeps: Sequence[str]) -> None:
        await self.go.wait()
        self.cleared.append("others")


@pytest.mark.parametrize(
    "command", [Clear(node="far", attempt="j1", output=False), Keep(node="far", attempts=(), sweeps=())]
)
async def test_sweep_waits_for_the_deletion_of_its_folder(directory: StateDir, command: Clear | Keep) -> None:
    node, said = SlowToTidy(slow=True), list[object]()
    busy = errands.Errands(node, SteadyClock(), said.append, said.append, KeptLogs(directory.logs), _gather)
    await busy.tidied("j1")
    busy.tidy([command])
    waiting = asyncio.create_task(busy.tidied("j1"))
    await asyncio.sleep(0)
    assert not waiting.done()
    if isinstance(command, Clear):
        await busy.tidied("j2")
    node.go.set()
    await waiting
    assert len(node.cleared) == 1


async def test_folder_that_a_closed_worker_writes_to_is_deleted_later(
    directory: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errands, "CLOSING_S", 0.0)

    class Writing(FarNode):
        async def clear(self, attempt: str) -> None:
            await self._ask()
            await super().clear(attempt)

    node, said = Writing(FilesError("trees/j1 cannot be deleted: Directory not empty")), list[object]()
    busy = errands.Errands(node, SteadyClock(), said.append, said.append, KeptLogs(directory.logs), _gather)
    busy.tidy([Clear(node="far", attempt="j1", output=False)])
    await until(lambda: not busy._running)
    assert (node.cleared, said) == (["j1"], [])


async def test_folder_that_cannot_be_deleted_is_named(directory: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errands, "CLOSING_S", 0.0)

    class Kept(FarNode):
        async def clear(self, attempt: str) -> None:
            raise FilesError("trees/j1 cannot be deleted: Operation not permitted")

    said = list[object]()
    busy = errands.Errands(Kept(), SteadyClock(), said.append, said.append, KeptLogs(directory.logs), _gather)
    busy.tidy([Clear(node="far", attempt="j1", output=False)])
    await until(lambda: not busy._running)
    assert said == ["what is not needed there stays: trees/j1 cannot be deleted: Operation not permitted"]
