"""Which training config gets the next self-play on a device: shares of the tier first, then the configs' ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hostler.core import accounts
from hostler.core.index import Index
from hostler.core.loop.claims import claim_of, idle_s
from hostler.core.state import Device, Job, State
from hostler.model.rules import Tier
from hostler.model.work import WorkKind
from hostler.policy import priority, share
from hostler.policy.priority import Claim, Place
from hostler.policy.share import QuotaTarget

UNKNOWN_TURN_S = 60.0
"""What a job that holds a device is taken to hold it for at least, so that many that begin at once are told apart."""
NOBODY_S = 1e12
"""Added to what a config without a share had, so that all that have one come before it."""
TIERS: Mapping[str, Tier] = {"1": 1, "2": 2, "3": 3}


def next_selfplay(state: State, index: Index, device: Device, jobs: list[Job]) -> Job:
    """The job of the config that starves, or is owed most of the device's tier, or has the best rank of several."""
    by_config = _first_of_each(jobs)
    tier = accounts.tier_of(index, device.spec.id)
    rules = state.rules
    turn_s = _turn_s(state, device, by_config)
    places = _places(state, index, tier, by_config, max(2 * turn_s, UNKNOWN_TURN_S))
    equals = set(priority.contenders(places, rules.placement.starve_after_s, turn_s))
    claims = [_claim(state, index, place) for place in places if place.name in equals]
    chosen, _ = priority.first(claims, rules.priority, rules.placement.starve_after_s, turn_s)
    return by_config[chosen.name]


def targets(state: State, index: Index, tier: str) -> Mapping[str, QuotaTarget]:
    """What is meant for each config of a tier's time."""
    if tier not in index.aims:
        weights = {name: config.spec.weight for name, config in state.configs.items() if not config.retired}
        quotas = state.rules.quotas if tier in TIERS else ()
        index.aims[tier] = share.targets(quotas, list(weights), TIERS.get(tier, 0), weights)
    return index.aims[tier]


def _first_of_each(jobs: Iterable[Job]) -> dict[str, Job]:
    """By config the job of it that comes first."""
    found: dict[str, Job] = {}
    for job in jobs:
        before = found.setdefault(job.spec.serves or "", job)
        if before is not job and job.rank < before.rank:
            found[job.spec.serves or ""] = job
    return found


def _turn_s(state: State, device: Device, names: Iterable[str]) -> float:
    """Half of what the shortest self-play of these takes on such a device: who is less apart is equal."""
    family = f"{device.spec.speed_class} {WorkKind.SELFPLAY}"
    known = (state.durations.get(f"{family} {name}") for name in names)
    return min((each.seconds for each in known if each is not None), default=0.0) / 2


def _places(state: State, index: Index, tier: str, names: Iterable[str], turn_s: float) -> list[Place]:
    """The configs' places in the tier: what each had there, and will have, against its share of it."""
    aims, found = targets(state, index, tier), []
    for name in names:
        account, config, aim = accounts.config_account(tier, name), state.configs.get(name), aims.get(name)
        had = accounts.served_s(state, index, account) + index.devices_of(account) * turn_s
        served = NOBODY_S + had if aim is None or aim.share <= 0 else had / (aim.share * len(aims))
        found.append(Place(name, served, 0.0 if config is None else idle_s(index, config)))
    return found


def _claim(state: State, index: Index, place: Place) -> Claim:
    """The config's claim to a device, from its place in the tier."""
    config = state.configs.get(place.name)
    if config is None:
        return Claim(
            name=place.name, weight=1.0, heaviest=1.0, served=place.served, idle_s=0.0, data_age_s=None, velocity=None
        )  # fmt: skip
    return replace(claim_of(state, index, config), served=place.served, idle_s=place.idle_s)
