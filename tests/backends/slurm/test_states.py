"""Every word Slurm has for a state means one thing, and a word it may have tomorrow ends nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from hostler.backends.slurm.states import HOPELESS, STATES, Outcome, Phase, State, read_state, verdict

OVER = [name for name, (_, phase, _) in STATES.items() if phase is Phase.OVER]


@pytest.mark.parametrize("name", STATES)
def test_every_state_is_read_by_its_name_and_by_its_code(name: str) -> None:
    code, phase, outcome = STATES[name]
    for text in (name, name.lower(), code, code.lower(), f" {name}\n", f"{name}+"):
        state = read_state(text)
        assert (state.phase, state.outcome, state.text) == (phase, outcome, text.strip())


def test_codes_are_different_and_only_what_is_over_has_an_outcome() -> None:
    assert len({code for code, _, _ in STATES.values()}) == len(STATES)
    for name, (_, phase, outcome) in STATES.items():
        assert (outcome is not None) == (phase is Phase.OVER), name
    assert {outcome for _, _, outcome in STATES.values() if outcome} == set(Outcome)


@pytest.mark.parametrize(
    ("text", "phase", "outcome", "by"),
    [
        ("CANCELLED by 123", Phase.OVER, Outcome.CANCELLED, 123),
        ("CANCELLED by 0", Phase.OVER, Outcome.CANCELLED, 0),
        ("cancelled BY 4294967294", Phase.OVER, Outcome.CANCELLED, 4294967294),
        ("CANCELLED+", Phase.OVER, Outcome.CANCELLED, None),
        ("OUT_OF_ME+", Phase.OVER, Outcome.OUT_OF_MEMORY, None),
        ("COMPLETED+", Phase.OVER, Outcome.COMPLETED, None),
        ("COMPLET+", Phase.UNKNOWN, None, None),
        ("REQUEUE_+", Phase.UNKNOWN, None, None),
        ("CANCELLED,COMPLETING", Phase.ENDING, Outcome.CANCELLED, None),
        ("COMPLETING NODE_FAIL", Phase.ENDING, Outcome.NODE_FAIL, None),
        ("PREEMPTED,REQUEUED", Phase.WAITING, None, None),
        ("PENDING|REQUEUED", Phase.WAITING, None, None),
        ("RUNNING,CONFIGURING", Phase.WAITING, None, None),
        ("RUNNING,SIGNALING", Phase.RUNNING, None, None),
        ("RUNNING,LEVITATING", Phase.UNKNOWN, None, None),
        ("COMPLETED LEVITATING", Phase.UNKNOWN, None, None),
        ("FAILED by 7", Phase.OVER, Outcome.FAILED, None),
        ("", Phase.UNKNOWN, None, None),
        (" , ", Phase.UNKNOWN, None, None),
        ("by 5", Phase.UNKNOWN, None, None),
    ],
)
def test_words_around_a_state(text: str, phase: Phase, outcome: Outcome | None, by: int | None) -> None:
    state = read_state(text)
    assert (state.phase, state.outcome, state.by) == (phase, outcome, by)


@given(st.text())
def test_whatever_it_says_it_is_over_only_in_words_that_are_known(text: str) -> None:
    state = read_state(text)
    if state.over:
        assert any(name[:5] in text.upper() or STATES[name][0] in text.upper() for name in OVER)
    if state.phase is Phase.UNKNOWN:
        assert state.text == text.strip()[:100]


RUNNING, PENDING, UNKNOWN = (read_state(word) for word in ("RUNNING", "PENDING", "NOVEL"))
DONE, PREEMPTED, LOST = (read_state(word) for word in ("COMPLETED", "PREEMPTED", "NODE_FAIL"))


@pytest.mark.parametrize(
    ("listed", "recorded", "expected"),
    [
        (PENDING, PREEMPTED, PENDING),  # requeued: the record is that of the run before
        (PENDING, LOST, PENDING),
        (RUNNING, None, RUNNING),
        (UNKNOWN, DONE, UNKNOWN),
        (None, PREEMPTED, PREEMPTED),  # the queue has it no more: it is not requeued
        (None, RUNNING, RUNNING),  # accounting is late
        (DONE, RUNNING, DONE),
        (DONE, None, DONE),
        (DONE, LOST, LOST),  # accounting tells more than the queue
        (None, None, None),
    ],
)
def test_the_queue_has_the_last_word_as_long_as_it_has_the_job(
    listed: State | None, recorded: State | None, expected: State | None
) -> None:
    assert verdict(listed, recorded) == expected


def test_reasons_without_hope_say_what_to_do() -> None:
    assert "JobArrayTaskLimit" not in HOPELESS
    assert "Resources" not in HOPELESS
    assert all(advice and not advice.endswith(".") for advice in HOPELESS.values())
