"""The preview of a fleet: what it counts, and that any fleet has one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.codec import plain
from hostler.model.rules import Cost, Quota, Rules
from hostler.model.work import WorkKind
from hostler.policy import programme
from hostler.settings import config_specs, load, virtual_nodes
from hostler.sim import Script, script_job, sweep_job
from hostler.sim.preview import Asked, Preview, preview

NOW = 1_800_000_000.0
CONFIGS = ("hex8_2p", "square19_2p", "hexagonal_2p")
MODELS = {"H100": 80, "RTX 4090": 24, "RTX 3060": 12, "MI300X": None}


def fleet(*gpus: tuple[str, int]) -> Asked:
    """Nodes with GPUs of one model each, and all configs."""
    nodes: list[dict[str, Any]] = [
        {"name": f"n{at}", "backend": "virtual", "gpus": [{"model": model, "count": count, "vram_gb": MODELS[model]}]}
        for at, (model, count) in enumerate(gpus)
    ]
    loaded = load(None, {}, {"nodes": nodes, "configs": [{"name": name} for name in CONFIGS]})
    rules = Rules(quotas=(Quota(pattern="hex*", share=0.5), Quota(pattern="square*", share=0.5)))
    return Asked(nodes=virtual_nodes(loaded.fleet), rules=rules, configs=config_specs(loaded, until_idle=False))


def found(*gpus: tuple[str, int]) -> Preview:
    return preview(fleet(*gpus), NOW)


def test_devices_are_counted_by_class_and_tier() -> None:
    made = found(("H100", 1), ("RTX 4090", 2), ("RTX 4090", 2), ("RTX 3060", 1))
    assert [(tier.tier, tier.nodes, tier.gpus) for tier in made.tiers] == [(1, 1, 1), (2, 2, 4), (3, 1, 1)]
    assert [(each.tier, each.devices) for each in made.classes] == [(1, 1), (2, 4), (3, 1)]
    assert made.price_per_h is None


def test_work_for_which_there_is_no_device_is_told_once() -> None:
    made = found(("RTX 3060", 1))
    waiting = {(each.work, each.name): each for each in made.waiting}
    stuck = waiting["training", "hexagonal_2p"]
    assert (stuck.fits, stuck.jobs) == (0, 1)
    assert stuck.why == "fits on no device: tier on 1 (needs tier 1 or 2, n0 is 3)"


def test_self_play_that_is_played_already_does_not_wait() -> None:
    assert all(each.work != "selfplay" for each in found(("H100", 8)).waiting)


def test_jobs_and_sweeps_are_there_from_the_beginning() -> None:
    asked = fleet(("H100", 4))
    both = (script_job("script", Script(seconds=5.0)), sweep_job("sweep", 0, 1 << 40))
    made = preview(Asked(nodes=asked.nodes, rules=asked.rules, jobs=both), NOW)
    held = {f"{run.work} {run.name}" for device in made.devices for run in device.first}
    assert held == {"script script", "sweep sweep"}
    assert all(device.first == device.then for device in made.devices)
    assert all(run.why for device in made.devices for run in device.first)


@pytest.mark.skipif(not programme.available(), reason="highspy is not installed")
def test_no_quota_is_promised_devices_that_are_too_dear_for_it() -> None:
    asked = fleet(("H100", 2))
    quotas = (Quota(pattern="hex8_2p", share=0.5, tier=1),)
    for cap, best in ((1.0, 0.0), (9.0, 0.5)):
        rules = Rules(quotas=quotas, cost=Cost(max_price_per_h={WorkKind.SELFPLAY: cap}))
        nodes = tuple(replace(node, price_per_h=4.0) for node in asked.nodes)
        (quota,) = preview(replace(asked, nodes=nodes, rules=rules), NOW).quotas
        assert quota.best == pytest.approx(best)


@settings(max_examples=6, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(MODELS)), st.integers(1, 4)), max_size=6))
def test_any_fleet_has_a_preview(gpus: list[tuple[str, int]]) -> None:
    made = found(*gpus) if gpus else preview(Asked(nodes=(), rules=Rules()), NOW)
    assert sum(each.devices for each in made.classes) == len(made.devices) == sum(count for _, count in gpus)
    assert all(quota.then is None or 0 <= quota.then <= 1 for quota in made.quotas)
    assert made == (found(*gpus) if gpus else made)
    plain(made)
