"""A pool with a real post and real agents, on the fake Slurm, which runs the batch scripts."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from hostler.backends.slurm import following, opening
from hostler.backends.slurm.budget import Budget
from hostler.backends.slurm.commands import Slurm
from hostler.backends.slurm.desk import Desk, opened
from hostler.backends.slurm.opening import CODE, Here
from hostler.backends.slurm.script import Site
from hostler.model.inputs import Ended, Started, Submitted
from hostler.model.pools import Mode
from tests.backends.precompiled import precompile
from tests.patience import PATIENCE_S

from . import fake
from .scripted import reaped, until
from .stage import RealClock, Stage, order, terms

PARTITION = {"name": "gpu", "nodes": [{"name": "n1", "state": "idle", "cpus": [0, 32, 0, 32], "gres": "gpu:h100:4"}]}


class Whole(Stage):
    """The same with real processes; jobs run as soon as the queue is looked at, unless a plan says otherwise."""

    def __init__(self, path: Path, mode: Mode, idle_s: float) -> None:
        self.root = path / "root"
        self.bin = path / "bin"
        self._here = Here(self.root)
        precompile(self.root / CODE)
        site = Site(folder=str(path), python=sys.executable)
        super().__init__(path, terms(mode, site=site, pilot_idle_s=idle_s))
        self.cluster._poll_s = 0.2  # each look starts a program

    async def _open(self, on_news: Any, on_lost: Any) -> Desk:
        self.desks.append(await opened(self._here.open, "this machine", on_news, on_lost))
        return self.desks[-1]

    def _slurm_at(self, desk: Desk) -> Slurm:
        clock = RealClock()
        return Slurm(desk, clock, Budget(clock, 6000, lambda: 0.0))

    def called(self, command: str) -> int:
        return sum(call["argv"][0] == command for call in fake.calls(self.bin))

    def is_listed(self) -> bool:
        with fake.table_of(self.bin) as table:
            return bool(table["jobs"])

    def becomes(self, state: str, **more: Any) -> None:
        """The node of all jobs fails; the queue says this of them then."""
        with fake.table_of(self.bin) as table:
            for job in table["jobs"].values():
                if job["pid"] is not None:
                    _kill(job["pid"])
                    job.update(pid=None, state=state, plan_over=state != "PENDING", **more)

    async def begins(self, attempt: str) -> None:
        await self.first(Started, lambda each: each.attempt == attempt)


def _kill(pid: int) -> None:
    """A batch script, and the agent that it has become, with all below it, at once: none sees another one end."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for each in _family(pid):
            with suppress(ProcessLookupError):
                os.kill(each, number)


def _family(pid: int) -> list[int]:
    try:
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):  # it has ended by itself
        below = []
    return [pid, *(each for child in below for each in _family(int(child)))]


@asynccontextmanager
async def whole(path: Path, mode: Mode = "job", *, idle_s: float = 0.3, **table: Any) -> AsyncIterator[Whole]:
    given = {"run": True, "partitions": [PARTITION], "plan": {"*": ["PENDING", "RUNNING"]}, "accounting": "on", **table}
    fake.install(path / "bin", **given)
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("PATH", f"{path / 'bin'}:{os.environ['PATH']}")
        made = Whole(path, mode, idle_s)
        try:
            await made.join()
            yield made
        finally:
            made.becomes("CANCELLED")
            await made.leave()
            await reaped()


@pytest.fixture(autouse=True)
def _quick(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds on what real processes report are long; `quick` has those for scripted ones."""
    monkeypatch.setattr(following, "GRACE_S", PATIENCE_S)
    monkeypatch.setattr(following, "UNEXPLAINED_S", PATIENCE_S)
    monkeypatch.setattr(opening, "ENDED_S", PATIENCE_S)


@pytest.mark.parametrize("accounting", ["on", pytest.param("none", marks=pytest.mark.long)])
async def test_a_job_and_what_it_leaves(tmp_path: Path, accounting: str) -> None:
    async with whole(tmp_path, accounting=accounting) as it:
        await it.submitted(order("j1.1", argv=("sh", "-c", "echo said; echo 7 > $HOSTLER_RESULT")))
        end = await it.ended("j1.1")
        assert (end.exit_code, end.result, end.reason) == (0, 7, None)
        assert (await it.pool.read_log("j1.1", "out", 0, 100)).data == b"said\n"
        await it.closed()
        # Whether accounting is asked depends on what comes first, the agent's last word or a look at the queue.
        assert (it.called("sbatch"), it.called("scancel")) == (1, 0)
        await it.pool.discard(["j1.1"])
        assert not (it.root / "attempts" / "j1.1").exists()


async def test_output_of_a_job_is_in_order(tmp_path: Path) -> None:
    lines = "for n in 0 2 4 6 8; do echo $n; sleep 0.1; echo $((n + 1)) >&2; sleep 0.1; done"
    async with whole(tmp_path) as it:
        await it.submitted(order("j1.1", argv=("sh", "-c", lines)))
        await it.ended("j1.1")
        told = await it.pool.read_output("j1.1", 0, 0, 1000)
        assert [base64.b64decode(each.data) for each in told.pieces] == [b"%d\n" % number for number in range(10)]
        assert told.is_whole
        await it.closed()


@pytest.mark.long
async def test_an_array_with_a_task_that_fails(tmp_path: Path) -> None:
    async with whole(tmp_path, "array") as it:
        await it.pool.launch([order(f"j{at}.1", f"cuda{at}", argv=("sh", "-c", f"exit {at}")) for at in range(3)])
        assert [(await it.ended(f"j{at}.1")).exit_code for at in range(3)] == [0, 1, 2]
        await it.closed()
        assert it.called("sbatch") == 1


@pytest.mark.long
async def test_a_pilot_takes_what_comes_and_leaves_when_nothing_does(tmp_path: Path) -> None:
    async with whole(tmp_path, "pilot") as it:
        await it.submitted(order("j1.1"))
        await it.ended("j1.1")
        await it.pool.launch([order("j2.1"), order("j3.1")])
        assert [(await it.ended(name)).exit_code for name in ("j2.1", "j3.1")] == [0, 0]
        await it.closed()
        assert it.called("sbatch") == len(it.all(Submitted))
        assert len(it.all(Ended)) == 3


@pytest.mark.long
async def test_stopped_while_it_runs(tmp_path: Path) -> None:
    async with whole(tmp_path) as it:
        await it.submitted(order("j1.1", argv=("sleep", "60")))
        await it.begins("j1.1")
        await it.pool.stop(["j1.1"], "not wanted")
        end = await it.ended("j1.1")
        assert (end.reason, end.error) == ("stopped", "not wanted")
        await it.closed()


@pytest.mark.long
async def test_stopped_while_it_waits(tmp_path: Path) -> None:
    async with whole(tmp_path, plan={"*": ["PENDING"]}) as it:
        await it.submitted(order("j1.1"))
        await it.pool.stop(["j1.1"], "not wanted")
        assert (await it.ended("j1.1")).reason == "stopped"
        await it.closed()
        assert it.called("scancel") >= 1


@pytest.mark.long
@pytest.mark.parametrize(("state", "reason"), [("NODE_FAIL", "lost"), ("OUT_OF_MEMORY", "memory")])
async def test_killed_without_a_word(tmp_path: Path, state: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "GRACE_S", 0.1)  # a killed agent reports nothing more
    async with whole(tmp_path) as it:
        await it.submitted(order("j1.1", argv=("sleep", "60")))
        await it.begins("j1.1")
        it.becomes(state)
        end = await it.ended("j1.1")
        assert end.reason == reason
        assert state in str(end.error)
        await it.closed()


@pytest.mark.long
async def test_cancelled_by_somebody_else(tmp_path: Path) -> None:
    async with whole(tmp_path) as it:
        await it.submitted(order("j1.1", argv=("sleep", "60")))
        await it.begins("j1.1")
        other = await asyncio.create_subprocess_exec(it.bin / "scancel", "1")
        await other.wait()
        end = await it.ended("j1.1")
        assert end.reason == "lost"
        assert "CANCELLED" in str(end.error)
        await it.closed()


@pytest.mark.long
async def test_requeued_it_comes_back_as_another_run(tmp_path: Path) -> None:
    async with whole(tmp_path, "pilot", idle_s=PATIENCE_S) as it:  # the second order must find it
        await it.submitted(order("j1.1", argv=("sleep", "60")))
        await it.begins("j1.1")
        it.becomes("PENDING", restarts=1, started=None, looks=0)
        end = await it.ended("j1.1")
        assert (end.reason, "begins it anew" in str(end.error)) == ("stopped", True)
        await it.pool.launch([order("j1.2", argv=("sh", "-c", "exit 5"))])
        assert (await it.ended("j1.2")).exit_code == 5
        await it.pool.release()
        await it.closed()
        assert it.called("sbatch") == 1


async def test_the_desk_is_lost_while_it_runs(tmp_path: Path) -> None:
    async with whole(tmp_path) as it:
        await it.submitted(
            order("j1.1", argv=("sh", "-c", "while [ ! -e go ]; do sleep 0.05; done"), cwd=str(tmp_path))
        )
        await it.begins("j1.1")
        it.desks[-1].close("a test")
        await it.broken()
        (tmp_path / "go").touch()
        assert (await it.join()).attempts == ("j1.1",)
        assert (await it.ended("j1.1")).exit_code == 0
        await it.closed()
        assert it.called("sbatch") == 1


async def test_submitted_twice_it_runs_once(tmp_path: Path) -> None:
    """The answer came too late for whoever waited; both jobs begin."""
    async with whole(tmp_path) as it:
        ran = tmp_path / "ran"
        await it.pool.launch([order("j1.1", argv=("sh", "-c", f"echo ran >> {ran}; sleep 0.3"))])
        await until(it.is_listed)
        with fake.table_of(it.bin) as table:
            job = dict(next(iter(table["jobs"].values())))
            table["jobs"]["77"] = {**job, "pid": None, "state": "PENDING", "started": None, "looks": 0}
        assert (await it.ended("j1.1")).exit_code == 0
        await it.closed()
        assert ran.read_text() == "ran\n"
