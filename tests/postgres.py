"""A real PostgreSQL of the tests' own: made in a folder, on loopback, ended with the tests that asked for it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from sqlalchemy import create_engine, text

USER = "hostler"
START_S = 30.0


def missing() -> str | None:
    """Why none can be started here; `None`: it can."""
    if _programs() is None:
        return "PostgreSQL is not installed (apt-get install postgresql)"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL does not run as root, and setpriv is not installed"
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        return f"psycopg cannot be imported ({error}): pip install 'hostler[postgres]'"
    return None


@dataclass
class Server:
    """A server and its databases."""

    folder: Path
    port: int
    durable: bool = False
    host: str = "127.0.0.1"
    enter: Sequence[str] = ()
    """What goes before a command that is to run where the server does."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def database(self, template: str = "template1") -> str:
        """The address of a new, empty database."""
        name = f"t{next(self._numbers)}"
        self.run(f"create database {name} template {template}")
        return self.address(name)

    def address(self, name: str = "postgres", user: str = USER) -> str:
        """The address of a database of this name."""
        return f"postgresql+psycopg://{user}@{self.host}:{self.port}/{name}"

    def run(self, *statements: str) -> None:
        """Carry out statements, each by itself."""
        engine = create_engine(self.address(), isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                for statement in statements:
                    connection.execute(text(statement))
        finally:
            engine.dispose()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {
            "listen_addresses": self.host,
            "unix_socket_directories": "",
            "max_connections": "60",
            "shared_buffers": "32MB",
            "fsync": "on" if self.durable else "off",
        }
        words = [f"-p {self.port}", *(f"-c {name}='{value}'" for name, value in settings.items())]
        self._control("start", "-o", " ".join(words), "-l", str(self.folder / "log"))

    def stop(self, how: str = "fast") -> None:
        """Stop it: `fast` in good order, `immediate` as a crash would."""
        self._control("stop", "-m", how)

    def kill(self) -> None:
        """`kill -9` the server: all that it had in memory is gone. Its children end by themselves."""
        pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, 9)
        end = time.monotonic() + START_S
        while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
            time.sleep(0.05)

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        programs = _programs()
        assert programs is not None
        asked = [str(programs / "pg_ctl"), "-D", str(self.folder / "data"), "status"]
        return subprocess.run([*_as_whom(), *asked], cwd="/", capture_output=True, check=False).returncode == 0

    def _control(self, what: str, *words: str) -> None:
        command = ["pg_ctl", "-D", str(self.folder / "data"), "-w", "-t", f"{START_S:.0f}", what, *words]
        _run(command, enter=self.enter)


@contextmanager
def running(*, durable: bool = False) -> Iterator[Server]:
    """A server in a folder of its own; `durable` ones wait for the disk at each commit, as real ones do.

    Not in one of pytest's: each run of it closes those of root to everybody else, and the server runs as another.
    """
    folder = Path(tempfile.mkdtemp(prefix="hostler-postgres-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    try:
        make(folder)
        server = Server(folder, _free_port(), durable)
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder)


def make(folder: Path, *, anybody_from: str | None = None) -> None:
    """The files of a server in a folder that is the server's user's; `anybody_from` is a network that it trusts."""
    _run(["initdb", "-D", str(folder / "data"), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"])
    if anybody_from is not None:
        with (folder / "data" / "pg_hba.conf").open("a") as file:
            file.write(f"host all all {anybody_from} trust\n")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _as_whom() -> list[str]:
    return ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"] if os.geteuid() == 0 else []


def _run(command: Sequence[str], enter: Sequence[str] = ()) -> None:
    programs = _programs()
    assert programs is not None
    done = subprocess.run(
        [*enter, *_as_whom(), str(programs / command[0]), *command[1:]],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if command[0] == "initdb" else subprocess.DEVNULL,
        stderr=subprocess.PIPE if command[0] == "initdb" else subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {(done.stderr or b'').decode()}")


def _programs() -> Path | None:
    """The folder of the newest version's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: float(path.parts[4]))
    return found[-1].parent if found else None
