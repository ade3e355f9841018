"""A drill of the tiers' quotas: days of self-play go through the core, and its events tell who had the devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from hostler.core.shown import quotas
from hostler.model import events, inputs
from hostler.model.events import job_of
from hostler.model.rules import Quota, Rules
from hostler.model.work import WorkKind
from hostler.policy.share import achieved
from tests.core.builders import link_up
from tests.core.test_drills import DAY_S, RULES, Days, endless
from tests.core.test_placing import rig

FIRST = {"large_2p": 0.5, "middle_2p": 0.3, "small_2p": 0.2}
THEN = {"large_2p": 0.3, "middle_2p": 0.3, "small_2p": 0.4}
POINTS = 0.025


def meant(shares: Mapping[str, float]) -> Rules:
    """Rules with these quotas of tier 1."""
    return replace(RULES, quotas=tuple(Quota(pattern=name, share=part, tier=1) for name, part in shares.items()))


def quiet_fleet(sharded: str | None = None) -> Days:
    """A node of tier 1 with four GPUs, and three configs; self-play of one may take two devices at once.

    Devices come free one by one: what a gang needs must be kept for it.
    """
    world = Days(noise=0.1)
    world.tell(inputs.Begin(version="test", epoch=1), inputs.Configure(rules=meant(FIRST)))
    world.tell(inputs.NodeFound(node=rig("a", "A100", count=4, vram_gb=80.0)), link_up("a", agent="a"))
    world.tell(
        inputs.Declare(
            configs=tuple(endless(name, 120.0 if name == sharded else 40.0, shards=name == sharded) for name in FIRST)
        )
    )
    return world


def had(world: Days, since: float) -> dict[str, float]:
    """Shares of the device time of self-play since then, by what was told of leases and ends."""
    seconds: Counter[str] = Counter()
    running: dict[str, tuple[float, int]] = {}
    for at, event in [*world.told, (world.now, None)]:
        if isinstance(event, events.AttemptLeased):
            running[event.attempt] = at, 1 + len(event.others)
        ended = [event.attempt] if isinstance(event, events.AttemptEnded) else list(running) if event is None else []
        for attempt in ended:
            begun, devices = running.pop(attempt)
            job = world.state.jobs[job_of(attempt)].spec
            if job.work is WorkKind.SELFPLAY:
                seconds[job.serves or ""] += devices * max(at - max(begun, since), 0.0)
    return achieved(seconds)


@pytest.mark.parametrize(
    "sharded", [None, "large_2p", *(pytest.param(name, marks=pytest.mark.long) for name in ("middle_2p", "small_2p"))]
)
def test_quotas_of_a_tier_are_met_within_a_day(sharded: str | None) -> None:
    world = quiet_fleet(sharded)
    begin = world.now
    world.live(DAY_S)
    assert had(world, begin) == pytest.approx(FIRST, abs=POINTS)
    (tier,) = [each for each in quotas(world.state, world.core.index).tiers if each.tier == "1"]
    assert tier.error_points is not None
    assert tier.error_points <= 100 * POINTS


def test_other_quotas_are_followed() -> None:
    """What was had under the old ones counts for as long as it is remembered: it is made up for, and then forgotten."""
    world = quiet_fleet()
    world.live(DAY_S / 4)
    world.tell(inputs.Configure(rules=meant(THEN)))
    world.live(1.25 * DAY_S)
    (tier,) = [each for each in quotas(world.state, world.core.index).tiers if each.tier == "1"]
    assert {each.name: each.target for each in tier.configs} == pytest.approx(THEN)
    assert had(world, world.now - DAY_S) == pytest.approx(THEN, abs=POINTS)
