"""`hostler disk` on a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.conftest import Hostler
from tests.test_client import announce
from tests.web.core_desk import Window, window
from tests.web.worlds import doomed, whole_world


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Window]:
    """A controller whose disk is full."""
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    desk = whole_world()
    desk.may_go.append(doomed(f"artifacts/objects/ab/{'ab' * 32}.segment.npz", 12_345_678))
    with window(desk) as made:
        announce(tmp_path / "state", made.port)
        yield made


def test_the_plan_can_be_read_line_by_line(full: Window, hostler: Hostler) -> None:
    said = hostler("disk", "plan")
    assert (said.status, said.err) == (0, "")
    assert all(line.isprintable() and len(line) <= 80 for line in said.out.splitlines())
    assert [
        words
        for words in ("it is full", "dry run", "logs/j0.1/out", "bucket", "MAY GO", "STAYS")
        if words not in said.out
    ] == []
    told = hostler("disk", "plan", "--json").json
    assert (len(told["may_go"]), len(told["tombstones"]), told["disk"]["mode"]) == (4, 2, "dry-run")


def test_nothing_is_done_without_a_yes(full: Window, hostler: Hostler) -> None:
    said = hostler("disk", "clean")
    assert (said.status, "say --yes" in said.out) == (0, True)
    assert len(hostler("disk", "clean", "--json").json["would_go"]) == 4
    assert len(full.desk.may_go) == 4


def test_it_goes_in_as_many_requests_as_it_takes(full: Window, hostler: Hostler) -> None:
    full.desk.may_go += [replace(full.desk.may_go[0], path=f"logs/j{number}.1/out") for number in range(10, 500)]
    said = hostler("disk", "clean", "--yes")
    assert (said.status, said.err) == (0, "")
    assert "494 files" in said.out
    assert full.desk.may_go == []


def test_some_go_and_come_back(full: Window, hostler: Hostler) -> None:
    assert "1 file " in hostler("disk", "clean", "--yes", "logs/j1.1/out").out
    assert len(full.desk.may_go) == 3
    said = hostler("disk", "undo", "logs/j1.1/out", "logs/nobody/out")
    assert "1 file " in said.out
    assert "logs/nobody/out stays" in said.out
    assert len(hostler("disk", "undo", "--all", "--json").json["files"]) == 2
    assert full.desk.buried == []


def test_a_node_has_its_own_plan_and_nothing_of_it_comes_back(full: Window, hostler: Hostler) -> None:
    path = f"artifacts/objects/cd/{'cd' * 32}.dataset.npz"
    full.desk.may_go.append(replace(doomed(path, 12_345_678), rule="cache"))
    (node, *_) = [each["name"] for each in full.get("/api/v1/nodes").json]
    said = hostler("disk", "plan", "--node", node)
    assert (said.status, said.err) == (0, "")
    assert all(line.isprintable() and len(line) <= 80 for line in said.out.splitlines())
    assert "logs/j0.1" not in said.out
    assert "brought back" not in said.out
    assert len(hostler("disk", "clean", "--node", node, "--json").json["would_go"]) == 1
    done = hostler("disk", "clean", "--node", node, "--yes")
    assert (done.status, "1 file " in done.out, "undo" in done.out) == (0, True, False)
    assert (len(full.desk.may_go), len(full.desk.buried)) == (4, 2)
    assert hostler("disk", "plan", "--node", "nobody").status != 0


@pytest.mark.parametrize("words", [("clean", "--yes", "/etc/passwd"), ("undo",), ("undo", "--all", "logs/j1.1/out")])
def test_what_cannot_be_is_said(full: Window, hostler: Hostler, words: tuple[str, ...]) -> None:
    said = hostler("disk", *words)
    assert (said.status, said.out) == (2, "")
    assert "disk plan" in said.err or "--all" in said.err
    assert len(full.desk.may_go) == 4
