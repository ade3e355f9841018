"""Which work a device may be given besides what it has."""

from __future__ import annotations

import pytest

from hostler.policy import placement
from hostler.policy.placement import LEAD_ATTEMPTS, Occupied

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
