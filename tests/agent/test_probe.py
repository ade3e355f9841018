from __future__ import annotations

from pathlib import Path

import pytest

from hostler.agent import probe
from hostler.agent.probe import cpus, memory_bytes, memory_free_bytes


def test_this_machine() -> None:
    assert cpus() >= 1
    assert (memory_bytes() or 0) > 1 << 20
    assert 0 < (memory_free_bytes() or 0) < (memory_bytes() or 0)


def test_a_cgroup_leaves_what_it_has_not_used_but_for_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = tmp_path / "group"
    group.mkdir()
    monkeypatch.setattr(probe, "_cgroup_folders", lambda controller: [] if controller else [str(group)])
    (group / "memory.max").write_text("1000000\n")
    assert memory_free_bytes() != 1000000, "what it uses is unknown"
    (group / "memory.current").write_text("900000\n")
    (group / "memory.stat").write_text("anon 1\ninactive_file 300000\nactive_file 7\n")
    assert memory_free_bytes() == 400000
    (group / "memory.current").write_text("2000000\n")
    assert memory_free_bytes() == 0
    (group / "memory.max").write_text("max\n")
    assert (memory_free_bytes() or 0) > 1 << 20
