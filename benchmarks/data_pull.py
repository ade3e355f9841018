"""Artifacts from four hosts, pulled by Hostler, rsync and rclone in turns."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from common import Row
from hostler.backends.base import Store
from hostler.backends.packing import Packer
from hostler.backends.ssh import Network, SshNode
from hostler.model.files import Fetch
from hostler.model.inputs import LinkUp

# The tests' server: what is measured is what is tested.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.backends.ssh.sshd import Sshd, running

HOSTS = 4
JOB = 250
"""Segments that one job has left, and one fetch brings."""
FEW = 100
"""Files whose deletion is not felt afterwards."""
LOCAL = "127.0.0.1"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """What lies on the hosts, all together, and how often it is pulled."""

    words: str
    files: int
    bytes: int
    """Of each."""
    rounds: int

    @property
    def size(self) -> int:
        """Bytes in all."""
        return self.files * self.bytes

    @property
    def is_kept(self) -> bool:
        """Whether what was pulled stays until all is done.

        For minutes ext4 uses no inode of a deleted file again, and looks at each of them for every new file beside
        them: after ten thousand were deleted a new one takes up to 2 ms, whoever makes it.
        """
        return self.files > FEW

    def __str__(self) -> str:
        return f"{self.files} {self.words} of {self.bytes:,} B"


@dataclass
class Host:
    """A server with artifacts in the folder of an agent."""

    server: Sshd
    names: list[str]

    @property
    def agent(self) -> Path:
        """The agent's folder."""
        return self.server.folder / "agent"

    @property
    def objects(self) -> Path:
        """Where its artifacts lie."""
        return self.agent / "artifacts" / "objects"


def pulls(folder: Path, load: Load) -> Iterator[Row]:
    """A row for each way."""
    room, needed = shutil.disk_usage(folder).free, (2 + (3 * load.rounds if load.is_kept else 1)) * load.size
    if room < needed:
        raise SystemExit(f"{folder} has {room / 1e9:.1f} GB free, and {needed / 1e9:.1f} are needed")
    with ExitStack() as stack:
        own = folder / load.words.replace(" ", "-")
        servers = [
            stack.enter_context(running(own / f"host-{number}", "MaxSessions 100", "MaxStartups 100:30:200"))
            for number in range(HOSTS)
        ]
        hosts = _filled([Host(server, []) for server in servers], load)
        walls, cpus = _alternating(hosts, own, load)
    shutil.rmtree(own)
    for way, samples in walls.items():
        best = min(samples)
        yield {
            "files": str(load),
            "way": way,
            "best s": best,
            "median s": statistics.median(samples),
            "MB/s": load.size / best / 1e6,
            "files/s": load.files / best,
            "CPU s per GB": min(cpus[way]) / (load.size / 1e9),
        }


def _filled(hosts: list[Host], load: Load) -> list[Host]:
    """Random bytes, which nothing compresses, under the names of their hashes, over all hosts evenly."""
    for number in range(load.files):
        host = hosts[number % HOSTS]
        made = host.server.folder / "new"
        digest = hashlib.sha256()
        with made.open("wb") as output:
            left = load.bytes
            while left:
                piece = os.urandom(min(left, 8 << 20))
                output.write(piece)
                digest.update(piece)
                left -= len(piece)
        name = digest.hexdigest()
        (host.objects / name[:2]).mkdir(parents=True, exist_ok=True)
        made.rename(host.objects / name[:2] / f"{name}.segment.npz")
        host.names.append(name)
    return hosts


def _alternating(
    hosts: Sequence[Host], folder: Path, load: Load
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Each way once a round, in turns, so that what else the machine does meets all of them."""
    config = _rclone_config(hosts, folder / "rclone.conf")
    ways: dict[str, Callable[[Path], tuple[float, float]]] = {
        "Hostler": lambda to: asyncio.run(_ours(hosts, to, folder)),
        "rsync -a": lambda to: _timed(lambda: _all(hosts, lambda host: _rsync(host, to)), folder),
        "rclone copy": lambda to: _timed(lambda: _all(hosts, lambda host: _rclone(host, hosts, config, to)), folder),
    }
    walls: dict[str, list[float]] = {way: [] for way in ways}
    cpus: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(load.rounds):
        for name, way in ways.items():
            target = folder / f"target-{number}-{name.split()[0]}"
            (target / "objects").mkdir(parents=True)
            os.sync()  # what one has left to the system to write shall not cost the next
            wall, cpu = way(target)
            walls[name].append(wall)
            cpus[name].append(cpu)
            _expect_all(hosts, target, load)
            if not load.is_kept:
                shutil.rmtree(target)
    return walls, cpus


async def _ours(hosts: Sequence[Host], target: Path, folder: Path) -> tuple[float, float]:
    """As the controller fetches what jobs have left: a task for each."""
    async with _Fleet(hosts, target) as nodes:
        began, cpu = time.perf_counter(), _cpu_s(folder)

        async def pull(node: SshNode, host: Host) -> None:
            async with asyncio.TaskGroup() as tasks:
                for number, at in enumerate(range(0, len(host.names), JOB), 1):
                    few = Fetch(artifacts=tuple(host.names[at : at + JOB]))
                    tasks.create_task(node.fetch(f"j{number}.{node.name[-1]}", few, None))

        await asyncio.gather(*(pull(node, host) for node, host in zip(nodes, hosts, strict=True)))
        return time.perf_counter() - began, _cpu_s(folder) - cpu


class _Fleet:
    """Linked nodes, whose agents end with it."""

    def __init__(self, hosts: Sequence[Host], target: Path) -> None:
        first = hosts[0].server
        known = first.folder.parent / "known_hosts"
        known.write_text("".join(host.server.known_hosts.read_text() for host in hosts))
        self._network = Network(replace(first.habits(), known_hosts=(known,)))
        store = Store(results=target / "results", artifacts=target)
        self._nodes = [
            SshNode(
                f"host-{number}",
                host.server.target(),
                self._network,
                controller="bench",
                folder=str(host.agent),
                packer=Packer(),
                store=store,
                python=sys.executable,
                cpu_slots=1,
                gpus=False,
            )
            for number, host in enumerate(hosts)
        ]
        self._watching: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Sequence[SshNode]:
        up = [asyncio.Event() for _ in self._nodes]
        self._watching = [asyncio.create_task(_watch(*each)) for each in zip(self._nodes, up, strict=True)]
        async with asyncio.timeout(60):
            await asyncio.gather(*(each.wait() for each in up))
        await asyncio.gather(
            *(node.keep([], ()) for node in self._nodes)
        )  # a connection for files, as between two jobs
        return self._nodes

    async def __aexit__(self, *exception: object) -> None:
        for node in self._nodes:
            await node._open_channel().send({"type": "shutdown", "when": "now"})
        await asyncio.wait(self._watching, timeout=10)
        for task in self._watching:
            task.cancel()
        await self._network.close()


async def _watch(node: SshNode, up: asyncio.Event) -> None:
    async for told in node.observe(1):
        if any(isinstance(each, LinkUp) for each in told.inputs):
            up.set()
        if told.receipt is not None:
            await node.acknowledge(told.receipt)


def _timed(work: Callable[[], None], folder: Path) -> tuple[float, float]:
    began, cpu = time.perf_counter(), _cpu_s(folder)
    work()
    return time.perf_counter() - began, _cpu_s(folder) - cpu


def _all(hosts: Sequence[Host], work: Callable[[Host], None]) -> None:
    with ThreadPoolExecutor(HOSTS) as pool:
        list(pool.map(work, hosts))


def _rsync(host: Host, target: Path) -> None:
    server = host.server
    known = f"UserKnownHostsFile={server.known_hosts}"
    shell = f"ssh -p {server.port} -F none -i {server.folder}/client -o {known} -o BatchMode=yes"
    _run(["rsync", "-a", "-e", shell, f"{LOCAL}:{host.objects}/", f"{target}/objects/"])


def _rclone(host: Host, hosts: Sequence[Host], config: Path, target: Path) -> None:
    _run(["rclone", "--config", str(config), "copy", f"host{hosts.index(host)}:{host.objects}", f"{target}/objects"])


def _rclone_config(hosts: Sequence[Host], path: Path) -> Path:
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    path.write_text(
        "".join(
            f"[host{number}]\ntype = sftp\nhost = {LOCAL}\nport = {host.server.port}\nuser = {user}\n"
            f"key_file = {host.server.folder}/client\nknown_hosts_file = {host.server.known_hosts}\n"
            "shell_type = unix\nmd5sum_command = md5sum\nsha1sum_command = sha1sum\n"
            for number, host in enumerate(hosts)
        )
    )
    return path


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def _expect_all(hosts: Sequence[Host], target: Path, load: Load) -> None:
    wanted = {name for host in hosts for name in host.names}
    came = {path.name[:64]: path.stat().st_size for path in (target / "objects").rglob("*.npz")}
    assert came == dict.fromkeys(wanted, load.bytes), "not everything came"


def _cpu_s(folder: Path) -> float:
    """CPU seconds so far of this process, of what it started, and of agents in that folder, the ended ones included."""
    parents, used, ours = dict[int, int](), dict[int, int](), {os.getpid()}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        pid = int(entry.name)
        parents[pid], used[pid] = int(fields[1]), sum(map(int, fields[11:15]))
        if os.fsencode(folder) in command:
            ours.add(pid)
    return sum(ticks for pid, ticks in used.items() if _descends(pid, ours, parents)) / TICKS


def _descends(pid: int, ours: set[int], parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid in ours:
            return True
        pid = parents.get(pid, 0)
    return False
