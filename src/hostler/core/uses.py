"""What the index is made of: groups of work, what nodes and devices give, and what is looked up once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from hostler.model.record import entity, record
from hostler.model.work import Resources, WorkKind
from hostler.policy.duration import Estimate, Prediction
from hostler.policy.fit import Gate, Refusal

Ranked = tuple[int, int, str]
"""A job in the ready queue: its rank, then its id."""


@entity
class Load:
    """Expected seconds of work put on a device; `unknown` counts what cannot be predicted."""

    attempts_s: float = 0.0
    attempts_unknown: int = 0
    chunks_s: float = 0.0
    chunks_unknown: int = 0

    @property
    def attempts(self) -> float | None:
        """Seconds of queued attempts, `None` if one of them is unpredictable."""
        return None if self.attempts_unknown else self.attempts_s

    @property
    def chunks(self) -> float | None:
        """Seconds of queued chunks, `None` if one of them is unpredictable."""
        return None if self.chunks_unknown else self.chunks_s


class Group(NamedTuple):
    """Work that looks the same to the scheduler, whose jobs go in the order of their rank."""

    work: WorkKind
    label: str
    """The training config, or the family of scripts."""
    need: Resources
    limited_by: str | None = None
    """The job group that lets only some of its jobs run at the same time."""


@entity
class Able:
    """Groups that are ready, as a class of devices sees them."""

    groups: dict[Group, list[Ranked]] = field(default_factory=dict)
    """Those that fit on it, with their heaps."""
    unfit: Counter[Gate] = field(default_factory=Counter)
    """By gate: how many do not."""

    def add(self, group: Group, heap: list[Ranked], refused: Refusal | None) -> None:
        """A group has become ready."""
        if refused is None:
            self.groups[group] = heap
        else:
            self.unfit[refused.gate] += 1

    def remove(self, group: Group, refused: Refusal | None) -> None:
        """A group is ready no more."""
        if refused is None:
            del self.groups[group]
        else:
            self.unfit[refused.gate] -= 1


@entity
class NodeUse:
    """What runs on a node takes of it."""

    scripts: int = 0
    cpus: float = 0.0
    memory_gb: float = 0.0
    disk_gb: float = 0.0
    started_at: float | None = None
    """When something was last put on one of its GPUs."""


@entity
class DeviceUse:
    """What has been put on a device takes of it."""

    vram_gb: float = 0.0
    unshared: int = 0
    """Attempts that share it with nobody."""


@entity
class Live:
    """Attempts that an account has out now: how many devices, and the sum of the times since when they have them."""

    devices: float = 0.0
    since: float = 0.0


@entity
class Backlog:
    """What is left of jobs alike whose owners expect how long they take."""

    jobs: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By model of device; `*`: any other."""
    serves: bool = False
    """Whether they work for a training config."""


class Worth(NamedTuple):
    """What a device of each class brings at the work of a group, as long as speeds and classes are these."""

    rates: Mapping[str, float]
    classes: tuple[str, ...]
    worth: Mapping[str, float]


class Learnt(NamedTuple):
    """How long a family of work takes on a model of device, as long as what was learnt is this."""

    here: Estimate | None
    anywhere: Estimate | None
    prediction: Prediction | None


@entity
class Table:
    """What the classes of the fleet are to the first job of a group, as long as nothing about either changes."""

    job: str
    progress: float
    lessons: int
    classes: list[str]
    seconds: Mapping[str, float] | None
    least_s: float | None
    rates: Mapping[str, float]


@record
class Known:
    """What never changes about a job while the fleet is as it is."""

    label: str
    whole_s: Mapping[str, float] | None
    """Seconds that all of it takes by class; `None`: nobody knows."""
    least_s: float | None
    """The same on the best one."""
    rates: Mapping[str, float]
