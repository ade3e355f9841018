"""How fast a device is: measured first, the table as a prior."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from hostler.policy import power
from hostler.policy.power import RANKING, Measured


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", 624),
        ("NVIDIA A100 vGPU 20GB", 624),
        ("NVIDIA H100 80GB HBM3", 2000),
        ("NVIDIA H200", 2500),
        ("NVIDIA GH200 480GB", 2200),
        ("NVIDIA L40S", 362),
        ("NVIDIA A10", 250),
        ("NVIDIA A10G", 250),
        ("NVIDIA A40", 300),
        ("NVIDIA GeForce RTX 4090", 330),
        ("RTX4090", 330),
        ("NVIDIA GeForce RTX 4060 Ti", 120),
        ("NVIDIA GeForce RTX 2080 Ti", 107),
        ("rtx 2080ti", 107),
        ("Tesla V100-SXM2-16GB", 125),
        ("Tesla T4", 65),
        ("Apple M1", 15),
        ("Apple M3 Max", 30),
        ("NVIDIA RTX A1000", power.UNKNOWN_POWER),
        ("NVIDIA RTX A4000", power.UNKNOWN_POWER),
        ("NVIDIA T400", power.UNKNOWN_POWER),
        ("cuda", power.UNKNOWN_POWER),
        ("Graphics 14090", power.UNKNOWN_POWER),
        ("cpu", None),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", None),
        (None, None),
    ],
)
def test_the_table_is_read_by_whole_names(model: str | None, expected: float | None) -> None:
    assert power.prior(model) == expected


@settings(max_examples=30)
@given(st.sampled_from(sorted(RANKING)))
def test_every_row_is_found_under_its_own_name(name: str) -> None:
    assert power.prior(name) == power.prior(f"NVIDIA {name} Ti") == power.prior(name.lower()) == RANKING[name]


FAST, SLOW, TINY = "RTX 4090", "RTX 3090", "RTX 3060"


def test_nothing_measured_leaves_the_table() -> None:
    rates = power.rates({}, [FAST, SLOW, "cpu"])
    assert (rates[FAST].per_s, rates[FAST].source) == (330, "prior")
    assert (rates["cpu"].per_s, rates["cpu"].source) == (None, "unknown")
    assert power.relative(rates) == {FAST: 1.0, SLOW: 142 / 330, "cpu": power.UNKNOWN_RELATIVE}


def test_others_are_scaled_from_what_was_measured() -> None:
    rates = power.rates({FAST: Measured(per_s=33.0, samples=1)}, [FAST, SLOW])
    assert rates[FAST].per_s == pytest.approx(33.0)
    assert (rates[FAST].source, rates[FAST].samples) == ("measured", 1)
    assert rates[SLOW].per_s == pytest.approx(14.2)
    assert (rates[SLOW].source, rates[SLOW].samples) == ("scaled", 0)


def test_several_measured_models_scale_by_their_geometric_mean() -> None:
    measured = {FAST: Measured(per_s=4 * 330, samples=5), SLOW: Measured(per_s=142, samples=5)}
    assert power.rates(measured, [TINY])[TINY].per_s == pytest.approx(2 * 51)


def test_measurements_win_over_the_table_as_they_arrive() -> None:
    def slow(samples: int) -> float:
        measured = {FAST: Measured(per_s=330, samples=100), SLOW: Measured(per_s=1420, samples=samples)}
        return power.rates(measured, [SLOW])[SLOW].per_s or 0.0

    assert slow(1) < slow(3) < slow(1000) < 1420
    assert slow(1000) == pytest.approx(1420, rel=0.001)
    assert slow(1) > 0.7 * 1420


def test_a_gpu_is_not_taken_for_slow_because_only_cpus_were_measured() -> None:
    rates = power.rates({"cpu": Measured(per_s=1000.0, samples=1)}, ["cpu", TINY])
    assert rates["cpu"].per_s == 1000.0
    assert rates[TINY].per_s == pytest.approx(51_000)
    assert power.relative(rates)[TINY] == 1.0


def test_all_unknown_are_equal() -> None:
    assert power.relative(power.rates({}, ["cpu"])) == {"cpu": 1.0}
    assert power.relative({}) == {}


MODELS = st.sampled_from([FAST, SLOW, TINY, "H100", "cpu", "cuda"])


@settings(max_examples=30)
@given(
    st.dictionaries(MODELS, st.builds(Measured, per_s=st.floats(1e-6, 1e9), samples=st.integers(1, 50))),
    st.sets(MODELS, min_size=1),
)
def test_relative_speeds_are_shares_of_the_best(measured: dict[str, Measured], models: set[str]) -> None:
    rates = power.rates(measured, models)
    shares = power.relative(rates)
    assert set(rates) == set(shares) == models
    assert max(shares.values()) == 1.0
    assert all(0 < share <= 1 for share in shares.values())
    assert all((rate.source == "measured") == (model in measured) for model, rate in rates.items())


@settings(max_examples=30)
@given(st.builds(Measured, per_s=st.floats(1e-3, 1e6), samples=st.integers(1, 50)), st.floats(1, 100))
def test_a_faster_measurement_never_slows_a_model(measured: Measured, factor: float) -> None:
    def fast(per_s: float) -> float:
        both = {FAST: Measured(per_s=per_s, samples=measured.samples), SLOW: Measured(per_s=7.0, samples=3)}
        return power.rates(both, [FAST])[FAST].per_s or 0.0

    assert fast(measured.per_s * factor) >= fast(measured.per_s) * 0.999999
