"""How big the next chunk is: within bounds, growing from a probe, and shrinking so that all devices end together."""

from __future__ import annotations

import heapq
import itertools

import pytest
from hypothesis import given, settings, strategies as st

from hostler.policy import chunking
from hostler.policy.chunking import Bounds, Speed

BOUNDS = Bounds(target_s=10.0, floor=1, ceiling=None)
SPEEDS = st.builds(
    Speed, per_s=st.floats(1e-6, 1e15), longest=st.integers(1, 10**18), samples=st.integers(1, 100)
)  # fmt: skip


@settings(max_examples=30)
@given(
    bounds=st.builds(
        Bounds, target_s=st.floats(1e-3, 1e6), floor=st.integers(1, 2**200), ceiling=st.none() | st.integers(1, 2**200)
    ),
    total=st.integers(1, 2**513),
    left_share=st.integers(1, 1000),
    speed=st.none() | SPEEDS,
    fleet_per_s=st.floats(0, 1e18),
)
def test_at_least_one_item_and_never_more_than_is_left(
    bounds: Bounds, total: int, left_share: int, speed: Speed | None, fleet_per_s: float
) -> None:
    left = max(1, total * left_share // 1000)
    length = chunking.length(bounds, total, left, speed, fleet_per_s)
    assert 1 <= length <= left
    assert length >= min(bounds.floor, left, bounds.ceiling or left)
    assert bounds.ceiling is None or length <= bounds.ceiling


def test_a_device_of_unknown_speed_gets_a_small_probe() -> None:
    assert chunking.length(BOUNDS, 2**40, 2**40, None, 0.0) == chunking.PROBE_MAX
    assert chunking.length(BOUNDS, 40960, 40960, None, 0.0) == 10
    assert chunking.length(BOUNDS, 10, 10, None, 0.0) == 1


def test_a_known_device_gets_the_target_duration() -> None:
    speed = Speed(per_s=1000.0, longest=10**6, samples=9)
    assert chunking.length(BOUNDS, 10**9, 10**9, speed, 4000.0) == 10_000


def test_lengths_ramp_up_step_by_step() -> None:
    speed: Speed | None = None
    lengths = []
    for _ in range(12):
        lengths.append(chunking.length(BOUNDS, 10**15, 10**15, speed, 1e6))
        speed = chunking.learn(speed, lengths[-1], lengths[-1] / 1e6)
    assert lengths[0] == chunking.PROBE_MAX
    assert all(after <= before * chunking.GROWTH for before, after in itertools.pairwise(lengths))
    assert lengths[-1] == pytest.approx(10 * 1e6, rel=0.01)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 10**12), st.floats(0, 1e6)), min_size=1, max_size=30))
def test_one_sample_moves_the_speed_by_a_bounded_factor(samples: list[tuple[int, float]]) -> None:
    speed: Speed | None = None
    for items, seconds in samples:
        before, speed = speed, chunking.learn(speed, items, seconds)
        if before is not None:
            most = chunking.MAX_CORRECTION
            assert 0.999 / most <= speed.per_s / before.per_s <= most * 1.001
        assert speed.longest >= items
    assert speed is not None
    assert speed.samples == len(samples)


@pytest.mark.parametrize(
    ("queued", "left_s", "more"),
    [
        (0, 0.0, True),
        (1, None, True),
        (1, 100.0, False),
        (1, 1.9, True),
        (2, None, False),
        (2, 0.6, False),
        (2, 0.4, True),
        (64, 0.0, False),
    ],
)
def test_the_next_chunk_comes_shortly_before_it_is_needed(queued: int, left_s: float | None, more: bool) -> None:
    assert chunking.wants_more(queued, left_s) is more


AUTOMATIC = Bounds(target_s=None, floor=1, ceiling=None)


def known(per_s: float = 1000.0, overhead_s: float | None = None, longest: int = 10**9) -> Speed:
    return Speed(per_s=per_s, longest=longest, samples=9, overhead_s=overhead_s)


@pytest.mark.parametrize(("overhead_s", "seconds"), [(0.0, 10), (0.01, 10), (0.5, 100), (4.0, 600), (15.0, 600)])
def test_a_chunk_is_as_long_as_its_overhead_is_worth(overhead_s: float, seconds: int) -> None:
    assert chunking.length(AUTOMATIC, 10**12, 10**12, known(overhead_s=overhead_s), 1000.0) == seconds * 1000


def test_what_its_owner_asked_for_holds_whatever_the_overhead() -> None:
    assert chunking.length(BOUNDS, 10**12, 10**12, known(overhead_s=4.0), 1000.0) == 10_000


def test_a_short_chunk_that_cannot_tell_its_overhead_is_followed_by_a_longer_one() -> None:
    assert chunking.length(AUTOMATIC, 10**12, 10**12, known(longest=1000), 1000.0) == 8000
    assert chunking.length(AUTOMATIC, 10**12, 10**12, known(longest=6000), 1000.0) == 24_000


def test_an_overhead_as_long_as_a_chunk_is_found_out() -> None:
    """15 s before anything is searched: chunks grow until they last long enough for checkpoints to tell."""
    speed = chunking.learn(None, 24_000, 15.8)
    for _ in range(6):
        items = chunking.length(AUTOMATIC, 10**12, 10**12, speed, speed.per_s)
        searching_s = items / 30_000
        speed = chunking.learn(speed, items, 15.0 + searching_s, 15.0 if searching_s > 4 else None)
    assert chunking.longest_s(AUTOMATIC, speed) == chunking.LONGEST_S


def test_a_rest_that_is_worth_no_chunk_goes_with_the_last() -> None:
    shortest = int(1000 * chunking.shortest_s(known(overhead_s=4.0)))
    assert chunking.length(AUTOMATIC, 10**12, shortest + shortest // 3, known(overhead_s=4.0), 1e9) == shortest * 4 // 3
    assert chunking.length(AUTOMATIC, 10**12, 2 * shortest, known(overhead_s=4.0), 1e9) == shortest


def test_a_device_that_failed_is_tried_with_little() -> None:
    assert chunking.trial(AUTOMATIC, 10**12, 10**12, known(overhead_s=4.0)) == 40_000
    assert chunking.trial(AUTOMATIC, 10**12, 10**12, None) == chunking.PROBE_MAX


def test_overhead_is_no_part_of_the_speed() -> None:
    speed = chunking.learn(None, 60_000, 64.0, 4.0)
    assert (speed.per_s, speed.overhead_s) == (1000.0, 4.0)
    assert speed.seconds(6000) == 10.0
    speed = chunking.learn(speed, 60_000, 64.0)
    assert (speed.per_s, speed.overhead_s) == (1000.0, 4.0)


@settings(max_examples=30)
@given(st.floats(0.1, 1e5), st.floats(1.0, 1e9), st.floats(1.0, 1e9), st.none() | st.floats(0, 60))
def test_relief_lets_both_end_together_and_earlier(
    left_s: float, owner_per_s: float, per_s: float, overhead_s: float | None
) -> None:
    helper = known(per_s=per_s, overhead_s=overhead_s)
    items = chunking.relief(left_s, owner_per_s, helper)
    assert 0 <= items <= left_s * owner_per_s
    if items:
        owner_ends, helper_ends = left_s - items / owner_per_s, helper.seconds(items)
        assert helper_ends <= owner_ends + 2 / per_s + 2 / owner_per_s + 1e-6 * left_s
        assert left_s - owner_ends >= chunking.GAIN_S


def test_silence_is_judged_by_what_was_heard_before() -> None:
    speed = known(overhead_s=4.0)
    assert not chunking.is_silent(18.9, speed, None)
    assert chunking.is_silent(19.1, speed, None)
    assert not chunking.is_silent(60.0, speed, 30.0)
    assert chunking.is_silent(80.0, speed, 30.0)


@settings(max_examples=30)
@given(st.lists(st.floats(100.0, 1e5), min_size=2, max_size=12), st.integers(10**6, 10**8))
def test_all_devices_end_together(per_s: list[float], total: int) -> None:
    """Each device takes its next chunk when it is done with one; at the end nobody waits long for the last."""
    speeds: list[Speed | None] = [None] * len(per_s)
    idle = [(0.0, device) for device in range(len(per_s))]
    ends = [0.0] * len(per_s)
    left = total
    while left:
        now, device = heapq.heappop(idle)
        known = sum(speed.per_s for speed in speeds if speed)
        length = chunking.length(BOUNDS, total, left, speeds[device], known)
        seconds = length / per_s[device]
        left -= length
        speeds[device] = chunking.learn(speeds[device], length, seconds)
        ends[device] = now + seconds
        heapq.heappush(idle, (ends[device], device))
    ideal = total / sum(per_s)
    ramp = chunking.PROBE_MAX / min(per_s)
    assert max(ends) <= 1.1 * ideal + 2 * ramp + 1.0
