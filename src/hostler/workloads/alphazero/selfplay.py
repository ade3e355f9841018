"""The self-play stage: one player plays all seats of many games at once, recorded in segments.

What game `i` does depends on the order's seed and on `i` alone, not on the games that run beside it. With the heuristic
engine that holds to the last bit: a killed order that goes on leaves the very segments it would have left. A
network's sums may differ in the last bits with the number of positions it is given at once, and two almost equal
actions may then change places; so with a network a killed order leaves games that are as good, but perhaps others. In
both cases a segment holds all of its games once, and none of them is in another.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from hostler import __version__
from hostler.workloads.alphazero import segments
from hostler.workloads.alphazero.artifacts import SEGMENT, ArtifactError, Artifacts, replace
from hostler.workloads.alphazero.engines import make_engine
from hostler.workloads.alphazero.fields import Common, Fields, common
from hostler.workloads.alphazero.players import PlayerName, parse
from hostler.workloads.alphazero.segments import Maker, Played
from hostler.workloads.alphazero.stage import OrderError, Report, termination
from hostler.workloads.alphazero.tables import play

MOST_GAMES = 10_000_000
PARALLEL = 64
CONSIDERED = 16
_MEMORY = "closed.json"


@dataclass(frozen=True, slots=True)
class Order:
    """A self-play as ordered; `sampled_plies` is the number of plies in which the move is drawn from the policy."""

    common: Common
    player: PlayerName
    games: int
    segment_games: int
    considered: int
    sampled_plies: int
    parallel: int

    def numbers(self, segment: int) -> range:
        """The games that belong into a segment."""
        first = segment * self.segment_games
        return range(first, min(first + self.segment_games, self.games))

    def segments(self) -> range:
        """All segments there will be."""
        return range(-(-self.games // self.segment_games))


@dataclass(frozen=True, slots=True)
class Closed:
    """A published segment."""

    sha256: str
    bytes: int
    games: int
    positions: int


@dataclass(frozen=True, slots=True)
class Seconds:
    """Processor time, and the time on the clock spent in the search and in the network."""

    cpu_s: float = 0.0
    search_s: float = 0.0
    network_s: float = 0.0

    def plus(self, other: Seconds) -> Seconds:
        """Both together."""
        return Seconds(self.cpu_s + other.cpu_s, self.search_s + other.search_s, self.network_s + other.network_s)


def run(order: Mapping[str, Any], artifacts: Artifacts, report: Report) -> Mapping[str, Any]:
    """The stage: see docs/reference/learning.md."""
    began = time.process_time()
    wanted = read_order(order)
    shelf = Shelf(wanted, artifacts, artifacts.work(order))
    if shelf.closed:
        report(shelf.result())
    missing = [each for segment in wanted.segments() if segment not in shelf.closed for each in wanted.numbers(segment)]
    if not missing:
        return shelf.result()
    engine = make_engine(wanted.player, wanted.common, artifacts, wanted.considered, wanted.sampled_plies)
    with termination() as asked:
        for number, played in play(wanted.common.game, engine, wanted.common.seed, missing, wanted.parallel, asked):
            spent = Seconds(time.process_time() - began, engine.search_s, engine.network_s)
            if shelf.add(number, played, spent):
                report(shelf.result())
    return shelf.result()


def read_order(order: Mapping[str, Any]) -> Order:
    """What is ordered. Raises `OrderError` naming the field that cannot be read."""
    fields = Fields(order)
    shared = common(fields)
    options = fields.fields("options")
    third = -(-shared.game.max_plies // 3)
    wanted = Order(
        shared,
        _player(fields.text("player")),
        fields.integer("games", 1, MOST_GAMES),
        fields.integer("segment_games", 1, MOST_GAMES),
        options.integer("considered", 1, 2**15) if "considered" in options else CONSIDERED,
        options.integer("sampled_plies", 0, 2**15) if "sampled_plies" in options else third,
        options.integer("parallel", 1, 2**16) if "parallel" in options else PARALLEL,
    )
    options.end()
    fields.end()
    return wanted


class Shelf:
    """Closes segments when all of their games are there, and remembers in the work folder which it has closed."""

    def __init__(self, order: Order, artifacts: Artifacts, folder: Path) -> None:
        self._order, self._artifacts, self._memory = order, artifacts, folder / _MEMORY
        self._open: dict[int, dict[int, Played]] = {}
        self.closed, self._before = _remembered(self._memory, artifacts)
        self._spent = Seconds()

    def add(self, number: int, played: Played, spent: Seconds) -> bool:
        """Take in a game; whether that closed its segment. `spent` is what this life has spent so far."""
        segment = number // self._order.segment_games
        games = self._open.setdefault(segment, {})
        games[number] = played
        if len(games) < len(self._order.numbers(segment)):
            return False
        self._spent = spent
        self.closed[segment] = self._publish([games[each] for each in self._order.numbers(segment)])
        del self._open[segment]
        self._remember()
        return True

    def result(self) -> dict[str, Any]:
        """What there is so far, as the stage's result says it."""
        closed = [self.closed[segment] for segment in sorted(self.closed)]
        sums = {"games": sum(each.games for each in closed), "positions": sum(each.positions for each in closed)}
        return {"segments": [asdict(each) for each in closed], **sums, **asdict(self._before.plus(self._spent))}

    def _publish(self, games: list[Played]) -> Closed:
        made = segments.assemble(self._order.common.game, _maker(self._order), games)
        artifact = self._artifacts.publish(SEGMENT, segments.write(made))
        return Closed(artifact.sha256, artifact.bytes, made.header.games, made.header.positions)

    def _remember(self) -> None:
        closed = {str(segment): asdict(each) for segment, each in self.closed.items()}
        content = json.dumps({"closed": closed, "spent": asdict(self._before.plus(self._spent))}).encode()
        try:
            replace(self._memory, content)
        except OSError as error:
            raise ArtifactError(
                f"{self._memory} cannot be written: {error.strerror}; see to its folder, then start again"
            ) from error


def _player(text: str) -> PlayerName:
    try:
        name = parse(text)
    except ValueError as error:
        raise OrderError(f"order.player: {error}") from error
    if name.engine not in ("heuristic", "gumbel"):
        raise OrderError(
            f"order.player: {text} does not record policies to learn from; order heuristic or gumbel-N@sha256"
        )
    return name


def _maker(order: Order) -> Maker:
    name = order.player
    return Maker(
        config=order.common.config, player=str(name), model=name.model, engine=name.engine, simulations=name.budget,
        seed=order.common.seed, purpose="selfplay", code=__version__,
    )  # fmt: skip


def _remembered(memory: Path, artifacts: Artifacts) -> tuple[dict[int, Closed], Seconds]:
    """The segments that earlier lives have closed and that are still there, and what those lives had spent."""
    if not memory.exists():
        return {}, Seconds()
    try:
        closed, spent = _told(memory.read_bytes())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        print(f"selfplay: {memory} is damaged ({type(error).__name__}: {error}); all is played again", file=sys.stderr)
        return {}, Seconds()
    return {segment: each for segment, each in closed.items() if _is_there(each, artifacts)}, spent


def _told(content: bytes) -> tuple[dict[int, Closed], Seconds]:
    told = json.loads(content)
    closed = {int(segment): Closed(**each) for segment, each in told["closed"].items()}
    for each in closed.values():
        if type(each.sha256) is not str or any(type(n) is not int for n in (each.bytes, each.games, each.positions)):
            raise ValueError(f"{each} is no closed segment")
    return closed, Seconds(*(float(told["spent"][each.name]) for each in fields(Seconds)))


def _is_there(segment: Closed, artifacts: Artifacts) -> bool:
    try:
        artifacts.read(segment.sha256, SEGMENT)
    except ArtifactError as error:
        print(f"selfplay: {error}; its games are played again", file=sys.stderr)
        return False
    return True
