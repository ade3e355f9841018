"""A node that calls, with a real dialler and a real agent over TLS: work runs, files travel, cuts are survived."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import stat
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from hostler.agent.build import archive, build_zipapp
from hostler.backends.base import Store
from hostler.backends.courier import Courier, Missing, Paced, Parcel
from hostler.backends.dialin import DialinNode, context, node, switchboard
from hostler.backends.packing import Packer
from hostler.model.commands import AttemptOrder
from hostler.model.errors import LinkError, LinkLost, LinkRefused
from hostler.model.files import Fetch
from hostler.model.inputs import Ended, LinkUp, NodeFound, Started, Trouble
from hostler.runtime.shelf import ShelfStore
from hostler.stores.base import ObjectName, at_once
from tests.backends.dialin.exchange import JOURNAL, Exchange, exchange
from tests.backends.watching import Watch
from tests.patience import PATIENCE_S


@pytest.fixture
async def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Exchange]:
    monkeypatch.setattr(node, "CALL_S", PATIENCE_S)
    async with exchange(tmp_path / "exchange") as found:
        yield found


@asynccontextmanager
async def linked(made: Exchange, folder: Path, epoch: int = 1) -> AsyncIterator[tuple[DialinNode, Watch]]:
    """The node that calls from a folder; its agent ends with this."""
    watch = await connected(made, epoch)
    try:
        yield watch.node, watch  # type: ignore[misc]
    finally:
        with suppress(LinkError):
            await watch.leave()
        end_agent(folder)


async def connected(made: Exchange, epoch: int) -> Watch:
    """As the runtime does it: an agent that goes on as another one may hang up on the first that comes."""
    for _ in range(10):
        watch = Watch(far(made), epoch)
        try:
            await watch.first(LinkUp)
        except LinkLost:
            await asyncio.sleep(0.2)
        else:
            return watch
    raise AssertionError("it cannot be connected to")


def far(made: Exchange, program: Path | None = None) -> DialinNode:
    if program is None:
        program = made.folder / "ours.pyz"
        build_zipapp(program)
    digest = hashlib.sha256(program.read_bytes()).hexdigest()
    parcel = Parcel(source=program, path=f"blobs/{digest[:2]}/{digest}.pyz", size=program.stat().st_size, sha256=digest)
    store = Store(results=made.folder / "results", artifacts=made.folder / "artifacts")
    return DialinNode(
        "far", made.calls, parcel, packer=Packer(), controller="test", store=store, cpu_slots=1, gpus=False
    )


def end_agent(folder: Path) -> None:
    """By the pid in its journal's folder: whatever still has that as its working directory."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if os.fsencode(folder / JOURNAL) in words:
                os.kill(int(process.name), signal.SIGKILL)


def order(name: str, *argv: str, cwd: Path | None = None) -> AttemptOrder:
    return AttemptOrder(
        id=name, queue="cpu0", argv=argv, env={}, cwd=None if cwd is None else str(cwd), walltime_s=None,
        memory_bytes=None, grace_s=1.0, inputs=None,
    )  # fmt: skip


async def test_a_job_runs_there_with_files_both_ways(made: Exchange, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "big").write_bytes(os.urandom(8 << 20))
    made.dial(tmp_path / "far")
    async with linked(made, tmp_path / "far") as (there, watch):
        assert [device.id for device in (await watch.first(NodeFound)).node.devices] == ["far/cpu0"]
        supplied = await there.supply(order("j1.1", "sh", "-c", "cp big back; echo said; exit 3", cwd=project))
        assert supplied.cwd == f"{tmp_path}/far/{JOURNAL}/trees/j1.1"
        await there.launch([supplied])
        ended = await watch.first(Ended)
        assert (ended.attempt, ended.exit_code) == ("j1.1", 3)
        assert (await there.read_log("j1.1", "out", 0, 100)).data == b"said\n"
        (back,) = await there.fetch("j1.1", Fetch(outputs=("back",)), str(project))
        assert back.sha256 == hashlib.sha256((project / "big").read_bytes()).hexdigest()
        assert (made.folder / "results" / "j1.1" / "back").read_bytes() == (project / "big").read_bytes()
    assert stat.S_IMODE((tmp_path / "far").stat().st_mode) == 0o700


async def test_many_connections_for_files_side_by_side(made: Exchange, tmp_path: Path) -> None:
    """More than wait at a time: each that is taken is followed by another."""
    made.dial(tmp_path / "far")
    async with linked(made, tmp_path / "far") as (there, _):
        couriers = await asyncio.gather(*(there._courier() for _ in range(10)))
        assert [await each.find([]) for each in couriers] == [{}] * 10
        for each in couriers:
            each.close()


async def test_a_folder_of_it_is_a_store(made: Exchange, tmp_path: Path) -> None:
    content, vault = b"games" * 100_000, tmp_path / "vault"
    vault.mkdir()
    (tmp_path / "source").write_bytes(content)
    name = ObjectName(hashlib.sha256(content).hexdigest(), ".segment.npz")
    made.dial(tmp_path / "far")
    async with linked(made, tmp_path / "far") as (there, _):
        store = ShelfStore(there.shelf, str(vault), "on far")
        await asyncio.to_thread(store.put, name, tmp_path / "source", at_once)
        assert await asyncio.to_thread(store.check, name, at_once) == len(content)
        await asyncio.to_thread(store.get, name, tmp_path / "target", at_once)
    assert (tmp_path / "target").read_bytes() == (vault / name.path).read_bytes() == content


async def test_an_agent_of_other_code_goes_on_as_ours_and_keeps_what_it_runs(made: Exchange, tmp_path: Path) -> None:
    older = made.folder / "older.pyz"
    older.write_bytes(archive())
    with zipfile.ZipFile(older, "a") as changed:
        changed.writestr("older", b"")
    made.dial(tmp_path / "far", program=older)
    watch = Watch(far(made, older))
    await watch.first(LinkUp)
    await watch.node.launch([order("j1.1", "sleep", "3600")])
    pid = (await watch.first(Started)).pid
    watch.node._open_channel().close()
    await watch.broken()
    assert isinstance(await Watch(far(made)).broken(), LinkLost), "it hangs up to go on as another one"
    async with linked(made, tmp_path / "far") as (there, again):
        assert there._open_channel().hello["code"] == hashlib.sha256(archive()).hexdigest()
        assert (await again.first(LinkUp)).attempts == ("j1.1",)
        os.kill(pid, 0)


async def test_where_ours_has_no_room_the_other_one_serves_on(
    made: Exchange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.dial(tmp_path / "far")

    async def fails(self: Courier, parcels: object) -> None:
        raise node.FilesError("no space left on the device")

    monkeypatch.setattr(Courier, "put", fails)
    async with linked(made, tmp_path / "far") as (_, watch):
        assert "no space" in (await watch.first(Trouble)).what


async def test_a_killed_dialler_costs_the_link_and_nothing_else(made: Exchange, tmp_path: Path) -> None:
    first = made.dial(tmp_path / "far")
    watch = Watch(far(made))
    await watch.first(LinkUp)
    await watch.node.launch([order("j1.1", "sleep", "3600")])
    pid = (await watch.first(Started)).pid
    first.kill()
    assert isinstance(await watch.broken(), LinkLost)
    made.dial(tmp_path / "far")
    async with linked(made, tmp_path / "far") as (_, again):
        assert (await again.first(LinkUp)).attempts == ("j1.1",)
        os.kill(pid, 0)


async def test_a_transfer_that_is_cut_goes_on_where_it_broke(made: Exchange, tmp_path: Path) -> None:
    project, sent = tmp_path / "project", list[int]()
    project.mkdir()
    (project / "big").write_bytes(os.urandom(24 << 20))
    async with router(made) as found:
        made.dial(tmp_path / "far", port=found.port)
        async with linked(made, tmp_path / "far") as (there, _):
            found.cut_after = found.down + (12 << 20)
            with pytest.raises(LinkLost):
                await there.supply(order("j1.1", "true", cwd=project))
            found.cut_after = None
            send = Courier._send_file

            async def counted(self: Courier, missing: Missing, pace: Paced | None = None) -> None:
                sent.append(missing.offset)
                await send(self, missing, pace)

            Courier._send_file = counted  # type: ignore[method-assign]
            try:
                supplied = await there.supply(order("j1.1", "true", cwd=project))
            finally:
                Courier._send_file = send  # type: ignore[method-assign]
            assert (Path(str(supplied.cwd)) / "big").read_bytes() == (project / "big").read_bytes()
            assert sent[0] > 1 << 20


async def test_who_was_let_in_by_a_revoked_token_is_cut_off(
    made: Exchange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its dialler does about it."""
    monkeypatch.setattr(node, "CHECK_S", 0.0)
    made.dial(tmp_path / "far")
    watch = Watch(far(made))
    await watch.first(LinkUp)
    made.tokens["far"] = "the next one"
    with suppress(LinkError):
        await watch.node.launch([order("j1.1", "true")])
    assert "counts no more" in str(await watch.broken())
    end_agent(tmp_path / "far")


async def test_a_node_that_never_called_says_what_to_do(made: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "CALL_S", 0.1)
    with pytest.raises(LinkLost, match="hostler node invite FLEET far"):
        await far(made).connect(1)
    with pytest.raises(LinkLost, match="is not connected"):
        await far(made).supply(order("j1.1", "true"))


async def test_a_node_on_which_no_agent_starts_says_so(made: Exchange, tmp_path: Path) -> None:
    made.dial(tmp_path / "far")
    (tmp_path / "far" / JOURNAL).write_text("in its way")
    with pytest.raises(LinkRefused, match="has no agent to offer"):
        await far(made).connect(1)


async def test_a_switchboard_that_was_away_is_called_again(made: Exchange, tmp_path: Path) -> None:
    made.dial(tmp_path / "far")
    await (await taken(made, made.calls)).wait_closed()
    await made.calls.close()
    calls = switchboard.Switchboard(JOURNAL, made.tokens.get)
    certificate = made.folder / "certificate.pem"
    calls.open("127.0.0.1", made.port, context(certificate, certificate), lambda *_: None)
    await (await taken(made, calls)).wait_closed()
    await calls.close()
    end_agent(tmp_path / "far")


async def taken(made: Exchange, calls: switchboard.Switchboard) -> asyncio.StreamWriter:
    call = await calls.take("far", PATIENCE_S)
    call.writer.close()
    return call.writer


class Router:
    """Between dialler and switchboard; it cuts all connections once so many bytes went down."""

    def __init__(self) -> None:
        self.port = 0
        self.down = 0
        self.cut_after: int | None = None


@asynccontextmanager
async def router(made: Exchange) -> AsyncIterator[Router]:
    found = Router()
    tasks = set[asyncio.Task[object]]()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, down: bool) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
                found.down += len(data) if down else 0
                if down and found.cut_after is not None and found.down > found.cut_after:
                    break
        writer.transport.abort()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        there, further = await asyncio.open_connection("127.0.0.1", made.port)
        try:
            await asyncio.gather(copy(reader, further, False), copy(there, writer, True))
        finally:
            further.transport.abort()
            writer.transport.abort()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
