"""What the jobs that are placed anew every round offer: their bids, and the market they meet in.

A round asks all of them together, again and again; what does not change about a job is looked up once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostler.core import bidding, forecast
from hostler.core.index import Index, group_of
from hostler.core.state import Job, State
from hostler.core.uses import Known
from hostler.policy import placement
from hostler.policy.placement import Bid, Market

OVERRUN = 0.05
"""What work that runs longer than expected is taken to need still, as a share of the whole."""
LEAST = 1e-4
DIGITS = 6
"""Speeds that agree in so many digits are the same: jobs of one family share one table of them."""


def bids(state: State, index: Index, jobs: Sequence[Job]) -> list[Bid]:
    """What jobs offer now, waiting or running."""
    fleet = {cls: len(names) for cls, names in index.members.items()}
    shares: dict[int, float] = {}
    found = []
    for job in jobs:
        known = index.known_bids.get(job.id)
        if known is None:
            known = index.known_bids[job.id] = _look_up(state, index, job)
        table = id(known.rates)  # many jobs share one
        if table not in shares:
            shares[table] = placement.equal_share(known.rates, fleet)
        found.append(_bid(state, index, job, known, shares[table]))
    return found


def market(state: State, index: Index, bids: Sequence[Bid], capacity: Mapping[str, int]) -> Market:
    """What devices are worth now; and how long all takes, where nothing more seems to be coming."""
    drain_s = placement.drain_s(bids, capacity, index.prices)
    index.round_over_at = None if drain_s is None else index.now + drain_s
    return Market(
        prices=index.prices,
        pressure=sum(each.devices for each in bids) / max(sum(capacity.values()), 1),
        drain_s=placement.closing(drain_s, len(bids), _quiet_s(state, index)),
    )


def is_closing(state: State, index: Index, active: int) -> bool:
    """Whether nothing more seems to be coming, if all is as it was in the last round."""
    left_s = None if index.round_over_at is None else index.round_over_at - index.now
    return placement.closing(left_s, active, _quiet_s(state, index)) is not None


def _quiet_s(state: State, index: Index) -> float:
    """Since when nothing has come."""
    newest = state.jobs.get(f"j{state.next_job - 1}")
    return 0.0 if newest is None else index.now - newest.submitted_at


def _bid(state: State, index: Index, job: Job, known: Known, share: float) -> Bid:
    held = None if job.attempt is None else index.classes.get(job.attempt.device)
    left, whole_s, since_s = _left(index, job, known, held), known.least_s, index.now - job.submitted_at
    return Bid(
        job=job.id,
        group=known.label,
        priority=job.priority,
        value=1.0,
        waited_s=0.0 if held is not None else max(index.now - max(job.submitted_at, job.not_before), 0.0),
        rates=known.rates,
        remaining_s=None if whole_s is None else left * whole_s,
        devices=job.spec.resources.gpus,
        held=held,
        restart_s=state.rules.placement.restart_s,
        late=whole_s is not None and placement.is_late(since_s, left * whole_s, whole_s, share),
    )


def _look_up(state: State, index: Index, job: Job) -> Known:
    group = group_of(job)
    classes = bidding.fitting(index, group)
    whole = {cls: forecast.expected(job, index.samples[cls].device.speed_class) for cls in classes}
    timed = {cls: seconds for cls, seconds in whole.items() if seconds is not None} or None
    rates = bidding.rates(state, index, group, timed, classes)
    key = tuple((cls, round(rate, DIGITS)) for cls, rate in rates.items())
    return Known(
        label=group.label,
        whole_s=timed,
        least_s=None if timed is None else min(timed.values()),
        rates=index.speeds.setdefault(key, dict(key)),
    )


def _left(index: Index, job: Job, known: Known, held: str | None) -> float:
    """The share of the job that is to be done still."""
    left = 1.0 - job.progress
    if job.attempt is None or held is None or known.whole_s is None or held not in known.whole_s:
        return max(left, LEAST)
    began = job.attempt.leased_at if job.attempt.started_at is None else job.attempt.started_at
    left -= (index.now - began) / known.whole_s[held]
    return max(left, LEAST) if left > 0 else OVERRUN
