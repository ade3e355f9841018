"""Nodes' artifact folders are cleaned: what goes, what stays, and what is told of it. The agent's part is real."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from hostler.agent import stock as agent
from hostler.agent.files import ENDINGS
from hostler.backends.base import Removed, Stock, Stocked
from hostler.model.artifacts import HUB
from hostler.model.disks import Keeping
from hostler.model.errors import FilesError, LinkLost, NotFound, UsageError
from hostler.model.events import FilesDropped, FilesDropping
from hostler.model.inputs import CopiesTold, Input
from hostler.model.rules import Targets
from hostler.runtime.disks import nodes
from hostler.runtime.disks.nodes import FRESH_S, VAIN_S, NodeCleaner
from hostler.runtime.disks.surveying import Survey
from tests.runtime.disks.yard import COPIES, RULES, SUFFIX, Yard

HOUR = 3600.0
GB = 1 << 30


class Node:
    """A node with a folder; each artifact there is said to take a tenth of its disk."""

    kind = "ssh"

    def __init__(self, root: Path, total: int = 1000 * GB) -> None:
        self.root = root
        self.total = total
        self.dropped: list[list[str]] = []
        self.listed = 0
        self.before_drop: Callable[[], None] = lambda: None
        self.fault: Exception | None = None
        self.environments: list[str] = []
        self.asked_for: list[tuple[int, float]] = []

    def put(self, name: str, age_s: float = 5 * HOUR, content: bytes = b"games") -> Path:
        path = self.root / "artifacts" / "objects" / name[:2] / (name + SUFFIX)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        at = path.stat().st_mtime - age_s
        os.utime(path, (at, at))
        return path

    def here(self) -> set[str]:
        return {path.name[:64] for path in self.root.glob("artifacts/objects/*/*")}

    async def stock(self, after: str, limit: int) -> Stock:
        self.listed += 1
        if self.fault is not None:
            raise self.fault
        told = agent.listed(str(self.root), ENDINGS, {"after": after, "limit": limit})
        files = tuple(Stocked(name=name, bytes=self.total // 10, unused_s=age) for name, _, age in told["files"])
        return Stock(files=files, more=told["more"], total_bytes=self.total, free_bytes=self.free())

    async def drop(self, names: Sequence[str], unused_s: float) -> Removed:
        self.before_drop()
        if self.fault is not None:
            raise self.fault
        self.dropped.append(list(names))
        told = agent.drop(str(self.root), ENDINGS, {"names": names, "unused_s": unused_s})
        return Removed(gone=dict(told["gone"]), left=told["left"], free_bytes=self.free())

    async def drop_environments(self, wanted_bytes: int, unused_s: float) -> Removed:
        self.asked_for.append((wanted_bytes, unused_s))
        gone = dict.fromkeys(self.environments[: -(-wanted_bytes // (self.total // 10))], self.total // 10)
        self.environments = [key for key in self.environments if key not in gone]
        return Removed(gone=gone, left={}, free_bytes=self.free())

    def free(self) -> int:
        return self.total - (len(self.here()) + len(self.environments)) * self.total // 10


class World:
    """A yard, and a node that is cleaned by it."""

    def __init__(self, path: Path, mode: str = "clean") -> None:
        self.yard = Yard(path)
        self.node = Node(path / "node")
        self.node.root.mkdir()
        self.needed: set[str] = set()
        self.full = True
        self.cleaner = NodeCleaner(
            {"rig": self.node, "here": object()},  # type: ignore[dict-item]
            Survey({}, self.yard.journal, COPIES),
            self.yard.located,
            Keeping(mode=mode, rules=RULES),  # type: ignore[arg-type]
            self.yard.clock,
            now=lambda: self.yard.clock.at,
            needed=lambda _: frozenset(self.needed),
            is_full=lambda _: self.full,
            targets=lambda: Targets(disk_roomy_gb=1e6),
            tell=self.yard.tell,
            trouble=self.yard.troubles.append,
        )

    def played(self, number: int, age_s: float, *places: str) -> str:
        """A segment that was played on the node and has come to the controller's store, and to these."""
        content = b"games %d" % number
        name = self.yard.segment(content, exported=False)
        asyncio.run(self.yard.copy(name, *places))
        self.node.put(name, age_s, content)
        return name

    def turn(self) -> None:
        asyncio.run(self.cleaner.turn("rig"))

    def plan(self) -> list[str]:
        return [str(each.sha256) for each in asyncio.run(self.cleaner.plan("rig", 10**6, fresh=True))]

    def clean(self, *files: str, most: int = 1000) -> Any:
        return asyncio.run(self.cleaner.clean("rig", "ann", files or None, most))

    def told(self, kind: type) -> list[Any]:
        return self.yard.told(kind)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.yard.journal.close()


def path_of(name: str) -> str:
    return f"artifacts/objects/{name[:2]}/{name}{SUFFIX}"


def test_what_was_not_used_for_longest_goes_until_the_disk_is_below_its_warning(world: World) -> None:
    names = [world.played(number, (10 - number) * HOUR, "shelf") for number in range(8)]
    world.turn()
    assert world.node.here() == set(names[3:]), "of eight tenths less than six are left, the newest of them"
    (dropping,), (dropped,) = world.told(FilesDropping), world.told(FilesDropped)
    assert [each.path for each in dropping.files] == [path_of(name) for name in names[:3]]
    assert (dropping.node, dropping.who, dropped.node) == ("rig", "retention", "rig")
    assert {each.rule for each in dropping.files} == {"cache"}
    assert [{copy.place for copy in each.proof} for each in dropping.files] == [{HUB, "shelf"}] * 3
    assert dropped.files == tuple(each.path for each in dropping.files)
    assert dropped.bytes == sum(each.bytes for each in dropping.files)
    assert all(world.yard.known_copies(name) == {HUB, "shelf"} for name in names), "what counts is as it was"
    assert world.yard.troubles == []


def test_what_is_needed_unproven_unknown_or_fresh_stays(world: World) -> None:
    goes = world.played(0, 9 * HOUR, "shelf")
    world.needed = {world.played(1, 9 * HOUR, "shelf")}
    alone = world.played(2, 9 * HOUR)
    fresh = world.played(3, HOUR / 2, "shelf")
    world.node.put("ab" * 32)
    stale = world.played(4, 9 * HOUR, "shelf")
    asyncio.run(world.yard.tell(CopiesTold(place="shelf", damaged=(stale,), why="read")))
    assert world.plan() == [goes]
    world.clean()
    world.full, world.node.total = True, GB
    world.turn()
    assert world.node.here() == {*world.needed, alone, fresh, stale, "ab" * 32}
    stays = {each.why: each.files for each in world.cleaner.retention("rig").stays}
    assert sorted(stays.values()) == [1, 1, 1, 2]


def test_an_artifact_of_which_the_node_keeps_a_copy_that_counts_stays(world: World) -> None:
    name = world.played(0, 9 * HOUR, "shelf", "attic")
    world.yard.located["attic"].node = "rig"
    assert world.plan() == []
    world.yard.located["attic"].node = "another"
    assert world.plan() == [name]


def test_a_dry_run_removes_nothing_unless_somebody_asks(tmp_path: Path) -> None:
    world = World(tmp_path, mode="dry-run")
    name = world.played(0, 9 * HOUR, "shelf")
    world.turn()
    asyncio.run(world.cleaner.run())
    assert (world.node.here(), world.node.listed) == ({name}, 0)
    assert world.clean().files == (path_of(name),)
    assert world.told(FilesDropping)[0].who == "ann"
    world.yard.journal.close()


def test_a_disk_that_is_not_full_is_left_alone(world: World) -> None:
    name = world.played(0, 9 * HOUR, "shelf")
    world.full = False
    world.turn()
    assert world.node.listed == 0
    world.full = True  # as was heard of it; now it is not
    world.turn()
    assert world.node.here() == {name}


def test_what_came_to_be_needed_since_the_plan_was_made_stays(world: World) -> None:
    names = [world.played(number, 9 * HOUR, "shelf") for number in range(2)]
    assert set(world.plan()) == set(names)
    world.needed = {names[0]}
    done = world.clean()
    assert done.files == (path_of(names[1]),)
    assert [(each.path, each.why) for each in done.left] == [(path_of(names[0]), "a job that is not over uses it")]


def test_what_lost_its_proof_since_stays(world: World) -> None:
    name = world.played(0, 9 * HOUR, "shelf")
    assert world.plan() == [name]
    world.yard.located["shelf"].keeps = False
    assert world.clean().files == ()
    assert world.node.dropped == []
    assert world.told(FilesDropping) == []


def test_what_work_was_told_to_be_there_at_the_last_moment_stays(world: World) -> None:
    name = world.played(0, 9 * HOUR, "shelf")
    world.node.before_drop = lambda: os.utime(world.node.root / path_of(name))
    done = world.clean()
    assert (done.files, [each.why for each in done.left]) == ((), ["it was used of late"])
    assert len(world.told(FilesDropping)) == 1
    assert world.told(FilesDropped) == []


def test_a_round_is_bounded_and_the_next_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "TOGETHER", 2)
    monkeypatch.setattr(nodes, "ROUND", 4)
    for number in range(10):
        world.played(number, 9 * HOUR, "shelf")
    world.node.total, world.node.free = GB, lambda: 0  # type: ignore[method-assign]
    world.turn()
    assert [len(each) for each in world.node.dropped] == [2, 2]
    world.turn()
    world.turn()
    assert len(world.node.here()) == 0
    assert world.node.listed == 1, "by the same plan"


def test_files_go_by_name_and_no_more_than_are_asked_for(world: World) -> None:
    names = [world.played(number, (9 - number) * HOUR, "shelf") for number in range(4)]
    done = world.clean(path_of(names[2]), "artifacts/objects/README")
    assert done.files == (path_of(names[2]),)
    assert [each.path for each in done.left] == ["artifacts/objects/README"]
    done = world.clean(most=2)
    assert (done.files, done.more, done.until) == ((path_of(names[0]), path_of(names[1])), 1, None)


def test_what_does_not_answer_is_recorded_once_and_tried_again(world: World) -> None:
    world.played(0, 9 * HOUR, "shelf")
    world.node.total, world.node.fault = GB, FilesError("rig: Permission denied")
    for _ in range(3):
        world.turn()
        world.yard.clock.at += VAIN_S
    assert world.yard.troubles == ["the disk of rig cannot be cleaned: rig: Permission denied"]
    assert world.node.listed == 3
    assert world.cleaner.retention("rig").trouble == world.yard.troubles[0]
    world.node.fault, world.node.free = None, lambda: 0  # type: ignore[method-assign]
    world.turn()
    assert world.node.here() == set()
    assert world.cleaner.retention("rig").trouble is None


def test_a_node_that_is_cut_off_in_between_loses_no_word_of_what_was_to_go(world: World) -> None:
    name = world.played(0, 9 * HOUR, "shelf")

    def cut() -> None:
        world.node.fault = LinkLost("rig is not connected")

    world.node.before_drop = cut
    with pytest.raises(LinkLost):
        world.clean()
    assert [each.path for each in world.told(FilesDropping)[0].files] == [path_of(name)]
    assert world.told(FilesDropped) == []


def test_where_nothing_may_go_it_is_not_looked_again_at_once(world: World) -> None:
    for number in range(8):
        world.played(number, 9 * HOUR)
    world.turn()
    world.yard.clock.at += VAIN_S / 2
    world.turn()
    assert world.node.listed == 1
    world.yard.clock.at += max(VAIN_S, FRESH_S)
    world.turn()
    assert world.node.listed == 2


def test_a_list_without_end_is_no_list(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        world.played(number, 9 * HOUR, "shelf")
    monkeypatch.setattr(nodes, "PAGE", 1)
    assert len(world.plan()) == 3
    stock = world.node.stock

    async def again(after: str, limit: int) -> Stock:
        return await stock("", limit)

    monkeypatch.setattr(world.node, "stock", again)
    with pytest.raises(FilesError, match="no end"):
        world.plan()


@pytest.mark.parametrize("wrong", [[1, 0], [0, 0], [0, 1, 1]])
def test_a_page_without_order_is_no_list(world: World, monkeypatch: pytest.MonkeyPatch, wrong: list[int]) -> None:
    names = sorted(world.played(number, 9 * HOUR, "shelf") for number in range(2))
    files = tuple(Stocked(name=names[each] + SUFFIX, bytes=1, unused_s=9 * HOUR) for each in wrong)

    async def stock(after: str, limit: int) -> Stock:
        return Stock(files=files, more=False, total_bytes=GB, free_bytes=0)

    monkeypatch.setattr(world.node, "stock", stock)
    with pytest.raises(FilesError, match="no order"):
        world.plan()


def test_a_list_that_goes_on_and_on_is_no_list(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stock(after: str, limit: int) -> Stock:
        number = int(after[:64] or "0", 16) + 1
        files = (Stocked(name=f"{number:064x}{SUFFIX}", bytes=1, unused_s=9 * HOUR),)
        return Stock(files=files, more=True, total_bytes=GB, free_bytes=0)

    monkeypatch.setattr(nodes, "LISTED_MOST", 20)
    monkeypatch.setattr(world.node, "stock", stock)
    with pytest.raises(FilesError, match="more than 20 artifacts"):
        world.plan()


@pytest.mark.parametrize("why", ["Read-only file system", None])
def test_a_node_that_keeps_everything_is_a_trouble_and_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, why: str | None
) -> None:
    """Whatever is told of before it goes is in the journal for good."""
    monkeypatch.setattr(nodes, "TOGETHER", 2)
    for number in range(10):
        world.played(number, 9 * HOUR, "shelf")

    async def drop(names: Sequence[str], unused_s: float) -> Removed:
        world.node.dropped.append(list(names))
        return Removed(gone={}, left={} if why is None else dict.fromkeys(names, why), free_bytes=0)

    monkeypatch.setattr(world.node, "drop", drop)
    for _ in range(3):
        world.turn()
        world.yard.clock.at += VAIN_S / 2
    assert len(world.node.dropped) == 2
    assert len(world.told(FilesDropping)) == 2
    (trouble,) = world.yard.troubles
    assert "keeps what may go, artifacts/objects/" in trouble
    assert (why or "does not say what became of it") in trouble
    assert len(world.clean(most=3).left) == 3, "each is told of, also where the node says nothing"
    assert len(world.node.here()) == 10


def test_who_has_no_such_folder_is_told_so(world: World) -> None:
    with pytest.raises(NotFound, match="hostler node list"):
        world.cleaner.retention("nobody")
    with pytest.raises(UsageError, match="behind SSH"):
        world.cleaner.retention("here")
    with pytest.raises(UsageError, match="leads nowhere"):
        asyncio.run(world.cleaner.plan("rig", 1, ["artifacts/objects/ab/x"], fresh=True))
    assert world.cleaner.retention("rig").looked_at is not None


def test_nothing_is_told_of_what_others_put_there(world: World) -> None:
    told: list[Input] = []
    world.yard.on_told = told.append
    (world.node.root / "artifacts" / "objects" / "ab").mkdir(parents=True)
    (world.node.root / "artifacts" / "objects" / "ab" / "README").write_text("mine")
    assert world.plan() == []
    assert told == []


def test_unused_environments_go_where_artifacts_are_not_enough(world: World) -> None:
    world.node.environments = [f"key{number}" for number in range(8)]
    for number in range(2):
        world.played(number, 5 * HOUR, "shelf")
    world.turn()
    assert world.node.here() == set(), "artifacts first"
    left = len(world.node.environments)
    assert 0 < left < 8
    dropped = world.told(FilesDropped)[-1]
    assert dropped.files == tuple(f"environments/key{number}" for number in range(8 - left))
    assert dropped.bytes == (8 - left) * world.node.total // 10
    assert [unused_s for _, unused_s in world.node.asked_for] == [nodes.unused_s(RULES)]


def test_environments_stay_while_artifacts_are_enough(world: World) -> None:
    world.node.environments = ["key0"]
    for number in range(8):
        world.played(number, 5 * HOUR, "shelf")
    world.turn()
    assert (world.node.environments, world.node.asked_for) == (["key0"], [])
