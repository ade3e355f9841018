"""A process of its own takes files out of a socket: whole, hashed, resumed, and never for a controller that is gone."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.backends import receiver
from hostler.backends.arriving import Disk, Wanted
from hostler.backends.landing import Receiver
from hostler.backends.receiver import BUFFER_BYTES, SMALL_BYTES, misfit
from hostler.model.errors import FilesChanged, FilesError
from hostler.snapshots.reserve import RESERVE
from tests.patience import PATIENCE_S

SIZES = (0, 1, 20_000, SMALL_BYTES - 1, SMALL_BYTES, SMALL_BYTES + 1, BUFFER_BYTES, BUFFER_BYTES + 1, 5 << 20)


@pytest.mark.parametrize(
    ("size", "offset", "most", "fault"),
    [
        (0, 0, 0, None),
        (5, 5, 5, None),
        (6, 0, 5, "6 bytes now, and 5 at most"),
        (5, 6, 5, "6 of its 5 bytes"),
        (5, -1, 5, "-1 of its 5 bytes"),
        (1 << 62, 0, 5, "5 at most"),
    ],
)
def test_size_that_does_not_fit_is_a_fault(size: int, offset: int, most: int, fault: str | None) -> None:
    found = misfit(size, offset, most)
    assert found is None if fault is None else fault in (found or "")


class Wire:
    """What a node says, and who takes it here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.there, self.here = socket.socketpair()
        self.receiver = Receiver(self.here)
        self.signs = 0
        (folder / "partial").mkdir()
        (folder / "target").mkdir()

    def wanted(self, *contents: bytes) -> list[Wanted]:
        return [
            Wanted(
                path=f"out/{number}",
                size=len(content),
                target=f"{self.folder}/target/{number}",
                partial=f"{self.folder}/partial/{number}",
            )
            for number, content in enumerate(contents)
        ]

    def say(self, *parts: bytes, hang_up: bool = False) -> threading.Thread:
        def send() -> None:
            with suppress(OSError):  # whoever refuses a file takes no more of it
                for part in parts:
                    self.there.sendall(part)
                if hang_up:
                    self.there.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        return thread

    def land(self, files: Sequence[Wanted]) -> list[str]:
        disk = Disk([f"{self.folder}/partial"])
        try:
            hashes = self.receiver.land(files, disk, self.moved, "n1")
            disk.publish(files)
        finally:
            disk.close()
        return hashes

    def moved(self) -> None:
        self.signs += 1

    def close(self) -> None:
        self.receiver.close()
        self.here.close()
        self.there.close()


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    made = Wire(tmp_path)
    yield made
    made.close()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def said(content: bytes, offset: int = 0, **more: object) -> bytes:
    """A small file as the agent sends it, its hash before it."""
    head = {"size": len(content), "offset": offset, "sha256": digest(content), **more}
    return json.dumps(head).encode() + b"\n" + content[offset:]


def said_late(content: bytes, offset: int = 0) -> bytes:
    """A large one, its hash behind it."""
    head = {"size": len(content), "offset": offset}
    tail = json.dumps({"sha256": digest(content)}).encode() + b"\n"
    return json.dumps(head).encode() + b"\n" + content[offset:] + tail


@pytest.mark.parametrize("form", [said, said_late])
def test_files_of_all_sizes_land_one_order_after_the_other(wire: Wire, form: Callable[[bytes], bytes]) -> None:
    for _ in range(2):
        contents = [os.urandom(size) for size in SIZES]
        sending = wire.say(*(form(content) for content in contents))
        assert wire.land(wire.wanted(*contents)) == [digest(content) for content in contents]
        sending.join(PATIENCE_S)
        for number, content in enumerate(contents):
            assert (wire.folder / "target" / str(number)).read_bytes() == content
    assert wire.signs > 0
    assert not list((wire.folder / "partial").iterdir())


def test_many_small_ones_come_in_turns(wire: Wire) -> None:
    contents = [os.urandom(number) for number in range(receiver.TOLD_FILES * 3 + 1)]
    wire.say(*(said(content) for content in contents))
    assert wire.land(wire.wanted(*contents)) == [digest(content) for content in contents]
    assert wire.signs >= 4


def test_nothing_is_waited_for_where_nothing_is_wanted(wire: Wire) -> None:
    assert wire.land([]) == []


def test_what_has_come_before_is_hashed_and_the_rest_comes(wire: Wire) -> None:
    content = os.urandom(3 << 20)
    (wanted,) = wire.wanted(content)
    Path(wanted.partial).write_bytes(content[: 1 << 20] + b"more than the node was told of")
    wire.say(said_late(content, offset=1 << 20))
    assert wire.land([wanted]) == [digest(content)]
    assert Path(wanted.target).read_bytes() == content


def test_a_large_one_is_begun_to_be_written_through(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[str]()
    monkeypatch.setattr(Disk, "begin", lambda _disk, path: begun.append(path))
    content = os.urandom(receiver.BEGIN_EVERY + 1)
    (wanted,) = wire.wanted(content)
    wire.say(said_late(content))
    assert wire.land([wanted]) == [digest(content)]
    assert begun == [wanted.partial, wanted.partial]


def test_a_large_one_ends_at_the_reserve_of_the_disk(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever room there was when it was asked for."""
    monkeypatch.setattr(RESERVE, "bytes", 1 << 62)
    content = bytes(receiver.BEGIN_EVERY + 1)
    (wanted,) = wire.wanted(content)
    wire.say(said_late(content))
    with pytest.raises(OSError, match="stay free") as error:
        wire.land([wanted])
    assert error.value.errno == errno.ENOSPC
    assert not Path(wanted.target).exists()


def test_an_error_that_a_node_tells_is_short_and_can_be_shown(wire: Wire) -> None:
    wire.say(json.dumps({"error": "\ud800" + "x" * 100_000}).encode() + b"\n")
    with pytest.raises(FilesError, match=r"cannot be fetched: \\ud800x+") as refused:
        wire.land(wire.wanted(b"first"))
    assert len(str(refused.value).encode()) < 3000


def test_what_the_node_refuses_is_named_and_what_came_before_is_kept(wire: Wire) -> None:
    files = wire.wanted(b"first", b"second")
    wire.say(said(b"first"), b'{"error": "there is no such file"}\n')
    with pytest.raises(FilesError, match="out/1 of n1 cannot be fetched: there is no such file"):
        wire.land(files)
    assert Path(files[0].partial).read_bytes() == b"first"


@pytest.mark.parametrize(
    ("wanted", "error"), [(None, FilesChanged), ("0" * 64, FilesChanged), (digest(b"other"), FilesError)]
)
def test_what_is_not_what_was_told_is_thrown_away(wire: Wire, wanted: str | None, error: type[Exception]) -> None:
    told = wanted if wanted == digest(b"other") else "0" * 64
    content = b"other" if wanted == digest(b"other") else b"this"
    files = [
        Wanted(
            path="out/0",
            size=len(content),
            target=f"{wire.folder}/target/0",
            partial=f"{wire.folder}/partial/0",
            sha256="1" * 64 if error is FilesError else wanted,
        )
    ]
    wire.say(said(content, sha256=told))
    with pytest.raises(error, match="its hash is another one"):
        wire.land(files)
    assert not list((wire.folder / "partial").iterdir())


def test_no_more_is_taken_than_there_is_room_for(wire: Wire) -> None:
    wanted = replace(wire.wanted(b"some")[0], growth=3)
    wire.say(said(b"some of"))
    assert wire.land([wanted]) == [digest(b"some of")]
    wire.say(b'{"size": 8, "offset": 0}\n')
    with pytest.raises(FilesError, match="it has 8 bytes now, and 7 at most were expected"):
        wire.land([wanted])


@pytest.mark.parametrize("offset", [-1, 5, 1 << 60])
def test_no_more_has_come_before_than_there_is(wire: Wire, offset: int) -> None:
    """A file would be made as long as that here, and read to its end: for days."""
    (wanted,) = wire.wanted(b"some")
    Path(wanted.partial).write_bytes(b"so")
    wire.say(b'{"size": 4, "offset": %d}\n' % offset)
    with pytest.raises(FilesError, match=f"{offset} of its 4 bytes are said to have come before"):
        wire.land([wanted])
    assert Path(wanted.partial).read_bytes() == b"so"


def test_where_the_line_breaks_what_has_come_is_kept(wire: Wire) -> None:
    content = os.urandom(2 << 20)
    (wanted,) = wire.wanted(content)
    wire.say(said_late(content)[: 1 << 20], hang_up=True)
    with pytest.raises(ConnectionError, match="hung up"):
        wire.land([wanted])
    kept = Path(wanted.partial).read_bytes()
    assert kept
    assert content.startswith(kept)


def test_an_error_of_this_machine_is_about_the_file(wire: Wire) -> None:
    (wanted,) = wire.wanted(b"some")
    Path(wanted.partial).mkdir()
    wire.say(said(b"some"))
    with pytest.raises(IsADirectoryError, match=wanted.partial):
        wire.land([wanted])


def test_a_full_disk_is_told_of_as_the_file_that_was_to_be(wire: Wire) -> None:
    (wanted,) = wire.wanted(b"some")
    os.symlink("/dev/full", wanted.partial)
    wire.say(said(b"some"))
    with pytest.raises(OSError, match="No space left") as error:
        wire.land([wanted])
    assert error.value.filename == wanted.target


def test_one_that_was_killed_is_a_broken_line(wire: Wire) -> None:
    wire.receiver._process.kill()
    wire.say(said(b"some"))
    with pytest.raises(ConnectionError, match="the process that takes its files has ended: status -9"):
        wire.land(wire.wanted(b"some"))


def test_a_line_of_nonsense_is_told_of(wire: Wire) -> None:
    wire.say(b"Welcome to this machine\n")
    with pytest.raises(ConnectionError, match="what it says of a file is no JSON: b'Welcome"):
        wire.land(wire.wanted(b"some"))


def test_it_ends_when_it_is_closed(wire: Wire) -> None:
    wire.receiver.close()
    assert wire.receiver._process.returncode == -signal.SIGKILL


PARENT = """
import os, subprocess, sys, time
socket, program, order = sys.argv[1:]
words = [sys.executable, "-I", "-S", program, socket, str(os.getpid())]
process = subprocess.Popen(words, stdin=subprocess.PIPE, pass_fds=(int(socket),), start_new_session=True)
process.stdin.write(order.encode() + b"\\n")
process.stdin.flush()
print(process.pid, flush=True)
time.sleep(600)
"""


def test_it_writes_nothing_for_a_controller_that_is_gone(tmp_path: Path) -> None:
    """The next one asks for the same files at once, while this one's line may bring more still."""
    there, here = socket.socketpair()
    part, size = tmp_path / "part", 3 * BUFFER_BYTES
    order = json.dumps({"files": [[str(part), f"{tmp_path}/whole", size]]})
    with there, here:
        words = [sys.executable, "-c", PARENT, str(here.fileno()), receiver.__file__, order]
        with subprocess.Popen(words, stdout=subprocess.PIPE, pass_fds=(here.fileno(),)) as parent:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            there.sendall(b'{"size": %d, "offset": 0}\n' % size)
            wait_until(part.exists)
            there.sendall(b"a" * BUFFER_BYTES)
            wait_until(lambda: part.stat().st_size == BUFFER_BYTES)
            parent.kill()
            parent.wait()
        there.sendall(b"b" * BUFFER_BYTES)
        wait_until(lambda: is_over(pid))
    assert part.read_bytes() == b"a" * BUFFER_BYTES


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


def is_over(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
