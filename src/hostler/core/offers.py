"""Which jobs could go to a device now? Asked for every device that comes free, whatever waits.

The first job of each group is asked, one priority after the other until somebody may; and what the gates say is asked
once for all work that is alike to them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple, TypeAlias

from hostler.core import foreign_use, gates
from hostler.core.gangs import partners
from hostler.core.index import Index, group_of
from hostler.core.state import Device, Job, State
from hostler.core.stuck import runs_in_place
from hostler.core.uses import Group, Ranked
from hostler.model.fleet import NodeSpec
from hostler.model.work import JobState, WorkKind
from hostler.policy import placement
from hostler.policy.fit import Gate, Refusal

HEADS = 4
"""Jobs of one group that are looked at for a device: a first one that cannot go there must not hold up the next."""
HEADS_FOR_A_WHILE = 64
"""The same for a device that goes away again: what takes too long for it must not hide what does not."""
TOO_LONG = (Gate.WALL, Gate.SURVIVAL, Gate.OPTIONS, Gate.FOLDER, Gate.ENVIRONMENT)
"""Gates that ask how long the very job takes, and what it wants of a cluster."""


class Offer(NamedTuple):
    """A job that could be put on the device."""

    job: Job
    group: Group
    others: tuple[str, ...] | None
    """Further devices that it would take; `None`: too few of them are free."""


Leaves: TypeAlias = Callable[[Job, Group], bool]
"""Whether a job leaves the device to others; self-play takes what there is."""
Kind: TypeAlias = tuple[int, int]
"""The identities of a kind of work and of a need, which live as long as a question: hashing them takes longer."""
Queue: TypeAlias = tuple[Group, list[Ranked]]
Levels: TypeAlias = defaultdict[int, list[Queue | Offer]]


def offers_for(state: State, index: Index, device: Device, leaves: Leaves) -> list[Offer]:
    """Jobs that could go to the device now: of each group that fits the first that may, and wants to (`leaves`).

    Of the highest priority of which one can go there at once all, of higher ones those that lack further devices; and
    of the next lower one a single one, to be compared with.
    """
    if device.spec.id not in index.classes or not has_room(state, index, device):
        return []
    if device.spec.id in index.reserved:
        return _for_whom_it_is_kept(state, index, device)
    asked, found, first = _Asked(state, index, device, leaves), list[Offer](), None
    levels = _by_priority(index, device)
    while levels:
        priority = max(levels)
        for each in levels.pop(priority):
            offer = each if isinstance(each, Offer) else asked.first_of(*each, priority, levels)
            if offer is None:
                continue
            found.append(offer)
            if offer.others is not None and first is None:
                first = priority
            elif first is not None and offer.others is not None and priority < first:
                return found
    return found


def _for_whom_it_is_kept(state: State, index: Index, device: Device) -> list[Offer]:
    job = state.jobs[index.reserved[device.spec.id]]
    if job.state is not JobState.PENDING or job.not_before > index.now or index.blocked.get(job.id):
        return []
    refused = gates.refusal(state, index, job, device)
    if refused is not None:
        look_again(index, device, refused)
        return []
    others = partners(state, index, job, device)
    if others is None:
        _read_peers(state, index, device)
    return [Offer(job=job, group=group_of(job), others=others)]


def _read_peers(state: State, index: Index, device: Device) -> None:
    """Have the use of a device's peers read, where that is what keeps work on several off them."""
    peers = (state.devices[peer.id] for peer in index.sites[device.spec.id].peers)
    if any(foreign_use.unread(state, index, each) is not None for each in peers):
        index.unread[device.spec.node] = None


def has_room(state: State, index: Index, device: Device) -> bool:
    """Whether the device could take one more attempt of any kind."""
    if not device.attempts:
        return True
    shares = index.uses[device.spec.id].unshared == 0
    if shares and len(device.attempts) < gates.lanes(state, device.spec.id):
        return True
    load = index.loads[device.spec.id]
    held = placement.Occupied(attempts=len(device.attempts), attempts_s=load.attempts, chunks=0, chunks_s=None)
    return placement.takes_attempt(held, 0.0)


def look_again(index: Index, device: Device, refused: Refusal) -> None:
    """What only time keeps off a device is tried when that is over, and what a reading keeps off, when it is read."""
    if refused.gate is Gate.STAGGER:
        use, limits = index.nodes[device.spec.node], index.sites[device.spec.id].node.limits
        index.look_again(device.spec.id, (use.started_at or index.now) + limits.stagger_s)
    elif refused.gate is Gate.READING:
        index.unread[device.spec.node] = None


def goes_away(node: NodeSpec) -> bool:
    """Whether it matters how long a job takes on the node, or what it wants of a cluster."""
    return node.ephemeral or node.ends_at is not None or node.pool is not None


def _by_priority(index: Index, device: Device) -> Levels:
    """Groups that fit, by the priority of their first jobs, as far as one can tell without looking at the jobs."""
    levels: Levels = defaultdict(list)
    able = index.able_on(index.classes[device.spec.id])
    for group, heap in able.groups.items():
        levels[-heap[0][0]].append((group, heap))
    for gate, groups in able.unfit.items():
        if groups:
            index.gates[device.spec.node, gate] += groups
    return levels


class _Asked:
    """What the gates of one device say, kept while one decision is made."""

    def __init__(self, state: State, index: Index, device: Device, leaves: Leaves) -> None:
        self.state, self.index, self.device, self.leaves = state, index, device, leaves
        self.node = state.nodes[device.spec.node].spec
        self.goes = goes_away(self.node)
        self.special = bool(device.attempts)
        self.answers: dict[Kind, Refusal | None] = {}
        self.welcome: set[Kind] = set()
        """Kinds of which every job may go there that is kept from nothing itself."""

    def first_of(self, group: Group, heap: list[Ranked], priority: int, levels: Levels) -> Offer | None:
        """The first job of a group that may go to the device, if it is of this priority; lower ones are put there."""
        head: Job | None = self.state.jobs[heap[0][2]]
        if head is None or not self.index.is_ready(head, heap[0]):
            head = self.index.head(self.state, group)
            if head is None:
                return None
        if head.priority < priority:
            levels[head.priority].append((group, heap))
            return None
        offer = self._offer(group, head)
        if offer is None or offer.job.priority == priority:
            return offer
        levels[offer.job.priority].append(offer)
        return None

    def _offer(self, group: Group, head: Job) -> Offer | None:
        need, job = group.need, head
        if (group.work is WorkKind.TRAINING or group.limited_by is not None) and self._is_limited(head):
            return None  # and so it is for all of them
        kind = id(group.work), id(need)
        elsewhere = gates.is_barred(self.state, head, self.node)
        is_welcome = kind in self.welcome and not self._is_own(head)
        if not is_welcome and not self._may(group, head):
            if self.answers.get(kind) is not None:
                return None  # and so it is for all of them
            most = HEADS_FOR_A_WHILE if self.goes or elsewhere else HEADS
            rest = islice(self.index.heads(self.state, group, most), 1, None)
            found = next((each for each in rest if self._may(group, each)), None)
            if found is None:
                return None
            job = found
        alone = need.gpus == 1 and not need.shards
        others = () if alone else partners(self.state, self.index, job, self.device)
        if others is None:
            _read_peers(self.state, self.index, self.device)
        if others is not None and group.work is not WorkKind.SELFPLAY and self.leaves(job, group):
            return None
        return Offer(job, group, others)

    def _is_own(self, job: Job) -> bool:
        """Whether the gates may say something else of the job than of others of its kind and need."""
        if job.avoid or job.vram_above is not None or runs_in_place(job):
            return True
        return gates.is_barred(self.state, job, self.node)

    def _is_limited(self, job: Job) -> bool:
        refused = gates.owner_limit(self.index, job)
        if refused is not None:
            self.index.gates[self.node.name, refused.gate] += 1
        return refused is not None

    def _may(self, group: Group, job: Job) -> bool:
        refused = self._refusal(group, job)
        if refused is None:
            return True
        self.index.gates[self.node.name, refused.gate] += 1
        look_again(self.index, self.device, refused)
        return False

    def _refusal(self, group: Group, job: Job) -> Refusal | None:
        """The gates' answer: the same for all work of a kind with one need, but for what a job itself is kept from."""
        work, state, index = group.work, self.state, self.index
        if self.special or self._is_own(job):
            return gates.refusal(state, index, job, self.device)
        kind = id(work), id(group.need)
        if kind not in self.answers:
            refused = gates.refusal(state, index, job, self.device)
            if refused is None or refused.gate not in TOO_LONG:
                self.answers[kind] = refused
            if refused is None and not self.goes:
                self.welcome.add(kind)
            return refused
        return self.answers[kind] or (gates.too_long(state, index, job, self.device, self.node) if self.goes else None)
