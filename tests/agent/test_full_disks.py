"""Wherever the agent writes, a full disk is said, leaves nothing half, and is over as soon as there is room.

The table of all such places, with the tests of those that are not here, is in docs/reliability.md.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hostler.agent import dial, logs
from hostler.agent.exits import record_exit, recorded_exit
from hostler.agent.files import BLOBS, TREES
from hostler.agent.folders import Folders
from hostler.agent.journal import Journal
from hostler.agent.procs import Identity
from hostler.agent.shelves import LABEL, Shelf
from tests.fulldisks import BYTES, KINDS, NAMES, below, disk as a_disk, full, room, small

from .harness import SOURCE, Agent, Json
from .test_attempts import shell
from .test_files import answers, spoken

__all__ = ["room", "small"]
CONTENT = os.urandom(100_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
BOOT = SOURCE / "hostler" / "backends" / "ssh" / "boot.py"
BLOB = f"{BLOBS}/{SHA256[:2]}/{SHA256}"


def refused(work: Callable[[], object], room: Path, of: str = BYTES, left: int = 0) -> None:
    """Done on a full disk it says so and changes nothing."""
    before = below(room)
    with full(room.parent, of, left):
        with pytest.raises(OSError, match="No space left"):
            work()
        assert below(room) == before


def put(path: str = BLOB) -> tuple[Json, bytes]:
    return {"op": "put", "path": path, "sha256": SHA256, "size": len(CONTENT), "offset": 0}, CONTENT


@pytest.mark.parametrize("of", KINDS)
def test_files_that_come(room: Path, of: str) -> None:
    with full(room.parent, of):
        (answer,) = answers(room, *put())
        assert "No space left" in answer["error"]
        assert below(room) == {}
    assert answers(room, *put()) == [{"ok": True}]
    assert below(room) == {BLOB: CONTENT}


@pytest.mark.parametrize(("of", "left"), [(NAMES, 0), (BYTES, 0), (BYTES, 150_000)])
def test_folders_that_are_laid_out(room: Path, of: str, left: int) -> None:
    answers(room, *put())
    before = below(room)
    lay = {"op": "lay", "tree": "j1.1", "files": [["a", SHA256, False], ["b/c", SHA256, True]]}
    with full(room.parent, of, left):
        (answer,) = answers(room, lay)
        assert "No space left" in answer["error"]
        assert below(room) == before
        assert not list((room / TREES).glob("*"))
    (answer,) = answers(room, lay)
    assert below(Path(answer["path"])) == {"a": CONTENT, "b/c": CONTENT}


def asked(root: Path, *requests: Json | bytes) -> list[bytes]:
    output = io.BytesIO()
    Shelf(str(root), io.BytesIO(spoken(*requests)), output).serve()
    return output.getvalue().splitlines()


@pytest.mark.parametrize("of", KINDS)
def test_copies_that_a_node_keeps(room: Path, of: str) -> None:
    path = f"objects/{SHA256[:2]}/{SHA256}.segment.npz"
    with full(room.parent, of):
        for request in ((*put(path),), ({"op": "label", "text": "one"},)):
            (answer,) = asked(room, *request)
            assert b"No space left" in answer
        assert below(room) == {}
    assert asked(room, *put(path), {"op": "label", "text": "one"}) == [b'{"ok":true}', b'{"text":"one"}']
    assert below(room) == {path: CONTENT, LABEL: b"one"}


def test_output_of_processes_is_not_dropped_where_it_cannot_be_moved(room: Path) -> None:
    """What is left of the move would keep others from writing; a lost offset would keep all from reading."""
    path = room / "out"
    for round_ in range(2):
        with path.open("ab") as output:
            output.write(CONTENT)
        refused(lambda: logs.rotate(str(path), 100_000), room)
        assert logs.rotate(str(path), 100_000)
        assert logs.read(str(path), -50_000, 1 << 20) == ((round_ + 1) * len(CONTENT) - 50_000, CONTENT[-50_000:],
                                                          (round_ + 1) * len(CONTENT))  # fmt: skip


def test_there_is_room_for_the_offset_before_anything_is_dropped(room: Path) -> None:
    path = room / "out"
    path.write_bytes(CONTENT)
    refused(lambda: logs.rotate(str(path), 100_000), room, left=13 * 4096)


def test_how_orphans_ended(room: Path) -> None:
    path = str(room / "exits.jsonl")
    while not os.path.exists(path) or os.stat(path).st_size < 4050:  # so that the next line crosses into another page
        record_exit(path, Identity(7, 1), (0, None), 1.0)
    refused(lambda: record_exit(path, Identity(8, 1), (3, None), 1.0), room)
    record_exit(path, Identity(9, 1), (4, None), 1.0)
    assert [recorded_exit(path, Identity(pid, 1)) for pid in (7, 8, 9)] == [(0, None), None, (4, None)]


def test_the_journal_is_not_shortened(room: Path) -> None:
    journal = Journal(str(room / "journal.jsonl"))
    journal.append('{"op": "a"}')
    assert journal.flush()
    refused(lambda: journal.rewrite({"op": "b", "pad": "x" * 100} for _ in range(1000)), room, left=8192)
    journal.append('{"op": "c"}')
    assert journal.flush()
    journal.rewrite([{"op": "d"}])
    assert list(journal.replay()) == [{"op": "d"}]
    journal.close()


def test_folders_of_attempts(room: Path) -> None:
    folders = Folders(str(room / "attempts"))
    refused(lambda: folders.make("j1.1"), room, NAMES)
    assert Path(folders.make("j1.1")).is_dir()


def test_the_program_that_arrives(room: Path) -> None:
    """By SSH; each try is another process, whose names are others."""
    with full(room.parent):
        assert "No space left" in arrived(room)[-1]["error"]
        assert below(room) == {}
    assert arrived(room)[-1] == {"status": 0, "said": ""}
    assert below(room) == {f"agent-{SHA256[:16]}.pyz": CONTENT}


def arrived(folder: Path) -> list[Json]:
    """What is told as it arrives."""
    order = {"dir": str(folder), "sha256": SHA256, "size": len(CONTENT), "start": False, "setup": []}
    done = subprocess.run(
        [sys.executable, BOOT], input=json.dumps(order).encode() + b"\n" + CONTENT, capture_output=True, check=True
    )
    return [json.loads(line.removeprefix(b"hostler-boot ")) for line in done.stdout.splitlines()]


def test_the_program_of_a_node_that_calls(room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "code").write_bytes(CONTENT)
    monkeypatch.setattr(dial, "CODE", str(tmp_path / "code"))
    home = dial.Home(str(room))
    refused(home._put_program, room)
    assert Path(home._put_program()).read_bytes() == CONTENT


def test_an_attempt_that_cannot_be_given_its_orders_ends_and_says_why(tmp_path: Path) -> None:
    """Others begin where there is room again; nobody is ended by it."""
    with a_disk(tmp_path / "disk", "2m", 2000) as small:
        agent = Agent(small / "agent")
        try:
            client = agent.client()
            with full(small, left=150_000):  # enough for its journal, which has the orders, too
                client.launch({**shell("j1.1", "true"), "inputs": {"pad": "x" * 100_000}})
                ended = client.ended("j1.1")
                assert (ended["reason"], "No space left" in ended["error"]) == ("spawn", True)
            client.launch({**shell("j1.2", "wc -c < $HOSTLER_INPUTS"), "inputs": {"pad": "x" * 100_000}})
            assert client.ended("j1.2")["exit_code"] == 0
            assert int(base64.b64decode(client.read("j1.2")["data"])) > 100_000
        finally:
            agent.stop()
