"""A real OpenSSH server on loopback, with keys of its own; it lets in whoever runs the tests, by one key."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hostler.backends.ssh import Habits, Target
from tests.patience import PATIENCE_S
from tests.ports import SSHD

BINARY = shutil.which("sshd") or "/usr/sbin/sshd"
MISSING = None if Path(BINARY).exists() else "there is no sshd here; `apt-get install openssh-server` brings it"


class PortTaken(Exception):
    """Somebody else listens there."""


@dataclass
class Sshd:
    """A server that runs; `folder` holds its configuration, and `home` what its users take for theirs."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def home(self) -> Path:
        """HOME of every session."""
        return self.folder / "home"

    @property
    def known_hosts(self) -> Path:
        """A file that names the server's key."""
        return self.folder / "known_hosts"

    def target(self) -> Target:
        """How to get there."""
        return Target(host="127.0.0.1", port=self.port, identity=self.folder / "client", via=())

    def habits(self, **others: object) -> Habits:
        """Habits of a controller that knows the server's key."""
        return Habits(config=(), known_hosts=(self.known_hosts,), **others)  # type: ignore[arg-type]

    def kill(self) -> None:
        """The server and all its connections are gone, as after a power cut; what they started runs on."""
        for pid in children(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


@contextmanager
def running(folder: Path, *options: str, port: int | None = None) -> Iterator[Sshd]:
    """A server with these lines of configuration on top; everything of it is in the folder, which may be used again."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "home").mkdir(exist_ok=True)
    for name in ("host", "client"):
        if not (folder / name).exists():
            subprocess.run(
                ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)], check=True
            )
    server = _started(folder, options, port) if port else _at_a_free_port(folder, options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()


def _at_a_free_port(folder: Path, options: tuple[str, ...]) -> Sshd:
    """sshd takes no port 0: of a port that somebody else takes in the meantime there is another one."""
    while True:
        try:
            return _started(folder, options, _free_port())
        except PortTaken:
            continue


def _started(folder: Path, options: tuple[str, ...], port: int) -> Sshd:
    (folder / "sshd.conf").write_text("\n".join([*options, *_lines(folder, port)]) + "\n")
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([BINARY, "-D", "-e", "-f", str(folder / "sshd.conf")], stdout=log, stderr=log)
    try:
        _wait_for(port, process, folder / "log")
    except BaseException:
        process.kill()
        process.wait()
        raise
    return Sshd(folder=folder, port=port, process=process)


def _lines(folder: Path, port: int) -> list[str]:
    return [
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder / 'host'}",
        "PidFile none",
        f"AuthorizedKeysFile {folder / 'client.pub'}",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin yes",
        "MaxStartups 100:30:200",
        f"SetEnv HOME={folder / 'home'}",
        "Subsystem sftp internal-sftp",
    ]


def _free_port() -> int:
    """One that no connection is given by chance while its server is away for a while."""
    while True:
        port = random.SystemRandom().choice(SSHD)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            said = log.read_text()
            raise PortTaken(said) if "Address already in use" in said else AssertionError(said)
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        except OSError:
            time.sleep(0.02)
    raise AssertionError(f"sshd does not listen: {log.read_text()}")


def children(pid: int) -> list[int]:
    """Processes that serve its connections, and their children that do (sshd forks once more for the user)."""
    found: list[int] = []
    for line in _read(f"/proc/{pid}/task/{pid}/children").split():
        if _read(f"/proc/{line}/comm").startswith("sshd"):
            found += [*children(int(line)), int(line)]
    return found


def _read(path: str) -> str:
    """A file of a process; nothing where that is gone meanwhile."""
    try:
        return Path(path).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
