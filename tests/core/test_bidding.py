"""What devices are to a job: as its owner expects, and where that says nothing, as the ranking table has it."""

from __future__ import annotations

import pytest

from hostler.core.bidding import bid_of, desirability
from hostler.model import inputs
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.work import DeviceKind
from tests.core.builders import Driver, link_up, script

MODELS = ("H100", "RTX 4090", "RTX 3060")


def fleet() -> Driver:
    """One busy device of each model."""
    driver = Driver()
    for model in MODELS:
        name = model.replace(" ", "-")
        device = DeviceSpec(
            id=f"{name}/cuda0", node=name, kind=DeviceKind.CUDA, index=0, model=model, vram_gb=24.0
        )  # fmt: skip
        driver.tell(inputs.NodeFound(node=NodeSpec(name=name, backend="test", devices=(device,))))
        driver.tell(link_up(name, agent=name))
    driver.submit(*(script(f"filler {number}") for number in range(len(MODELS))))
    return driver


def test_models_that_the_owner_says_nothing_about_are_compared_by_the_ranking_table() -> None:
    driver = fleet()
    (job,) = driver.submit(script("job", expected_s={"RTX 4090": 100.0}))
    state, index = driver.state, driver.core.index
    rates = {cls.split(" 24GB")[0]: rate for cls, rate in bid_of(state, index, state.jobs[job]).rates.items()}
    assert rates == {"H100": 1.0, "RTX 4090": pytest.approx(330 / 2000), "RTX 3060": pytest.approx(51 / 2000)}
    assert len(desirability(state, index, state.jobs[job], index.members)) == len(MODELS)


def test_what_was_learnt_and_what_joins_is_seen_at_once() -> None:
    driver = fleet()
    (job,) = driver.submit(script("job", expected_s={"*": 100.0}))
    state, index = driver.state, driver.core.index
    assert len(bid_of(state, index, state.jobs[job]).rates) == len(MODELS)
    device = DeviceSpec(id="new/cuda0", node="new", kind=DeviceKind.CUDA, index=0, model="A100", vram_gb=80.0)
    driver.tell(inputs.NodeFound(node=NodeSpec(name="new", backend="test", devices=(device,))))
    assert len(bid_of(state, index, state.jobs[job]).rates) == len(MODELS) + 1
