"""Clients wait for a controller that is starting, and for nothing else."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hostler.cli.main import run
from hostler.client import AsyncClient, Client, address, address_in
from hostler.client.connecting import connect
from hostler.model.errors import ControllerAbsent, ControllerStarting
from hostler.runtime.statedir import StateDir
from tests.test_client import announce, ended_pid
from tests.web.core_desk import Window, window


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[StateDir]:
    """A state directory whose controller has begun to start."""
    directory = StateDir(tmp_path / "state")
    directory.take()
    directory.note_starting()
    yield directory
    directory.release()


@pytest.fixture
def served() -> Iterator[Window]:
    with window() as made:
        yield made


def at_look(number: int, happens: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have something happen before the look of this number; returns the numbers of the looks that there were."""
    looks: list[int] = []

    def rests(timeout_s: float) -> Iterator[float]:
        for look in range(1, 10):
            looks.append(look)
            if look == number:
                happens()
            yield 0.0

    monkeypatch.setattr("hostler.client.plain.rests", rests)
    monkeypatch.setattr("hostler.client.awaited.rests", rests)
    return looks


def plain(path: Path) -> object:
    return Client.from_state_dir(path).status()["fleet"]


def awaited(path: Path) -> object:
    async def ask() -> object:
        async with AsyncClient.from_state_dir(path) as client:
            return (await client.status())["fleet"]

    return asyncio.run(ask())


def connected(path: Path) -> object:
    return connect(state_dir=path).status()["fleet"]


@pytest.mark.parametrize("ask", [plain, awaited, connected])
def test_client_waits_for_a_controller_that_is_starting(
    ask: Callable[[Path], object], starting: StateDir, served: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = at_look(3, lambda: announce(starting.path, served.port), monkeypatch)
    assert ask(starting.path)
    assert looks[:3] == [1, 2, 3]


@pytest.mark.parametrize("words", [("jobs",), ("node", "list"), ("train", "list"), ("cancel", "j1")], ids=" ".join)
def test_command_waits_for_a_controller_that_is_starting(
    words: tuple[str, ...], starting: StateDir, served: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_look(2, lambda: announce(starting.path, served.port), monkeypatch)
    assert run([*words, "--state-dir", str(starting.path)]) == (2 if "cancel" in words else 0)


def test_controller_that_is_killed_while_it_starts_is_absent(
    starting: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_look(2, starting.release, monkeypatch)
    with pytest.raises(ControllerAbsent, match="no controller is running") as caught:
        Client.from_state_dir(starting.path).status()
    assert not isinstance(caught.value, ControllerStarting)


def test_controller_that_does_not_come_up_is_named_with_its_log(
    starting: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(address, "START_S", 0.0)
    with pytest.raises(ControllerStarting, match=rf"process {os.getpid()}\) is starting .*controller\.log$"):
        Client.from_state_dir(starting.path).status()


@pytest.mark.parametrize("ends", ["withdrawn", "released", "of another process", "unreadable", "only taken"])
def test_nothing_is_waited_for_without_a_controller_that_is_starting(starting: StateDir, ends: str) -> None:
    lock = starting.path / "lock"
    if ends == "withdrawn":
        starting.announce({"url": "http://127.0.0.1:1", "pid": os.getpid()})
        starting.withdraw()
    elif ends == "released":
        starting.release()
    elif ends == "of another process":
        lock.write_text(f"{ended_pid()} starting\n")
    else:
        lock.write_bytes(b"\xff starting" if ends == "unreadable" else b"")
    with pytest.raises(ControllerAbsent, match="no controller is running") as caught:
        address_in(starting.path)
    assert not isinstance(caught.value, ControllerStarting)


def test_looking_for_a_controller_does_not_keep_another_from_starting(tmp_path: Path) -> None:
    directory = StateDir(tmp_path / "state")
    directory.take()
    directory.note_starting()
    directory.release()  # as after a crash: its process lives, and is another one by now
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            with pytest.raises(ControllerAbsent):
                address_in(directory.path)

    looks = threading.Thread(target=look)
    looks.start()
    try:
        for _ in range(50):
            directory.take()
            directory.note_starting()
            directory.release()
    finally:
        stop.set()
        looks.join()
