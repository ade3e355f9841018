"""`hostler artifact` in front of a loop's artifacts, one of which really lies in the controller's store."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hostler.cli.main import run
from hostler.model.artifacts import HUB
from hostler.model.inputs import CopiesTold
from hostler.web.desk import Content
from tests.cli.conftest import Hostler
from tests.test_client import announce
from tests.web.core_desk import Window, window
from tests.web.kept import made
from tests.web.worlds import ARTIFACT, FILES, HOSTILE, whole_world

SHORT = ARTIFACT[:12]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Window]:
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    with window(whole_world()) as served:
        announce(tmp_path / "state", served.port)
        yield served


@pytest.fixture(scope="module")
def still_served() -> Iterator[Window]:
    with window(whole_world()) as served:
        yield served


@pytest.fixture
def still(still_served: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Window:
    """The same for all commands that change nothing."""
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    announce(tmp_path / "state", still_served.port)
    return still_served


def test_lists_fit_a_terminal(kept: Window, hostler: Hostler) -> None:
    kept.tell(CopiesTold(place="a-place-with-a-long-name", verified=(ARTIFACT,)))
    kept.tell(CopiesTold(place="shelf", damaged=(ARTIFACT,), why="bits"))
    made(kept.desk.driver, b"of another config", config=HOSTILE)
    said = hostler("artifact", "list", "--limit", "1000")
    lines = said.out.splitlines()
    assert (said.status, max(map(len, lines))) == (0, 80)
    assert lines[0].split() == ["SHA-256", "KIND", "WORTH", "BYTES", "AGE", "COPIES", "CONFIG", "PLACES"]
    assert "\x1b" not in said.out
    (row,) = hostler("artifact", "list", "--place", "shelf").out.splitlines()[1:]
    assert row.split()[:4] == [SHORT, "games", "games", "2450"]
    assert row.split()[5] == "1/2", "a place that is none of this fleet keeps nothing that counts"
    rows = hostler("artifact", "list", "--kind", "model", "--json").json
    assert {each["kind"] for each in rows} == {"model"}
    assert hostler("artifact", "list", "--standing", "former", "--config", HOSTILE).status != 0
    assert hostler("artifact", "list", "--place", "nowhere", "--config", "tiny_2p").out == "no such artifacts\n"


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_config_that_is_none_is_said(still: Window, hostler: Hostler, more: tuple[str, ...]) -> None:
    said, shown = hostler("artifact", "list", "--config", "nobody", *more), hostler("loops", "show", "nobody")
    assert (said.status, said.out) == (shown.status, "")
    assert "there is no training config 'nobody'" in said.err


def test_one_is_shown_with_its_copies(kept: Window, hostler: Hostler) -> None:
    kept.tell(CopiesTold(place="cellar", verified=(ARTIFACT,)), CopiesTold(place="shelf", damaged=(ARTIFACT,), why="b"))
    lines = hostler("artifact", "show", SHORT).out.splitlines()
    told = dict(line.split(maxsplit=1) for line in lines[:7])
    assert told["artifact"] == ARTIFACT
    assert told["kind"] == "games, 2450 bytes, 1 game"
    assert told["from"] == kept.desk.driver.config().current[:12]  # type: ignore[attr-defined]
    assert told["became"] == "nothing that is known of"
    assert told["copies"] == "1 of 2 wanted count, and 1 other failure domain should have one"
    words = {line.split()[0]: line for line in lines[8:]}
    assert words["cellar"].endswith("not of this fleet")
    assert words[HUB].endswith("right")
    assert words["shelf"].endswith("damaged, set aside")


def test_one_that_nobody_has_read_back_yet_says_so(kept: Window, hostler: Hostler) -> None:
    model = kept.desk.driver.config().current  # type: ignore[attr-defined]
    lines = hostler("artifact", "show", model).out.splitlines()
    assert [line.split()[1:4] for line in lines if line.startswith("copies")] == [["0", "of", "3"]]
    (copy,) = (line for line in lines if line.startswith(HUB))
    assert copy.endswith("not read back yet")
    (row,) = (
        line for line in hostler("artifact", "list", "--kind", "model").out.splitlines() if line.startswith(model[:12])
    )
    assert row.endswith(f"{HUB}?")
    kept.tell(CopiesTold(place=HUB, verified=(model,)))
    assert next(line for line in hostler("artifact", "show", model).out.splitlines() if HUB in line).endswith("right")


def test_a_lineage_is_a_tree(kept: Window, hostler: Hostler) -> None:
    model = next(each.sha256 for each in kept.desk.models("tiny_2p") if each.dataset is not None)
    said = hostler("artifact", "lineage", model[:12])
    lines = said.out.splitlines()
    assert lines[0].startswith(f"{model[:12]} model, ")
    assert lines[1] == "├── was made from"
    told = hostler("artifact", "lineage", model, "--json").json
    for each in told["parents"] + told["children"]:
        (line,) = (line for line in lines if f"─ {each['sha256'][:12]} " in line)
        assert line.index("─ ") == 4 * each["depth"] + 2, "it stands below what it is next to"
    small = hostler("artifact", "lineage", model, "--limit", "1").out
    assert "and 1 not told here" in small


def test_bytes_come_into_a_file(
    kept: Window, hostler: Hostler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert hostler("artifact", "get", SHORT).status == 0
    assert (folder / f"{ARTIFACT}.segment.npz").read_bytes() == FILES[0]
    again = hostler("artifact", "get", SHORT)
    assert (again.status, "is there already" in again.err) == (2, True)
    link = folder / "link"
    link.symlink_to(folder / "nowhere")
    assert hostler("artifact", "get", SHORT, "-o", "link").status == 2
    assert hostler("artifact", "get", SHORT, "-o", "link", "--force").status == 0
    assert (link.is_symlink(), link.read_bytes()) == (False, FILES[0])
    assert hostler("artifact", "get", SHORT, "-o", str(tmp_path)).status == 0
    assert (tmp_path / f"{ARTIFACT}.segment.npz").read_bytes() == FILES[0]


def test_what_is_no_file_is_not_replaced(kept: Window, hostler: Hostler, tmp_path: Path) -> None:
    """Whoever is root could: a device, or a pipe that somebody reads."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    said = hostler("artifact", "get", SHORT, "-o", str(pipe), "--force")
    assert (said.status, "no regular file" in said.err, pipe.is_fifo()) == (2, True, True)


def test_no_name_is_none(kept: Window, hostler: Hostler) -> None:
    for words in ("show", "get", "verify", "lineage"):
        said = hostler("artifact", words, "")
        assert (said.status, "a name is empty" in said.err) == (2, True), words


async def _lies() -> AsyncIterator[bytes]:
    yield FILES[0][:-1] + b"?"


def test_what_a_controller_that_lies_hands_out_is_not_kept(kept: Window, hostler: Hostler, tmp_path: Path) -> None:
    async def lie(name: str) -> Content:
        return Content(ARTIFACT, "x", len(FILES[0]), _lies())

    kept.desk.content = lie  # type: ignore[method-assign]
    target = tmp_path / "out" / "games"
    said = hostler("artifact", "get", SHORT, "-o", str(target))
    assert (said.status, "came with the SHA-256" in said.err) == (1, True)
    assert list(target.parent.iterdir()) == []


def test_what_breaks_off_is_not_kept(kept: Window, hostler: Hostler, tmp_path: Path) -> None:
    large = bytes(5 << 20)
    (name,) = made(kept.desk.driver, large)
    kept.call(lambda: kept.desk.kept.put(large)).write_bytes(large[:-1] + b"?")
    target = tmp_path / "out" / "games"
    said = hostler("artifact", "get", name, "-o", str(target))
    assert (said.status, f"{name} broke off after" in said.err) == (1, True)
    assert list(target.parent.iterdir()) == []


def test_verifying_tells_each_copy_and_ends_with_what_was_found(kept: Window, hostler: Hostler) -> None:
    good = hostler("artifact", "verify", SHORT)
    assert (good.status, good.out) == (0, f"{SHORT} controller: right\n1 artifact; copies: 1 right\n")
    kept.call(lambda: kept.desk.kept.put(FILES[0])).write_bytes(b"?")
    bad = hostler("artifact", "verify", SHORT, "--place", HUB)
    assert bad.status == 1
    assert bad.out.startswith(f"{SHORT} controller: damaged: objects/")
    assert bad.out.endswith("1 artifact; copies: 1 damaged\n")
    told = hostler("artifact", "verify", SHORT, "--json")
    assert (told.status, told.json[0]["copies"][0]["found"]) == (1, "damaged")


@pytest.mark.long
def test_all_are_verified_and_only_what_is_wrong_is_told(kept: Window, hostler: Hostler) -> None:
    said = hostler("artifact", "verify", "--all")
    every = len(kept.get("/api/v1/artifacts?limit=1000").json)
    assert said.status == 1
    assert said.out.endswith(f"{every} artifacts; copies: {every - 1} gone, 1 right\n"), "most were never there"
    assert SHORT not in said.out


@pytest.mark.parametrize(
    "words",
    [
        ("verify",),
        ("verify", SHORT, "--all"),
        ("show", "x" * 3),
        ("get", "ffff"),
        ("verify", "--all", "--place", "atic"),
    ],
)
def test_what_cannot_be_asked_for_is_said(still: Window, hostler: Hostler, words: tuple[str, ...]) -> None:
    said = hostler("artifact", *words)
    assert (said.status, said.out, said.err.startswith("hostler: error: ")) == (2, "", True)


def test_without_a_controller_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path))
    assert run(["artifact", "list"]) == 3
    assert "hostler up" in capfd.readouterr().err
