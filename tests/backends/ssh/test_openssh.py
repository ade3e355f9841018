"""Large files, by OpenSSH's own client: the same trust, and our own connection where that does not get there."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.backends import guests
from hostler.backends.arriving import Wanted, size_of
from hostler.backends.courier import Courier
from hostler.backends.receiver import SMALL_BYTES
from hostler.backends.ssh import Habits, Network, Target, openssh
from hostler.backends.ssh.openssh import Client, command
from hostler.model.errors import FilesError, LinkLost, LinkRefused
from hostler.model.files import Fetch
from hostler.model.inputs import Ended, LinkUp
from tests.backends.ssh import sshd
from tests.backends.ssh.sshd import Sshd
from tests.backends.ssh.test_carrier import agent, content, in_folder, linked, project, store_of
from tests.backends.ssh.test_node import network_to, node_on, server
from tests.backends.watching import Watch
from tests.patience import PATIENCE_S

__all__ = ["server"]
SSH = shutil.which("ssh")
pytestmark = pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")
with_client = pytest.mark.skipif(SSH is None, reason="there is no ssh here; `apt-get install openssh-client` brings it")
HABITS = Habits(config=(), known_hosts=(Path("/known"),))


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    """Those that are started, for more than a mebibyte."""
    found: list[Client] = []
    start = Client.start

    async def started(self: Client, words: Sequence[str]) -> asyncio.StreamWriter:
        found.append(self)
        return await start(self, words)

    monkeypatch.setattr(Client, "start", started)
    monkeypatch.setattr(guests, "MUCH", 1 << 20)
    return found


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """What stands for `ssh`."""
    folder.mkdir()
    (folder / "ssh").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@with_client
async def test_large_files_go_there_and_come_back(server: Sshd, tmp_path: Path, clients: list[Client]) -> None:
    mine = tmp_path / "project"
    mine.mkdir()
    for name, size in (("large", 17 << 20), ("larger", (9 << 20) + 1), ("small", 1), ("empty", 0)):
        (mine / name).write_bytes(os.urandom(size))
    async with linked(server) as (node, watch):
        supplied = await node.supply(in_folder("j1.1", mine, "sh", "-c", "mkdir out; cp * out; true"))
        assert len(clients) == 1
        assert content(Path(str(supplied.cwd))) == content(mine)
        await node.launch([supplied])
        await watch.first(Ended)
        await node.fetch("j1.1", Fetch(outputs=("out",)), str(mine))
        assert content(server.folder / "results" / "j1.1" / "out") == content(mine)
        await node.supply(in_folder("j2.1", mine, "true"))
        assert len(clients) == 1, "it waits for more"


@pytest.mark.long
@with_client
async def test_many_small_files_go_that_way_too(server: Sshd, tmp_path: Path, clients: list[Client]) -> None:
    """Of any name, empty ones and such as are hardly small any more among them; of every second a half is here."""
    mine = project(tmp_path / "project")
    for number in range(300):
        (mine / f"{number} ä").write_bytes(os.urandom(number * 30))
    for number in range(-1, 2):
        (mine / f"edge{number}").write_bytes(os.urandom(SMALL_BYTES + number))
    async with linked(server) as (node, watch):
        supplied = await node.supply(
            in_folder("j1.1", mine, "sh", "-c", 'mkdir out; for each in *; do ln -- "$each" out; done; true')
        )
        assert len(clients) == 1
        assert content(Path(str(supplied.cwd))) == content(mine)
        await node.launch([supplied])
        await watch.first(Ended)
        incoming = store_of(server).incoming("j1.1")
        incoming.mkdir(parents=True)
        for number in range(0, 300, 2):
            name = hashlib.sha256(f"trees/j1.1/out/{number} ä".encode()).hexdigest()[:32]
            (incoming / name).write_bytes((mine / f"{number} ä").read_bytes()[: number * 15])
        files = await node.fetch("j1.1", Fetch(outputs=("out",)), str(mine))
        there = {name: data for name, data in content(mine).items() if "/" not in name}
        assert content(server.folder / "results" / "j1.1" / "out") == there
        assert {each.path: each.sha256 for each in files} == {
            f"j1.1/out/{name}": hashlib.sha256(data).hexdigest() for name, data in there.items()
        }
        assert not incoming.exists()
        assert len(clients) == 1


@with_client
async def test_little_needs_no_client_and_uses_one_that_waits_for_a_while(
    server: Sshd, tmp_path: Path, clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"little": guests.MORE, "much": 2 << 20, "less": guests.MORE - 1, "again": guests.MORE}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(os.urandom(size))
    monkeypatch.setattr(guests, "KEPT_S", 3600.0)
    async with linked(server) as (node, _):
        sent = list[int]()
        for number, name in enumerate(sizes):
            supplied = await node.supply(in_folder(f"j{number}.1", tmp_path, "true", files=(name,)))
            assert content(Path(str(supplied.cwd))) == {name: (tmp_path / name).read_bytes()}
            sent.append(len(clients))
        assert sent == [0, 1, 1, 1]
        process = clients[0].process
        assert process is not None
        process.kill()
        await clients[0]._input.read()
        (tmp_path / "again").write_bytes(os.urandom(2 << 20))
        await node.supply(in_folder("j9.1", tmp_path, "true", files=("again",)))
        assert len(clients) == 2, "one that has ended is not used"
        node._carrier._guests.close()
        await clients[1].last_words()


@pytest.mark.long
@with_client
async def test_one_that_nothing_more_comes_for_ends(
    server: Sshd, tmp_path: Path, clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large").write_bytes(os.urandom(3 << 20))
    monkeypatch.setattr(guests, "KEPT_S", 0.0)
    async with linked(server) as (node, _):
        await node.supply(in_folder("j1.1", tmp_path, "true"))
        await clients[0].last_words()
        assert node._carrier._guests._guests == []


@pytest.mark.long
@with_client
async def test_nothing_is_written_any_more_for_who_does_not_wait(
    server: Sshd, tmp_path: Path, clients: list[Client]
) -> None:
    """Another one may ask for the same file at once."""
    data = os.urandom(64 << 20)
    async with linked(server) as (node, _):
        (agent(server) / "artifacts").mkdir(exist_ok=True)
        (agent(server) / "artifacts" / "big").write_bytes(data)
        wanted = Wanted(path="artifacts/big", size=len(data), target=f"{tmp_path}/big", partial=f"{tmp_path}/part")
        courier = await node._courier_for_much()
        assert courier is not None
        coming = asyncio.create_task(courier.get([wanted]))
        while not size_of(wanted.partial):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        coming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await coming
        assert courier.broken
        size = size_of(wanted.partial)
        assert size is not None
        assert content(tmp_path)["part"] == data[:size], "and what has come is whole"
        again = await node._courier_for_much()
        assert again is not None
        await again.get([wanted])
        again.close()
        assert (tmp_path / "big").read_bytes() == data


@pytest.mark.long
@with_client
async def test_what_was_cut_goes_on_where_it_broke(
    server: Sshd, tmp_path: Path, clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    program(
        tmp_path / "bin",
        monkeypatch,
        f'{SSH} "$@" | if [ -e {tmp_path}/cut ]; then stdbuf -o0 head -c 9000000; else cat; fi',
    )
    async with linked(server) as (node, watch):
        await node.launch(
            [replace(in_folder("j1.1", tmp_path, "sh", "-c", "head -c 20000000 /dev/urandom >big"), cwd=None)]
        )
        await watch.first(Ended)
        (tmp_path / "cut").touch()
        with pytest.raises(LinkLost):
            await node.fetch("j1.1", Fetch(outputs=("big",)), None)
        (partial,) = store_of(server).incoming("j1.1").iterdir()
        assert 0 < partial.stat().st_size < 9_000_000
        (tmp_path / "cut").unlink()
        await node.fetch("j1.1", Fetch(outputs=("big",)), None)
        theirs = server.folder / "agent" / "attempts" / "j1.1" / "big"
        assert (server.folder / "results" / "j1.1" / "big").read_bytes() == theirs.read_bytes()
        assert len(clients) == 2


@pytest.mark.parametrize(
    "script", ["echo no way in >&2; exit 255", pytest.param("echo Welcome; cat", marks=pytest.mark.long)]
)
async def test_where_it_does_not_get_there_our_own_connection_serves(
    server: Sshd, tmp_path: Path, clients: list[Client], monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    program(tmp_path / "bin", monkeypatch, script)
    (tmp_path / "large").write_bytes(os.urandom(3 << 20))
    async with linked(server) as (node, _):
        for name in ("j1.1", "j2.1"):
            (tmp_path / "large").write_bytes(os.urandom(3 << 20))
            supplied = await node.supply(in_folder(name, tmp_path, "true", files=("large",)))
            assert content(Path(str(supplied.cwd)))["large"] == (tmp_path / "large").read_bytes()
        assert len(clients) == 1, "it is tried once for each connection"


async def asking_on(guest: Courier) -> None:
    """Its process was hung up on, and may take a moment to notice."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            await guest.find([])


@with_client
async def test_it_belongs_to_the_controller_that_has_started_it(server: Sshd, clients: list[Client]) -> None:
    async with network_to(server) as network:
        old = Watch(node_on(server, network), epoch=1)
        await old.first(LinkUp)
        guest = await old.node._courier_for_much()
        assert guest is not None
        assert await guest.find([]) == {}
        new = Watch(node_on(server, network), epoch=2)
        await new.first(LinkUp)
        with pytest.raises(LinkLost):
            await asking_on(guest)
        with pytest.raises(LinkRefused, match="epoch 1 has been followed by 2"):
            await old.node._courier_for_much()
        assert len(clients) == 2
        await new.leave()


@with_client
async def test_it_ends_with_its_connection(server: Sshd, clients: list[Client]) -> None:
    async with linked(server) as (node, _):
        guest = await node._courier_for_much()
        assert guest is not None
        process = clients[0].process
        assert process is not None
        guest.close()
        await clients[0].last_words()
        assert process.returncode is not None
        with pytest.raises((LinkLost, FilesError)):
            await guest.find([])


@with_client
def test_it_trusts_no_stranger(server: Sshd, tmp_path: Path) -> None:
    nobody = tmp_path / "known hosts of 100 % nobody"
    nobody.touch()
    for known, status in ((nobody, 255), (server.known_hosts, 0)):
        words = command(server.target(), Habits(config=(), known_hosts=(known,)), "true")
        assert words is not None
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == status, done.stderr
    assert nobody.read_text() == ""


@with_client
@pytest.mark.parametrize("line", ["NoHostAuthenticationForLocalhost yes", "KnownHostsCommand /bin/cat {known}"])
def test_it_trusts_no_stranger_whatever_is_configured(server: Sshd, tmp_path: Path, line: str) -> None:
    (tmp_path / "config").write_text("Host *\n  " + line.format(known=server.known_hosts) + "\n")
    (tmp_path / "nobody").touch()
    habits = Habits(config=(tmp_path / "config",), known_hosts=(tmp_path / "nobody",))
    words = command(server.target(), habits, "true")
    assert words is not None
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert (done.returncode, "Host key verification failed" in done.stderr) == (255, True), done.stderr


@with_client
def test_paths_with_blanks_and_the_like_are_understood(server: Sshd, tmp_path: Path) -> None:
    for name in ("client", "known_hosts"):
        shutil.copy(server.folder / name, tmp_path / f"my % {name}")
    target = replace(server.target(), identity=tmp_path / "my % client")
    words = command(target, Habits(config=(), known_hosts=(tmp_path / "my % known_hosts",)), "true")
    assert words is not None
    subprocess.run(words, stdin=subprocess.DEVNULL, check=True, timeout=PATIENCE_S)


@pytest.mark.parametrize(
    "habits",
    [
        replace(HABITS, known_hosts=(Path('/a"b'),)),
        replace(HABITS, known_hosts=(Path("/${HOME}"),)),
        replace(HABITS, config=(Path(__file__), Path(__file__).parent)),
    ],
)
def test_what_cannot_be_said_is_not_tried(habits: Habits) -> None:
    assert command(Target(host="far"), habits, "true") is None


def test_jump_hosts_are_our_own_affair() -> None:
    network = Network(HABITS)
    assert network.command(Target(host="far", via=("near",)), "true") is None


def test_where_there_is_no_such_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openssh, "PROGRAM", "no-such-program")
    assert command(Target(host="far"), HABITS, "true") is None
