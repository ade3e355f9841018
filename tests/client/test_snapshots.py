"""Folders of submissions from Python: their size is known before a file is read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostler.client.calls import DONE, Answer, Told, Work
from hostler.client.snapshots import LARGE_BYTES, send_folders
from hostler.client.submission import _Folders
from hostler.model.errors import UsageError


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A folder with one file, which is larger than is sent without a question; it takes no space."""
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate(LARGE_BYTES + 1)
    return tmp_path


def played(steps: Answer[Any]) -> Any:
    """What becomes of a submission whose controller answers nothing but its status."""
    told: Told = next(steps)  # type: ignore[assignment]
    try:
        while True:
            if isinstance(told, Work):
                told.run()
                told = steps.send(DONE)  # type: ignore[assignment]
            else:
                told = steps.send(Told(b'{"version": "1"}', {}))  # type: ignore[assignment]
    except StopIteration as ended:
        return ended.value


def refuse_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> None:
        raise AssertionError("a file was read")

    monkeypatch.setattr(hashlib, "file_digest", read)


def spec(folder: Path, **more: Any) -> dict[str, Any]:
    return {"payload": {"kind": "script", "argv": ["true"], "cwd": str(folder), **more}}


@pytest.mark.parametrize("more", [{}, {"files": ["*.bin"]}])
def test_large_folder_is_refused_before_it_is_read(
    large: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    refuse_reading(monkeypatch)
    with pytest.raises(UsageError, match=r"has 1 files, 1\.0 GB, that would be sent; .* needs allow_large=True"):
        played(send_folders([spec(large, **more)], None, _Folders(allow_large=False)))


def test_left_out_files_do_not_count(large: Path) -> None:
    (large / ".hostlerignore").write_text("*.bin\n")
    asked: list[int] = []

    class Small(_Folders):
        def confirm(self, snapshot: Any) -> None:
            asked.append(snapshot.manifest.size)
            raise UsageError("enough")

        def sending(self, snapshot: Any) -> Callable[[int], None]:
            raise AssertionError("it was sent")

    with pytest.raises(UsageError, match="enough"):
        played(send_folders([spec(large)], None, Small(allow_large=False)))
    assert asked == [len("*.bin\n")]
