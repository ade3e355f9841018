"""Addresses of controllers that are none: refused where they are read, and not where they are used."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hostler.cli.common import directory
from hostler.client import address_from, address_in
from hostler.model.errors import ControllerAbsent, UsageError

ADDRESS = "http://127.0.0.1:8765"


@pytest.mark.parametrize(
    "url",
    ["http://", "http://[::1", "http://a b", "ftp://x", f"{ADDRESS}?x=1", f"{ADDRESS}#f", f"{ADDRESS}/p", "http://x:0",
     "http://x:99999", "http://x\x1b[2J", "http://x\n", "http://a..b"],
)  # fmt: skip
def test_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match=r"it should be as https://fleet.example.org:8765"):
        address_from({"HOSTLER_URL": url + "x" * (url[-1] == "\n"), "HOSTLER_TOKEN": "t"})


@pytest.mark.parametrize(
    "left",
    [[], "x", None, {}, {"url": None}, {"url": "foo://["}, {"url": "http://127.0.0.1:99999"}, {"url": 7},
     {"url": ADDRESS, "certificate": 7}, {"url": ADDRESS, "pid": []}],
)  # fmt: skip
def test_file_of_a_controller_that_cannot_be_understood_means_that_none_is_there(left: Any, tmp_path: Path) -> None:
    known = {"pid": os.getpid(), **left} if isinstance(left, dict) else left
    (tmp_path / "token").write_text("t")
    (tmp_path / "controller.json").write_text(json.dumps(known))
    with pytest.raises(ControllerAbsent, match=r"its controller.json cannot be understood"):
        address_in(tmp_path)
    (tmp_path / "controller.json").write_text("[" * 100_000)
    with pytest.raises(ControllerAbsent, match=r"its controller.json cannot be understood"):
        address_in(tmp_path)


@pytest.mark.parametrize("name", ["controller.json", "token", "lock"])
def test_pipe_in_the_place_of_a_file_of_a_controller_is_not_waited_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    if name == "token":
        (tmp_path / "controller.json").write_text(json.dumps({"pid": os.getpid(), "url": ADDRESS}))
    with pytest.raises(
        ControllerAbsent, match="there is no controller.json" if name == "lock" else "not a regular file"
    ):
        address_in(tmp_path)


def test_state_directory_below_a_folder_that_is_gone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(UsageError, match="state is below the current folder, which is not there any more"):
        directory(Path("state"))
    monkeypatch.chdir(tmp_path)
