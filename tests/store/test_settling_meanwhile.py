"""Facts that come while marks are set: no mark says more than was so when it was set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from hostler.model.artifacts import HUB, Standing, Wanted
from hostler.model.events import Entry
from hostler.store import Batch, open_journal, settling
from hostler.store.settling import Marks, Rules
from tests.store.test_catalogue import model, promoted

NAME = f"{7:064x}"
RULES = Rules(
    {**dict.fromkeys(Standing, Wanted(copies=1)), Standing.MODEL: Wanted(copies=2)}, {HUB: "home", "shelf": "attic"}
)


def test_a_candidate_that_is_promoted_as_it_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has all copies of a candidate, and too few of a model."""
    journal, read = open_journal(tmp_path), settling._open
    journal.append([Batch(entries=[Entry(seq=1, at=1.0, event=model(NAME, None, None))], jobs=())])
    later = [Batch(entries=[Entry(seq=2, at=2.0, event=promoted(NAME, None))], jobs=())]

    def then_promoted(connection: Connection, standing: Standing, behind: tuple[int, str] | None) -> Sequence[Any]:
        page = read(connection, standing, behind)
        if page and later:
            journal.append([later.pop()])
        return page

    monkeypatch.setattr(settling, "_open", then_promoted)
    marks = Marks(journal)
    for _ in range(3):
        found = marks.short_of(RULES, 0.0, 10)
    assert found == [NAME]
    journal.close()
