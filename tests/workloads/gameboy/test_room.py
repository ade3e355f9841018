"""How many CPUs there are: what control groups allow counts, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.workloads.gameboy.room import cpus, crowded


@pytest.mark.parametrize(
    ("quotas", "wanted"),
    [
        ({}, None),
        ({"": "max 100000", "a/b": "max 100000"}, None),
        ({"a/b": "100000 100000"}, 1),
        ({"a": "150000 100000", "a/b": "99900000 100000"}, 1),
        ({"a/b": "20000 100000"}, 1),
        ({"a/b": "nonsense"}, None),
    ],
)
def test_a_quota_of_any_group_around_counts(tmp_path: Path, quotas: dict[str, str], wanted: int | None) -> None:
    own, groups = tmp_path / "cgroup", tmp_path / "fs"
    own.write_text("0::/a/b\n")
    for group, text in quotas.items():
        folder = groups / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.max").write_text(text)
    assert cpus(own, groups) == (wanted or cpus(tmp_path / "none", groups))
    assert cpus() >= 1


def test_there_is_room_or_it_is_said_what_to_ask_for() -> None:
    assert [crowded(workers, 2) for workers in (0, 1, 2)] == [None] * 3
    told = crowded(84, 1)
    assert told is not None
    assert told.startswith("84 workers (`workers`, RAY_WORKERS) are to be processes of this machine, where 1 CPU is")
