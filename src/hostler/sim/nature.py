"""What is true of virtual devices and of the work on them. Schedulers learn it only by looking."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from hostler.model.commands import AttemptOrder
from hostler.model.events import job_of
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.record import record
from hostler.model.work import DeviceKind, WorkKind
from hostler.policy import power as ranking
from hostler.sim.programs import Script, script_of

if TYPE_CHECKING:
    from hostler.sim.lab import Lab

REFERENCE_POWER = 624.0
"""Of an A100, in the units of `policy.power`; what follows was written down for it."""
CELLS: Mapping[str, int] = {"hex8": 61, "square8": 64, "square19": 361, "hexagonal": 469}
USUAL_CELLS = 64
USUAL_SIMULATIONS = 64
SECONDS_PER_GAME = 4.0
"""A game of the smallest board; others cost by the square of their cells: as many more plies, each as much dearer."""
SECONDS_PER_SAMPLE = 5e-4
"""A position in a training batch, of the smallest board; others by their cells."""
SECONDS_PER_EXPORT, SECONDS_PER_SEGMENT = 20.0, 0.01
CORE_SECONDS_PER_GAME = 0.36
"""The same on one CPU core, measured (docs/performance.md, selfplay: 10,013 games/h) with `USUAL_SIMULATIONS`."""
CORE_SECONDS_PER_FAST_GAME = 0.00135
"""Of the engine that does not search; measured there, too."""
CORE_SECONDS_PER_SAMPLE = 4.8e-4
"""By the CPU time of its trainings (docs/performance.md, learning), of which some were stopped: rather too long."""
CORE_START_S = 3.5
"""What a stage needs there before it goes to work."""
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

    def __init__(
        self,
        power: Mapping[str, float],
        items_per_s: float,
        seed: int,
        habits: Habits | None = None,
        *,
        models: Mapping[str, str] | None = None,
        cores: bool = False,
    ) -> None:
        """`models` of devices are what durations of scripts are told by; with `cores` all of them are CPU slots, and
        stages go as they were measured on one."""
        self.power = power
        """By device."""
        self._models = models or {}
        self._cores = cores
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
        return self._script(order, devices, power * luck)

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
        alike = REFERENCE_POWER / ranking.CPU_POWER if self._cores else 1.0
        return Course(
            amount=core_seconds(order) if self._cores else stage_seconds(order),
            per_s=power * share * alike,
            start_s=self._habits.start_s,
            share=share,
            reading=self._reading(stage),
            keeps_every_s=keeps_s,
        )

    def _script(self, order: AttemptOrder, devices: tuple[str, ...], power: float) -> Course:
        script = script_of(order.argv)
        if script.power is None:
            models = [self._models.get(device, "") for device in devices]
            seconds = max(script_seconds(script, model) for model in models)
            return Course(amount=seconds, per_s=1.0, keeps_every_s=script.checkpoint_s)
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
        return 5.0 + SECONDS_PER_SAMPLE * _samples(order) * size
    return _games(order) * game_seconds(order["config"], size)


def core_seconds(order: Mapping[str, Any]) -> float:
    """How long it lasts on one CPU core: by what was measured there, with as much search as its players do."""
    size = cells(order) / CELLS["hex8"]
    if order["stage"] == "training":
        return 5.0 + CORE_SECONDS_PER_SAMPLE * _samples(order) * size
    if "player" in order:
        return _games(order) * _core_game_seconds(order["player"]) * size**2
    players = int(order["game"]["params"].get("players", 2))
    return math.fsum(
        match["groups"] * players * (_core_game_seconds(match["a"]) + _core_game_seconds(match["b"])) / 2 * size**2
        for match in order.get("matches", ())
    )


def script_seconds(script: Script, model: str) -> float:
    """How long a script lasts on a device of the model.

    As was said of it or of all; else by what was said of others and the ranking table; else the longest of that.
    """
    said = script.by_model
    if not said:
        return script.seconds
    if model in said or "*" in said:
        return said.get(model, said.get("*", script.seconds))
    known = {name: strength for name in said if (strength := ranking.prior(name)) is not None}
    here = ranking.prior(model) if model else None
    if here is None or not known:
        return max(said.values())
    return math.exp(math.fsum(math.log(said[name] * known[name]) for name in known) / len(known)) / here


def game_seconds(config: str, size: float | None = None) -> float:
    """How long one game lasts on an A100; `size` is that of its board, that of the config's name if not given."""
    known = cells({"config": config}) / CELLS["hex8"] if size is None else size
    return SECONDS_PER_GAME * known**2


def _samples(order: Mapping[str, Any]) -> int:
    return int(order["steps"]) * int(order["batch"])


def _games(order: Mapping[str, Any]) -> float:
    players = int(order["game"]["params"].get("players", 2))
    groups = sum(match["groups"] for match in order.get("matches", ()))
    return float(order.get("games") or groups * players)


def _core_game_seconds(player: str) -> float:
    """A game of the smallest board by such a player against its like."""
    searches = _SEARCHES.match(player)
    if searches is None:
        return CORE_SECONDS_PER_FAST_GAME
    return CORE_SECONDS_PER_GAME * int(searches[1]) / USUAL_SIMULATIONS


_SEARCHES = re.compile(r"(?:gumbel|mc)-(\d+)")


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
