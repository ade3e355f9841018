"""Which work on which device, now? Asks the policies, answers with decisions; each carries what it was based on.

A device that is free looks at the heads of all groups that fit on it, new work at the devices that are open. Among
what is left after the gates the owner's `priority` decides first, then which kind of work is owed time, then its own
order: trainings and scripts by what the device is to them, self-play by what its config is owed of the tier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import TypeAlias

from hostler.core import accounts, gangs, gates, moving, nearness, reasons, rounds, sweeping
from hostler.core.bidding import bid_of, desirability, fitting, market, safest
from hostler.core.index import Index
from hostler.core.loop.claims import idle_s
from hostler.core.loop.ranking import next_selfplay
from hostler.core.offers import HEADS, HEADS_FOR_A_WHILE, Offer, goes_away, has_room, look_again, offers_for
from hostler.core.preempting import drop_stale, make_room
from hostler.core.state import Device, Job, State
from hostler.core.uses import Group
from hostler.model.events import AttemptLeased, Event
from hostler.model.work import WorkKind
from hostler.policy import placement, share
from hostler.policy.fit import Gate
from hostler.policy.share import Account

Emit: TypeAlias = Callable[[Event], None]

PRECEDENCE = (
    WorkKind.EVALUATION,
    WorkKind.EXPORT,
    WorkKind.TRAINING,
    WorkKind.RL,
    WorkKind.SCRIPT,
    WorkKind.SELFPLAY,
    WorkKind.SWEEP,
)
"""Who goes first while nobody is owed time: what others wait for, then what ends, then what fills the rest."""
CHOOSY = frozenset(PRECEDENCE) - {WorkKind.SELFPLAY, WorkKind.SWEEP}
"""Kinds that look for the device that suits them best before devices look for work; the rest fills what is left."""
CHORE = "look"
LOOK_EVERY_S = 300.0
"""How often all that waits is asked for all that is open though nothing has happened: time itself opens some gates."""
STARVED_HOLD = 0.5
"""A device may be kept idle for self-play that starves for this part of the time after which it does."""
SETTLED_S = 600.0
"""Device time that must have been served before anybody is owed any of it."""


def place_all(state: State, index: Index, emit: Emit) -> None:
    """Give every device that has room the work it should have, one piece each in turn until nothing more is to give."""
    if index.draining:
        return
    drop_stale(state, index)
    rounds.play(state, index, emit)
    if CHORE in index.chores:
        index.chores.discard(CHORE)
        index.new_work = True
    changed = list(index.open if index.new_work else index.fresh)
    fresh = dict(index.fresh_groups)
    groups = fresh if len(changed) < 2 else {**index.ready, **fresh}
    choosy = sorted((each for each in groups if each.work in CHOOSY), key=lambda each: PRECEDENCE.index(each.work))
    others = [each for each in fresh if each.work not in CHOOSY]
    index.fresh.clear()
    index.fresh_groups.clear()
    index.new_work = False
    for group in choosy:
        # What has not changed has been asked before for work that has not either.
        _serve_group(state, index, group, emit, None if group in fresh else changed)
    _serve_all(state, index, changed, emit)
    for group in others:
        _serve_group(state, index, group, emit)
    make_room(state, index, emit)
    moving.swap(state, index, emit)
    if index.open and index.ready and index.looked_at + LOOK_EVERY_S <= index.now:
        index.looked_at = index.now
        index.do_later(CHORE, index.now + LOOK_EVERY_S)


def occupied(index: Index, device: Device) -> placement.Occupied:
    """What a device has been given, as the policies see it."""
    load = index.loads[device.spec.id]
    return placement.Occupied(
        attempts=len(device.attempts),
        attempts_s=load.attempts,
        chunks=len(device.chunks),
        chunks_s=load.chunks,
    )


def _serve_group(state: State, index: Index, group: Group, emit: Emit, among: Sequence[str] | None = None) -> None:
    """Serve devices (`among` these) that suit the group, until it has no more jobs or they have no more room.

    What they are given may be of another group, to which they are more.
    """
    while _serve_all(state, index, list(_openings(state, index, group, among)), emit):
        pass


def _serve_all(state: State, index: Index, names: list[str], emit: Emit) -> bool:
    """Serve devices in turn until there is nothing more to give; whether there was anything."""
    served = False
    while names:
        names = [name for name in names if _serve_or_close(state, index, state.devices[name], emit)]
        served = served or bool(names)
    return served


def _openings(state: State, index: Index, group: Group, among: Sequence[str] | None) -> Iterator[str]:
    """Open devices for the jobs of a group: what is kept for the first, then those that suit it best.

    No more of a class than it has jobs.
    """
    head = index.head(state, group) if group in index.ready else None
    if head is None or gates.owner_limit(index, head) is not None:
        return
    yield from [name for name, kept_for in index.reserved.items() if kept_for == head.id and name in index.open]
    open_in = _open_in(index, group, among)
    if not open_in:
        return
    heads, most = list(index.heads(state, group, HEADS)), len(index.ready[group])
    able: dict[str, list[str]] = {}
    for cls, names in open_in.items():
        near = nearness.nearest_first(state, index, head, names)
        roomy = (name for name in near if has_room(state, index, state.devices[name]))
        may = (name for name in roomy if _may_have(state, index, group, heads, state.devices[name]))
        if found := list(islice(may, most)):
            able[cls] = found
    for cls in desirability(state, index, head, able):
        yield from able[cls]


def _open_in(index: Index, group: Group, among: Sequence[str] | None) -> dict[str, list[str]]:
    """By class: open devices, among these if any are named, that the group fits on."""
    classes = fitting(index, group)
    if among is None:
        return {cls: list(index.open_in[cls]) for cls in classes if index.open_in.get(cls)}
    found: dict[str, list[str]] = {}
    for name in among:
        if name in index.open:
            found.setdefault(index.classes[name], []).append(name)
    return {cls: found[cls] for cls in classes if cls in found}


def _may_have(state: State, index: Index, group: Group, heads: list[Job], device: Device) -> bool:
    """Whether one of the group's first jobs could have the device now; if none can, it has been asked before."""
    most = HEADS_FOR_A_WHILE if goes_away(state.nodes[device.spec.node].spec) else len(heads)
    for job in chain(heads, islice(index.heads(state, group, most), len(heads), None)):
        refused = gates.refusal_now(state, index, job, device)
        if refused is None:
            return True
        look_again(index, device, refused)
        if refused.gate is Gate.CLUSTER:
            return False  # so it is for all of them, and a cluster may have thousands of slots to ask
    return False


def _serve_or_close(state: State, index: Index, device: Device, emit: Emit) -> bool:
    if _serve(state, index, device, emit):
        return True
    if not has_room(state, index, device) and not sweeping.room(state, index, device, occupied(index, device)):
        index.closed(device.spec.id)
    return False


def _serve(state: State, index: Index, device: Device, emit: Emit) -> bool:
    """Give the device one more piece of work; whether there was one."""
    if not (index.ready or index.active or index.movable or device.spec.id in index.reserved):
        return False  # devices that come free one after the other mostly find nothing
    held = occupied(index, device)
    every = offers_for(state, index, device, lambda job, group: moving.holds_out(state, index, job, group, device))
    able = [offer for offer in every if offer.others is not None]
    sweep = sweeping.best(state, index, device) if device.spec.id not in index.reserved else None
    sweep_priority = None if sweep is None else state.jobs[sweep.job].priority
    offer = _chosen(state, index, device, able, sweep_priority)
    rival = offer.job if offer is not None and offer.group.work in CHOOSY else None
    if index.movable and moving.improve(state, index, device, rival, emit):
        return False
    if offer is not None and device.attempts and _makes_way(state, index, device, offer):
        return False
    if (offer is not None or sweep is not None) and _is_kept(state, index, device, offer, sweep_priority, every):
        return False
    if offer is not None:
        emit(_lease(state, index, device, held, offer, able))
        for name in (device.spec.id, *(offer.others or ())):
            sweeping.give_way(state, state.devices[name], index.now, offer.job.id, emit)
        return True
    if sweep is not None and sweeping.room(state, index, device, held):
        emit(sweeping.lease(state, index, device, sweep))
        return True
    return False


def _makes_way(state: State, index: Index, device: Device, offer: Offer) -> bool:
    """Keep a device that several share for work that shares with nobody: it never would be empty by itself."""
    if not offer.job.spec.resources.shared:
        return False
    waiting = [
        head
        for group in index.ready
        if group.work in CHOOSY and not group.need.shared and (head := index.peek(state, group)) is not None
    ]
    kept_for = set(index.reserved.values())
    for job in sorted(waiting, key=lambda each: each.rank):
        fits = job.priority >= offer.job.priority and job.id not in kept_for and index.suits(job, device.spec.id)
        if fits and gates.standing_refusal(state, index, job, device) is None:
            index.reserved[device.spec.id] = job.id
            return True
    return False


def _is_kept(
    state: State, index: Index, device: Device, offer: Offer | None, sweep_priority: int | None, every: list[Offer]
) -> bool:
    """Keep the device for work on several that goes before what could have it now, if what it lacks comes in time.

    In time, or whatever it takes where its owner has ranked it higher, or it has waited for too long; but self-play
    that starves is given devices of others (`preempting`), which wastes less.
    """
    first = _first_that_lacks(state, index, device, offer, sweep_priority, every)
    if first is None:
        return False
    rival = (sweep_priority or 0) if offer is None else offer.job.priority
    rules, waited_s = state.rules.placement, _waited_s(state, index, first.job)
    starves = waited_s > rules.starve_after_s and not (rules.preempt and first.group.work is WorkKind.SELFPLAY)
    least_s = STARVED_HOLD * rules.starve_after_s if waited_s > rules.starve_after_s else 0.0
    most_s = math.inf if first.job.priority > rival or starves else least_s
    return gangs.keep(state, index, first.job, device, most_s)


def _first_that_lacks(
    state: State, index: Index, device: Device, offer: Offer | None, sweep_priority: int | None, every: list[Offer]
) -> Offer | None:
    """Work that lacks further devices and goes before what could have the device now.

    Self-play goes before other self-play by what it is owed, and before anything that is ranked alike once it has
    starved for twice as long as it may.
    """
    lacking = [each for each in every if each.others is None]
    mine = (-(sweep_priority or 0), len(PRECEDENCE), 0) if offer is None else _order(offer)
    before = [each for each in lacking if _order(each) < mine and each.group.work is not WorkKind.SELFPLAY]
    if before or not lacking:
        return min(before, key=_order, default=None)
    if offer is not None and offer.group.work is WorkKind.SELFPLAY:
        return _owed_more(state, index, device, offer, every)
    starved_s = 2 * state.rules.placement.starve_after_s
    able = [
        each
        for each in lacking
        if _order(each) < mine or (-each.job.priority <= mine[0] and _waited_s(state, index, each.job) > starved_s)
    ]
    return min(able, key=_order, default=None)


def _waited_s(state: State, index: Index, job: Job) -> float:
    """How long a job has waited this time; self-play only for as long as none of its config was played."""
    config = state.configs.get(job.spec.serves or "") if job.spec.work is WorkKind.SELFPLAY else None
    waited_s = index.now - max(job.submitted_at, job.not_before)
    idle = None if config is None else idle_s(index, config)
    return waited_s if idle is None else min(idle, waited_s)


def _order(offer: Offer) -> tuple[int, int, int]:
    return -offer.job.priority, PRECEDENCE.index(offer.group.work), offer.job.number


def _owed_more(state: State, index: Index, device: Device, offer: Offer, every: list[Offer]) -> Offer | None:
    """The self-play on several devices that is owed more of this tier than what could have the device now."""
    higher = [each for each in every if each.others is None and each.job.priority > offer.job.priority]
    if higher:
        return min(higher, key=_order)
    rivals = {each.job.id: each for each in every if each.group.work is WorkKind.SELFPLAY}
    rivals = {name: each for name, each in rivals.items() if each.job.priority == offer.job.priority}
    if all(each.others is not None for each in rivals.values()):
        return None
    first = rivals[next_selfplay(state, index, device, [each.job for each in rivals.values()]).id]
    return first if first.others is None else None


def _chosen(
    state: State, index: Index, device: Device, offers: list[Offer], sweep_priority: int | None
) -> Offer | None:
    """Who gets the device; `None` leaves it to the sweep, if there is one."""
    if not offers:
        return None
    first = max(offer.job.priority for offer in offers)
    if sweep_priority is not None and sweep_priority > first:
        return None
    offers = [offer for offer in offers if offer.job.priority == first]
    kinds = {offer.group.work for offer in offers}
    if sweep_priority == first:
        kinds.add(WorkKind.SWEEP)
    kind = _kind(state, index, kinds)
    if kind in (WorkKind.SELFPLAY, WorkKind.SWEEP) and kinds >= {WorkKind.SELFPLAY, WorkKind.SWEEP}:
        kind = WorkKind.SELFPLAY if _selfplay_first(index, device) else WorkKind.SWEEP
    if kind is WorkKind.SWEEP:
        return None
    return _best(state, index, device, [offer for offer in offers if offer.group.work is kind])


def _kind(state: State, index: Index, kinds: set[WorkKind]) -> WorkKind:
    """Whose turn it is: who is owed time, or else who goes before the others."""
    if len(kinds) == 1:
        return next(iter(kinds))
    held = [
        Account(
            name=kind,
            share=weight,
            served_s=accounts.served_s(state, index, accounts.kind_account(kind)),
            wants=any(accounts.counts_as(each) is kind for each in kinds),
            holds=len(index.sweeping) if kind is WorkKind.SWEEP else index.devices_of(accounts.kind_account(kind)),
        )
        for kind, weight in state.rules.shares.items()
    ]
    if sum(account.served_s for account in held) > SETTLED_S:
        owed = share.most_owed(held)
        if owed is not None:
            kinds = {each for each in kinds if accounts.counts_as(each) == owed}
    return min(kinds, key=PRECEDENCE.index)


def _selfplay_first(index: Index, device: Device) -> bool:
    at_sweep = sweeping.is_at_one(index, device)
    return placement.selfplay_first(
        placement.Contest(
            selfplay_devices=index.selfplaying,
            sweep_devices=len(index.sweeping) + (at_sweep and not device.chunks),
            holds_chunks=at_sweep,
            selfplay_waited_s=index.now - index.selfplay_at,
            selfplay_turn_s=index.selfplay_turn_s,
            sweep_waited_s=index.now - index.sweep_at,
        )
    )


def _best(state: State, index: Index, device: Device, offers: list[Offer]) -> Offer | None:
    """The one of a kind that comes first on this device."""
    if len(offers) == 1:
        return offers[0]
    if offers[0].group.work is WorkKind.SELFPLAY:
        by_job = {offer.job.id: offer for offer in offers}
        return by_job[next_selfplay(state, index, device, [offer.job for offer in offers]).id]
    offers.sort(key=lambda offer: offer.job.rank)
    bids = [bid_of(state, index, offer.job, offer.group) for offer in offers]
    cls, rules = index.classes[device.spec.id], state.rules.placement
    worths = safest(state, index, cls, bids, placement.worths(bids, cls, market(state, index), rules))
    return offers[worths.index(max(worths))]


def _lease(
    state: State, index: Index, device: Device, held: placement.Occupied, offer: Offer, offers: list[Offer]
) -> AttemptLeased:
    job = offer.job
    place = f"{held.attempts} on the device already" if held.attempts else "the device is idle"
    if held.attempts and held.attempts_s is not None and not job.spec.resources.shared:
        place = f"{held.attempts} ahead, {held.attempts_s:.3g} s at most"
    rivals = [(each.group.work, each.job.priority) for each in offers]
    return AttemptLeased(
        job=job.id,
        attempt=f"{job.id}.{state.skipped + job.attempts + 1}",
        device=device.spec.id,
        others=offer.others or (),
        lane=gates.lane_of(state, index, job, device) or 0,
        why=reasons.of_lease(state, index, device, job, rivals, place),
    )
