"""How nodes behind SSH are talked to: round trips, chunks, files, and two hundred nodes at once, beside other ways.

    python benchmarks/ssh.py [--quick] [--json FILE]

Everything goes to one real OpenSSH server on loopback, as the same user. A *round trip* is one small request to the
agent over its kept connection; of the others, running `true`. *Files* are pulled from the server's side to this one:
Hostler's are hashed on both sides and on disk (fsync) when they count, those of the others are neither. Rows of one
kind alternate, and the best of several rounds counts. *Nodes* are so many agents, each with a connection of its own,
and one real `hostler up`; what it takes is read from /proc once all are up, while nothing is to be done.
"""

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import asyncssh

from common import Bar, Row, arguments, report
from peers_env import ensure
from ssh_fleet import fleet
from ssh_ours import Ours

# The tests' server: what is measured is what is tested.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.backends.ssh.sshd import Sshd, running

SMALL_FILES, SMALL_BYTES = 2000, 4096
LOCAL = "127.0.0.1"
Samples = list[float]


def main() -> None:
    """Measure, print, exit 1 if a bar is missed."""
    options = arguments(__doc__)
    count, rounds = (100, 2) if options.quick else (500, 5)
    big = (128 if options.quick else 1024) << 20
    nodes = 20 if options.quick else 200
    with TemporaryDirectory(prefix="hostler-bench-ssh-") as scratch:
        folder = Path(scratch)
        with running(folder / "sshd", "MaxSessions 100") as server:
            trips = round_trips(server, count)
            chunks = asyncio.run(chunk_rate(server, 2_000 if options.quick else 20_000))
            files = list(pulls(server, folder, big, rounds))
            many = fleet(server, folder / "fleet", nodes)
    bars = list(judged(trips, chunks, files, many, nodes))
    report("ssh", [*trips, *chunks, *files, *many], bars, options.json)
    sys.exit(1 if any(bar.met is False for bar in bars) else 0)


def round_trips(server: Sshd, count: int) -> list[Row]:
    """One request after the other, each way."""
    measured = asyncio.run(_kept(server, count))
    with _master(server) as ssh:
        measured["OpenSSH ControlMaster, exec"] = _timed(lambda: _run([*ssh, LOCAL, "true"]), count // 5)
    measured["OpenSSH, a fresh connection"] = _timed(lambda: _run([*_ssh(server), LOCAL, "true"]), count // 25)
    measured["paramiko, kept, exec"] = _paramiko(server, "exec", count // 5)
    return [_trip(way, samples) for way, samples in measured.items()]


async def chunk_rate(server: Sshd, count: int) -> list[Row]:
    """Warm chunks through one connection: lent, done and acknowledged."""
    async with Ours(server) as ours:
        began, cpu = time.perf_counter(), time.process_time()
        await ours.search(count)
        wall, spent = time.perf_counter() - began, time.process_time() - cpu
    return [{"chunks": count, "chunks/s": count / wall, "CPU ms each, our side": 1000 * spent / count}]


def pulls(server: Sshd, folder: Path, big: int, rounds: int) -> Iterator[Row]:
    """Many small files, and a big one."""
    sources = {
        f"{SMALL_FILES} files of {SMALL_BYTES} B": _small(folder / "small"),
        f"1 file of {big >> 20} MiB": _big(folder / "big", big),
    }
    for what, source in sources.items():
        yield from _rows(what, _size(source), _pulled(server, folder, source, rounds))


def judged(
    trips: Sequence[Row], chunks: Sequence[Row], files: Sequence[Row], many: Sequence[Row], nodes: int
) -> Iterator[Bar]:
    """The bars."""
    yield Bar("round trip to a kept agent, p50 ms", trips[0]["p50 ms"], 2.0, "<")
    yield Bar("warm chunks per second over one connection", chunks[0]["chunks/s"], 1000.0, ">=")
    small, large = ([row for row in files if row["files"] == what] for what in dict.fromkeys(r["files"] for r in files))
    for rows, least, words in ((small, 1.0, "many small files"), (large, 0.9, "one big file")):
        ratio = _of(rows, "rsync -e ssh")["best s"] / _of(rows, "Hostler")["best s"]
        yield Bar(f"{words}: rate, relative to rsync -e ssh", ratio, least, ">=")
    whole = nodes >= 200
    note = "" if whole else f"{nodes} nodes only"
    yield Bar("200 nodes: resident MB of the controller", many[0]["resident MB"] if whole else None, 300, "<", note)
    yield Bar("200 nodes, idle: share of a core", many[0]["idle, of a core"] if whole else None, 0.1, "<", note)


async def _kept(server: Sshd, count: int) -> dict[str, Samples]:
    measured: dict[str, Samples] = {}
    async with Ours(server) as ours:
        measured["Hostler: request to the agent"] = await _awaited(ours.round_trip, count)
    options = {"port": server.port, "client_keys": [f"{server.folder}/client"], "known_hosts": str(server.known_hosts)}
    async with asyncssh.connect(LOCAL, config=[], **options) as kept:
        measured["asyncssh, kept, exec"] = await _awaited(lambda: kept.run("true", check=True), count // 5)

    async def fresh() -> None:
        async with asyncssh.connect(LOCAL, config=[], **options) as connection:
            await connection.run("true", check=True)

    measured["asyncssh, a fresh connection"] = await _awaited(fresh, count // 25)
    return measured


def _pulled(server: Sshd, folder: Path, source: Path, rounds: int) -> dict[str, Samples]:
    """Each way once a round, in turns, so that what else the machine does meets all of them."""
    shell = " ".join(_ssh(server))
    target = folder / "target"
    measured: dict[str, Samples] = {}
    with _master(server) as master:
        ways: dict[str, Callable[[], object]] = {
            "Hostler": lambda: asyncio.run(_ours(server, source, target, measured)),
            "rsync -e ssh": lambda: _run(["rsync", "-r", "-e", shell, f"{LOCAL}:{source}", str(target)]),
            "rsync --fsync -e ssh": lambda: _run(
                ["rsync", "--fsync", "-r", "-e", shell, f"{LOCAL}:{source}", str(target)]
            ),
            "rsync over ControlMaster": lambda: _run(
                ["rsync", "-r", "-e", " ".join(master), f"{LOCAL}:{source}", str(target)]
            ),
            "scp": lambda: _run(["scp", "-q", "-r", *_scp(server), f"{LOCAL}:{source}", str(target)]),
            "asyncssh SFTP": lambda: asyncio.run(_sftp(server, source, target)),
        }
        for _ in range(rounds):
            for name, way in ways.items():
                shutil.rmtree(target, ignore_errors=True)
                target.mkdir()
                os.sync()  # what one has left to the system to write shall not cost the next
                began = time.perf_counter()
                way()
                if name != "Hostler":
                    measured.setdefault(name, []).append(time.perf_counter() - began)
                _expect_same(source, target)
    return measured


async def _ours(server: Sshd, source: Path, target: Path, measured: dict[str, Samples]) -> None:
    """What is measured begins with the question what there is, and ends when all of it is on disk."""
    async with Ours(server) as ours:
        attempt = await ours.leave(source)
        await ours.warm()
        began = time.perf_counter()
        await ours.pull(attempt, target / source.name)
        measured.setdefault("Hostler", []).append(time.perf_counter() - began)


async def _sftp(server: Sshd, source: Path, target: Path) -> None:
    options = {"port": server.port, "client_keys": [f"{server.folder}/client"], "known_hosts": str(server.known_hosts)}
    async with asyncssh.connect(LOCAL, config=[], **options) as connection, connection.start_sftp_client() as sftp:
        await sftp.get(str(source), str(target), recurse=True)


def _rows(what: str, size: int, measured: dict[str, Samples]) -> Iterator[Row]:
    for way, samples in measured.items():
        best = min(samples)
        rate = size / best / 1e6
        yield {"files": what, "way": way, "best s": best, "median s": statistics.median(samples), "MB/s": rate}


def _trip(way: str, samples: Samples) -> Row:
    ordered = sorted(samples)
    p99 = ordered[int(0.99 * len(ordered))] if len(ordered) >= 100 else None
    return {
        "way": way,
        "n": len(ordered),
        "p50 ms": 1000 * statistics.median(ordered),
        "p99 ms": None if p99 is None else 1000 * p99,
    }


def _of(rows: Sequence[Row], way: str) -> Row:
    return next(row for row in rows if row["way"] == way)


def _timed(work: Callable[[], object], count: int) -> Samples:
    work()
    samples = []
    for _ in range(max(count, 3)):
        began = time.perf_counter()
        work()
        samples.append(time.perf_counter() - began)
    return samples


async def _awaited(work: Callable[[], Awaitable[object]], count: int) -> Samples:
    await work()
    samples = []
    for _ in range(max(count, 3)):
        began = time.perf_counter()
        await work()
        samples.append(time.perf_counter() - began)
    return samples


def _paramiko(server: Sshd, what: str, count: int) -> Samples:
    script = Path(__file__).parent / "peers" / "paramiko_peer.py"
    command = [str(ensure("peers-ssh")), str(script), str(server.port), f"{server.folder}/client", str(count)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(each) for each in said.split()]


class _master:
    """OpenSSH with a connection that is kept: the words of a command over it."""

    def __init__(self, server: Sshd) -> None:
        self._ssh = [*_ssh(server), "-o", f"ControlPath={server.folder}/master"]

    def __enter__(self) -> list[str]:
        _run([*self._ssh, "-M", "-N", "-f", LOCAL])
        return self._ssh

    def __exit__(self, *exception: object) -> None:
        _run([*self._ssh, "-O", "exit", LOCAL])


def _ssh(server: Sshd) -> list[str]:
    return ["ssh", "-p", str(server.port), *_options(server)]


def _scp(server: Sshd) -> list[str]:
    return ["-P", str(server.port), *_options(server)]


def _options(server: Sshd) -> list[str]:
    known = f"UserKnownHostsFile={server.known_hosts}"
    return ["-F", "none", "-i", f"{server.folder}/client", "-o", known, "-o", "BatchMode=yes"]


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _small(folder: Path) -> Path:
    folder.mkdir()
    for number in range(SMALL_FILES):
        (folder / f"{number:04}.bin").write_bytes(os.urandom(SMALL_BYTES))
    return folder


def _big(folder: Path, size: int) -> Path:
    folder.mkdir()
    with (folder / "one.bin").open("wb") as output:
        for _ in range(size >> 20):
            output.write(os.urandom(1 << 20))
    return folder


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _expect_same(source: Path, target: Path) -> None:
    came = {path.name: path.stat().st_size for path in (target / source.name).iterdir()}
    assert came == {path.name: path.stat().st_size for path in source.iterdir()}, "not everything came"


if __name__ == "__main__":
    main()
