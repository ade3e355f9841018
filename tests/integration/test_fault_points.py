"""The controller dies, as by `kill -9`, at each step of fetching, copying and deleting: nothing accepted is lost.

The steps are in `points/faultpoints.py`. A life story is one fleet whose controllers die one after the other, each at
the next step; the last one brings everything to its end. After each death, and all the time besides, every file that
has an artifact's name is hashed. In the end every copy that is told of is hashed again, all that is wanted is there, no
game counts twice, and nothing half is left anywhere.

One story with a few of the steps is in `make test-long`, one for each way with all its steps in `make faults`
(`LAB_FAULTS=all`).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import yaml

from hostler.model.artifacts import HUB, Standing
from hostler.model.events import SegmentsMade
from hostler.workloads.alphazero.shelf import numbers_of
from tests.backends.ssh import sshd
from tests.integration.conftest import NODE, Fleet, View, a_fleet, until
from tests.integration.loops import LOOP_PATIENCE_S, STAGES, flip, journal_of
from tests.integration.points.faultpoints import POINTS
from tests.integration.test_copies import copies_by_standing
from tests.integration.test_loop_commands import PROGRAM, own
from tests.integration.test_node_disks import ANY_DISK_IS_FULL, SEGMENT
from tests.integration.test_retention import AT_ONCE, FULL, WINDOW
from tests.livefolders import files_below
from tests.stores.conftest import BUCKET, s3

pytestmark = pytest.mark.long

__all__ = ["s3"]
HOOK = Path(__file__).parent / "points"
ALL = os.environ.get("LAB_FAULTS") == "all"
in_full = pytest.mark.skipif(not ALL, reason="takes minutes: `make faults`")
GOAL = {"promotions": 1, "candidates": 5, "failures": 3}
ENDLESS = {"promotions": 1000, "candidates": 1000, "failures": 1000}
"""A loop that has work for a controller, whenever that is to die."""
FULL_NODES = {"targets": ANY_DISK_IS_FULL}
OBJECT = re.compile(r"(?P<sha256>[0-9a-f]{64})(\.[a-z]+)+")
PAD = 300_000
"""Bytes by which segments are larger than what files hold back before they write."""
LOOK_S = 0.1
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
        """Nothing is there, nor was seen before, that is not what its name says."""
        self._hash_new()
        assert self.wrong == []

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            self._hash_new()

    def _hash_new(self) -> None:
        for path in (path for root in self._roots for path in objects(root)):
            if path not in self._known:
                self._hash(path)
                self._known.add(path)

    def _hash(self, path: Path) -> None:
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return  # set aside
        if hashlib.sha256(content).hexdigest() != path.name[:64]:
            self.wrong.append(f"{path}: {len(content)} bytes")


def objects(root: Path) -> list[Path]:
    """The files below a store's root that have an artifact's name."""
    return [path for path in root.glob("objects/*/*") if OBJECT.fullmatch(path.name)]


@contextmanager
def deadly(fleet: Fleet, point: str) -> Iterator[Path]:
    """Controllers that are launched within die at this point."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HOOK))
        patch.setenv("FAULT_POINT", point)
        patch.setenv("FAULT_STRUCK", str(fleet.path / "struck"))
        yield fleet.path / "struck"


def dies(fleet: Fleet, point: str, *options: str) -> None:
    """A controller comes to this point, and no further."""
    with deadly(fleet, point) as struck:
        struck.unlink(missing_ok=True)
        status = fleet.launch(*options).wait(LOOP_PATIENCE_S)
    assert (status, struck.read_text() if struck.exists() else None) == (-signal.SIGKILL, point), fleet.log()


def ends(fleet: Fleet) -> None:
    """A controller brings everything to its end."""
    assert fleet.launch("--until-idle").wait(LOOP_PATIENCE_S) == 0, fleet.log()


def changes(fleet: Fleet, **settings: object) -> None:
    """The next controller has other settings."""
    read: View = yaml.safe_load(fleet.file.read_text())
    fleet.settle(**{**read, **settings})


def plays(fleet: Fleet, goal: View = ENDLESS, **options: object) -> None:
    """The next controller has a loop with this goal."""
    changes(fleet, configs=[loop(fleet.path, goal, **options)])


def of(way: str, *steps: str) -> list[str]:
    """Points of a way: all, unless some are named."""
    return [f"{way}: {step}" for step in steps or POINTS[way]]


def die(fleet: Fleet, watch: Watch, points: Iterable[str], before: Callable[[], object] = lambda: None) -> None:
    """One controller after the other, each at its point; what can be seen then is what it is named."""
    for point in points:
        before()
        dies(fleet, point)
        watch.check()


def store(kind: str, name: str, **more: object) -> View:
    return {"name": name, "kind": kind, "domain": name, "reserve_gb": 0.0, **more}


def loop(folder: Path, goal: View, *, segments: int = 8, games: int = 64, **options: object) -> View:
    """A small loop of somebody's own whose program travels with it, and whose segments are large enough to be cut."""
    shutil.copy(PROGRAM, folder)
    (folder / ".hostlerignore").write_text("/state\n/shelf\n/attic\n/sshd\n/far\n/struck*\n*.log\n*.yaml\n*.conf\n")
    config = own("coins", idle_after=goal)
    for stage in STAGES:
        config[stage] |= {"command": ["{python}", PROGRAM.name, stage]}
    config["selfplay"] = {
        **config["selfplay"], "games": games, "segment_games": games // segments, "options": {"pad": PAD, **options},
    }  # fmt: skip
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
    left += [path for root in roots.values() for path in files_below(root / "incoming")]
    return left + list(files_below(fleet.state / "incoming"))


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet of two nodes behind a real SSH server, of which one plays and the other learns, and a store."""
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
            stores=[shelf(tmp_path)],
        )
        yield fleet


@pytest.fixture
def near(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet on this machine, and a store."""
    with a_fleet(tmp_path, stores=[shelf(tmp_path)], nodes=[NODE]) as fleet:
        yield fleet


def shelf(folder: Path, name: str = "shelf") -> View:
    """A store in a directory."""
    (folder / name).mkdir()
    return store("directory", name, path=str(folder / name))


def rclone(folder: Path) -> list[View]:
    """A store behind rclone, where there is such a program."""
    if shutil.which("rclone") is None:
        return []
    (folder / "far").mkdir()
    (folder / "rclone.conf").write_text(f"[far]\ntype = alias\nremote = {folder / 'far'}\n")
    return [store("rclone", "far", remote="far:", config=str(folder / "rclone.conf"))]


def places(fleet: Fleet) -> dict[str, Path]:
    """Its own store, and those that are folders here."""
    stores = [each["name"] for each in yaml.safe_load(fleet.file.read_text())["stores"]]
    return {HUB: fleet.state / "artifacts", **{name: fleet.path / name for name in stores}}


def check_nodes(fleet: Fleet) -> None:
    """What lies on its nodes is what it is named."""
    for path in (path for root in folders_of_nodes(fleet) for path in objects(root)):
        assert sha256_of(path) == path.name[:64], path


def comes_to_its_goal(fleet: Fleet, watch: Watch) -> None:
    """The last controller of a story, which reads all again: what the loop has made is as it should be."""
    plays(fleet, GOAL)
    long_unread(fleet)
    ends(fleet)
    watch.check()
    check(fleet, places(fleet))


@no_sshd
def test_a_life_of_many_deaths(far: Fleet) -> None:
    """One of most ways, all in one life."""
    with Watch(*places(far).values()) as watch:
        plays(far, segments=32)
        die(far, watch, of("pull at the end", "partial"))
        die(far, watch, of("pull many", "half of them named"))
        die(far, watch, of("send", "partial"))
        plays(far, segments=32, pause_s=0.1)
        die(far, watch, of("pull early", "told"))
        die(far, watch, of("put", "durable"))
        die(far, watch, of("gather", "written"), lambda: strip(far))
        comes_to_its_goal(far, watch)
    check_nodes(far)


@in_full
@no_sshd
@pytest.mark.parametrize("way", ["send", "pull at the end", "pull many"])
def test_files_of_nodes(far: Fleet, way: str) -> None:
    with Watch(*places(far).values()) as watch:
        plays(far, segments=64 if way == "pull many" else 16, pad=100 if way == "pull many" else PAD)
        die(far, watch, of(way))
        comes_to_its_goal(far, watch)
    check_nodes(far)


@in_full
@no_sshd
def test_what_is_closed_while_an_attempt_runs(far: Fleet) -> None:
    with Watch(*places(far).values()) as watch:
        plays(far, segments=32, pause_s=0.5)
        die(far, watch, of("pull early"))
        comes_to_its_goal(far, watch)
    check_nodes(far)


@in_full
def test_putting_into_a_store(near: Fleet) -> None:
    with Watch(*places(near).values()) as watch:
        plays(near)
        die(near, watch, of("put"))
        comes_to_its_goal(near, watch)


@in_full
def test_putting_with_rclone(near: Fleet, tmp_path: Path) -> None:
    changes(near, stores=rclone(tmp_path))
    if "far" not in places(near):
        pytest.skip("no rclone: apt-get install rclone")
    with Watch(*places(near).values()) as watch:
        plays(near)
        die(near, watch, of("put with rclone"))
        comes_to_its_goal(near, watch)


@in_full
def test_getting_what_was_damaged_out_of_a_store(near: Fleet) -> None:
    with Watch(near.path / "shelf") as watch:
        plays(near, GOAL)
        ends(near)
        damaged: set[str] = set()
        for point in of("get"):
            damaged.add(spoil(near).name)
            dies(near, point, "--until-idle")
            watch.check()
        comes_to_its_goal(near, watch)
    assert {path.name for path in (near.state / "artifacts" / "quarantine").iterdir()} == damaged


@in_full
def test_gathering_what_work_needs(near: Fleet) -> None:
    """At each death it needs what was copied before, and only the store has."""
    with Watch(*places(near).values()) as watch:
        plays(near, {**GOAL, "promotions": 1})
        ends(near)
        plays(near)
        die(near, watch, of("gather"), lambda: strip(near))
        comes_to_its_goal(near, watch)


@in_full
def test_deleting_what_is_spare(near: Fleet, tmp_path: Path) -> None:
    """As the disk is too full; each step is gone on from, and what has gone is elsewhere twice."""
    changes(near, stores=[store("directory", "shelf", path=str(tmp_path / "shelf")), shelf(tmp_path, "attic")])
    with Watch(*places(near).values()) as watch:
        beyond = loop(tmp_path, GOAL, games=32)
        changes(near, configs=[{**beyond, "export": {**beyond["export"], **WINDOW}}])
        ends(near)
        made = set(objects(near.state / "artifacts"))
        keeping = {"retention": {**AT_ONCE, "grace_s": 0.0, "mode": "clean"}, "scheduling": FULL}
        changes(near, configs=[], **keeping)
        die(near, watch, of("delete"))
        near.start()
        until(lambda: not near.client.disk_tombstones(), "the end of their grace", log=near.log)
        near.signal(signal.SIGTERM)
        assert near.ended() == 0
        watch.check()
    gone = made - set(objects(near.state / "artifacts"))
    assert gone
    found = copies_by_standing(near, places(near))
    assert all(counts <= {2, 3} for standing, counts in found.items() if standing is not Standing.DATASET), found
    assert halves(near, places(near)) == []
    check_counts(near)


@in_full
@no_sshd
def test_dropping_what_nodes_need_not_keep(far: Fleet) -> None:
    """As their disks are too full; before each death the nodes have all of it, and have not used it for hours."""
    with Watch(*places(far).values()) as watch:
        plays(far, GOAL)
        ends(far)
        changes(far, configs=[], retention={**AT_ONCE, "mode": "clean"}, scheduling=FULL_NODES)
        die(far, watch, of("drop"), lambda: fill(far))
        fill(far)
        far.start()
        until(lambda: not games_on_nodes(far), "the end of what nodes need not keep", log=far.log)
        far.signal(signal.SIGTERM)
        assert far.ended() == 0
        watch.check()
    check(far, places(far))


@in_full
def test_reading_back_what_is_new(near: Fleet) -> None:
    with Watch(*places(near).values()) as watch:
        plays(near)
        die(near, watch, of("read back"))
        comes_to_its_goal(near, watch)


def fill(fleet: Fleet) -> None:
    """The artifact folders of nodes have all games that there are, and nobody has used them for hours."""
    home, at = fleet.state / "artifacts", time.time() - 5 * 3600
    for folder in folders_of_nodes(fleet):
        for path in (each for each in objects(home) if each.name.endswith(SEGMENT)):
            there = folder / path.relative_to(home)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, there)
        for path in objects(folder):
            os.utime(path, (at, at))


def games_on_nodes(fleet: Fleet) -> list[Path]:
    return [path for folder in folders_of_nodes(fleet) for path in objects(folder) if path.name.endswith(SEGMENT)]


def folders_of_nodes(fleet: Fleet) -> list[Path]:
    """Where work on its nodes finds artifacts."""
    return [
        path.parent for name in ("player", "learner") for path in (fleet.state / name).glob("*/*/artifacts/objects")
    ]


def strip(fleet: Fleet) -> None:
    """What was copied to a store is nowhere else any more."""
    home, copied = fleet.state / "artifacts", objects(fleet.path / "shelf")
    assert copied
    for each in copied:
        (home / each.relative_to(fleet.path / "shelf")).unlink(missing_ok=True)


def spoil(fleet: Fleet) -> Path:
    """Damage a segment that there is a copy of, and have it read again soon."""
    copied = {path.name for path in objects(fleet.path / "shelf")}
    whole = [path for path in objects(fleet.state / "artifacts") if path.name in copied and "segment" in path.name]
    damaged = next(path for path in sorted(whole) if sha256_of(path) == path.name[:64])
    flip(damaged)
    long_unread(fleet, damaged)
    return damaged


def long_unread(fleet: Fleet, *paths: Path) -> None:
    """As if these copies in the controller's own store had been read last half a century ago; or all but datasets.

    Of these, one copy is wanted: another would be made while that is in doubt.
    """
    names = [path.name[:64] for path in paths]
    chosen = (
        f"sha256 IN ({', '.join('?' * len(names))})"
        if names
        else "sha256 IN (SELECT sha256 FROM artifacts WHERE kind != 'dataset')"
    )
    with closing(sqlite3.connect(fleet.state / "journal.sqlite")) as journal, journal:
        journal.execute(f"UPDATE copies SET verified_at = 0 WHERE place = '{HUB}' AND {chosen}", names)
        journal.execute(f"UPDATE artifacts SET settled_on = NULL WHERE {chosen}", names)


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@in_full
def test_putting_into_a_bucket(s3: str, near: Fleet, tmp_path: Path) -> None:
    import boto3

    prefix = tmp_path.name
    changes(near, stores=[store("s3", "bucket", bucket=BUCKET, prefix=prefix, endpoint=s3)])
    with Watch(near.state / "artifacts") as watch:
        plays(near)
        die(near, watch, of("put into a bucket"))
        plays(near, GOAL)
        ends(near)
        watch.check()
    found = boto3.client("s3", endpoint_url=s3)
    for each in found.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix).search("Contents"):
        fetched = tmp_path / "bucket" / each["Key"].removeprefix(f"{prefix}/")
        fetched.parent.mkdir(parents=True, exist_ok=True)
        found.download_file(BUCKET, each["Key"], str(fetched))
    check(near, {HUB: near.state / "artifacts", "bucket": tmp_path / "bucket"})
