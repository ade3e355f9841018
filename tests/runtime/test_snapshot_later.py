"""A snapshot for which the journal was busy all the time is made later, and is no trouble."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hostler.model.errors import StoreBusy, StoreError
from hostler.runtime import snapshots
from hostler.store import Journal, Snapshot
from tests.journals import new_journal


def test_process_that_folds_says_by_its_status_that_the_journal_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(journal: Journal, snapshot: Snapshot) -> None:
        raise StoreBusy("database is locked")

    monkeypatch.setattr(Journal, "save_snapshot", busy)
    monkeypatch.setattr(sys, "argv", ["snapshots", "--state-dir", str(new_journal(tmp_path))])
    with pytest.raises(SystemExit) as ended:
        snapshots.main()
    assert ended.value.code == snapshots.BUSY


@pytest.mark.anyio
@pytest.mark.parametrize(("status", "kind"), [(snapshots.BUSY, StoreBusy), (1, StoreError)])
async def test_status_of_that_process_becomes_the_error_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, kind: type[StoreError]
) -> None:
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\nexit {status}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(StoreError) as told:
        await snapshots.fold_in_background(tmp_path)
    assert type(told.value) is kind
