from __future__ import annotations

from pathlib import Path

from hostler.agent.exits import record_exit, recorded_exit
from hostler.agent.procs import Identity


def test_the_end_of_exactly_that_process(tmp_path: Path) -> None:
    path = str(tmp_path / "exits.jsonl")
    assert recorded_exit(path, Identity(1, 1)) is None
    record_exit(path, Identity(1, 1), (3, None), 0.0)
    record_exit(path, Identity(1, 2), (None, 9), 0.0)
    with open(path, "ab") as target:
        target.write(b'{"pid":1,')
    assert recorded_exit(path, Identity(1, 1)) == (3, None)
    assert recorded_exit(path, Identity(1, 2)) == (None, 9)
    assert recorded_exit(path, Identity(2, 1)) is None


def test_the_file_stays_short_and_keeps_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "exits.jsonl"
    for pid in range(1, 40_000):
        if pid % 20_000 == 0 or pid < 5:
            record_exit(str(path), Identity(pid, 1), (0, None), 0.0)
            path.write_bytes(path.read_bytes() * (1 if pid < 20_000 else 3000))
    record_exit(str(path), Identity(40_000, 1), (0, None), 0.0)
    assert path.stat().st_size < 1 << 20
    assert recorded_exit(str(path), Identity(40_000, 1)) == (0, None)
