"""Where attempts and chunks are, and what may be put there."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from hostler.backends.slurm.berths import MARGIN_S, Batch, Berth, Holdings, Stop
from hostler.model.inputs import Ended, Returned
from hostler.model.pools import Mode, SlotPhase, Span

SPAN = Span(seconds=600.0, longest=False, saves=False)
BEGAN = {"job": "7", "host": "n1", "at": 50.0}


def batch(token: str = "t", mode: Mode = "job", slots: tuple[str, ...] = ("cuda0",), **more: Any) -> Batch:
    berths = [Berth(token=token, task=at, slot=slot) for at, slot in enumerate(slots)]
    return Batch(token=token, mode=mode, ask=None, wants="", time=SPAN, berths=berths, **more)


@given(
    needed=st.floats(0, 1e6), now=st.floats(0, 1e6), ends=st.none() | st.floats(0, 2e6), gone=st.sampled_from("oeu ")
)
def test_nothing_is_begun_that_would_be_cut_off(needed: float, now: float, ends: float | None, gone: str) -> None:
    berth = Berth(token="t", task=0, slot="cuda0", ends_at=ends, over=gone == "o")
    berth.ended = {"why": "idle"} if gone == "e" else None
    berth.unwanted = "why" if gone == "u" else None
    fits = ends is None or ends - now >= needed + MARGIN_S
    assert berth.lasts(needed, now) == (gone == " " and fits)


def test_a_requeued_one_may_be_given_work_again() -> None:
    berth = batch().berths[0]
    berth.begin(0, BEGAN, 1000.0, 600.0)
    berth.end({"why": "requeued"})
    assert not berth.lasts(0.0, 1000.0)
    berth.await_run()
    assert berth.lasts(1e9, 1000.0)
    assert (berth.phase, berth.run, berth.has_ended.is_set()) == (SlotPhase.WAITING, None, False)


def test_what_comes_back_is_not_held_any_more() -> None:
    berth = batch().berths[0]
    berth.orders["a"] = None
    berth.stops["a"] = Stop(why="why", by=1.0)
    berth.forget(Ended(attempt="a", ended_at=1.0))
    berth.forget(Returned(chunk="c", reason="closed"))
    assert not berth.holds
    assert berth.stops == {}


def test_where_things_are() -> None:
    held, made = Holdings(), batch()
    made.berths[0].orders["a"] = None
    held.add(made)
    assert held.of("a") == (made, made.berths[0])
    end = Ended(attempt="a", ended_at=1.0, error="its allocation ends")
    made.berths[0].orders.clear()
    made.berths[0].held_back.append(end)
    assert held.of("a") is not None, "nobody was told yet"
    made.berths[0].held_back.clear()
    assert held.of("a") is None
    assert held.of("b") is None
    assert held.remove(made)
    assert not held.remove(made)


def test_the_newest_that_lasts_is_given_more() -> None:
    held = Holdings()
    first, second, single = (batch(token, "pilot", stays=token != "c", job="7") for token in "abc")
    for each in (first, second, single):
        held.add(each)
    assert held.behind("cuda0", 60.0, 0.0) == (second, second.berths[0])
    second.berths[0].ends_at = 10.0
    assert held.behind("cuda0", 60.0, 0.0) == (first, first.berths[0])
    first.berths[0].over = True
    assert held.behind("cuda0", 60.0, 0.0) is None
    assert held.behind("cuda1", 60.0, 0.0) is None


def test_of_a_slot_what_runs_is_shown_else_the_newest() -> None:
    held, old, new = Holdings(), batch("a", job="7"), batch("b", slots=("cuda0+cuda1",), job="8")
    held.add(old)
    held.add(new)
    assert {slot: seen.job for slot, seen in held.slots().items()} == {"cuda0": "8", "cuda1": "8"}
    old.berths[0].begin(0, BEGAN, 0.0, 60.0)
    assert {slot: seen.job for slot, seen in held.slots().items()} == {"cuda0": "7", "cuda1": "8"}
    assert held.waits()
    new.berths[0].unwanted = "why"
    assert (held.waits(), new.unwanted, old.unwanted) == (False, True, False)
