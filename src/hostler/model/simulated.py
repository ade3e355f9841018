"""What a virtual run of a fleet came to, in numbers that its journal proves. Times are seconds since its begin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hostler.model.record import record
from hostler.model.work import WorkKind


@record
class Span:
    """One attempt on one of its devices, from its process's begin to its end."""

    device: str
    job: str
    kind: WorkKind
    config: str | None
    begin: float
    end: float
    """Of what a lost node ran: when it was last known to be there."""
    useful_s: float
    """Without start-up and without what had to be done again."""
    fate: str
    """`done`, `failed`, `stopped`, `lost`, `open` (it ran on when the time was over)."""
    weight: float = 1.0
    """Part of the device, where several shared it."""


@record
class DeviceUse:
    """What became of a device's time."""

    device: str
    model: str | None
    node: str
    provider: str | None
    tier: int | None
    """`None`: a CPU slot, or a GPU of unknown memory."""
    gpu: bool
    power: float
    """True speed, in the units of `policy.power`."""
    up_s: float
    """While its node was there, reachable or not."""
    busy_s: float
    """With at least one attempt or chunk at work."""
    useful_s: float


@record
class NodeUse:
    """What a node cost."""

    node: str
    provider: str | None
    there: tuple[tuple[float, float], ...]
    """From when to when it was there, reachable or not."""
    cut: tuple[tuple[float, float], ...]
    """From when to when it was out of reach, there or not: it can be given nothing then."""
    price_per_h: float | None
    deaths: int

    @property
    def up_s(self) -> float:
        """How long it was there."""
        return sum(end - begin for begin, end in self.there)

    @property
    def cost(self) -> float | None:
        """Price × the time it was there; `None` where the price is unknown."""
        return None if self.price_per_h is None else self.price_per_h * self.up_s / 3600


@record
class Waits:
    """How long jobs of a kind waited for a device, whenever they could have had one; what still waits counts so far."""

    kind: WorkKind
    count: int
    mean_s: float
    p50_s: float
    p95_s: float
    max_s: float
    waiting: int
    """How many still waited when the time was over."""


@record
class QuotaUse:
    """What a quota's configs got of a tier. Shares of the time that configs had there."""

    tier: int
    pattern: str
    target: float
    achieved: float | None


@record
class ConfigUse:
    """What a training config got, and what it made of it."""

    config: str
    device_s: float
    games: int
    positions: int
    trainings: int
    """Done, those of scripts included."""
    promotions: int
    longest_without_s: float
    """Longest time without any of its work on any device."""
    longest_training_s: float


@record
class Measures:
    """The report of a virtual run."""

    fleet: str
    seed: int
    span_s: float
    devices: tuple[DeviceUse, ...]
    nodes: tuple[NodeUse, ...]
    waits: tuple[Waits, ...]
    quotas: tuple[QuotaUse, ...]
    quota_error: Mapping[int, float | None]
    """By tier, in points: how much of the time went to others than it was meant for."""
    configs: tuple[ConfigUse, ...]
    kinds: Mapping[WorkKind, float]
    """Device seconds by work kind."""
    jobs: Mapping[str, int]
    """By state, when the time was over."""
    events: Mapping[str, int]
    faults: Mapping[str, int]
    preemptions: int
    lost_s: Mapping[WorkKind, float]
    """Device seconds of work that was done and lost."""
    start_s: float
    """Device seconds of processes that started up."""
    spans: tuple[Span, ...]
    wall_s: float | None = None
    """Real seconds that it took to play this."""

    @property
    def counted(self) -> tuple[DeviceUse, ...]:
        """The devices that the shares below are of: GPUs, or CPU slots where there is nothing else."""
        return tuple(each for each in self.devices if each.gpu) or self.devices

    @property
    def tiers(self) -> Mapping[str, tuple[DeviceUse, ...]]:
        """The devices by tier; what has none comes last, as `-`."""
        names = sorted({_tier(each) for each in self.devices}, key=lambda name: (name == "-", name))
        return {name: tuple(each for each in self.devices if _tier(each) == name) for name in names}

    @property
    def busy(self) -> float | None:
        """Share of the devices' time in which they were busy."""
        return busy_share(self.counted)

    @property
    def bound(self) -> float:
        """Work that the devices could have done while they were there, in power hours."""
        return sum(each.up_s * each.power for each in self.counted) / 3600

    @property
    def useful(self) -> float:
        """Work that they did and that was not lost, in power hours."""
        return _useful(self.counted)

    @property
    def useful_share(self) -> float | None:
        """Useful work, of what could have been done."""
        return _part(self.useful, self.bound)

    @property
    def cost(self) -> float | None:
        """What the nodes of known price cost; `None` where no price is known."""
        known = [each.cost for each in self.nodes if each.cost is not None]
        return sum(known) if known else None

    @property
    def priced_nodes(self) -> int:
        """How many nodes are of known price."""
        return sum(each.price_per_h is not None for each in self.nodes)

    @property
    def games(self) -> int:
        """Games of self-play that came in."""
        return sum(each.games for each in self.configs)

    @property
    def games_per_h(self) -> float | None:
        """Games of self-play for each hour."""
        return _part(self.games * 3600, self.span_s)

    @property
    def cost_per_unit(self) -> float | None:
        """What a hundred power hours of useful work cost on the nodes of known price: work of others is not free.

        `None` where no price is known, or those nodes did nothing.
        """
        priced = {each.node for each in self.nodes if each.price_per_h is not None}
        done = _useful(each for each in self.counted if each.node in priced)
        return None if self.cost is None else _part(100 * self.cost, done)

    def waits_of(self, kind: WorkKind) -> Waits | None:
        """How long work of a kind waited; `None` where there was none."""
        return next((each for each in self.waits if each.kind is kind), None)

    def totals(self) -> dict[str, Any]:
        """The sums above by name, for a document."""
        shares, work = ("busy", "useful_share"), ("bound", "useful", "games", "games_per_h")
        names = (*shares, *work, "cost", "cost_per_unit", "priced_nodes")
        return {name: getattr(self, name) for name in names}


def busy_share(devices: Iterable[DeviceUse]) -> float | None:
    """Share of the devices' time in which they were busy."""
    chosen = tuple(devices)
    return _part(sum(each.busy_s for each in chosen), sum(each.up_s for each in chosen))


def useful_share(devices: Iterable[DeviceUse]) -> float | None:
    """Share of what the devices could have done that they did."""
    chosen = tuple(devices)
    return _part(sum(each.useful_s * each.power for each in chosen), sum(each.up_s * each.power for each in chosen))


def _useful(devices: Iterable[DeviceUse]) -> float:
    return sum(each.useful_s * each.power for each in devices) / 3600


def _tier(device: DeviceUse) -> str:
    return "-" if device.tier is None else str(device.tier)


def _part(value: float, whole: float) -> float | None:
    return value / whole if whole else None
