"""The controller dies, as by `kill -9`, at each step of fetching and of copying: what was accepted has its copies.

The steps are in `points/faultpoints.py`. After each the loop goes on to its goal under a second controller. Meanwhile
every file that has an artifact's name is hashed as soon as it is seen. In the end every copy that is told of is hashed
again, all that is wanted is there, no game counts twice, and nothing half is left anywhere.

A few of the points are in `make test`, all in `make faults` (`LAB_FAULTS=all`).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hostler.model.artifacts import HUB, Standing
from hostler.model.events import SegmentsMade
from hostler.workloads.alphazero.shelf import numbers_of
from tests.backends.ssh import sshd
from tests.integration.conftest import NODE, Fleet, View, a_fleet
from tests.integration.loops import LOOP_PATIENCE_S, STAGES, flip, journal_of
from tests.integration.points.faultpoints import POINTS
from tests.integration.test_copies import copies_by_standing
from tests.integration.test_loop_commands import PROGRAM, own
from tests.stores.conftest import BUCKET, s3

__all__ = ["s3"]
HOOK = Path(__file__).parent / "points"
ALL = os.environ.get("LAB_FAULTS") == "all"
FEW = {
    "send": ("partial",),
    "pull at the end": ("partial", "half of them named"),
    "pull early": ("named", "told"),
    "put": ("written",),
    "get": ("named",),
    "put into a bucket": (),
    "put with rclone": ("written",),
}
"""What is tried by default."""
OBJECT = re.compile(r"(?P<sha256>[0-9a-f]{64})(\.[a-z]+)+")
PAD = 300_000
"""Bytes by which segments are larger than what files hold back before they write."""
LOOK_S = 0.01
no_sshd = pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")


class Watch:
    """Hashes every file with an artifact's name when it appears below some folders."""

    def __init__(self, *roots: Path) -> None:
        self._roots = roots
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._known: set[Path] = set()
        self.wrong: list[str] = []

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        """Nothing was seen that is not what its name says, and there was something to be seen."""
        assert self._known
        assert self.wrong == []

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            for path in (path for root in self._roots for path in objects(root)):
                if path not in self._known:
                    self._known.add(path)
                    self._hash(path)

    def _hash(self, path: Path) -> None:
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except FileNotFoundError:
            return  # set aside
        if found != path.name[:64]:
            self.wrong.append(f"{path}: {path.stat().st_size} bytes")


def objects(root: Path) -> list[Path]:
    """The files below a store's root that have an artifact's name."""
    return [path for path in root.glob("objects/*/*") if OBJECT.fullmatch(path.name)]


def steps(way: str) -> list[Any]:
    """The points of a way, each as a test."""
    mark = pytest.mark.skipif(not ALL, reason="takes minutes: `make faults`")
    return [pytest.param(step, marks=() if step in FEW[way] else (mark,)) for step in POINTS[way]]


@contextmanager
def deadly(fleet: Fleet, point: str) -> Iterator[Path]:
    """Controllers that are launched within die at this point."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HOOK))
        patch.setenv("FAULT_POINT", point)
        patch.setenv("FAULT_STRUCK", str(fleet.path / "struck"))
        yield fleet.path / "struck"


def dies(fleet: Fleet, point: str) -> None:
    """A controller comes to this point, and no further."""
    with deadly(fleet, point) as struck:
        status = fleet.launch("--until-idle").wait(LOOP_PATIENCE_S)
    assert (status, struck.read_text() if struck.exists() else None) == (-signal.SIGKILL, point), fleet.log()


def ends(fleet: Fleet) -> None:
    """A controller brings everything to its end."""
    assert fleet.launch("--until-idle").wait(LOOP_PATIENCE_S) == 0, fleet.log()


def store(kind: str, name: str, **more: object) -> View:
    return {"name": name, "kind": kind, "domain": name, "reserve_gb": 0.0, **more}


def loop(folder: Path, **options: object) -> View:
    """A small loop of somebody's own whose program travels with it, and whose segments are large enough to be cut."""
    shutil.copy(PROGRAM, folder)
    (folder / ".hostlerignore").write_text("/state\n/shelf\n/sshd\n/far\n*.log\n*.yaml\n*.conf\n")
    config = own("coins", idle_after={"promotions": 1, "candidates": 5, "failures": 3})
    for stage in STAGES:
        config[stage] |= {"command": ["{python}", PROGRAM.name, stage]}
    config["selfplay"] |= {"options": {"pad": PAD, **options}}
    return config


def check(fleet: Fleet, roots: Mapping[str, Path]) -> None:
    """All that counts is where it is wanted, once, and whole; and nothing else is there."""
    found = copies_by_standing(fleet, dict(roots))
    assert found[Standing.GAMES] == {2}
    assert found[Standing.DATASET] == {1}
    assert found[Standing.MODEL] == {min(3, len(roots))}
    check_counts(fleet)
    for root in roots.values():
        for path in objects(root):
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name[:64], path
    assert halves(fleet, roots) == []


def check_counts(fleet: Fleet) -> None:
    """Each segment counts once, and each game of each order is in one of them."""
    with journal_of(fleet) as (_, entries):
        made = [entry.event for entry in entries if isinstance(entry.event, SegmentsMade)]
    named = Counter(each.sha256 for event in made for each in event.segments)
    assert set(named.values()) == {1}
    games = Counter(
        (event.job, game) for event in made for each in event.segments for game in numbers_of(each.numbers or "")
    )
    assert set(games.values()) == {1}


def halves(fleet: Fleet, roots: Mapping[str, Path]) -> list[Path]:
    """What is neither an artifact nor a folder for some, and what of a transfer is still there."""
    left = [path for root in roots.values() for path in root.glob("objects/*/*") if not OBJECT.fullmatch(path.name)]
    left += [path for root in roots.values() for path in root.glob("incoming/**/*") if path.is_file()]
    return left + [path for path in (fleet.state / "incoming").rglob("*") if path.is_file()]


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet of two nodes behind a real SSH server, of which one plays and the other learns, and a store."""
    (tmp_path / "shelf").mkdir()
    with sshd.running(tmp_path / "sshd") as server, a_fleet(tmp_path) as fleet:
        common = {
            "backend": "ssh", "host": "127.0.0.1", "port": server.port, "identity": str(server.folder / "client"),
            "cpu_slots": 1, "gpus": "none", "canary": "none",
        }  # fmt: skip
        work = {"player": ["selfplay"], "learner": ["export", "training", "evaluation"]}
        nodes = [
            {"name": name, "dir": str(fleet.state / name), "work": kinds, **common} for name, kinds in work.items()
        ]
        fleet.settle(
            ssh={"config": [], "known_hosts": [str(server.known_hosts)]},
            nodes=nodes,
            stores=[store("directory", "shelf", path=str(tmp_path / "shelf"))],
            configs=[loop(tmp_path)],
        )
        yield fleet


def places(fleet: Fleet) -> dict[str, Path]:
    return {HUB: fleet.state / "artifacts", "shelf": fleet.path / "shelf"}


def on_nodes(fleet: Fleet) -> list[Path]:
    """The artifact folders of its nodes."""
    found = [folder for name in ("player", "learner") for folder in (fleet.state / name).rglob("artifacts")]
    assert len(found) == 2
    return found


@no_sshd
@pytest.mark.parametrize("step", steps("send"))
def test_sending_to_a_node(far: Fleet, step: str) -> None:
    fetched_in_spite_of(far, f"send: {step}")


@no_sshd
@pytest.mark.parametrize("step", steps("pull at the end"))
def test_fetching_what_an_attempt_has_left(far: Fleet, step: str) -> None:
    fetched_in_spite_of(far, f"pull at the end: {step}")


@no_sshd
@pytest.mark.parametrize("step", steps("pull early"))
def test_fetching_what_is_closed_while_an_attempt_runs(far: Fleet, tmp_path: Path, step: str) -> None:
    settings = {**read_settings(far), "configs": [loop(tmp_path, pause_s=0.2)]}
    far.settle(**settings)
    fetched_in_spite_of(far, f"pull early: {step}")


def read_settings(fleet: Fleet) -> View:
    import yaml

    read: View = yaml.safe_load(fleet.file.read_text())
    return read


def fetched_in_spite_of(fleet: Fleet, point: str) -> None:
    """A loop whose artifacts all come from a node, and go back to it."""
    with Watch(*places(fleet).values()) as watch:
        dies(fleet, point)
        ends(fleet)
    watch.check()
    check(fleet, places(fleet))
    for root in on_nodes(fleet):
        for path in objects(root):
            assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name[:64], path


@pytest.fixture
def near(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet on this machine, and a store."""
    (tmp_path / "shelf").mkdir()
    shelf = store("directory", "shelf", path=str(tmp_path / "shelf"))
    with a_fleet(tmp_path, stores=[shelf], configs=[loop(tmp_path)], nodes=[NODE]) as fleet:
        yield fleet


@pytest.mark.parametrize("step", steps("put"))
def test_putting_into_a_store(near: Fleet, step: str) -> None:
    with Watch(*places(near).values()) as watch:
        dies(near, f"put: {step}")
        ends(near)
    watch.check()
    check(near, places(near))


@pytest.mark.parametrize("step", steps("get"))
def test_getting_what_was_damaged_out_of_a_store(near: Fleet, step: str) -> None:
    ends(near)
    flip(damaged := games_of(near))
    long_unread(near, damaged)
    with Watch(near.path / "shelf") as watch:
        dies(near, f"get: {step}")
        assert not damaged.exists() or sha256_of(damaged) == damaged.name[:64]
        ends(near)
    watch.check()
    check(near, places(near))
    assert [path.name for path in (near.state / "artifacts" / "quarantine").iterdir()] == [damaged.name]


def games_of(fleet: Fleet) -> Path:
    """A segment in the controller's own store."""
    return min((fleet.state / "artifacts").rglob("*.segment.npz"))


def long_unread(fleet: Fleet, path: Path) -> None:
    """As if its copy in the controller's own store had been read last half a century ago."""
    with closing(sqlite3.connect(fleet.state / "journal.sqlite")) as journal, journal:
        changed = journal.execute(
            "UPDATE copies SET verified_at = 0 WHERE place = ? AND sha256 = ?", (HUB, path.name[:64])
        )
        assert changed.rowcount == 1


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("step", steps("put into a bucket"))
def test_putting_into_a_bucket(s3: str, near: Fleet, tmp_path: Path, step: str) -> None:
    import boto3

    prefix = tmp_path.name
    bucket = store("s3", "bucket", bucket=BUCKET, prefix=prefix, endpoint=s3)
    near.settle(**{**read_settings(near), "stores": [bucket]})
    dies(near, f"put into a bucket: {step}")
    ends(near)
    found = boto3.client("s3", endpoint_url=s3)
    for each in found.list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]:
        fetched = tmp_path / "bucket" / each["Key"].removeprefix(f"{prefix}/")
        fetched.parent.mkdir(parents=True, exist_ok=True)
        found.download_file(BUCKET, each["Key"], str(fetched))
    check(near, {HUB: near.state / "artifacts", "bucket": tmp_path / "bucket"})


@pytest.mark.parametrize("step", steps("put with rclone"))
def test_putting_with_rclone(near: Fleet, tmp_path: Path, step: str) -> None:
    if shutil.which("rclone") is None:
        pytest.skip("no rclone: apt-get install rclone")
    (tmp_path / "far").mkdir()
    (tmp_path / "rclone.conf").write_text(f"[far]\ntype = alias\nremote = {tmp_path / 'far'}\n")
    remote = store("rclone", "far", remote="far:", config=str(tmp_path / "rclone.conf"))
    near.settle(**{**read_settings(near), "stores": [remote]})
    with Watch(tmp_path / "far", near.state / "artifacts") as watch:
        dies(near, f"put with rclone: {step}")
        ends(near)
    watch.check()
    check(near, {HUB: near.state / "artifacts", "far": tmp_path / "far"})
