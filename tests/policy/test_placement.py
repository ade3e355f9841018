"""Which work a device may be given besides what it has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.policy import placement
from hostler.policy.placement import LEAD_ATTEMPTS, SLICE_S, Contest, Occupied

IDLE = Occupied(attempts=0, attempts_s=0.0, chunks=0, chunks_s=0.0)


def busy(attempts: int, attempts_s: float | None) -> Occupied:
    return Occupied(attempts=attempts, attempts_s=attempts_s, chunks=0, chunks_s=0.0)


@pytest.mark.parametrize(
    ("device", "predicted_s", "takes"),
    [
        (IDLE, None, True),
        (IDLE, 1e6, True),
        (Occupied(attempts=0, attempts_s=0.0, chunks=5, chunks_s=50.0), None, True),
        (busy(1, None), 0.01, False),
        (busy(1, 0.01), None, False),
        (busy(1, 0.01), 0.01, True),
        (busy(1, 0.01), 0.6, False),
        (busy(1, 0.6), 0.01, False),
        (busy(LEAD_ATTEMPTS, 0.0), 0.0, False),
    ],
)
def test_short_scripts_are_queued_ahead(device: Occupied, predicted_s: float | None, takes: bool) -> None:
    assert placement.takes_attempt(device, predicted_s) is takes


@pytest.mark.parametrize(
    ("device", "takes"), [(IDLE, True), (busy(1, 0.1), True), (busy(1, 0.6), False), (busy(1, None), False)]
)
def test_chunks_do_not_wait_behind_long_scripts(device: Occupied, takes: bool) -> None:
    assert placement.takes_chunks(device) is takes


@pytest.mark.parametrize(
    ("script", "sweep", "first"),
    [(None, 0, False), (None, None, False), (0, None, True), (0, 0, True), (1, 0, True), (0, 1, False)],
)
def test_a_script_goes_before_a_sweep_of_its_priority(script: int | None, sweep: int | None, first: bool) -> None:
    assert placement.script_first(script, sweep) is first


EVEN = Contest(
    selfplay_devices=1,
    sweep_devices=1,
    holds_chunks=False,
    selfplay_waited_s=0.0,
    selfplay_turn_s=0.0,
    sweep_waited_s=0.0,
)


def first(**fields: object) -> bool:
    return placement.selfplay_first(replace(EVEN, **fields))  # type: ignore[arg-type]


def test_a_free_device_goes_to_the_side_with_fewer() -> None:
    assert first(selfplay_devices=1, sweep_devices=2)
    assert not first(selfplay_devices=2, sweep_devices=1, selfplay_waited_s=1e6)


def test_where_they_are_even_it_goes_to_who_waited_longer() -> None:
    assert first(selfplay_waited_s=10.0, sweep_waited_s=5.0)
    assert not first(selfplay_waited_s=5.0, sweep_waited_s=10.0)


def test_a_device_at_a_sweep_changes_sides_only_for_more_even_shares() -> None:
    assert first(holds_chunks=True, selfplay_devices=1, sweep_devices=3)
    assert not first(holds_chunks=True, selfplay_devices=1, sweep_devices=2), "2 to 1 is as uneven as 1 to 2"
    assert not first(holds_chunks=True, selfplay_devices=1, sweep_devices=1, selfplay_waited_s=1e6)


@pytest.mark.parametrize(("turn_s", "slice_s"), [(0.0, SLICE_S), (5.0, SLICE_S), (300.0, 300.0)])
def test_a_single_device_is_shared_in_turns_of_equal_length(turn_s: float, slice_s: float) -> None:
    held = {"holds_chunks": True, "selfplay_devices": 0, "sweep_devices": 1, "selfplay_turn_s": turn_s}
    assert not first(**held, selfplay_waited_s=slice_s)
    assert first(**held, selfplay_waited_s=slice_s + 0.1)


@given(devices=st.integers(2, 40), start=st.integers(0, 40))
def test_shares_become_even_and_stay_so(devices: int, start: int) -> None:
    """Whoever has a device gives it up now and then: the difference ends at one device at most."""
    selfplay = min(start, devices)
    for _ in range(3 * devices):
        # A game ends and a chunk ends, where there is one; each device goes where the contest says.
        if selfplay:
            selfplay -= not first(selfplay_devices=selfplay - 1, sweep_devices=devices - selfplay)
        if selfplay < devices:
            selfplay += first(holds_chunks=True, selfplay_devices=selfplay, sweep_devices=devices - selfplay)
    assert abs(2 * selfplay - devices) <= 1
