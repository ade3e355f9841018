"""`hostler journal show` tells what there is of a journal."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.model.events import Entry, TroubleRecorded
from hostler.model.rules import CompactRules
from hostler.store import Batch, Claim, Snapshot, compacting, open_journal
from tests.cli.conftest import Hostler


def test_rows_and_segments_are_told_with_their_sizes(
    hostler: Hostler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "ENTRIES", 100)
    journal = open_journal(tmp_path)
    journal.begin_epoch(1.0, Claim("v"))
    told = hostler("journal", "show", "--state-dir", str(tmp_path))
    assert "rows     0 entries" in told.out
    assert "packed   none; entries go there when" in told.out
    entries = [Entry(seq=seq, at=1.0, event=TroubleRecorded(where="w", what="x" * 50)) for seq in range(1, 251)]
    journal.append([Batch(entries=entries, jobs=())])
    journal.save_snapshot(Snapshot(seq=250, at=1.0, data=b"x"))
    rules = CompactRules(after_s=0.0, keep_entries=10)
    while journal.compact(rules, 5.0):
        pass
    journal.close()
    shown = hostler("journal", "show", "--json", "--state-dir", str(tmp_path)).json
    assert (shown["newest"], shown["rows"], shown["segments"], shown["segment_entries"]) == (250, 50, 2, 200)
    assert shown["packed_bytes"] < shown["segments_bytes"]
    assert shown["packed_bytes"] < shown["content_bytes"] / 5
    lines = hostler("journal", "show", "--state-dir", str(tmp_path)).out.splitlines()
    assert lines[1:4][0] == "entries  250"
    assert lines[2].startswith("rows     50 entries, ")
    assert lines[3].startswith("packed   2 segments with 200 entries, ")
    assert max(map(len, lines[1:])) <= 80
