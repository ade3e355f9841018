"""Segments that are closed, and games that wait for theirs to be: what self-play has, and what it still has to play.

A segment is closed when all games that are due in it are there, or when the stage is told to end: then with the games
that are there. Which games a segment holds it says by their numbers, so that whoever goes on with the order, on this
node or on another, plays the others.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from hostler import __version__
from hostler.workloads.alphazero import segments
from hostler.workloads.alphazero.artifacts import CLOSED, SEGMENT, ArtifactError, Artifacts, replace
from hostler.workloads.alphazero.fields import Common, Fields, OrderError
from hostler.workloads.alphazero.players import PlayerName
from hostler.workloads.alphazero.segments import Maker, Played

_MEMORY = "closed.json"
_SPANS = re.compile(r"\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?)*")


@dataclass(frozen=True, slots=True)
class Closed:
    """A published segment. `numbers`: which games of the order it holds, as `0-7,9`."""

    sha256: str
    bytes: int
    games: int
    positions: int
    numbers: str


@dataclass(frozen=True, slots=True)
class Before:
    """What others have closed of an order, and the processor time that took them."""

    closed: tuple[Closed, ...] = ()
    cpu_s: float = 0.0


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
    before: Before = Before()

    def numbers(self, segment: int) -> range:
        """The games that belong into a segment."""
        first = segment * self.segment_games
        return range(first, min(first + self.segment_games, self.games))


@dataclass(frozen=True, slots=True)
class Seconds:
    """Processor time, and the time on the clock spent in the search and in the network."""

    cpu_s: float = 0.0
    search_s: float = 0.0
    network_s: float = 0.0

    def plus(self, other: Seconds) -> Seconds:
        """Both together."""
        return Seconds(self.cpu_s + other.cpu_s, self.search_s + other.search_s, self.network_s + other.network_s)

    def scaled(self, share: float) -> Seconds:
        """Such a share of it."""
        return Seconds(self.cpu_s * share, self.search_s * share, self.network_s * share)


class Shelf:
    """Closes segments, and remembers in the work folder which it has closed."""

    def __init__(self, order: Order, artifacts: Artifacts, folder: Path) -> None:
        self._order, self._artifacts, self._memory = order, artifacts, folder / _MEMORY
        self._open: dict[int, dict[int, Played]] = {}
        self._due: dict[int, int] = {}
        remembered, spent = _remembered(self._memory, artifacts)
        self._held = _numbers(order.before.closed)
        self._own = [each for each in remembered if self._held.isdisjoint(numbers_of(each.numbers))]
        self._held |= _numbers(self._own)
        self._lives = spent.scaled(_games(self._own) / max(_games(remembered), 1))
        self._life = Seconds()

    @property
    def closed(self) -> list[Closed]:
        """All there are, in the order of their games."""
        return sorted([*self._order.before.closed, *self._own], key=_first)

    def missing(self) -> list[int]:
        """The games that are to be played."""
        return [number for number in range(self._order.games) if number not in self._held]

    def add(self, number: int, played: Played, spent: Seconds) -> bool:
        """Take in a game; whether that closed its segment. `spent` is what this life has spent so far."""
        segment = number // self._order.segment_games
        if segment not in self._due:
            self._due[segment] = sum(each not in self._held for each in self._order.numbers(segment))
        games = self._open.setdefault(segment, {})
        games[number] = played
        if len(games) < self._due[segment]:
            return False
        self._close(segment, spent)
        return True

    def flush(self, spent: Seconds) -> bool:
        """Close what is open with the games that are there; whether there was any."""
        waiting = sorted(self._open)
        for segment in waiting:
            self._close(segment, spent)
        return bool(waiting)

    def result(self) -> dict[str, Any]:
        """What there is so far, as the stage's result says it."""
        closed = self.closed
        sums = {"games": _games(closed), "positions": sum(each.positions for each in closed)}
        spent = Seconds(self._order.before.cpu_s).plus(self._lives).plus(self._life)
        return {"segments": list(map(asdict, closed)), **sums, **asdict(spent)}

    def _close(self, segment: int, spent: Seconds) -> None:
        games = self._open[segment]
        self._own.append(self._publish(games))
        self._held.update(games)
        self._life = spent
        del self._open[segment]
        self._remember()

    def _publish(self, games: Mapping[int, Played]) -> Closed:
        numbers = sorted(games)
        made = segments.assemble(self._order.common.game, _maker(self._order), [games[each] for each in numbers])
        artifact = self._artifacts.publish(SEGMENT, segments.write(made))
        return Closed(artifact.sha256, artifact.bytes, made.header.games, made.header.positions, spans(numbers))

    def _remember(self) -> None:
        told = {"closed": list(map(asdict, self._own)), "spent": asdict(self._lives.plus(self._life))}
        try:
            replace(self._memory, json.dumps(told).encode())
        except OSError as error:
            raise ArtifactError(
                f"{self._memory} cannot be written: {error.strerror}; see to its folder, then start again"
            ) from error


def read_before(order: Fields, games: int) -> Before:
    """What an order says that others have closed of it. Raises `OrderError`."""
    if CLOSED not in order:
        return Before()
    told = order.fields(CLOSED)
    closed = tuple(map(_read_closed, told.each("segments")))
    before = Before(closed, told.number("cpu_s"))
    told.end()
    held = [number for each in closed for number in numbers_of(each.numbers)]
    if len(set(held)) < len(held) or not all(number < games for number in held):
        raise OrderError(f"order.closed.segments: they must hold different games of the {games} that are ordered")
    return before


def spans(numbers: Iterable[int]) -> str:
    """Numbers in rising order as text: `0-7,9`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def numbers_of(text: str) -> Iterator[int]:
    """The numbers that `spans` wrote. Raises `ValueError`."""
    if not _SPANS.fullmatch(text):
        raise ValueError(f"{text[:80]!r} tells no numbers of games, as 0-7,9 would")
    for span in text.split(","):
        first, _, last = span.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _read_closed(fields: Fields) -> Closed:
    closed = Closed(
        fields.sha256("sha256"),
        fields.integer("bytes"),
        fields.integer("games", 1),
        fields.integer("positions", 1),
        fields.text("numbers"),
    )
    fields.end()
    try:
        count = len(list(numbers_of(closed.numbers)))
    except ValueError as error:
        raise OrderError(f"order.closed.segments: {error}") from error
    if count != closed.games:
        raise OrderError(f"order.closed.segments: {closed.sha256} holds {closed.games} games and names {count}")
    return closed


def _numbers(closed: Iterable[Closed]) -> set[int]:
    return {number for each in closed for number in numbers_of(each.numbers)}


def _games(closed: Iterable[Closed]) -> int:
    return sum(each.games for each in closed)


def _first(closed: Closed) -> int:
    return next(numbers_of(closed.numbers))


def _maker(order: Order) -> Maker:
    name = order.player
    return Maker(
        config=order.common.config, player=str(name), model=name.model, engine=name.engine, simulations=name.budget,
        seed=order.common.seed, purpose="selfplay", code=__version__,
    )  # fmt: skip


def _remembered(memory: Path, artifacts: Artifacts) -> tuple[list[Closed], Seconds]:
    """The segments that earlier lives have closed and that are still there, and what those lives had spent."""
    if not memory.exists():
        return [], Seconds()
    try:
        closed, spent = _told(memory.read_bytes())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        print(f"selfplay: {memory} is damaged ({type(error).__name__}: {error}); all is played again", file=sys.stderr)
        return [], Seconds()
    return [each for each in closed if _is_there(each, artifacts)], spent


def _told(content: bytes) -> tuple[list[Closed], Seconds]:
    told = json.loads(content)
    closed = [Closed(**each) for each in told["closed"]]
    for each in closed:
        if type(each.sha256) is not str or any(type(n) is not int for n in (each.bytes, each.games, each.positions)):
            raise ValueError(f"{each} is no closed segment")
        if len(list(numbers_of(each.numbers))) != each.games:
            raise ValueError(f"{each} holds other games than it tells")
    return closed, Seconds(*(float(told["spent"][each.name]) for each in fields(Seconds)))


def _is_there(segment: Closed, artifacts: Artifacts) -> bool:
    try:
        artifacts.read(segment.sha256, SEGMENT)
    except ArtifactError as error:
        print(f"selfplay: {error}; its games are played again", file=sys.stderr)
        return False
    return True
