"""Every target: with what was recorded, spoilt in every way, large, and with all that ever broke it."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from .base import HANG_S, MOST_BYTES, Target, bounded, spoilt
from .every import TARGETS

TRACED = 5
"""So many times as long may it take while each piece of memory is noted."""
KEPT = Path(__file__).parent / "kept"
LARGE = [(each, name) for each in TARGETS for name in each.large]
named = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


def run(target: Target, data: bytes) -> None:
    with bounded():
        target.run(data)


@named
def test_what_was_recorded(target: Target) -> None:
    for data in target.seeds:
        run(target, data)


@named
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(chance=st.randoms(use_true_random=False), at=st.integers(0, 1000))
def test_what_is_spoilt(target: Target, chance: random.Random, at: int) -> None:
    run(target, spoilt(chance, target.seeds[at % len(target.seeds)], target.seeds))


@named
@settings(max_examples=40)
@given(data=st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_anything(target: Target, data: bytes) -> None:
    run(target, data)


@named
def test_what_broke_it_once(target: Target) -> None:
    for path in sorted((KEPT / target.name).glob("*")):
        run(target, path.read_bytes())


@pytest.mark.parametrize(("target", "name"), LARGE, ids=[f"{target.name}-{name}" for target, name in LARGE])
def test_a_megabyte(target: Target, name: str) -> None:
    data = target.large[name]()
    assert len(data) > 900_000
    run(target, data)
    tracemalloc.start()
    try:
        with bounded(TRACED * HANG_S):
            target.run(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES


def test_nothing_is_kept_for_nobody() -> None:
    assert {path.name for path in KEPT.iterdir()} <= {target.name for target in TARGETS}
