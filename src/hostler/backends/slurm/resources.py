"""From what an attempt asks for to what Slurm is asked for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from hostler.backends.slurm.options import Options
from hostler.backends.slurm.parsing import NodeRow
from hostler.model.batch import SHARES, Ask, Share, extra_fault
from hostler.model.errors import SpecError
from hostler.model.record import record
from hostler.model.units import duration
from hostler.model.work import BatchOptions, DeviceKind, WorkKind

FACTOR = 1.5
"""By how much an allocation is longer than what is expected: a run that is cut off is lost, a longer wait is not."""
START_S = 300.0
"""Allowed for modules, containers and imports before the work begins."""
WARN_S = 120
"""Between the first word that the wall time ends and its end: to save what is done, and to tell."""
MARGIN_S = START_S + WARN_S
"""By how much an allocation is longer than its work may run."""
AGENT_GB = 1.0
"""Taken by the agent and what it starts besides the work."""
NO_WISHES = BatchOptions()


@record
class Place:
    """A partition as its settings describe it, and its rules."""

    partition: str
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    reservation: str | None = None
    gpu_type: str | None = None
    extra: tuple[str, ...] = ()
    requeue: bool = False
    array_limit: Annotated[int, Field(ge=1)] | None = None
    """Tasks of one array that run at a time."""
    shares: Mapping[WorkKind, Share]
    max_time_s: float | None = None
    """Longest wall time it allows; infinite, or unknown, sets no bound."""
    host_cpus: int | None = None
    """Cores of its largest node: a kind's usual share is no more. `None`: unknown."""
    host_memory_gb: float | None = None
    """The same for memory, in GiB."""


@record
class Errand:
    """What a submission is besides its resources."""

    name: str
    comment: str
    folder: str
    """Where the script's own output goes."""
    chdir: str
    tasks: Annotated[int, Field(ge=1)] | None = None
    """Of an array."""
    stays_s: float | None = None
    """Wall time of a pilot, unless its first work needs more."""


def options(ask: Ask, place: Place, errand: Errand) -> Options:
    """What to submit. Raises `SpecError` where the partition cannot run it, whatever is free."""
    own = ask.options or NO_WISHES
    share = place.shares.get(ask.work) or SHARES[ask.work]
    fault = extra_fault(own.extra)
    if fault is not None:
        raise SpecError(f"slurm.extra: {fault}")
    time_s = wall_s(ask, place) if errand.stays_s is None else pilot_s(errand.stays_s, ask, place)
    on_gpus = ask.kind is not DeviceKind.CPU
    return Options(
        name=errand.name,
        comment=errand.comment,
        partition=place.partition,
        account=own.account or place.account,
        qos=own.qos or place.qos,
        constraint=own.constraint or place.constraint,
        reservation=own.reservation or place.reservation,
        time_s=time_s,
        cpus=_cpus(ask, own, share, place),
        memory_gb=_memory_gb(ask, own, share, place),
        gpus=ask.devices if on_gpus else 0,
        gpu_type=own.gpu_type or ask.model or place.gpu_type,
        tasks=errand.tasks,
        limit=None if errand.tasks is None else place.array_limit,
        requeue=place.requeue if own.requeue is None else own.requeue,
        warn_s=warning_s(time_s),
        folder=errand.folder,
        chdir=errand.chdir,
        extra=(*place.extra, *own.extra),
    )


def warning_s(time_s: float) -> int:
    """How long before its end an allocation is told; of a short one, most is for its work."""
    return max(1, min(WARN_S, int(time_s / 4)))


def wall_s(ask: Ask, place: Place) -> float:
    """The wall time of an attempt's allocation, start and end of the work included.

    What the job itself wants holds. Otherwise it is what is expected, times `FACTOR`, at least the least of its kind;
    or, where nobody knows that, as long as the job may run, or the most of its kind. It is never longer than the job
    may run, and within what the partition allows. Raises `SpecError` as `refuse_too_long` does.
    """
    refuse_too_long(ask, place)
    own = ask.options or NO_WISHES
    if own.time_s is not None:
        return own.time_s
    share = place.shares.get(ask.work) or SHARES[ask.work]
    known = known_s(ask)
    return _bounded(share.most_s * ask.longer if known is None else max(known, _least_s(ask, share)), place)


def pilot_s(usual_s: float, ask: Ask, place: Place) -> float:
    """The wall time of an allocation that takes one order after the other, this one first. Raises `SpecError`."""
    refuse_too_long(ask, place)
    needed_s = ask.options.time_s if ask.options is not None and ask.options.time_s is not None else known_s(ask)
    return _bounded(usual_s * ask.longer if needed_s is None else max(usual_s, needed_s), place)


def known_s(ask: Ask) -> float | None:
    """The wall time that an attempt is known to do with, start and end included; `None`: nobody knows.

    Who was cut off although it had the time that it may run began too slowly: the margins grow with the rest.
    """
    margin = MARGIN_S * ask.longer
    may = None if ask.walltime_s is None else ask.walltime_s + margin
    if ask.expected_s is None:
        return may
    takes = ask.expected_s * FACTOR * ask.longer + margin
    return takes if may is None else min(takes, may)


def refuse_too_long(ask: Ask, place: Place) -> None:
    """Raises `SpecError` where a job wants more time than the partition allows.

    One that may run longer than that is refused as well, unless it goes on from what it has saved.
    """
    limit, wanted_s = place.max_time_s, None if ask.options is None else ask.options.time_s
    if limit is None or math.isinf(limit):
        return
    allows = f"partition {place.partition!r} allows jobs {duration(limit)}"
    if wanted_s is not None and wanted_s > limit:
        raise SpecError(f"{allows}, and `slurm.time_s` wants {duration(wanted_s)}; lower it, or use another partition")
    needed_s = 0.0 if ask.walltime_s is None else ask.walltime_s + MARGIN_S
    if wanted_s is None and needed_s > limit and not ask.checkpoints:
        raise SpecError(
            f"{allows}, and walltime_s with its margins for start and end comes to {duration(needed_s)}; "
            "lower walltime_s, or use another partition"
        )


def slots(rows: Iterable[NodeRow], cpus: int, most: int) -> int:
    """How many allocations of so many cores the nodes of a partition hold, at most so many."""
    return min(most, sum((row.cpus or 0) // cpus for row in rows))


def slot_cpus(kinds: Sequence[WorkKind], shares: Mapping[WorkKind, Share]) -> int:
    """The cores of one slot of a partition without GPUs: enough for each of these kinds of work."""
    return max((shares.get(kind) or SHARES[kind]).cpus_least for kind in kinds)


def _least_s(ask: Ask, share: Share) -> float:
    """The least of a kind, though no more than the job may run."""
    return share.least_s if ask.walltime_s is None else min(share.least_s, ask.walltime_s + MARGIN_S)


def _bounded(seconds: float, place: Place) -> float:
    return seconds if place.max_time_s is None else min(seconds, place.max_time_s)


def _cpus(ask: Ask, own: BatchOptions, share: Share, place: Place) -> int:
    if own.cpus is not None:
        return own.cpus
    if ask.cpus:
        return math.ceil(ask.cpus)
    if ask.kind is DeviceKind.CPU:
        usual = share.cpus_least * ask.devices
    else:
        usual = min(max(share.cpus_per_gpu * ask.devices, share.cpus_least), share.cpus_most)
    return usual if place.host_cpus is None else min(usual, place.host_cpus)


def _memory_gb(ask: Ask, own: BatchOptions, share: Share, place: Place) -> float:
    if own.memory_gb is not None:
        return own.memory_gb
    if ask.memory_gb is not None:
        return ask.memory_gb + AGENT_GB
    return share.memory_gb if place.host_memory_gb is None else min(share.memory_gb, place.host_memory_gb)
