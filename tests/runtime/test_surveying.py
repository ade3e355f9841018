"""The folder of the agent that looks at this machine goes, though its last process still writes there."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from hostler.runtime import surveying
from hostler.settings.drafting import FoundHere


@pytest.mark.parametrize("failures", [0, 1, 3, 100])
def test_folder_of_the_agent_is_removed_however_late_it_ends(monkeypatch: pytest.MonkeyPatch, failures: int) -> None:
    left, folders, real = failures, list[Path](), shutil.rmtree

    async def looked(folder: Path) -> FoundHere:
        (folder / "agent").mkdir()
        folders.append(folder)
        return FoundHere(2, None)

    def removed(folder: Path, ignore_errors: bool = False) -> None:
        nonlocal left
        if left and not ignore_errors:
            left -= 1
            raise OSError(errno.ENOTEMPTY, "Directory not empty", "agent")
        real(folder, ignore_errors=ignore_errors)

    monkeypatch.setattr(surveying, "_this_machine", looked)
    monkeypatch.setattr(surveying, "REST_S", (0.0,) * 5)
    monkeypatch.setattr(shutil, "rmtree", removed)
    assert surveying.this_machine() == FoundHere(2, None)
    assert not folders[0].exists()
