"""Who is asked when, and what is known: with a clock and hands that tests move."""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import given, strategies as st

from hostler.workloads.gameboy.advice.advisor import WAITING, Advisor
from hostler.workloads.gameboy.advice.answers import Advice
from hostler.workloads.gameboy.advice.counts import Came
from hostler.workloads.gameboy.advice.endpoint import Said
from hostler.workloads.gameboy.advice.hands import Outcome
from tests.workloads.gameboy.advice.asking import asking

RIGHT = Advice(2, 0.5)
GOOD = Said(Came.ANSWERED, RIGHT)
BAD = Said(Came.REFUSED, words="nobody there")


class Hands:
    """They carry a question out when they are told what came of it."""

    def __init__(self) -> None:
        self.outcomes: deque[Outcome] = deque()
        self.asked: list[tuple[int, float]] = []

    def ask(self, state: int, now: float) -> None:
        """Remember it."""
        self.asked.append((state, now))

    def answer(self, said: Said, seconds: float = 0.5) -> None:
        """Of the oldest question."""
        state, asked_at = self.asked.pop(0)
        self.outcomes.append(Outcome(state, asked_at, seconds, said))

    def close(self) -> None:
        """Nothing to do."""


def made(workers: int = 1, spread: float = 1.0, **changes: Any) -> tuple[Advisor, Hands]:
    hands = Hands()
    rests = {"after": 3, "first_s": 5, "longest_s": 40}
    asked = asking(**{"calls_per_s": 1000, "rests": rests, "timeout_s": 10, "stale_s": 60, **changes})
    return Advisor(asked, hands, workers, spread), hands


def test_what_is_not_known_is_asked_for_once_and_then_known() -> None:
    advisor, hands = made()
    assert advisor.seen(7, 0.0) is None
    assert advisor.seen(7, 0.1) is None
    assert hands.asked == [(7, 0.0)]
    hands.answer(GOOD)
    assert advisor.seen(7, 1.0) == RIGHT
    assert advisor.seen(7, 2.0) == RIGHT
    counts = advisor.news().counts
    assert (counts.asked, counts.cached, counts.unknown, counts.answered, counts.finished) == (1, 2, 2, 1, 1)
    assert (counts.calls["answered"].seconds, counts.calls["answered"].longest_s) == (0.5, 0.5)
    assert advisor.news().counts.asked == 0, "told once"


def test_the_newest_question_is_asked_first_and_the_oldest_is_given_up() -> None:
    advisor, hands = made()
    for state in range(WAITING + 3):
        advisor.seen(state, 0.0)
    assert [state for state, _ in hands.asked] == [0], "one call at a time"
    hands.answer(GOOD)
    advisor.seen(0, 1.0)
    assert [state for state, _ in hands.asked] == [WAITING + 2]
    assert advisor.news().counts.passed_over == 2


def test_as_many_are_under_way_as_may_be() -> None:
    advisor, hands = made(at_once=3)
    for state in range(9):
        advisor.seen(state, 0.001 * state)
    assert len(hands.asked) == 3


def test_advice_that_is_too_old_is_dropped_and_asked_for_again() -> None:
    advisor, hands = made()
    advisor.seen(7, 0.0)
    hands.answer(GOOD)
    assert advisor.seen(7, 60.0) == RIGHT
    assert advisor.seen(7, 60.1) is None
    assert hands.asked == [(7, 60.1)]
    assert advisor.news().counts.stale == 1


def test_an_answer_that_comes_too_late_is_dropped() -> None:
    advisor, hands = made()
    advisor.seen(7, 0.0)
    hands.answer(GOOD)
    assert advisor.seen(7, 61.0) is None
    counts = advisor.news().counts
    assert (counts.stale, counts.answered) == (1, 1)


def test_while_the_breaker_is_open_not_even_a_question_waits() -> None:
    advisor, hands = made(spread=0.0)
    advisor.seen(0, 9.0)
    now = 10.0
    for state in range(3):
        advisor.seen(state, now)
        hands.answer(BAD)
        now += 1
    assert advisor.seen(9, now) is None
    assert advisor.news().is_resting
    for state in range(100, 200):
        advisor.seen(state, now + 4)
    assert hands.asked == []
    assert advisor.news().counts.passed_over == 0
    advisor.seen(5, now + 5)
    assert hands.asked == [(5, now + 5)], "one call is tried"
    for state in range(20):
        advisor.seen(state, now + 6)
    assert len(hands.asked) == 1
    hands.answer(GOOD)
    assert advisor.seen(5, now + 7) == RIGHT
    assert not advisor.news().is_resting
    advisor.seen(6, now + 8)
    assert len(hands.asked) == 1, "and it goes on"


def test_a_state_that_the_model_has_no_sense_for_does_not_cost_the_budget_of_others() -> None:
    advisor, hands = made(calls_per_s=100, cache=2)
    garbage = Said(Came.GARBAGE, words="no JSON")
    advisor.seen(1, 0.0)
    hands.answer(garbage)
    for number in range(40):
        advisor.seen(1, 0.1 + number)
    assert hands.asked == []
    advisor.seen(2, 41.0)
    hands.answer(GOOD)
    assert advisor.seen(2, 41.1) == RIGHT, "others are asked for"
    assert not advisor.news().is_resting
    advisor.seen(1, 60.2)
    assert [state for state, _ in hands.asked] == [1], "after a while it is tried again"
    hands.answer(garbage)
    for state in (3, 4):
        advisor.seen(state, 61.0)
        hands.answer(garbage)
    advisor.seen(5, 62.0)
    assert advisor.news().is_resting, "whoever says nothing sensible of any state is left alone"


def test_what_went_wrong_is_told_with_the_words_for_it() -> None:
    advisor, hands = made()
    advisor.seen(1, 0.0)
    hands.answer(BAD)
    advisor.seen(1, 0.0)
    news = advisor.news()
    assert (news.trouble, news.counts.calls["refused"].number) == ("refused: nobody there", 1)
    assert advisor.news().trouble is None


def test_who_wants_to_be_left_alone_is() -> None:
    advisor, hands = made(spread=0.0)
    advisor.seen(1, 0.0)
    assert hands.asked == [], "nothing is saved up yet"
    advisor.seen(1, 1.0)
    hands.answer(Said(Came.LIMITED, pause_s=8.0, words="429"))
    for now in range(2, 9):
        advisor.seen(1, float(now))
    assert hands.asked == []
    advisor.seen(1, 10.1)
    assert len(hands.asked) == 1


@given(
    st.integers(1, 4),
    st.floats(0.05, 5),
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 30), st.sampled_from(["good", "bad", "wait"])), max_size=80),
)
def test_workers_together_never_ask_more_often_than_the_training_may(
    workers: int, rate: float, story: list[tuple[float, int, str]]
) -> None:
    all_of_them = [made(workers, spread=number / workers, calls_per_s=rate, at_once=2) for number in range(workers)]
    now, asked = 0.0, 0
    for gap, state, comes in story:
        now += gap
        for advisor, hands in all_of_them:
            if hands.asked and comes != "wait":
                hands.answer(GOOD if comes == "good" else BAD)
            advisor.seen(state, now)
            asked += advisor.news().counts.asked
    assert asked <= now * rate + workers * max(1, rate / workers) + 1e-6
