"""Every target: with what was recorded, spoilt in every way, large, and with all that ever broke it."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from .base import MOST_BYTES, Target, bounded, spoilt
from .every import TARGETS

PEAK = Path("/proc/self/clear_refs")
KEPT = Path(__file__).parent / "kept"
LARGE = [(each, name) for each in TARGETS for name in each.large]
ANYTHING = st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass"))
named = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


def run(target: Target, data: bytes) -> None:
    with bounded():
        target.run(data)


@named
def test_what_was_recorded(target: Target) -> None:
    for data in target.seeds:
        run(target, data)


@named
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False), at=st.integers(0, 1000))
def test_what_is_spoilt(target: Target, chance: random.Random, at: int) -> None:
    run(target, spoilt(chance, target.seeds[at % len(target.seeds)], target.seeds))


@pytest.mark.long
@named
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False), at=st.integers(0, 1000))
def test_what_is_spoilt_in_many_ways(target: Target, chance: random.Random, at: int) -> None:
    run(target, spoilt(chance, target.seeds[at % len(target.seeds)], target.seeds))


@named
@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(data=ANYTHING)
def test_anything(target: Target, data: bytes) -> None:
    run(target, data)


@pytest.mark.long
@named
@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(data=ANYTHING)
def test_much_of_anything(target: Target, data: bytes) -> None:
    run(target, data)


@named
def test_what_broke_it_once(target: Target) -> None:
    for path in sorted((KEPT / target.name).glob("*")):
        run(target, path.read_bytes())


@pytest.mark.long
@pytest.mark.parametrize(("target", "name"), LARGE, ids=[f"{target.name}-{name}" for target, name in LARGE])
def test_a_megabyte(target: Target, name: str) -> None:
    data = target.large[name]()
    assert len(data) > 900_000
    assert grown_by(lambda: run(target, data)) < MOST_BYTES


def test_memory_is_seen() -> None:
    assert 90 << 20 < grown_by(lambda: bytearray(b"x") * (100 << 20)) < 150 << 20


def grown_by(call: Callable[[], object]) -> int:
    """Bytes by which this process has grown at most meanwhile; noting each allocation would take four times as long."""
    gc.collect()
    if not PEAK.exists():
        call()
        pytest.skip(f"there is no {PEAK} to measure memory by")
    PEAK.write_text("5")  # the highest so far is what it is now
    before = _status("VmRSS")
    call()
    return _status("VmHWM") - before


def _status(name: str) -> int:
    told = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(told[name].split()[0]) << 10


def test_nothing_is_kept_for_nobody() -> None:
    assert {path.name for path in KEPT.iterdir()} <= {"structured", *(target.name for target in TARGETS)}
