"""What does a job of the queue wait for, in a few words? As `explain` has it, of few enough devices for a list."""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice

from hostler.core import away
from hostler.core.explain import plain, verdict_of
from hostler.core.index import Index
from hostler.core.starting import HELD, Verdict, excluded_words
from hostler.core.state import Job, State
from hostler.core.stuck import never_on
from hostler.policy.fit import Refusal

LOOKS = 1600
"""Devices that are asked for a whole list: it is made anew at every look, and a fleet may have thousands."""
LOOKS_LEAST = 4
"""Devices that are asked for each of its jobs all the same."""


def looks_each(jobs: int) -> int:
    """How many devices may be asked for each of so many jobs."""
    return max(LOOKS // max(jobs, 1), LOOKS_LEAST)


def waits_for(state: State, index: Index, job: Job, looks: int) -> str | None:
    """What keeps a job that is next in line, or in it, from its device; `None` for a sweep that has some already.

    So many devices are asked, some of each class.
    """
    if job.id in state.sweeps and state.sweeps[job.id].leases:
        return None
    unconnected = away.all_unconnected(state, job.spec.resources)
    if unconnected is not None:
        return unconnected
    classes = sorted(cls for cls, names in index.members.items() if names)
    if not classes:
        return "the fleet has no devices yet"
    refusals = {cls: never_on(state, index, job.spec.resources, job.spec.work, cls) for cls in classes}
    able = [index.members[cls] for cls, refused in refusals.items() if refused is None]
    if not able:
        return f"fits on no device: {_commonest(index, refusals)}"
    if index.draining:
        return "the next `hostler up`: the controller is draining"
    fitting = sum(map(len, able))
    names = islice(chain.from_iterable(able), 0, None, -(-fitting // looks))
    return _told([verdict_of(state, index, job, state.devices[name]) for name in names], fitting)


def _commonest(index: Index, refusals: dict[str, Refusal | None]) -> str:
    """Why the class with the most devices refuses."""
    refused = refusals[max(refusals, key=lambda cls: len(index.members[cls]))]
    return "" if refused is None else plain(refused)


def _told(asked: list[Verdict], fitting: int) -> str:
    """The gates of the devices it fits on, in short."""
    if any(each.gate is None for each in asked):
        return "a device would take it, in its turn"
    gates = Counter(str(each.gate) for each in asked)
    looked_at = "" if len(asked) == fitting else f"{len(asked)} looked at of "
    if set(gates) <= HELD:
        return "the device it fits on is taken" if fitting == 1 else f"all {looked_at}{fitting} devices are taken"
    if len(gates) == 1:
        return asked[0].says
    return f"of {looked_at}{fitting} devices, {excluded_words(dict(gates.most_common()))}"
