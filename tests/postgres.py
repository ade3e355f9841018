"""A real PostgreSQL of the tests' own: made in a folder, on loopback, ended with the tests that asked for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psutil
import pytest
from sqlalchemy import create_engine, text

from tests.patience import PATIENCE_S
from tests.ports import quiet_port
from tests.tiers import demand_services

USER = "hostler"


def mark_services(items: Sequence[pytest.Item], folder: Path, fixtures: Collection[str]) -> None:
    """Give tests below a folder that ask for one of these fixtures to `make test-services`."""
    for item in items:
        if item.path.is_relative_to(folder) and set(fixtures) & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.services)


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
        """`kill -9` the server: all that it had in memory is gone.

        Its children end by themselves. They are waited for: a server does not start beside those of the one before.
        """
        server = psutil.Process(int((self.folder / "data" / "postmaster.pid").read_text().split()[0]))
        children = server.children(recursive=True)
        server.kill()
        _, alive = psutil.wait_procs([server, *children], timeout=PATIENCE_S)
        assert not alive, f"PostgreSQL's processes did not end: {alive}"

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        programs = _programs()
        assert programs is not None
        asked = [str(programs / "pg_ctl"), "-D", str(self.folder / "data"), "status"]
        return subprocess.run([*_as_whom(), *asked], cwd="/", capture_output=True, check=False).returncode == 0

    def _control(self, what: str, *words: str) -> None:
        command = ["pg_ctl", "-D", str(self.folder / "data"), "-w", "-t", f"{PATIENCE_S:.0f}", what, *words]
        _run(command, enter=self.enter)


@contextmanager
def running(*, durable: bool = False) -> Iterator[Server]:
    """A server in a folder of its own; `durable` ones wait for the disk at each commit, as real ones do.

    Not in one of pytest's: each run of it closes those of root to everybody else, and the server runs as another.
    """
    demand_services("PostgreSQL")
    if why := missing():
        pytest.skip(why)
    folder = Path(tempfile.mkdtemp(prefix="hostler-postgres-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    try:
        make(folder)
        server = Server(folder, quiet_port(), durable)
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
