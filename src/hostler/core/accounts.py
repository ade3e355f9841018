"""Who has had how much device time, and what it cost: by work kind, by tier × training config, and in all.

An account is `/<kind>` or `<tier>:<config>`; the tier of a CPU slot is `cpu`. What is over is folded into the state,
and fades; what is out now is counted from two sums, so that asking costs the same however much runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from hostler.core.index import Index
from hostler.core.state import Attempt, Job, Spent, State
from hostler.model.work import WorkKind
from hostler.policy import cost, share

NOTHING_LEFT = 1e-9
COUNTS_AS = {WorkKind.EXPORT: WorkKind.TRAINING}
"""An export is a part of training."""


def counts_as(work: WorkKind) -> WorkKind:
    """The kind whose share of the devices a kind of work has."""
    return COUNTS_AS.get(work, work)


def kind_account(work: WorkKind) -> str:
    """The account of a kind of work in the whole fleet."""
    return f"/{counts_as(work)}"


def config_account(tier: str, config: str) -> str:
    """The account of a training config in a tier."""
    return f"{tier}:{config}"


def tier_of(index: Index, device: str) -> str:
    """`1`, `2`, `3`, or `cpu`."""
    site = index.sites.get(device)
    return "cpu" if site is None or site.tier is None else str(site.tier)


def served_s(state: State, index: Index, account: str) -> float:
    """Device seconds an account has had, fading, with those of what it has out now."""
    past = share.served(state.service.get(account, share.NOTHING), index.now)
    live = index.live.get(account)
    return past if live is None else past + max(live.devices * index.now - live.since, 0.0)


def taken(state: State, index: Index, job: Job, attempt: Attempt) -> None:
    """An attempt has its devices from now on; those that had the device alone share it now.

    On a pool it has nothing yet: it waits in the cluster's queue, for as long as that lasts.
    """
    if not _has_devices(state, attempt):
        return
    sharers = _sharers(state, job, attempt)
    for other, held in sharers:
        _settle(state, index, other, held, before=len(sharers), after=len(sharers) + 1)
    _count(index, job, attempt, 1 / (len(sharers) + 1))


def begun(state: State, index: Index, job: Job, attempt: Attempt, at: float) -> None:
    """An attempt has begun to run, then; of a pool it has its slots only now."""
    if _is_pooled(state, attempt):
        attempt.booked_at = at
        taken(state, index, job, attempt)


def given_back(state: State, index: Index, job: Job, attempt: Attempt) -> None:
    """An attempt has given its devices back; those that are left there have more of the device now."""
    if not _has_devices(state, attempt):
        return
    sharers = _sharers(state, job, attempt)
    _settle(state, index, job, attempt, before=len(sharers) + 1, after=None)
    for other, held in sharers:
        _settle(state, index, other, held, before=len(sharers) + 1, after=len(sharers))


def serve(state: State, index: Index, device: str, job: Job, seconds: float) -> None:
    """A device has worked for a job so long, and is done with it."""
    for account in _accounts(index, device, job):
        state.service[account] = share.add(state.service.get(account, share.NOTHING), seconds, state.at)
    whom = job.spec.serves or (job.id if job.id in state.sweeps else "")
    key = f"{job.spec.work} {whom}".strip()
    state.spent[key] = _spent(state.spent.get(key, Spent()), index, device, seconds)
    place = f"{tier_of(index, device)} {state.nodes[state.devices[device].spec.node].spec.provider or ''}".strip()
    state.spent_at[place] = _spent(state.spent_at.get(place, Spent()), index, device, seconds)


def recount(state: State, index: Index) -> None:
    """Count anew what is out: at a start, and when nodes have changed their tiers."""
    index.live.clear()
    for device in state.devices.values():
        for name in device.attempts:
            job = state.jobs[name.rpartition(".")[0]]
            if job.attempt is None or not _has_devices(state, job.attempt):
                continue
            if job.attempt.device == device.spec.id:
                _count(index, job, job.attempt, 1 / (len(_sharers(state, job, job.attempt)) + 1))


def _has_devices(state: State, attempt: Attempt) -> bool:
    return attempt.started_at is not None or not _is_pooled(state, attempt)


def _is_pooled(state: State, attempt: Attempt) -> bool:
    return state.nodes[state.devices[attempt.device].spec.node].spec.pool is not None


def _sharers(state: State, job: Job, attempt: Attempt) -> list[tuple[Job, Attempt]]:
    """The others that share the attempt's device with it now."""
    if not job.spec.resources.shared or attempt.others:
        return []
    others = (state.jobs[name.rpartition(".")[0]] for name in state.devices[attempt.device].attempts)
    return [(each, each.attempt) for each in others if each.attempt is not None and each.attempt.id != attempt.id]


def _settle(state: State, index: Index, job: Job, attempt: Attempt, *, before: int, after: int | None) -> None:
    """Book what an attempt has had of its devices since they were last shared out, and go on with its new part."""
    _count(index, job, attempt, -1 / before)
    had_s = max(state.at - _booked_at(attempt), 0.0) / before
    for name in attempt.devices:
        serve(state, index, name, job, had_s)
    attempt.booked_at = state.at
    if after is not None:
        _count(index, job, attempt, 1 / after)


def _count(index: Index, job: Job, attempt: Attempt, part: float) -> None:
    """Note that an attempt has this part of its devices since it was last booked; that it had it, if negative."""
    for name in attempt.devices:
        for account in _accounts(index, name, job):
            live = index.live[account]
            live.devices += part
            live.since += part * _booked_at(attempt)
            if abs(live.devices) < NOTHING_LEFT:
                del index.live[account]


def _booked_at(attempt: Attempt) -> float:
    # Attempts of older journals were booked at their ends alone.
    return attempt.booked_at or attempt.leased_at


def _accounts(index: Index, device: str, job: Job) -> Iterator[str]:
    tier = tier_of(index, device)
    yield kind_account(job.spec.work)
    if job.spec.serves is not None:
        yield config_account(tier, job.spec.serves)


def _spent(before: Spent, index: Index, device: str, seconds: float) -> Spent:
    site = index.sites.get(device)
    price = None if site is None else cost.device_price(site.node, site.device)
    return Spent(
        device_s=before.device_s + seconds,
        cost=before.cost + (price or 0.0) * seconds / 3600,
        unpriced_s=before.unpriced_s + (seconds if price is None else 0.0),
    )
