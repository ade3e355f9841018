"""A partition whose shared file system is elsewhere: what work needs is there before it is, what it leaves comes back.

The files go over a real connection, to a process on a folder that stands for the cluster's.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.backends.base import Store
from hostler.backends.packing import Packer
from hostler.backends.remote import Streams
from hostler.backends.slurm import ApartPool, Freight, SlurmPool, opening
from hostler.backends.slurm.terms import Terms
from hostler.model.commands import AttemptOrder
from hostler.model.errors import FilesError, LinkLost
from hostler.model.files import Fetch
from hostler.model.inputs import NodeFound, Submitted
from tests.backends.precompiled import precompile
from tests.snapshots.kept import kept

from .scripted import PATIENCE_S, reaped, until
from .stage import Stage, chunks, order, terms, worker

pytestmark = pytest.mark.usefixtures("quick")

SAID = "to be read there\n"


class Apart(Stage):
    """A pool whose files go to a folder over connections of their own; `trouble` is what opening one raises."""

    def __init__(self, path: Path, use: Terms) -> None:
        self.trouble: Exception | None = None
        self.processes: list[asyncio.subprocess.Process] = []
        self.there, self.project = path / "there", path / "project"
        self.store = Store(results=path / "results", artifacts=path / "artifacts")
        self.freight = Freight("login", self._files, Packer(skip=path / "state"), self.store)
        self.project.mkdir()
        precompile(self.there / opening.CODE)
        (self.project / "words").write_text(SAID)
        super().__init__(path, use)

    def another(self, name: str, path: Path, use: Terms) -> SlurmPool:
        return ApartPool(name, self.cluster, use, self.freight, controller="test", store=self.store)

    async def _files(self) -> Streams:
        if self.trouble is not None:
            raise self.trouble
        zipapp = await opening._put(self.there)
        process = await opening._start(opening._files(sys.executable, str(zipapp), str(self.there)))
        self.processes.append(process)
        return opening._streams(process)

    async def close_files(self) -> None:
        """Hang up, and wait for the processes there to end."""
        self.freight.carrier.close()
        for each in self.processes:
            async with asyncio.timeout(PATIENCE_S):
                await each.wait()
        await reaped()

    @property
    def apart(self) -> ApartPool:
        assert isinstance(self.pool, ApartPool)
        return self.pool

    def order(self, name: str) -> AttemptOrder:
        """One that runs in the folder of a project on this machine."""
        return replace(order(name), cwd=str(self.project))

    async def supplied(self, name: str) -> Path:
        """The folder that was laid out for an attempt."""
        made = await self.apart.supply(self.order(name))
        assert made.cwd is not None
        return Path(made.cwd)


@asynccontextmanager
async def apart(path: Path) -> AsyncIterator[Apart]:
    made = Apart(path, terms("pilot"))
    await made.join()
    try:
        yield made
    finally:
        try:
            await made.leave()
        finally:
            await made.close_files()


async def test_the_node_says_that_its_files_are_its_own(tmp_path: Path) -> None:
    async with apart(tmp_path) as it:
        assert [found.node.apart for found in it.all(NodeFound)] == [True]


async def test_what_an_order_needs_is_there_and_what_it_leaves_comes_back(tmp_path: Path) -> None:
    async with apart(tmp_path) as it:
        folder = await it.supplied("j1.1")
        assert folder.is_relative_to(it.there)
        assert (folder / "words").read_text() == SAID
        (folder / "made").write_text("there")
        (it.there / "attempts" / "j1.1").mkdir(parents=True)
        (found,) = await it.apart.fetch("j1.1", Fetch(outputs=("made",)), str(folder))
        assert (it.store.results / found.path).read_text() == "there"


async def test_artifacts_are_looked_for_on_the_shared_folder(tmp_path: Path) -> None:
    async with apart(tmp_path) as it:
        made = await it.apart.supply(order("j1.1"))
        root = it.cluster.desk.hello["root"]
        assert (made.cwd, made.env["HOSTLER_ARTIFACTS"]) == (None, f"{root}/artifacts")


async def test_each_attempt_has_a_folder_of_its_own_until_it_is_let_go(tmp_path: Path) -> None:
    async with apart(tmp_path) as it:
        first, second = await it.supplied("j1.1"), await it.supplied("j2.1")
        assert first != second
        await it.apart.clear("j1.1")
        assert (first.exists(), second.exists()) == (False, True)


async def test_nothing_is_tidied_up_before_all_pools_have_said_what_they_need(tmp_path: Path) -> None:
    async with apart(tmp_path) as it:
        old = [await it.supplied(name) for name in ("j1.1", "j2.1", "j3.1")]
        it.freight._laid.clear()  # laid out by a controller that is gone
        other = it.another("cpu", tmp_path, terms())
        assert isinstance(other, ApartPool)
        await it.apart.keep(["j1.1"], [])
        assert [each.exists() for each in old] == [True, True, True]
        await other.keep(["j2.1"], [])
        assert [each.exists() for each in old] == [True, True, False]


async def test_what_is_being_laid_out_is_kept_though_nobody_has_named_it_yet(tmp_path: Path) -> None:
    async with apart(tmp_path) as it:
        folder, _ = await asyncio.gather(it.supplied("j1.1"), it.apart.keep([], []))
        await it.apart.keep([], [])
        assert folder.exists()


async def test_several_connections_may_be_the_first(tmp_path: Path) -> None:
    """The agent that all of them run is laid down by whoever comes first, and by several at the same time."""
    for number in range(5):
        root = tmp_path / str(number)
        assert len(set(await asyncio.gather(*(opening._put(root) for _ in range(4))))) == 1
        assert [each.name for each in (root / opening.CODE).iterdir()] == [opening.agent_name()]


async def test_a_worker_has_its_program_there_before_its_chunks_are_asked_for(tmp_path: Path) -> None:
    async with apart(tmp_path) as it:
        assert await it.apart.lend(replace(worker(), cwd=str(it.project)), chunks("j9.0")) == ()
        agent = await it.begun((await it.first(Submitted)).token)
        (opened,) = [each for each in agent.requests if each["type"] == "open"]
        folder = Path(str(opened["worker"]["cwd"]))
        assert folder.is_relative_to(it.there)
        assert (folder / "words").read_text() == SAID


async def test_a_worker_whose_files_cannot_be_brought_is_refused(tmp_path: Path) -> None:
    async with apart(tmp_path) as it:
        lost = replace(worker(), cwd=str(tmp_path / "nowhere"))
        (refused,) = await it.apart.lend(lost, chunks("j9.0"))
        assert refused.worker == lost.id
        assert "nowhere" in refused.error
        await it.rest()
        assert it.table.submitted == []


async def test_chunks_that_cannot_be_brought_break_the_link_for_they_are_lent_once(tmp_path: Path) -> None:
    async with apart(tmp_path) as it:
        it.trouble = LinkLost("no route")
        with pytest.raises(LinkLost, match="no route"):
            await it.apart.lend(replace(worker(), cwd=str(it.project)), chunks("j9.0"))
        await it.broken()
        it.trouble = None
        await it.join()
        await it.apart.lend(replace(worker(), cwd=str(it.project)), chunks("j9.0"))
        await until(lambda: it.table.submitted)


async def test_an_attempt_whose_files_cannot_be_brought_may_be_tried_again(tmp_path: Path) -> None:
    async with apart(tmp_path) as it:
        it.trouble = LinkLost("no route")
        with pytest.raises(LinkLost):
            await it.supplied("j1.1")
        it.trouble = None
        assert (await it.supplied("j1.1")).exists()
        it.project.joinpath("words").unlink()
        it.project.rmdir()
        with pytest.raises(FilesError):
            await it.supplied("j2.1")


def laid_out(it: Apart) -> list[str]:
    return sorted(path.name for path in (it.there / "trees").iterdir())


async def test_worker_has_its_snapshot_there_before_its_chunks_are_asked_for(tmp_path: Path) -> None:
    async with apart(tmp_path) as it:
        order = worker(snapshot=kept(it.store.snapshots, it.project), sweep="j9")
        (it.project / "words").write_text("edited")
        assert await it.apart.lend(order, chunks("j9.0")) == ()
        agent = await it.begun((await it.first(Submitted)).token)
        (opened,) = [each for each in agent.requests if each["type"] == "open"]
        folder = Path(opened["worker"]["cwd"])
        assert (folder.name, folder.is_relative_to(it.there), (folder / "words").read_text()) == ("j9", True, SAID)
        await it.apart.keep([], ["j9"])
        assert laid_out(it) == ["j9"]
        await it.apart.clear("j9")
        assert laid_out(it) == []


async def test_folder_of_a_sweep_stays_until_no_pool_needs_it(tmp_path: Path) -> None:
    async with apart(tmp_path) as it:
        order = worker(snapshot=kept(it.store.snapshots, it.project), sweep="j9")
        other = it.another("cpu", tmp_path, terms())
        assert isinstance(other, ApartPool)
        root = it.apart._root()
        laid = [await it.freight.supply_worker(name, order, root) for name in (it.apart.name, other.name)]
        assert laid[0].cwd == laid[1].cwd
        await it.apart.clear("j9")
        assert laid_out(it) == ["j9"], "the other pool needs it"
        await other.keep([], [])
        await it.apart.keep([], [])
        assert laid_out(it) == []
