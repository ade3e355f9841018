"""The progress of a long upload on a terminal."""

from __future__ import annotations

import pytest

from hostler.cli import snapshotting


def test_progress_is_printed_now_and_then_until_all_is_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(snapshotting.time, "monotonic", lambda: now)
    progress = snapshotting._Progress(5_000_000)
    for _ in range(5):
        now += 0.6 * snapshotting.PROGRESS_S
        progress(1_000_000)
    assert capsys.readouterr().err == "files: 2.0 MB of at most 5.0 MB sent\nfiles: 4.0 MB of at most 5.0 MB sent\n"
