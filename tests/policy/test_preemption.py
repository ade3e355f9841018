"""Who must yield, and how much of its share it keeps."""

from __future__ import annotations

from itertools import cycle, islice

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.work import WorkKind
from hostler.policy.preemption import FLOOR, SETTLED_S, YIELDS_TO, may_yield

SELFPLAY, TRAINING, EVALUATION, SCRIPT = WorkKind.SELFPLAY, WorkKind.TRAINING, WorkKind.EVALUATION, WorkKind.SCRIPT
SHARES = {SELFPLAY: 0.6, TRAINING: 0.3, EVALUATION: 0.1}
"""Self-play keeps half of 60 %, or of two thirds where there was no evaluation."""

parts = st.fixed_dictionaries({kind: st.floats(0.01, 1.0) for kind in SHARES})
times = st.fixed_dictionaries({kind: st.floats(SETTLED_S, 1e7) for kind in SHARES})
"""Of kinds that all had something, and enough for parts of it to mean something."""


def test_what_others_wait_for_may_take_devices_from_selfplay() -> None:
    assert YIELDS_TO[SELFPLAY] == {TRAINING, EVALUATION, WorkKind.EXPORT}


def test_who_may_take_devices_is_never_made_to_yield() -> None:
    for holder, takers in YIELDS_TO.items():
        assert holder not in takers
        assert not any(YIELDS_TO.get(taker) for taker in takers)


@pytest.mark.parametrize(
    ("selfplay_s", "training_s", "evaluation_s", "may"),
    [
        (60_000.0, 30_000.0, 10_000.0, True),
        (31_000.0, 59_000.0, 10_000.0, True),
        (29_000.0, 61_000.0, 10_000.0, False),
        (34_000.0, 66_000.0, 0.0, True),
        (32_000.0, 68_000.0, 0.0, False),
        (100_000.0, 0.0, 0.0, True),
        (0.0, 100_000.0, 0.0, False),
    ],
)
def test_selfplay_keeps_half_of_its_share_of_what_was_served(
    selfplay_s: float, training_s: float, evaluation_s: float, may: bool
) -> None:
    served_s = {SELFPLAY: selfplay_s, TRAINING: training_s, EVALUATION: evaluation_s}
    assert may_yield(SELFPLAY, served_s, SHARES) is may


def test_parts_of_very_little_mean_nothing() -> None:
    assert may_yield(SELFPLAY, {}, SHARES)
    assert may_yield(SELFPLAY, {TRAINING: SETTLED_S - 1}, SHARES)
    assert not may_yield(SELFPLAY, {TRAINING: SETTLED_S}, SHARES)


def test_who_has_no_share_has_nothing_to_keep() -> None:
    assert may_yield(SELFPLAY, {SELFPLAY: 1.0, TRAINING: 1e6}, {TRAINING: 1.0})
    assert may_yield(SELFPLAY, {SELFPLAY: 1.0, TRAINING: 1e6}, {})
    assert may_yield(SELFPLAY, {SELFPLAY: 1.0, TRAINING: 1e6}, dict.fromkeys(SHARES, 0.0))


def test_time_of_work_without_a_share_counts_as_had_by_others() -> None:
    served_s = {SELFPLAY: 35_000.0, TRAINING: 65_000.0}
    assert may_yield(SELFPLAY, served_s, SHARES)
    assert not may_yield(SELFPLAY, {**served_s, SCRIPT: 100_000.0}, SHARES)


@settings(max_examples=40)
@given(times, parts)
def test_whoever_had_its_share_may_yield(served_s: dict[WorkKind, float], shares: dict[WorkKind, float]) -> None:
    total_s, whole = sum(served_s.values()), sum(shares.values())
    for holder in SHARES:
        had, aim = served_s[holder] / total_s, shares[holder] / whole
        if had >= aim:
            assert may_yield(holder, served_s, shares)
        if had < FLOOR * aim * 0.999:
            assert not may_yield(holder, served_s, shares)


@settings(max_examples=40)
@given(times, parts, st.floats(0.0, 1e7))
def test_having_had_more_never_makes_it_keep_its_devices(
    served_s: dict[WorkKind, float], shares: dict[WorkKind, float], more_s: float
) -> None:
    after = {**served_s, SELFPLAY: served_s[SELFPLAY] + more_s}
    assert may_yield(SELFPLAY, after, shares) >= may_yield(SELFPLAY, served_s, shares)


@settings(max_examples=40)
@given(times, parts, st.floats(0.0, 1e7))
def test_others_that_had_more_never_make_it_leave(
    served_s: dict[WorkKind, float], shares: dict[WorkKind, float], more_s: float
) -> None:
    after = {**served_s, TRAINING: served_s[TRAINING] + more_s}
    assert may_yield(SELFPLAY, after, shares) <= may_yield(SELFPLAY, served_s, shares)


@settings(max_examples=40)
@given(times, parts, st.sampled_from([0.125, 8.0]))
def test_only_the_proportions_of_the_shares_matter(
    served_s: dict[WorkKind, float], shares: dict[WorkKind, float], factor: float
) -> None:
    scaled = {kind: factor * part for kind, part in shares.items()}
    assert may_yield(SELFPLAY, served_s, scaled) is may_yield(SELFPLAY, served_s, shares)


@settings(max_examples=40)
@given(parts, st.lists(st.floats(60.0, SETTLED_S), min_size=1, max_size=5))
def test_work_that_is_always_in_a_hurry_leaves_selfplay_half_of_its_share(
    shares: dict[WorkKind, float], turns_s: list[float]
) -> None:
    served_s = {SELFPLAY: 0.0, TRAINING: 0.0}
    for turn_s in islice(cycle(turns_s), 500):
        served_s[TRAINING if may_yield(SELFPLAY, served_s, shares) else SELFPLAY] += turn_s
    total_s = sum(served_s.values())
    aim = shares[SELFPLAY] / (shares[SELFPLAY] + shares[TRAINING])
    assert served_s[SELFPLAY] / total_s >= FLOOR * aim - max(turns_s) / total_s
