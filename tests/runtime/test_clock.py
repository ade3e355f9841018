"""The controller's time: steady, never behind the journal, and not stretched by clocks that were wrong."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from hostler.runtime import clock
from hostler.runtime.clock import SteadyClock

DAY_S = 86400.0


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A machine's clocks, to be set."""
    made = SimpleNamespace(wall=1_000_000_000.0, since_boot=500.0)
    times = SimpleNamespace(time=lambda: made.wall, monotonic=lambda: made.since_boot)
    monkeypatch.setattr(clock, "time", times)
    return made


def test_time_continues_from_a_journal_that_is_ahead(machine: SimpleNamespace, tmp_path: Path) -> None:
    """A token for an hour was once shown as good for 400 days."""
    ahead = machine.wall + 400 * DAY_S
    made = SteadyClock()
    assert made.reach(ahead, tmp_path / "clock.json") == 400 * DAY_S
    assert made.now() == ahead
    machine.since_boot += 3600.0
    assert made.now() == ahead + 3600.0


def test_time_passes_while_no_controller_runs(machine: SimpleNamespace, tmp_path: Path) -> None:
    ahead, kept = machine.wall + 400 * DAY_S, tmp_path / "clock.json"
    SteadyClock().reach(ahead, kept)
    machine.wall += 3600.0
    later = SteadyClock()
    later.reach(ahead + 5.0, kept)
    assert later.now() == ahead + 3600.0


def test_clock_that_is_right_is_not_moved(machine: SimpleNamespace, tmp_path: Path) -> None:
    made = SteadyClock()
    assert made.reach(machine.wall - 3600.0, tmp_path / "clock.json") == 0.0
    assert made.now() == machine.wall
    assert not (tmp_path / "clock.json").exists()


def test_clock_set_back_once_more_keeps_the_greater_lead(machine: SimpleNamespace, tmp_path: Path) -> None:
    kept = tmp_path / "clock.json"
    SteadyClock().reach(machine.wall + DAY_S, kept)
    machine.wall -= 10 * DAY_S
    made = SteadyClock()
    assert made.reach(machine.wall + 11 * DAY_S, kept) == 11 * DAY_S
    assert SteadyClock().reach(0.0, kept) == 11 * DAY_S


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"ahead_s": null}', '{"ahead_s": NaN}', '{"ahead_s": -5}', "\xff"])
def test_unreadable_lead_follows_from_the_journal_again(machine: SimpleNamespace, tmp_path: Path, text: str) -> None:
    kept = tmp_path / "clock.json"
    kept.write_text(text, encoding="latin-1")
    made = SteadyClock()
    assert made.reach(machine.wall + DAY_S, kept) == DAY_S
