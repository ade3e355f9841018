"""All about a config in one file, from wherever its artifacts lie; what is not there is named, what is damaged too."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostler.cli.exporting import Kind
from hostler.core import Core
from hostler.model.artifacts import SUFFIXES, ArtifactKind
from hostler.model.errors import Conflict, NotFound, StoreFull
from hostler.model.events import SegmentsMade
from hostler.model.learning import SegmentRef
from hostler.runtime import exporting
from hostler.runtime.exporting import Exported
from hostler.runtime.statedir import StateDir
from hostler.store import Batch, open_journal
from hostler.stores.base import ObjectName
from hostler.stores.directory import DirectoryStore
from tests.core.loop.builders import NAME, loop, small

SEGMENTS = {hashlib.sha256(data).hexdigest(): data for data in (b"one" * 9, b"two" * 8, b"three", b"four" * 3_000_000)}


class Yard:
    """A state directory with a config of some segments, and a shelf."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.directory, self.shelf = StateDir(path / "state"), path / "shelf"
        self.directory.take()
        self.shelf.mkdir()
        driver = loop(small(), small("other_2p"))
        refs = tuple(SegmentRef(sha256=name, bytes=len(data), games=1, positions=10) for name, data in SEGMENTS.items())
        jobs = driver.config().jobs
        made = SegmentsMade(config=NAME, job=next(iter(jobs)), player="heuristic", segments=refs, cpu_s=1.0)
        journal = open_journal(self.directory.path)
        journal.append([Batch(entries=driver.entries, jobs=())])
        core = Core()
        core.replay(driver.entries)
        entry = type(driver.entries[0])(seq=core.state.seq + 1, at=core.state.at + 1, event=made)
        core.replay([entry])
        journal.append([Batch(entries=[entry], jobs=())])
        journal.close()
        (path / "fleet.yaml").write_text(
            yaml.safe_dump(
                {"nodes": [{"name": "here"}], "stores": [{"name": "shelf", "kind": "directory", "path": "shelf"}]}
            )
        )
        self.directory.note_fleet(path / "fleet.yaml")
        self.told: list[str] = []

    def lay(self, root: Path, name: str, data: bytes | None = None) -> None:
        """Put a segment somewhere."""
        path = root / ObjectName(name, SUFFIXES[ArtifactKind.GAMES]).path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(SEGMENTS[name] if data is None else data)

    def export(self, target: str = "out.tar.gz", name: str = NAME, without: tuple[ArtifactKind, ...] = ()) -> Exported:
        """All about it."""
        return exporting.export(self.directory, name, self.path / target, without, {}, self.told.append)

    def read(self, target: str = "out.tar.gz") -> dict[str, bytes]:
        """What is in it, checked against its manifest."""
        with tarfile.open(self.path / target) as tar:
            content = {
                member.name.removeprefix(f"{NAME}/"): tar.extractfile(member).read()  # type: ignore[union-attr]
                for member in tar
            }
        manifest = json.loads(content["manifest.json"])
        assert {
            name: hashlib.sha256(data).hexdigest() for name, data in content.items() if name != "manifest.json"
        } == {name: told["sha256"] for name, told in manifest["members"].items()}
        return content


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


def test_the_command_line_knows_the_same_kinds() -> None:
    assert [(each.name, each.value) for each in Kind] == [(each.name, each.value) for each in ArtifactKind]


def manifest(content: dict[str, bytes]) -> dict[str, Any]:
    return dict(json.loads(content["manifest.json"]))


def test_artifacts_come_from_whoever_has_them_and_from_nobody_who_has_other_bytes(yard: Yard) -> None:
    own, shelved, damaged, large = SEGMENTS
    yard.lay(yard.directory.artifacts, own)
    yard.lay(yard.directory.artifacts, large)
    yard.lay(yard.shelf, shelved)
    yard.lay(yard.directory.artifacts, damaged, b"x" * len(SEGMENTS[damaged]))
    done = yard.export()
    content = yard.read()
    there = {Path(name).name.partition(".")[0]: data for name, data in content.items() if name.startswith("objects/")}
    assert there == {name: SEGMENTS[name] for name in (own, shelved, large)}
    assert manifest(content)["missing"].keys() == {damaged}
    assert "damaged" in manifest(content)["missing"][damaged]
    assert (done.artifacts, len(done.missing), done.left_out) == (3, 1, 0)
    assert json.loads(content["lineage.json"]).keys() == SEGMENTS.keys()
    yard.lay(yard.shelf, damaged)
    assert yard.export("again.tar.gz").missing == (), "another place has it as it should be"


def test_a_store_that_only_a_controller_can_ask_keeps_no_other_from_being_asked(yard: Yard) -> None:
    """One of the fleet file could not be used from here, and none of it was."""
    vault = {"name": "vault", "kind": "node", "node": "far", "path": "/data"}
    own = {"name": "own", "kind": "node", "node": "here", "path": str(yard.path / "own")}
    shelf = {"name": "shelf", "kind": "directory", "path": "shelf"}
    nodes = [{"name": "here"}, {"name": "far", "backend": "ssh", "host": "far.example"}]
    (yard.path / "fleet.yaml").write_text(yaml.safe_dump({"nodes": nodes, "stores": [vault, own, shelf]}))
    yard.directory.note_fleet(yard.path / "fleet.yaml")
    (yard.path / "own").mkdir()
    yard.directory.artifacts.mkdir()
    first, *others = SEGMENTS
    yard.lay(yard.path / "own", first)
    for name in others:
        yard.lay(yard.shelf, name)
    assert yard.export().missing == ()
    assert [line.partition(":")[0] for line in yard.told] == ["vault is not asked for artifacts"]
    assert "on the node far, which only a running controller can ask" in yard.told[0]


def test_kinds_can_be_left_out_and_the_rest_is_the_same_each_time(yard: Yard) -> None:
    done = yard.export(without=(ArtifactKind.GAMES,))
    assert (done.artifacts, done.left_out, done.missing) == (0, 4, ())
    yard.export("again.tar.gz", without=(ArtifactKind.GAMES,))
    assert (yard.path / "out.tar.gz").read_bytes() == (yard.path / "again.tar.gz").read_bytes()
    content = yard.read()
    assert manifest(content)["without"] == ["games"]
    events = [json.loads(line)["event"] for line in content["events.jsonl"].splitlines()]
    assert {"config.declared", "job.submitted", "config.segments"} <= {event["kind"] for event in events}
    assert {event["config"] for event in events if "config" in event} == {NAME}
    rows = list(csv.DictReader(io.StringIO(content["hours.csv"].decode())))
    assert [row["games"] for row in rows] == ["4"]
    assert content["ratings.csv"].startswith(b"at,player,elo,low,high,games")


def test_beside_a_writer_and_read_only(yard: Yard) -> None:
    journal = open_journal(yard.directory.path)
    before = {path: path.stat().st_mtime_ns for path in yard.directory.path.rglob("*.sqlite")}
    yard.export()
    assert {path: path.stat().st_mtime_ns for path in before} == before
    journal.close()


def test_what_is_fetched_on_its_way_lies_beside_the_target_and_nowhere_else(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(yard.path / "no-such-folder"))
    monkeypatch.setattr(exporting, "SPOOLED", 10)
    for name in SEGMENTS:
        yard.lay(yard.shelf, name)
    (yard.path / "out").mkdir()
    assert yard.export("out/out.tar.gz").missing == ()
    assert [each.name for each in (yard.path / "out").iterdir()] == ["out.tar.gz"]


def test_no_room_for_what_is_fetched_is_no_missing_artifact(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SEGMENTS:
        yard.lay(yard.shelf, name)
    (yard.path / "out").mkdir()
    monkeypatch.setattr(exporting, "_free_bytes", lambda _: 20_000_000)
    with pytest.raises(StoreFull, match=r"12000000 bytes .* fetched .*on its way.* 20000000 are free"):
        yard.export("out/out.tar.gz")
    assert not list((yard.path / "out").iterdir())


def test_a_disk_that_is_full_on_the_way_is_no_missing_artifact(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in SEGMENTS:
        yard.lay(yard.shelf, name)
    monkeypatch.setattr(DirectoryStore, "get", full)
    with pytest.raises(StoreFull, match="No space left"):
        yard.export()


def test_what_cannot_be_is_said_and_leaves_nothing(yard: Yard) -> None:
    (yard.path / "led.tar.gz").symlink_to(yard.path / "nowhere")
    with pytest.raises(Conflict, match="is there already"):
        yard.export("led.tar.gz")
    assert not (yard.path / "nowhere").exists()
    (yard.path / "led.tar.gz").unlink()
    with pytest.raises(NotFound, match=f"there are: {NAME}, other_2p"):
        yard.export(name="none")
    with pytest.raises(NotFound, match="no journal"):
        exporting.export(StateDir(yard.path / "none"), NAME, yard.path / "out.tar.gz", (), {}, print)
    with pytest.raises(NotFound, match=r"no folder .*absent to put the export into; make it first"):
        yard.export("absent/out.tar.gz")
    assert not list(yard.path.glob("*.tar.gz*"))
    (yard.path / "out.tar.gz").write_text("mine")
    with pytest.raises(Conflict):
        yard.export()
    assert (yard.path / "out.tar.gz").read_text() == "mine"
    yard.shelf.rmdir()
    yard.export("other.tar.gz")
    assert any("shelf is not asked" in line for line in yard.told)
