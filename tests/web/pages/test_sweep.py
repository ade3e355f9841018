"""The ledger as a bar, and what hits mean."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists

from hostler.model.views import ChunkView, LedgerView, SweepView
from hostler.model.work import JobState
from hostler.web.pages.sweep import as_many_or_more, bar, interval, speeds

VIEW = SweepView(
    job="j1", name="s", state=JobState.RUNNING, start=0, stop=0, total=0, done=0, leased=0, free=0, chunks_done=0,
    chunks_out=0, hits=0, expected_by_chance=None, per_s=None, left_s=None, device_s=0.0, digest="0" * 64,
)  # fmt: skip


def ledger(start: int, total: int, *done: tuple[int, int], out: tuple[tuple[int, int], ...] = ()) -> LedgerView:
    """A ledger with these intervals."""
    chunks = tuple(chunk(f"j1.{at}", "n/cpu0", *each) for at, each in enumerate(out))
    view = replace(VIEW, start=start, stop=start + total, total=total, done=sum(b - a for a, b in done))
    return LedgerView(sweep=view, done=done, free=(), leased=chunks)


def chunk(name: str, device: str, start: int, stop: int, position: int | None = None) -> ChunkView:
    """A chunk that was given out at second 100."""
    return ChunkView(
        chunk=name, device=device, start=start, stop=stop, leased_at=100.0, expected_s=20.0, position=position
    )


def looks(view: LedgerView, columns: int) -> list[str]:
    """What each column looks like."""
    return [run.look for run in bar(view, columns) for _ in range(run.width)]


def test_a_hole_before_the_last_is_one_and_what_comes_after_is_not() -> None:
    view = ledger(0, 100, (0, 20), (40, 50), out=((50, 60),))
    assert looks(view, 10) == ["done"] * 2 + ["hole"] * 2 + ["done", "out"] + ["free"] * 4


def test_one_item_missing_is_seen_in_a_range_of_any_size() -> None:
    size = 2**200
    view = ledger(7, size, (7, 7 + size // 2), (7 + size // 2 + 1, 7 + size))
    assert [look for look in looks(view, 500) if look != "done"] == ["part"]


@given(lists(integers(0, 400), min_size=2, max_size=12, unique=True), integers(1, 60))
def test_a_column_is_done_exactly_if_all_its_items_are(cuts: list[int], columns: int) -> None:
    ordered = sorted(cuts)
    done = [(a, b) for a, b in zip(ordered[::2], ordered[1::2], strict=False)]
    total = 400
    covered = {item for a, b in done for item in range(a, b)}
    for column, look in enumerate(looks(ledger(0, total, *done), columns)):
        items = {item for item in range(total) if item * columns // total == column}
        assert (look == "done") == (items <= covered)


@pytest.mark.parametrize(
    ("hits", "expected", "odds"), [(0, 5.0, 1.0), (1, 0.0, 0.0), (1, 1.0, 0.632), (12, 11.3, 0.457)]
)
def test_chance_gives_as_many_or_more(hits: int, expected: float, odds: float) -> None:
    assert as_many_or_more(hits, expected) == pytest.approx(odds, abs=2e-3)


def test_too_many_hits_are_not_added_up() -> None:
    assert as_many_or_more(10**9, 10.0) is None


def test_what_is_left_has_an_interval_once_enough_is_known() -> None:
    assert interval(100.0, [1.0] * 4) is None
    assert interval(None, [1.0] * 10) is None
    assert interval(100.0, [0.1, 0.8, *[1.0] * 7, 1.3, 9.0]) == (80.0, 130.0)


def test_speeds_are_those_of_the_chunk_at_hand() -> None:
    (row,) = speeds([chunk("j1.2", "n/cpu0", 100, 200), chunk("j1.1", "n/cpu0", 0, 100, 50)], 110.0)
    assert (row["chunks"], row["expected"], row["so_far"], row["share"]) == (2, 5.0, 5.0, 0.5)
    (row,) = speeds([chunk("j1.1", "n/cpu0", 0, 100)], 110.0)
    assert (row["so_far"], row["share"]) == (None, None)
