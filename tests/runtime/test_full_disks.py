"""Wherever the controller writes, a full disk is said, leaves nothing half, and is over as soon as there is room.

The table of all such places, with the tests of those that are not here, is in docs/reliability.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hostler.agent.build import build_zipapp
from hostler.agent.connection import connect
from hostler.backends import arriving
from hostler.backends.arriving import Wanted
from hostler.backends.base import Store
from hostler.backends.courier import Courier
from hostler.backends.local import outputs
from hostler.backends.ssh import trust
from hostler.cli import findings, pages
from hostler.model.artifacts import HUB
from hostler.model.disks import DoomedFile
from hostler.model.errors import FilesError, LinkLost, LinkRefused, NotFound, StoreFull, UsageError
from hostler.model.views import LogChunk
from hostler.runtime import restoring
from hostler.runtime.backing import create
from hostler.runtime.disks.tombs import Tombs
from hostler.runtime.disks.walking import walk
from hostler.runtime.gathering import Gatherer
from hostler.runtime.keptlogs import KeptLogs
from hostler.runtime.statedir import StateDir
from hostler.snapshots.reserve import RESERVE
from hostler.store import Snapshot, archive, open_journal
from hostler.store.settling import Marks, Rules
from hostler.stores import hashing
from hostler.stores.base import ObjectName, at_once
from hostler.stores.directory import DirectoryStore
from hostler.stores.remote import RemoteStore
from tests.agent.harness import Agent
from tests.fulldisks import BYTES, KINDS, NAMES, below, disk as a_disk, full, room, small
from tests.runtime.test_contents import LARGE, cloud_of, desk, kept
from tests.runtime.test_gathering import lies_elsewhere
from tests.runtime.test_replicating import Yard, yard
from tests.runtime.test_restoring import NOW, directory, left_behind, told
from tests.store.test_journal import batch, trouble
from tests.web.core_desk import CoreDesk
from tests.web.kept import Kept

__all__ = ["desk", "directory", "kept", "left_behind", "room", "small", "told", "yard"]
CONTENT = os.urandom(200_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OBJECT = ObjectName(SHA256, ".segment.npz")
HOST = trust.HostKey(host="rig", key="ssh-ed25519 " + "A" * 68, fingerprint="SHA256:x")


def said(work: Callable[[], object], kind: type[Exception], match: str, room: Path, of: str = BYTES) -> None:
    """Done on a full disk it says so and changes nothing; with room it is done."""
    before = below(room)
    with full(room.parent, of):
        with pytest.raises(kind, match=match):
            work()
        assert below(room) == before
    work()
    assert below(room) != before


PRIVATE: dict[str, Callable[[StateDir], object]] = {
    "token": StateDir.token,
    "session key": StateDir.session_key,
    "identity": StateDir.identity,
    "token of a node that calls": lambda made: made.make_call_token("rig"),
    "certificate": lambda made: made.make_certificate("a key and its certificate"),
    "where it answers": lambda made: made.announce({"url": "http://127.0.0.1:1"}),
    "which stores are away": lambda made: made.note_away({"shelf": {"since": 1.0, "suspect": False}}),
    "ended sessions": lambda made: made.note_ended("[]"),
    "fleet file": lambda made: made.note_fleet(Path(__file__)),
}


@pytest.mark.parametrize("of", KINDS)
@pytest.mark.parametrize("what", PRIVATE)
def test_files_of_the_state_directory(what: str, of: str, room: Path) -> None:
    made = StateDir(room)
    (room / "dialin").mkdir()
    said(lambda: PRIVATE[what](made), StoreFull, "No space left", room, of)


def test_what_was_noted_before_stays(room: Path) -> None:
    made = StateDir(room)
    made.note_ended("[1]")
    said(lambda: made.note_ended("[2]"), StoreFull, "ended.json cannot be written", room)
    assert made.ended_file.read_text() == "[2]"


class Speaking:
    """A node on which an attempt has said something."""

    async def read_log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        if stream == "err":
            raise NotFound("nothing")
        data = CONTENT[offset : offset + 65536]
        return LogChunk(attempt=attempt, stream=stream, offset=offset, data=data, size=len(CONTENT), ended=True)


@pytest.mark.anyio
@pytest.mark.parametrize("of", KINDS)
async def test_logs_that_are_kept(room: Path, of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RESERVE, "bytes", -(1 << 30))
    kept = KeptLogs(room / "logs")
    with full(room.parent, of, left=100_000):
        with pytest.raises(OSError, match="No space left"):
            await kept.keep(Speaking(), "j1.1")
        assert kept.read("j1.1", "out", 0, 10) is None
        assert below(room) == {}
    await kept.keep(Speaking(), "j1.1")
    piece = kept.read("j1.1", "out", 0, len(CONTENT))
    assert piece is not None
    assert piece.data == CONTENT


@pytest.mark.parametrize("of", KINDS)
def test_results_of_scripts_on_this_machine(
    room: Path, tmp_path: Path, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RESERVE, "bytes", -(1 << 40))
    (tmp_path / "out").write_bytes(CONTENT)
    said(
        lambda: outputs.copied(
            tmp_path, ("out",), Store(results=room / "results", artifacts=room / "artifacts"), "j1.1"
        ),
        OSError,
        "No space left",
        room,
        of,
    )
    assert below(room) == {"results/j1.1/out": CONTENT}


@pytest.mark.parametrize("of", KINDS)
def test_objects_of_a_store_in_a_directory(room: Path, tmp_path: Path, of: str) -> None:
    (tmp_path / "source").write_bytes(CONTENT)
    said(lambda: DirectoryStore(room).put(OBJECT, tmp_path / "source", at_once), FilesError, "disk is full", room, of)
    assert below(room) == {OBJECT.path: CONTENT}


@pytest.mark.parametrize("of", KINDS)
def test_whatever_is_fetched_from_a_store(room: Path, of: str) -> None:
    """The controller's own store, what people download, what other stores give: all by the same way."""

    def fetch() -> None:
        with hashing.appearing(room / "objects" / "it") as out:
            out.write(CONTENT)

    said(fetch, FilesError, "disk is full", room, of)
    assert below(room) == {"objects/it": CONTENT}


def test_a_damaged_copy_that_cannot_be_set_aside_stays(room: Path) -> None:
    store = DirectoryStore(room)
    (room / OBJECT.path).parent.mkdir(parents=True)
    (room / OBJECT.path).write_bytes(b"damaged")
    said(lambda: store.set_aside(OBJECT), FilesError, "cannot be set aside: No space left", room, NAMES)
    assert list(below(room)) == [f"quarantine/{OBJECT.path.rpartition('/')[2]}"]


def test_the_label_of_a_store(room: Path) -> None:
    store = DirectoryStore(room)
    store.write_label("one")
    said(lambda: store.write_label("another"), FilesError, "disk is full", room)
    assert store.read_label() == "another"


def test_objects_behind_rclone(room: Path, tmp_path: Path) -> None:
    if not (config := remote(tmp_path, room)):
        pytest.skip("no rclone: apt-get install rclone")
    (tmp_path / "source").write_bytes(CONTENT)
    store = RemoteStore("far:", config=config)
    with full(room.parent):
        with pytest.raises(LinkLost, match=r"remaining disk space|no space left"):
            store.put(OBJECT, tmp_path / "source", at_once)
        assert not (room / "objects").exists()
    store.put(OBJECT, tmp_path / "source", at_once)
    assert below(room) == {OBJECT.path: CONTENT}


def remote(tmp_path: Path, folder: Path) -> Path | None:
    from shutil import which

    config = tmp_path / "rclone.conf"
    config.write_text(f"[far]\ntype = alias\nremote = {folder}\n")
    return config if which("rclone") else None


@pytest.mark.anyio
async def test_what_work_needs_waits_for_room(yard: Yard, room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller's own disk becomes full after it was looked at: no copy elsewhere is doubted for that."""
    monkeypatch.setattr(RESERVE, "bytes", -(1 << 40))
    name = await lies_elsewhere(yard, CONTENT)
    yard.located[HUB].store = DirectoryStore(room)
    own = Gatherer(yard.journal, yard.located, room, yard.clock, yard.verdicts)
    with full(room.parent):
        with pytest.raises(LinkLost, match="disk is full"):
            await own.gather([name])
        assert below(room) == {}
    yard.clock.at += 1000
    await own.gather([name])
    assert list(below(room).values()) == [CONTENT]


def test_what_people_download_from_another_store(
    desk: CoreDesk, kept: Kept, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused before it is fetched; and where the disk becomes full meanwhile."""
    cloud_of(desk, LARGE)
    monkeypatch.setattr(kept.contents, "_scratch", room / "fetched")
    name = hashlib.sha256(LARGE).hexdigest()
    with pytest.raises(FilesError, match="has no room to fetch"):
        asyncio.run(kept.contents.content(name))
    monkeypatch.setattr(RESERVE, "bytes", -(1 << 40))
    with full(room.parent), pytest.raises(FilesError, match="disk is full"):
        asyncio.run(kept.contents.content(name))
    assert below(room) == {}


@asynccontextmanager
async def fetching(agent: Agent) -> AsyncIterator[Courier]:
    """A connection for files to an agent."""

    reader, writer = await asyncio.open_unix_connection(sock=connect(str(agent.directory), 10.0))
    made = Courier("here", reader, writer)
    try:
        await made.greet(1)
        yield made
    finally:
        made.close()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    made = Agent(tmp_path / "agent")
    yield made
    made.stop()


@pytest.mark.anyio
async def test_what_comes_from_a_node_goes_on_where_it_was(agent: Agent, room: Path) -> None:
    """What has come stays under a name that is nobody's, to be gone on from; many small files as one large one."""
    sizes = [150_000, *[10] * (arriving.MANY + 3)]
    contents = {f"artifacts/{number}": os.urandom(size) for number, size in enumerate(sizes)}
    (agent.directory / "artifacts").mkdir()
    for path, content in contents.items():
        (agent.directory / path).write_bytes(content)
    wanted = [
        Wanted(
            path=path, size=len(content), target=f"{room}/objects/{path[10:]}", partial=f"{room}/incoming/{path[10:]}"
        )
        for path, content in contents.items()
    ]
    with full(room.parent, left=100_000):
        async with fetching(agent) as broken:
            with pytest.raises(OSError, match="No space left") as error:
                await broken.get(wanted)
        assert "objects" in str(error.value), "of which file it is"
        assert not list((room / "objects").iterdir())
    async with fetching(agent) as whole:
        hashes = await whole.get(wanted)
    assert hashes == [hashlib.sha256(content).hexdigest() for content in contents.values()]
    assert below(room) == {f"objects/{path[10:]}": content for path, content in contents.items()}


@pytest.mark.parametrize("of", KINDS)
def test_backups_and_exports(room: Path, of: str) -> None:
    def write() -> None:
        with archive.writing(room / "backup", 1.0) as out:
            out.add("a", CONTENT)
            out.seal({"hostler": "test"})

    said(write, StoreFull, r"backup cannot be written: No space left.*nothing is left", room, of)
    archive.check_seal(room / "backup")


@pytest.mark.parametrize("left", [0, 200_000, 500_000])
def test_restoring(directory: StateDir, tmp_path: Path, left: int) -> None:
    """As far as it comes: nothing is there that a controller could start on."""
    backup = create(directory, tmp_path, NOW)
    with a_disk(tmp_path / "disk", "8m") as small:
        target = StateDir(small / "state")
        with full(small, left=left):
            with pytest.raises(StoreFull, match=r"No space left|disk is full"):
                restoring.restore(backup.path, target, {}, NOW, [].append, fetch=False)
            assert below(small) == {}
        assert restoring.restore(backup.path, target, {}, NOW, [].append, fetch=False).next_job


@pytest.mark.parametrize(("of", "left"), [(NAMES, 0), (BYTES, 0), (BYTES, 200_000)])
def test_proving_a_backup(
    directory: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str, left: int
) -> None:
    """It is folded in the folder for temporary files."""
    backup = create(directory, tmp_path, NOW)
    with a_disk(tmp_path / "disk", "8m") as small:
        monkeypatch.setattr(tempfile, "tempdir", str(small))
        with full(small, of, left), pytest.raises(StoreFull, match=r"No space left|disk is full"):
            restoring.verify(backup.path, directory, {})
        assert below(small) == {}
        assert restoring.verify(backup.path, directory, {}).manifest["rows"]


def test_snapshots_and_marks(tmp_path: Path) -> None:
    with a_disk(tmp_path / "disk", "2m") as small:
        journal = open_journal(small)
        journal.append([batch(trouble(1))])
        for work in (
            lambda: Marks(journal).short_of(Rules({}, {"shelf" * 10_000: "home"}), 0.0, 1),
            lambda: journal.save_snapshot(Snapshot(seq=1, at=1.0, data=CONTENT)),
            lambda: journal.append([batch(trouble(2, "x" * 100_000))]),
        ):
            with full(small), pytest.raises(StoreFull, match="disk is full"):
                work()
            work()
        assert [each.data for each in journal.snapshots()] == [CONTENT]
        assert [entry.seq for entry in journal.read()] == [1, 2]
        journal.close()


def test_what_cannot_be_brought_back_stays_in_its_tombstone(room: Path) -> None:
    (room / "j1.1").mkdir()
    (room / "j1.1" / "out").write_bytes(CONTENT)
    tombs = Tombs("logs", room)
    doomed = DoomedFile(path="logs/j1.1/out", bytes=len(CONTENT), rule="log", why="old", used_at=0.0)
    tomb = tombs.draft([(doomed, each.identity) for each in walk(room)], "ann", 1.0, 2.0)
    tombs.open(tomb)
    tombs.bury(tomb)
    with full(room.parent, NAMES):
        ((_, why),) = tombs.bring_back(tomb, tomb.files, 3.0).left
        assert "No space left" in why
        assert tombs.are_here(tomb) == {"0": True}
    assert len(tombs.bring_back(tomb, tomb.files, 3.0).moved) == 1
    assert (room / "j1.1" / "out").read_bytes() == CONTENT


def test_reports(room: Path) -> None:
    said(lambda: pages.write_page(room / "page.html", "x" * 50_000), UsageError, "cannot be written.*No space", room)


def test_host_keys_that_are_trusted(room: Path) -> None:
    """A line that has half come would be in the way of all others."""
    known = room / "known_hosts"
    known.write_text("# filled up\n" * 340)  # so that the next line crosses into another page
    said(lambda: trust.add(known, HOST), LinkRefused, "cannot be written.*No space left", room)
    assert known.read_text().endswith(f"{HOST.host} {HOST.key}\n")


def test_the_agent_for_this_machine(room: Path) -> None:
    said(lambda: build_zipapp(room / "agent.pyz"), OSError, "No space left", room)


def test_looking_whether_a_folder_can_be_written_leaves_nothing(room: Path) -> None:
    with full(room.parent):
        assert "No space left" in (findings._unwritable(room) or "")
        assert list(room.iterdir()) == []
    assert findings._unwritable(room) is None
