"""Virtual time."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hostler.sim.agenda import Agenda


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 7.0])))
def test_actions_come_in_the_order_they_are_due(delays: list[float]) -> None:
    agenda, seen = Agenda(), list[tuple[float, int]]()
    for number, delay in enumerate(delays):
        agenda.later(delay, lambda number=number: seen.append((agenda.now, number)))  # type: ignore[misc]
    while agenda.step(100.0):
        pass
    assert seen == sorted((delay, number) for number, delay in enumerate(delays))


def test_what_is_due_later_stays() -> None:
    agenda, seen = Agenda(), list[float]()
    agenda.later(5.0, lambda: seen.append(agenda.now))
    assert not agenda.step(4.9)
    assert agenda.now == 0.0
    assert agenda.step(5.0)
    assert seen == [5.0]


def test_what_is_due_at_the_same_moment_is_in_order_whenever_it_was_entered() -> None:
    """`now + (moment - now)` is not always that moment."""
    agenda, seen = Agenda(), list[int]()
    moment = 12.265431
    for number in range(200):
        agenda.later(number * 0.0613, lambda number=number: agenda.at(moment, lambda: seen.append(number)))  # type: ignore[misc]
    while agenda.step(100.0):
        pass
    assert seen == list(range(200))
