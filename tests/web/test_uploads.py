"""Uploads where the disk has only its reserve left."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.model.events import TroubleRecorded
from hostler.snapshots.folder import take
from hostler.snapshots.reserve import RESERVE
from tests.web.core_desk import Window


def test_upload_that_would_touch_the_reserve_is_refused_and_recorded_once(
    served: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    snapshot = take(tmp_path)
    monkeypatch.setattr(RESERVE, "bytes", 1 << 62)
    for _ in range(3):
        reply = served.ask("POST", "/api/v1/snapshots", snapshot.data)
        assert (reply.status, reply.json["error"]) == (502, "FilesError")
        assert "stay free (limits.reserve_gb)" in reply.json["message"]
        assert "Make room on its disk" in reply.json["message"]
    recorded = [entry.event for entry in served.desk.driver.entries if isinstance(entry.event, TroubleRecorded)]
    assert [event.where for event in recorded] == ["snapshots"]
    assert "has no room" in recorded[0].what


def test_fault_of_what_is_sent_is_not_recorded(served: Window) -> None:
    assert served.ask("POST", "/api/v1/snapshots", b"{}").status == 422
    assert not [entry for entry in served.desk.driver.entries if isinstance(entry.event, TroubleRecorded)]
