"""Nodes that are pools: a part of a cluster whose own scheduler says when and where what is asked of it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from hostler.model.numbers import Few, Some
from hostler.model.record import record
from hostler.model.work import Seconds

Mode = Literal["job", "array", "pilot"]
"""How orders become batch jobs: one for each, an array for those that are alike, or one that stays and takes many."""


NO_MODELS: Mapping[str, int] = {}


@record
class Pool:
    """What is known of a pool. Its devices are slots: what a batch job there is given, a GPU say."""

    partition: str
    """What the cluster calls it."""
    max_pending: Some
    """Slots that may wait in the cluster's own queue at a time."""
    longest_s: Seconds | None = None
    """How long a job may run there; `None`: for ever, or nobody knows."""
    margin_s: Annotated[float, Field(ge=0)] = 0.0
    """What goes off that for the start and the end of an attempt."""
    gpus_per_host: Few | None = None
    """The most that one job can be given; `None`: unknown."""
    gpus_by_model: Mapping[str, Few] = field(default_factory=lambda: NO_MODELS)
    """The same by model, as far as their hosts have names for them."""
    cpus_per_host: Few | None = None
    """Cores of the largest host: no job is given more. `None`: unknown."""
    memory_gb_per_host: Annotated[float, Field(ge=0)] | None = None
    """GiB of the host with the most: no job is given more. `None`: unknown."""
    overhead_gb: Annotated[float, Field(ge=0)] = 0.0
    """What goes off that for the agent of an attempt."""


class SlotPhase(StrEnum):
    """Where the batch job behind a slot stands."""

    ASKED = "asked"
    """It is being submitted."""
    WAITING = "waiting"
    """The cluster has it, and has not begun it."""
    UP = "up"
    """It runs."""
    UNKNOWN = "unknown"
    """The cluster says something that nobody here understands, or nothing at all; it is taken for alive."""


@record
class SlotSeen:
    """The batch job behind a slot, as it was last seen. Times are the cluster's."""

    phase: SlotPhase
    job: str | None
    """What the cluster calls it, `823` or `820_3`."""
    says: str
    """What the cluster says of it, in its own words: the state and, where it waits, why."""
    stuck: bool = False
    """Whether it may wait for ever for the reason that is said."""
    stays: bool = True
    """Whether it takes one order after the other; else what comes next is asked of the cluster anew."""
    asked_at: float | None = None
    began_at: float | None = None
    ends_at: float | None = None
    """When the cluster will end it."""


@record
class Supply:
    """How busy the hosts of a pool are, whoever uses them; GPUs, or cores where it has none."""

    idle: Few
    used: Few
    down: Few
    hosts: Few
    hosts_down: Few


@record
class BatchTask:
    """One task of a batch: the slot it stands behind, and the attempts it was made for."""

    slot: str
    """Queue of the slot, such as `cuda3`, or of several of them: `cuda0+cuda1`."""
    attempts: tuple[str, ...] = ()


@record
class Span:
    """For how long each allocation of a batch is asked for, and what is lost at the end of that."""

    seconds: Seconds
    longest: bool
    """Whether that is all that there is for its work."""
    saves: bool
    """Whether its work goes on elsewhere from what it has saved."""


@record
class Batch:
    """One submission to a cluster: a batch job, or an array of them. `tasks` has what each is for."""

    token: str
    """What it is found by: the name of its jobs, and for people their comment; made before it is submitted."""
    node: str
    mode: Mode
    tasks: tuple[BatchTask, ...]
    wants: str
    """What was asked of the cluster for each task, in words."""
    time: Span
    requested_at: float
    job: str | None = None
    """What the cluster calls it, once it has said so."""
    submitted_at: float | None = None


NO_SLOTS: Mapping[str, SlotSeen] = {}


@record
class Seen:
    """What was last seen of a pool."""

    at: float
    slots: Mapping[str, SlotSeen] = field(default_factory=lambda: NO_SLOTS)
    """By queue of the slot; what is not named has nothing."""
    supply: Supply | None = None
    closed: str | None = None
    """Why nothing begins there now, in the cluster's words: `down`, `drain`."""
    trouble: str | None = None
    """Why what is told here may be old."""
