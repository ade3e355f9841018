"""Which provider, at what price, at what risk?"""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.rules import Cost, Preferences
from hostler.model.work import DeviceKind, WorkKind
from hostler.policy import cost

NAMES = ("vast", "runpod", "nebius", "vultr", "lambda")


def node(gpus: int, slots: int, **more: Any) -> NodeSpec:
    kinds = [DeviceKind.CUDA] * gpus + [DeviceKind.CPU] * slots
    devices = tuple(DeviceSpec(id=f"n/{at}", node="n", kind=kind, index=at) for at, kind in enumerate(kinds))
    return NodeSpec(name="n", backend="ssh", devices=devices, **more)


def test_providers_are_liked_in_order() -> None:
    preferences = Preferences(prefer=("a", "b", "c"), fallback=("d", "e"), avoid=("f",))
    likings = [cost.liking(preferences, name) for name in ("a", "b", "c", "d", "e", None, "f")]
    assert likings == sorted(likings, reverse=True)
    assert len(set(likings)) == len(likings)
    assert cost.liking(preferences, "z") == cost.liking(preferences, None)


def test_who_prefers_nothing_likes_all_alike() -> None:
    assert cost.liking(None, "a") == cost.liking(Preferences(), None) == 1.0


@given(*[st.lists(st.sampled_from(NAMES)).map(tuple)] * 3, st.sampled_from([None, *NAMES]))
def test_no_provider_is_forbidden(
    prefer: tuple[str, ...], fallback: tuple[str, ...], avoid: tuple[str, ...], name: str | None
) -> None:
    assert 0 < cost.liking(Preferences(prefer=prefer, fallback=fallback, avoid=avoid), name) <= 1


def test_the_first_fleet_prefers_what_it_said() -> None:
    training, selfplay = (cost.SEED_PREFERENCES[kind] for kind in (WorkKind.TRAINING, WorkKind.SELFPLAY))
    by_training = sorted(NAMES, key=lambda name: -cost.liking(training, name))
    assert (by_training[:2], by_training[-1]) == (["runpod", "nebius"], "vast")
    assert sorted(NAMES, key=lambda name: -cost.liking(selfplay, name))[:3] == ["vast", "runpod", "vultr"]


def test_a_price_cap_holds_for_its_kind_of_work_and_for_known_prices() -> None:
    rules = Cost(max_price_per_h={WorkKind.SELFPLAY: 0.5})
    assert cost.over_cap(rules, WorkKind.SELFPLAY, 0.75) == "costs 0.75 per hour, selfplay may cost 0.5"
    assert cost.over_cap(rules, WorkKind.SELFPLAY, 0.5) is None
    assert cost.over_cap(rules, WorkKind.SELFPLAY, None) is None
    assert cost.over_cap(rules, WorkKind.TRAINING, 9.0) is None


def test_gpus_pay_for_the_node() -> None:
    rented = node(4, 8, price_per_h=2.0)
    assert cost.device_price(rented) == cost.device_price(rented, rented.devices[0]) == 0.5
    assert cost.device_price(rented, rented.devices[-1]) == 0.0
    assert cost.device_price(node(4, 8)) is None
    slots = node(0, 4, price_per_h=1.0)
    assert cost.device_price(slots) == cost.device_price(slots, slots.devices[0]) == 0.25
    assert cost.device_price(node(0, 0, price_per_h=1.0)) == 1.0


def test_half_of_the_usual_ephemeral_nodes_live_four_hours() -> None:
    assert cost.survival(cost.USUAL_LIFETIME_S, 4 * 3600.0) == pytest.approx(0.5)
    assert cost.survival(0.0, 1.0) == 0.0
    assert cost.survival(0.0, 0.0) == cost.survival(9.0, 0.0) == 1.0


@given(st.floats(1, 1e6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_longer_work_survives_less_often(lifetime_s: float, duration_s: float, more_s: float) -> None:
    assert cost.survival(lifetime_s, duration_s + more_s) <= cost.survival(lifetime_s, duration_s)
    assert cost.survival(lifetime_s + more_s, duration_s) >= cost.survival(lifetime_s, duration_s)


def test_at_the_least_odds_deaths_cost_a_fifth() -> None:
    lifetime_s = 1000.0
    longest_s = -lifetime_s * math.log(cost.SURVIVAL_MIN)
    assert cost.survival(lifetime_s, longest_s) == pytest.approx(cost.SURVIVAL_MIN)
    assert lifetime_s * math.expm1(longest_s / lifetime_s) / longest_s == pytest.approx(1.2, abs=0.01)
