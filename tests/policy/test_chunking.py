"""How big the next chunk is: within bounds, growing from a probe, and shrinking so that all devices end together."""

from __future__ import annotations

import heapq
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.policy import chunking
from hostler.policy.chunking import Bounds, Speed

BOUNDS = Bounds(target_s=10.0, floor=1, ceiling=None)
SPEEDS = st.builds(
    Speed, per_s=st.floats(1e-6, 1e15), longest=st.integers(1, 10**18), samples=st.integers(1, 100)
)  # fmt: skip


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


@given(st.lists(st.tuples(st.integers(1, 10**12), st.floats(0, 1e6)), min_size=1, max_size=30))
def test_one_sample_moves_the_speed_by_a_bounded_factor(samples: list[tuple[int, float]]) -> None:
    speed: Speed | None = None
    for items, seconds in samples:
        before, speed = speed, chunking.learn(speed, items, seconds)
        if before is not None:
            most = 1 + chunking.ALPHA * (chunking.MAX_CORRECTION - 1)
            least = 1 - chunking.ALPHA * (1 - 1 / chunking.MAX_CORRECTION)
            assert least * 0.999 <= speed.per_s / before.per_s <= most * 1.001
        assert speed.longest >= items
    assert speed is not None
    assert speed.samples == len(samples)


@pytest.mark.parametrize(
    ("queued", "queued_s", "more"),
    [
        (0, 0.0, True),
        (1, None, True),
        (1, 100.0, True),
        (2, None, False),
        (2, 0.6, False),
        (2, 0.4, True),
        (64, 0.0, False),
    ],
)
def test_a_device_holds_two_chunks_or_half_a_second(queued: int, queued_s: float | None, more: bool) -> None:
    assert chunking.wants_more(queued, queued_s) is more


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
