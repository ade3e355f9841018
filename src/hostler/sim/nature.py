"""What is true of virtual devices and of the work on them. Schedulers learn it only by looking."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from hostler.model.commands import AttemptOrder
from hostler.model.events import job_of
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.record import record
from hostler.model.work import DeviceKind, WorkKind
from hostler.sim.programs import script_of

if TYPE_CHECKING:
    from hostler.sim.lab import Lab

REFERENCE_POWER = 624.0
"""Of an A100, in the units of `policy.power`; what follows was written down for it."""
CPU_POWER = 4.0
CELLS: Mapping[str, int] = {"hex8": 61, "square8": 64, "square19": 361, "hexagonal": 469}
USUAL_CELLS = 64
USUAL_SIMULATIONS = 64
SECONDS_PER_GAME = 4.0
"""A game of the smallest board; others cost by the square of their cells: as many more plies, each as much dearer."""
SECONDS_PER_SAMPLE = 5e-4
"""A position in a training batch, of the smallest board; others by their cells."""
SECONDS_PER_EXPORT, SECONDS_PER_SEGMENT = 20.0, 0.01
START_S = 60.0
SYNC_S = 60.0
CHECKPOINT_S = 900.0
SMALL_SHARE = 0.5
"""What one self-play of a small board can use of a fast device."""
FAST_POWER = 300.0


@record
class Course:
    """How a process goes if nothing happens to it. `amount` is what it has to do, `per_s` how much of it it does."""

    amount: float
    per_s: float
    start_s: float = 0.0
    """Until it goes to work."""
    share: float = 1.0
    """Part of its device that it can use."""
    reading: float = 1.0
    """What the driver calls utilisation while it has all of a device."""
    keeps_every_s: float | None = None
    """How often what is done so far is brought to safety; `None`: never, another life begins anew."""


class Nature(Protocol):
    """How long things take."""

    def course(self, order: AttemptOrder, devices: tuple[str, ...]) -> Course:
        """How an attempt goes on these devices."""

    def items_per_s(self, device: str) -> float:
        """How fast a device searches."""


class Plain:
    """Scripts and stages last as long anywhere; sweeps go at the `speeds` given."""

    def __init__(self, speeds: Mapping[str, float], lab: Lab | None = None) -> None:
        self._speeds = speeds
        self._lab = lab

    def course(self, order: AttemptOrder, devices: tuple[str, ...]) -> Course:
        """Its own seconds."""
        inputs = order.inputs
        if inputs is not None and "stage" in inputs:
            assert self._lab is not None, "a world with training configs needs a lab"
            return Course(amount=self._lab.seconds(inputs), per_s=1.0)
        return Course(amount=script_of(order.argv).seconds, per_s=1.0)

    def items_per_s(self, device: str) -> float:
        """As given."""
        return self._speeds[device]


@record
class Habits:
    """What kinds of work are like on a device. Fractions of the device; seconds."""

    start_s: float = START_S
    sync_s: float = SYNC_S
    """How often self-play brings home what it has."""
    small_share: float = SMALL_SHARE
    reading: Mapping[WorkKind, float] | None = None
    noise: float = 0.05
    """Spread (standard deviation of the logarithm) of how long the same work takes twice on one device."""


READINGS: Mapping[WorkKind, float] = {WorkKind.SELFPLAY: 0.7, WorkKind.EVALUATION: 0.6, WorkKind.EXPORT: 0.1}
"""What drivers show of work that has a whole device; of all other kinds 0.95."""


class Rated:
    """Work goes as fast as devices are powerful, each by a factor of its own."""

    def __init__(self, power: Mapping[str, float], items_per_s: float, seed: int, habits: Habits | None = None) -> None:
        self.power = power
        """By device."""
        self._items_per_s = items_per_s / REFERENCE_POWER
        self._seed = seed
        self._habits = habits or Habits()

    def course(self, order: AttemptOrder, devices: tuple[str, ...]) -> Course:
        """Amounts are seconds on an A100."""
        power = sum(self.power[device] for device in devices) / REFERENCE_POWER
        luck = math.exp(Random(f"{self._seed} {order.id}").gauss(0.0, self._habits.noise))  # noqa: S311
        inputs = order.inputs
        if inputs is not None and "stage" in inputs:
            return self._stage(inputs, power * luck)
        return self._script(order, power * luck)

    def items_per_s(self, device: str) -> float:
        """By its power."""
        return self._items_per_s * self.power[device]

    def _stage(self, order: Mapping[str, Any], power: float) -> Course:
        stage = WorkKind(order["stage"])
        if stage is WorkKind.EXPORT:
            amount = SECONDS_PER_EXPORT + SECONDS_PER_SEGMENT * len(order["segments"])
            return Course(amount=amount, per_s=1.0, reading=self._reading(stage))
        share = self._share(order, power) if stage is WorkKind.SELFPLAY else 1.0
        keeps_s = {WorkKind.SELFPLAY: self._habits.sync_s, WorkKind.TRAINING: CHECKPOINT_S}.get(stage)
        return Course(
            amount=stage_seconds(order),
            per_s=power * share,
            start_s=self._habits.start_s,
            share=share,
            reading=self._reading(stage),
            keeps_every_s=keeps_s,
        )

    def _script(self, order: AttemptOrder, power: float) -> Course:
        script = script_of(order.argv)
        if script.power is None:
            return Course(amount=script.seconds, per_s=1.0, keeps_every_s=script.checkpoint_s)
        return Course(
            amount=script.seconds * script.power / REFERENCE_POWER,
            per_s=power,
            start_s=self._habits.start_s,
            reading=self._reading(WorkKind.TRAINING),
            keeps_every_s=script.checkpoint_s,
        )

    def _share(self, order: Mapping[str, Any], power: float) -> float:
        small = cells(order) <= USUAL_CELLS and power * REFERENCE_POWER >= FAST_POWER
        return self._habits.small_share if small else 1.0

    def _reading(self, kind: WorkKind) -> float:
        return (self._habits.reading or READINGS).get(kind, 0.95)


def stage_seconds(order: Mapping[str, Any]) -> float:
    """How long a stage that plays or trains lasts on an A100."""
    size = cells(order) / CELLS["hex8"]
    if order["stage"] == "training":
        return 5.0 + SECONDS_PER_SAMPLE * int(order["steps"]) * int(order["batch"]) * size
    players = int(order["game"]["params"].get("players", 2))
    groups = sum(match["groups"] for match in order.get("matches", ()))
    games = order.get("games") or groups * players
    return float(games) * game_seconds(order["config"], size)


def game_seconds(config: str, size: float | None = None) -> float:
    """How long one game lasts on an A100; `size` is that of its board, that of the config's name if not given."""
    known = cells({"config": config}) / CELLS["hex8"] if size is None else size
    return SECONDS_PER_GAME * known**2


def cells(order: Mapping[str, Any]) -> int:
    """Cells of the board an order is about, as far as its game or its config's name tells."""
    params = order.get("game", {}).get("params", {})
    board = str(params.get("board") or order["config"].partition("_")[0])
    return int(params.get("cells") or CELLS.get(board, USUAL_CELLS))


def drawn_powers(
    nodes: Iterable[NodeSpec], prior: Mapping[str, float], seed: int, spread: float = 0.12
) -> dict[str, float]:
    """The true power of every device: that of its `prior`, times a factor of its own."""
    return {
        device.id: prior[device.id] * math.exp(Random(f"{seed} {device.id}").gauss(0.0, spread))  # noqa: S311
        for node in nodes
        for device in node.devices
    }


def is_gpu(device: DeviceSpec) -> bool:
    """Whether the device is no CPU slot."""
    return device.kind is not DeviceKind.CPU


def devices_of(node: str, queue: str) -> tuple[str, ...]:
    """The devices that a queue stands for: `cuda0`, a lane of it (`cuda0.1`), or several at once (`cuda0+cuda1`)."""
    return tuple(f"{node}/{part.partition('.')[0]}" for part in queue.split("+"))


def saved_as(order: AttemptOrder) -> str:
    """Under which name the work of an attempt is kept for a later one: that of its job."""
    return job_of(order.id)
