"""Why does this job get this device? In one line, for the event that says so; made from what was decided on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from hostler.core import accounts
from hostler.core.bidding import bid_of, market
from hostler.core.index import Index
from hostler.core.loop.claims import FRESH_S, score_of
from hostler.core.loop.ranking import targets
from hostler.core.state import Device, Job, State
from hostler.model.work import WorkKind
from hostler.policy import placement

LONGEST = 200
"""Characters: it is written into the journal at every lease."""


Rival: TypeAlias = tuple[WorkKind, int]
"""Kind and priority of a job that could have had the device."""


def of_lease(state: State, index: Index, device: Device, job: Job, rivals: Sequence[Rival], place: str) -> str:
    """Why the job goes to the device rather than one of `rivals`, the first of each group that could (it is one)."""
    parts = [
        *_over_ranks(job, rivals),
        *_over_kinds(state, index, job, rivals),
        *_over_its_like(state, index, device, job, rivals),
        f"waited {max(index.now - job.submitted_at, 0.0):.0f} s",
        place,
    ]
    why = "; ".join(parts)
    return why if len(why) <= LONGEST else why[: LONGEST - 1] + "…"


def _over_ranks(job: Job, rivals: Sequence[Rival]) -> Iterator[str]:
    below = [priority for _, priority in rivals if priority < job.priority]
    if below:
        yield f"priority {job.priority} before {max(below)}"


def _over_kinds(state: State, index: Index, job: Job, rivals: Sequence[Rival]) -> Iterator[str]:
    """What the kinds that could have had the device had of late, against their shares."""
    work = job.spec.work
    others = sorted({kind for kind, priority in rivals if priority == job.priority} - {work})
    if not others:
        return
    served = {
        kind: accounts.served_s(state, index, accounts.kind_account(kind))
        for kind in state.rules.shares
        if kind in (work, *others) or accounts.kind_account(kind) in state.service
    }
    total_s, whole = math.fsum(served.values()), math.fsum(state.rules.shares[kind] for kind in served)
    rest = f" and {len(others) - 2} more" if len(others) > 2 else ""
    yield f"{_standing(state, work, served.get(work, 0.0), total_s, whole)} before {', '.join(others[:2])}{rest}"


def _standing(state: State, kind: WorkKind, served_s: float, total_s: float, whole: float) -> str:
    weight = state.rules.shares.get(kind)
    if weight is None or total_s <= 0 or whole <= 0:
        return kind
    return f"{kind} ({served_s / total_s:.0%} of the device time, its share is {weight / whole:.0%})"


def _over_its_like(state: State, index: Index, device: Device, job: Job, rivals: Sequence[Rival]) -> Iterator[str]:
    if job.spec.work is WorkKind.SELFPLAY and job.spec.serves is not None:
        yield from _of_config(state, index, accounts.tier_of(index, device.spec.id), job.spec.serves)
        return
    like = rivals.count((job.spec.work, job.priority))
    if like < 2:
        yield f"first {job.spec.work} that may go there"
        return
    bid, cls = bid_of(state, index, job), index.classes[device.spec.id]
    yield f"best of {like}: {placement.explain_score(bid, cls, market(state, index), state.rules.placement)}"


def _of_config(state: State, index: Index, tier: str, name: str) -> Iterator[str]:
    """What the config had of the tier and is meant to have, and what its score consists of."""
    aim, config = targets(state, index, tier).get(name), state.configs.get(name)
    total_s = _tier_s(state, index, tier)
    if aim is not None and total_s > 0:
        had_s = accounts.served_s(state, index, accounts.config_account(tier, name))
        yield f"{name} had {min(had_s / total_s, 1.0):.1%} of the time of tier {tier}, its share is {aim.share:.1%}"
    if config is not None:
        score = score_of(state, index, config)
        yield f"score {score.total:.2f}: " + ", ".join(
            f"{part} {value:.2f}" for part, value in score.contributions.items()
        )


def _tier_s(state: State, index: Index, tier: str) -> float:
    """Device seconds that all configs had of a tier, as of a minute ago at most: a sum over hundreds of configs."""
    known = index.tier_s.get(tier)
    if known is None or index.now - known[0] >= FRESH_S:
        names = targets(state, index, tier)
        total_s = math.fsum(accounts.served_s(state, index, accounts.config_account(tier, name)) for name in names)
        known = index.tier_s[tier] = index.now, total_s
    return known[1]
