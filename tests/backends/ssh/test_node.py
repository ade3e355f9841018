"""A node behind a real OpenSSH server: the agent gets there, runs, and is found again."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.backends.base import Store
from hostler.backends.packing import Packer
from hostler.backends.ssh import Network, SshNode, Target, bootstrap
from hostler.model.commands import AttemptOrder, CanaryOrder
from hostler.model.errors import LinkLost, LinkRefused
from hostler.model.inputs import DeviceProved, Ended, LinkUp, NodeFound, Started
from hostler.model.work import DeviceKind
from tests.backends.precompiled import precompile
from tests.backends.ssh import sshd
from tests.backends.ssh.sshd import Sshd
from tests.backends.watching import Watch
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Sshd]:
    with sshd.running(tmp_path / "sshd") as found:
        precompile(found.folder / "agent")
        yield found


def node_on(
    server: Sshd, network: Network, target: Target | None = None, name: str = "far", **others: object
) -> SshNode:
    given = {
        "controller": "test",
        "folder": f"{server.folder}/agent",
        "cpu_slots": 1,
        "packer": Packer(),
        "store": Store(results=server.folder / "results", artifacts=server.folder / "artifacts"),
        **others,
    }
    return SshNode(name, target or server.target(), network, **given)  # type: ignore[arg-type]


@asynccontextmanager
async def network_to(server: Sshd) -> AsyncIterator[Network]:
    network = Network(server.habits())
    try:
        yield network
    finally:
        await network.close()


def order(name: str, *argv: str) -> AttemptOrder:
    return AttemptOrder(
        id=name, queue="cpu0", argv=argv, env={}, cwd=None, walltime_s=None, memory_bytes=None, grace_s=1.0, inputs=None
    )


async def test_a_job_runs_there(server: Sshd) -> None:
    async with network_to(server) as network:
        watch = Watch(node_on(server, network))
        assert (await watch.first(LinkUp)).attempts == ()
        assert [device.id for device in (await watch.first(NodeFound)).node.devices] == ["far/cpu0"]
        assert await watch.node.launch([order("j1.1", "sh", "-c", "echo to be read; exit 3")]) == []
        ended = await watch.first(Ended)
        assert (ended.attempt, ended.exit_code) == ("j1.1", 3)
        assert (await watch.node.read_log("j1.1", "out", 0, 100)).data == b"to be read\n"
        await watch.leave()


async def test_a_device_there_is_proved_by_what_was_planted_here(server: Sshd) -> None:
    async with network_to(server) as network:
        watch = Watch(node_on(server, network))
        await watch.first(LinkUp)
        own = CanaryOrder(device="far/cpu0", kind=DeviceKind.CPU, queue="cpu0", argv=(), env={})
        await watch.node.prove([own])
        proved = await watch.first(DeviceProved)
        assert (proved.device, proved.ok, proved.why) == ("far/cpu0", True, None)
        watch.told.clear()
        await watch.node.prove([replace(own, argv=("sh", "-c", "echo no; exit 1"))])
        assert (await watch.first(DeviceProved)).ok is False
        await watch.leave()


async def test_what_runs_runs_on_while_the_link_is_down(server: Sshd) -> None:
    async with network_to(server) as network:
        node = node_on(server, network)
        watch = Watch(node)
        before = await watch.first(LinkUp)
        await node.launch(
            [order("j1.1", "sh", "-c", f"while [ ! -e {server.folder}/go ]; do sleep 0.05; done; exit 7")]
        )
        await watch.first(Started)
        server.kill()
        assert isinstance(await watch.broken(), LinkLost)
        (server.folder / "go").touch()
        with sshd.running(server.folder, port=server.port):
            again = Watch(node)
            after = await again.first(LinkUp)
            assert (after.agent, after.incarnation, after.attempts) == (before.agent, before.incarnation, ("j1.1",))
            assert (await again.first(Ended)).exit_code == 7
            await again.leave()


async def test_the_interpreter_is_named_as_the_node_itself_does(server: Sshd) -> None:
    (server.home / "venv").mkdir()
    (server.home / "venv" / "python").symlink_to(sys.executable)
    async with network_to(server) as network:
        watch = Watch(node_on(server, network, python="~/venv/python"))
        assert (await watch.first(NodeFound)).node.python == f"{server.home}/venv/python"
        await watch.leave()


async def test_an_agent_of_other_code_goes_on_as_ours(server: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    async with network_to(server) as network:
        first = Watch(node_on(server, network))
        before = await first.first(LinkUp)
        waiting = f"while [ ! -e {server.folder}/go ]; do sleep 0.05; done; exit 7"
        await first.node.launch([order("j1.1", "sh", "-c", waiting)])
        await first.first(Started)
        first.node._open_channel().close()
        await first.broken()

        buffer = io.BytesIO(bootstrap.archive())
        with zipfile.ZipFile(buffer, "a") as newer:
            newer.writestr("later", b"it is another file")
        monkeypatch.setattr(bootstrap, "archive", buffer.getvalue)
        node = node_on(server, network)
        outdated = Watch(node)
        assert isinstance(await outdated.broken(), LinkLost)
        again = Watch(node)
        after = await again.first(LinkUp)
        assert (after.agent, after.incarnation, after.attempts) == (before.agent, 2, ("j1.1",))
        (server.folder / "go").touch()
        assert (await again.first(Ended)).exit_code == 7
        await again.leave()


async def test_an_agent_that_was_killed_is_started_again(server: Sshd) -> None:
    async with network_to(server) as network:
        node = node_on(server, network)
        watch = Watch(node)
        before = await watch.first(LinkUp)
        for pid in agents_in(server.folder):
            with suppress(ProcessLookupError):  # a supervisor may end with its keeper
                os.kill(pid, signal.SIGKILL)
        await watch.broken()
        again = Watch(node)
        after = await again.first(LinkUp)
        assert (after.agent, after.incarnation) == (before.agent, before.incarnation + 1)
        await again.leave()


async def test_a_server_that_forwards_no_sockets(tmp_path: Path) -> None:
    with sshd.running(tmp_path / "sshd", "AllowStreamLocalForwarding no") as server:
        async with network_to(server) as network:
            watch = Watch(node_on(server, network))
            await watch.first(LinkUp)
            await watch.node.launch([order("j1.1", "true")])
            assert (await watch.first(Ended)).exit_code == 0
            await watch.leave()


async def test_a_folder_too_deep_for_a_socket(server: Sshd) -> None:
    async with network_to(server) as network:
        node = node_on(server, network, folder=f"{server.folder}/{'deep/' * 20}agent")
        watch = Watch(node)
        await watch.first(LinkUp)
        assert node._bridge is not None
        await watch.leave()


async def test_setup_makes_the_environment(server: Sshd) -> None:
    async with network_to(server) as network:
        watch = Watch(node_on(server, network, setup=["export CARD='one two'", "true"]))
        await watch.first(LinkUp)
        await watch.node.launch([order("j1.1", "sh", "-c", "test \"$CARD\" = 'one two'")])
        assert (await watch.first(Ended)).exit_code == 0
        await watch.leave()


async def test_a_shell_that_talks_at_its_start(server: Sshd) -> None:
    (server.home / ".bashrc").write_text(
        f"echo welcome; echo hostler-bootleg; echo mind the gap >&2; touch {server.folder}/read\n"
    )
    async with network_to(server) as network:
        watch = Watch(node_on(server, network))
        await watch.first(LinkUp)
        assert (server.folder / "read").exists()
        await watch.leave()


@pytest.mark.parametrize(
    ("others", "says"),
    [
        ({"python": "/no/such/python"}, "name a Python 3.8 or newer"),
        ({"python": "/bin/false"}, "exit status 1"),
        ({"folder": "/proc/agent"}, "cannot be put on far"),
        ({"setup": ["echo no such card; exit 9"]}, "exit status 9): no such card"),
    ],
)
async def test_a_node_that_cannot_be_used_says_why(server: Sshd, others: dict[str, object], says: str) -> None:
    async with network_to(server) as network:
        error = await Watch(node_on(server, network, **others)).broken()
        assert isinstance(error, LinkRefused)
        assert says in str(error)


async def test_an_unknown_host_key_is_refused(server: Sshd) -> None:
    server.known_hosts.write_text("")
    async with network_to(server) as network:
        error = await Watch(node_on(server, network)).broken()
        assert isinstance(error, LinkRefused)
        assert str(error) == "its host key is not known; `hostler node trust FLEET`"


async def test_a_host_key_that_changed_is_refused(server: Sshd, tmp_path: Path) -> None:
    with sshd.running(tmp_path / "other") as other:
        server.known_hosts.write_text(other.known_hosts.read_text().replace(str(other.port), str(server.port)))
    async with network_to(server) as network:
        error = await Watch(node_on(server, network)).broken()
        assert isinstance(error, LinkRefused)
        assert "another host key" in str(error)
        found = await network.host_key(server.target())
        assert network.known(found) is None


async def test_a_stranger_is_not_let_in(server: Sshd, tmp_path: Path) -> None:
    with sshd.running(tmp_path / "other") as other:
        for name in ("client", "client.pub"):
            (server.folder / f"my-{name}").write_bytes((other.folder / name).read_bytes())
    async with network_to(server) as network:
        target = replace(server.target(), identity=server.folder / "my-client")
        error = await Watch(node_on(server, network, target)).broken()
        assert isinstance(error, LinkRefused)
        assert "authorized_keys" in str(error)


async def test_a_key_that_is_none(server: Sshd) -> None:
    (server.folder / "nonsense").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    async with network_to(server) as network:
        for name in ("nonsense", "missing"):
            target = replace(server.target(), identity=server.folder / name)
            error = await Watch(node_on(server, network, target)).broken()
            assert isinstance(error, LinkRefused)
            assert "as it is configured" in str(error)


async def test_nobody_is_there(server: Sshd) -> None:
    server.kill()
    async with network_to(server) as network:
        assert isinstance(await Watch(node_on(server, network)).broken(), LinkLost)


async def test_over_jump_hosts(server: Sshd, tmp_path: Path) -> None:
    """Two nodes share the connection to their jump host."""
    with sshd.running(tmp_path / "jump") as jump:
        server.known_hosts.write_text(server.known_hosts.read_text() + jump.known_hosts.read_text())
        config = tmp_path / "config"
        config.write_text(f"Host hop\n HostName 127.0.0.1\n Port {jump.port}\n IdentityFile {jump.folder}/client\n")
        habits = replace(server.habits(), config=(config,))
        network = Network(habits)
        watches = [
            Watch(
                node_on(
                    server,
                    network,
                    replace(server.target(), via=("hop",)),
                    f"far{at}",
                    folder=f"{server.folder}/agent{at}",
                )
            )
            for at in range(2)
        ]
        for watch in watches:
            await watch.first(LinkUp)
        async with asyncio.timeout(PATIENCE_S):
            # One connection has two processes. The one that served the probe of `sshd.running` may still be ending.
            while len(sshd.children(jump.process.pid)) > 2:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        for watch in watches:
            await watch.leave()
        await network.close()


@pytest.mark.long
async def test_many_at_once_over_a_server_that_takes_few(tmp_path: Path) -> None:
    with sshd.running(tmp_path / "sshd", "MaxStartups 9:50:12") as server:
        async with network_to(server) as network:
            connections = await asyncio.gather(*(network.connect(server.target()) for _ in range(24)))
            for connection in connections:
                assert not connection.is_closed()
                connection.close()


def agents_in(folder: Path) -> list[int]:
    """Keepers and supervisors that serve a folder below this one."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = line.read_bytes().split(b"\0")
            if b"--dir" in words and str(folder).encode() in words[words.index(b"--dir") + 1]:
                found.append(int(line.parent.name))
    return found
