"""The export stage: the games of segments that pass the quality gate become a dataset."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hostler.workloads.alphazero import dataset, gate, segments
from hostler.workloads.alphazero.artifacts import DATASET, SEGMENT, Artifacts, DamagedError
from hostler.workloads.alphazero.canonical import openings_possible
from hostler.workloads.alphazero.dataset import Dataset
from hostler.workloads.alphazero.fields import Common, Fields, common
from hostler.workloads.alphazero.gate import Judgement, Lengths, Measured, Rules, Values
from hostler.workloads.alphazero.gathering import Gathering
from hostler.workloads.alphazero.segments import Segment, SegmentError
from hostler.workloads.alphazero.stage import OrderError, Report, StageError

UNREADABLE = "unreadable"
MOST_GAMES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Offered:
    """A segment to choose from, and how many games it should hold."""

    sha256: str
    games: int


@dataclass(frozen=True, slots=True)
class Order:
    """An export as ordered."""

    common: Common
    segments: tuple[Offered, ...]
    min_games: int
    rules: Rules


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What became of one segment: a judgement, or the reason why it could not be measured."""

    offered: Offered
    judgement: Judgement | None
    refused: str | None

    @property
    def accepted(self) -> int:
        """Games that go into the dataset."""
        return 0 if self.judgement is None else int(self.judgement.accepted.sum())

    def told(self) -> dict[str, Any]:
        """As the stage's result says it."""
        judgement = self.judgement
        rejected = {UNREADABLE: self.offered.games} if judgement is None else dict(judgement.rejected)
        return {
            **asdict(self.offered),
            "accepted": self.accepted,
            "rejected": rejected,
            "quality": dict.fromkeys(gate.PROPERTIES) if judgement is None else judgement.quality,
            "score": None if judgement is None else judgement.score,
            "refused": self.refused,
        }


def run(order: Mapping[str, Any], artifacts: Artifacts, report: Report) -> Mapping[str, Any]:
    """The stage: see docs/reference/learning.md."""
    began = time.process_time()
    wanted = read_order(order)
    source = _Source(wanted, artifacts)
    outcomes = _judged(wanted, [source.measured(offered) for offered in wanted.segments])
    accepted = sum(outcome.accepted for outcome in outcomes)
    result = _told(wanted, outcomes)
    if accepted < wanted.min_games:
        spent = {"dataset": None, "lengths": None, "cpu_s": time.process_time() - began}
        raise StageError(_too_few(wanted, outcomes, accepted), **result, **spent)
    gathered = _gather(wanted, source, outcomes, result["quality"])
    artifact = artifacts.publish(DATASET, dataset.write(gathered))
    counts = {"games": gathered.header["games"], "positions": gathered.header["positions"]}
    lengths = asdict(_lengths(gathered))
    return {
        "dataset": {**asdict(artifact), **counts}, **result, "lengths": lengths, "cpu_s": time.process_time() - began
    }  # fmt: skip


def read_order(order: Mapping[str, Any]) -> Order:
    """What is ordered. Raises `OrderError` naming the field that cannot be read."""
    fields = Fields(order)
    shared = common(fields)
    offered = tuple(_offered(each) for each in fields.each("segments"))
    if len({each.sha256 for each in offered}) < len(offered):
        raise OrderError("order.segments: names a segment twice")
    floor, players = _strength(fields)
    rules = Rules(
        fields.number("quality", 0.0, 1.0), floor, players, _reference(fields), fields.boolean("include_evaluation")
    )
    wanted = Order(shared, offered, fields.integer("min_games", 1, MOST_GAMES), rules)
    fields.end()
    return wanted


class _Source:
    """Reads and measures segments; networks are loaded once."""

    def __init__(self, order: Order, artifacts: Artifacts) -> None:
        self._order, self._artifacts, self._game = order, artifacts, order.common.game
        self._values: dict[str, Values] = {}
        self._possible = openings_possible(self._game, gate.opening_plies(self._game))

    def read(self, offered: Offered) -> Segment:
        """A segment as it was offered. Raises `ArtifactError` or `SegmentError`."""
        segment = segments.read(self._artifacts.read(offered.sha256, SEGMENT))
        segments.check_game(segment, self._order.common.config, self._game)
        if segment.header.games != offered.games:
            raise SegmentError(f"it holds {segment.header.games} games, not {offered.games} as the order says")
        return segment

    def measured(self, offered: Offered) -> Measured | str:
        """What a segment shows, or why it is refused unmeasured.

        What is not here, or cannot be read here, says nothing about the games: that `ArtifactError` ends the stage.
        """
        seed = self._order.common.seed ^ int(offered.sha256[:16], 16)
        try:
            segment = self.read(offered)
            return gate.measure(self._game, segment, self._possible, self._values_of(segment.header.model), seed)
        except (DamagedError, SegmentError, StageError) as error:
            return f"{self._artifacts.path(offered.sha256, SEGMENT).name}: {error}"

    def _values_of(self, model: str | None) -> Values | None:
        if model is None:
            return None
        if model not in self._values:
            self._values[model] = _values(self._order.common, self._artifacts, model)
        return self._values[model]


def _values(shared: Common, artifacts: Artifacts, model: str) -> Values:
    # Here, because games of the heuristic engine need no torch.
    from hostler.workloads.alphazero.inference import NetworkEvaluator
    from hostler.workloads.alphazero.model import load_network

    evaluator = NetworkEvaluator(shared.game, load_network(artifacts, model, shared.game, shared.config))
    return lambda states: evaluator.evaluate(states)[1]


def _judged(order: Order, measured: list[Measured | str]) -> list[Outcome]:
    judgements = iter(gate.judge([each for each in measured if not isinstance(each, str)], order.rules))
    outcomes = []
    for offered, each in zip(order.segments, measured, strict=True):
        if isinstance(each, str):
            outcomes.append(Outcome(offered, None, each))
        else:
            judgement = next(judgements)
            outcomes.append(Outcome(offered, judgement, judgement.refused))
    return outcomes


def _told(order: Order, outcomes: list[Outcome]) -> dict[str, Any]:
    told = [outcome.told() for outcome in outcomes]
    for each in told:
        if each["accepted"] + sum(each["rejected"].values()) != each["games"]:
            raise AssertionError(f"games of a segment were lost in the gate: {each}")
    quality = gate.overall([(each.offered.games, each.judgement.quality) for each in outcomes if each.judgement])
    return {"segments": told, "quality": quality, "bootstrap": order.rules.floor is None}


def _gather(order: Order, source: _Source, outcomes: list[Outcome], quality: gate.Quality) -> Dataset:
    gathering = Gathering(order.common.game)
    for outcome in outcomes:
        if outcome.judgement is not None and outcome.accepted:
            segment = source.read(outcome.offered)
            gathering.add(outcome.offered.sha256, segment, np.flatnonzero(outcome.judgement.accepted))
    return gathering.dataset(order.common.config, quality)


def _lengths(gathered: Dataset) -> Lengths:
    plies = np.bincount(gathered.game)
    return Lengths(float(plies.mean()), float(plies.std()), len(plies))


def _too_few(order: Order, outcomes: list[Outcome], accepted: int) -> str:
    offered = sum(outcome.offered.games for outcome in outcomes)
    rejected: dict[str, int] = {}
    for reason, games in _pairs(outcomes):
        rejected[reason] = rejected.get(reason, 0) + games
    reasons = ", ".join(f"{reason}: {games}" for reason, games in sorted(rejected.items())) or "none was rejected"
    refused = [outcome.refused for outcome in outcomes if outcome.refused is not None]
    first = (
        f"; {len(refused)} of {len(outcomes)} segments were refused, the first because: {refused[0]}" if refused else ""
    )
    return f"{accepted} of {offered} games were accepted, a dataset needs {order.min_games}; rejected: {reasons}{first}"


def _pairs(outcomes: list[Outcome]) -> Iterable[tuple[str, int]]:
    return (pair for outcome in outcomes for pair in outcome.told()["rejected"].items())


def _offered(fields: Fields) -> Offered:
    offered = Offered(fields.sha256("sha256"), fields.integer("games", 1, MOST_GAMES))
    fields.end()
    return offered


def _strength(fields: Fields) -> tuple[float | None, dict[str, float]]:
    if fields.any("strength") is None:
        return None, {}
    strength = fields.fields("strength")
    players = strength.fields("players")
    floor = strength.number("floor", -np.inf)
    strength.end()
    return floor, {name: players.number(name, -np.inf) for name in players.names()}


def _reference(fields: Fields) -> Lengths | None:
    if fields.any("lengths") is None:
        return None
    lengths = fields.fields("lengths")
    reference = Lengths(lengths.number("mean"), lengths.number("sd"), lengths.integer("games"))
    lengths.end()
    return reference
