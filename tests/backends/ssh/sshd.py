"""A real OpenSSH server on loopback, with keys of its own; it lets in whoever runs the tests, by one key."""

from __future__ import annotations

import os
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

BINARY = shutil.which("sshd") or "/usr/sbin/sshd"
UP_S = 10.0
MISSING = None if Path(BINARY).exists() else "there is no sshd here; `apt-get install openssh-server` brings it"


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
    port = port or _free_port()
    (folder / "sshd.conf").write_text("\n".join([*options, *_lines(folder, port)]) + "\n")
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen([BINARY, "-D", "-e", "-f", str(folder / "sshd.conf")], stdout=log, stderr=log)
    server = Sshd(folder=folder, port=port, process=process)
    try:
        _wait_for(port, process, folder / "log")
        yield server
    finally:
        if process.poll() is None:
            server.kill()


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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + UP_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
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
