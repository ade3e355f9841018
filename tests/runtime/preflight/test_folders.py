"""Folders that all nodes share, or do not; stores that keep what they are given, or do not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from hostler.runtime.preflight import Proof, Ran, asking, folders
from hostler.runtime.preflight.folders import prove_folder, prove_folder_here, prove_store
from hostler.stores.base import ObjectName, Pace
from hostler.stores.directory import DirectoryStore
from tests.patience import PATIENCE_S
from tests.runtime.preflight.clusters import Local, skip

MEANT = "/shared/checkpoints"


@dataclass
class Late(Local):
    """`w2` sees what others wrote the third time it looks."""

    looks: int = 0

    async def run(self, machine: str, argv: Sequence[str], timeout_s: float) -> Ran:
        ran = await super().run(machine, argv, timeout_s)
        self.looks += machine == "w2" and "read" in argv
        blind = machine == "w2" and "read" in argv and self.looks < 3
        return Ran(status=0, out='{"read": ["w2"]}', err="") if blind else ran


@dataclass
class Slow(Local):
    """Everything takes a third of the time that it may."""

    now: int = 0
    most: int = 0

    async def run(self, machine: str, argv: Sequence[str], timeout_s: float) -> Ran:
        self.now += 1
        self.most = max(self.most, self.now)
        skip(timeout_s / 3)
        await asyncio.sleep(0)
        self.now -= 1
        return Ran(status=0, out="{}", err="")


@dataclass
class Hurried(Local):
    """Time passes only where a machine has answered: the step of all others is over then."""

    async def run(self, machine: str, argv: Sequence[str], timeout_s: float) -> Ran:
        ran = await super().run(machine, argv, timeout_s)
        skip(timeout_s)
        return ran


def proved(cluster: Local) -> Proof:
    return asyncio.run(prove_folder(Path(MEANT), cluster))


def test_a_folder_that_all_share_is_proved_and_left_as_it_was(tmp_path: Path) -> None:
    cluster = Local(folders={"head": tmp_path, "w1": tmp_path, "w2/ü": tmp_path}, meant=MEANT)
    found = proved(cluster)
    assert (found.code, found.says) == (
        "store-ok",
        f"{MEANT}: what each of 3 nodes writes, all of them read",
    )
    assert list(tmp_path.iterdir()) == []
    assert [what for _, what in cluster.ran] == ["write"] * 3 + ["read"] * 3 + ["clean"]


def test_folders_of_one_name_are_not_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "BETWEEN_S", 0.01)
    (tmp_path / "own").mkdir()
    (tmp_path / "all").mkdir()
    both = {"head": tmp_path / "all", "w1": tmp_path / "all", "w2": tmp_path / "own"}
    found = proved(Local(folders=both, meant=MEANT))
    assert (found.code, found.health) == ("store-apart", "error")
    assert "w2: does not see what head w1 wrote" in found.says
    assert [*(tmp_path / "own").iterdir(), *(tmp_path / "all").iterdir()] == []


def test_only_who_did_not_see_it_all_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "BETWEEN_S", 0.01)
    seen = Late(folders=dict.fromkeys(("head", "w1", "w2"), tmp_path), meant=MEANT)
    assert proved(seen).code == "store-ok"
    assert [node for node, what in seen.ran if what == "read"] == ["head", "w1", "w2", "w2", "w2"]


def test_who_waits_for_a_turn_has_its_time_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "GRACE_S", 0.0)
    monkeypatch.setattr(asking, "AT_ONCE", 2)
    cluster = Slow(folders={f"n{at}": tmp_path for at in range(10)}, meant=MEANT)
    told = asyncio.run(asking.on_each(cluster, list(cluster.folders), lambda node: ("echo", node)))
    assert {node: each.get("error") for node, each in told.items()} == dict.fromkeys(cluster.folders)
    assert cluster.most == 2


def test_a_node_without_the_folder_is_named(tmp_path: Path) -> None:
    found = proved(Local(folders={"head": tmp_path, "w1": tmp_path / "missing"}, meant=MEANT))
    assert found.code == "store-unwritable"
    assert "w1: " in found.says
    assert "No such file or directory" in found.says
    assert list(tmp_path.iterdir()) == []


def test_a_node_that_hangs_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "STEP_S", PATIENCE_S)
    monkeypatch.setattr(asking, "GRACE_S", 0.0)
    found = proved(Hurried(folders={"head": tmp_path, "w1": tmp_path}, meant=MEANT, hangs=frozenset({"w1"})))
    assert found.code == "store-unwritable"
    assert f"w1: did not answer within {PATIENCE_S:g} s" in found.says


def test_a_cluster_that_is_away_is_told(tmp_path: Path) -> None:
    assert proved(Local(folders={"head": tmp_path}, meant=MEANT, away=True)).code == "store-unreached"
    assert asyncio.run(prove_folder(Path(MEANT), None)).health == "unknown"


def test_a_folder_of_this_machine_is_tried_itself(tmp_path: Path) -> None:
    assert prove_folder_here(tmp_path).code == "store-ok"
    assert list(tmp_path.iterdir()) == []
    missing = prove_folder_here(tmp_path / "missing")
    assert missing.code == "store-unwritable"
    assert "No such file" in missing.says


def test_a_store_keeps_what_it_is_given_and_has_nothing_left_of_it(tmp_path: Path) -> None:
    found = prove_store("nas", DirectoryStore(tmp_path))
    assert (found.code, found.says) == ("store-ok", "nas keeps what it is given")
    assert list(DirectoryStore(tmp_path).listed()) == []


def test_a_store_that_is_not_mounted_is_told(tmp_path: Path) -> None:
    found = prove_store("nas", DirectoryStore(tmp_path / "missing"))
    assert (found.code, found.health) == ("store-unreached", "error")
    assert "mount what it lies on" in found.says


def test_a_store_that_gives_back_something_else_is_told(tmp_path: Path) -> None:
    class Forgets(DirectoryStore):
        def get(self, name: ObjectName, target: Path, pace: Pace) -> None:
            self._path(name).write_bytes(b"x" * 4096)
            super().get(name, target, pace)

    assert prove_store("nas", Forgets(tmp_path)).code == "store-unwritable"
