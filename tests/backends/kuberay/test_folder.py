"""Manifests as files."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hostler.backends.kuberay.folder import write
from hostler.model.errors import UsageError

ONE = {"kind": "Service", "metadata": {"name": "a"}}
TWO = {"kind": "RayJob", "metadata": {"name": "b"}}


def test_files_are_named_in_the_order_they_are_made(tmp_path: Path) -> None:
    written, stale = write(tmp_path / "new", "rl", [ONE, TWO])
    assert [path.name for path in written] == ["01-service-a.yaml", "02-rayjob-b.yaml"]
    assert [yaml.safe_load(path.read_text()) for path in written] == [ONE, TWO]
    assert stale == []
    assert sorted((tmp_path / "new").iterdir()) == written


def test_what_is_rendered_no_more_goes_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    write(tmp_path, "rl", [ONE, TWO])
    write(tmp_path, "other", [{"kind": "Role", "metadata": {"name": "c"}}])
    (tmp_path / "kustomization.yaml").write_text("resources: []\n")
    _, stale = write(tmp_path, "rl", [TWO])
    assert [path.name for path in stale] == ["01-service-a.yaml", "02-rayjob-b.yaml"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "01-rayjob-b.yaml", "01-role-c.yaml", "kustomization.yaml",
    ]  # fmt: skip


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written to"):
        write(tmp_path / "file", "rl", [ONE])
