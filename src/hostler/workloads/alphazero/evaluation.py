"""The evaluation stage: matches between players, with results as places.

A killed evaluation starts over: the games depend on the order alone, and there are few of them.

Rated games begin with an opening of random actions on cells, by default of two plies. An action that a game offers in
its second ply only, as the swap of Beacons, can therefore not be played in them: the opening takes the place of that
ply. Ratings say nothing of how well it is used, as they say nothing of the first action; what balances the seats is
that every opening is played from all of them. With `opening_plies` 0 or 1 a swap can be played.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from hostler import __version__
from hostler.workloads.alphazero import segments
from hostler.workloads.alphazero.artifacts import SEGMENT, Artifacts
from hostler.workloads.alphazero.fields import Common, Fields, common
from hostler.workloads.alphazero.game import Game
from hostler.workloads.alphazero.inference import Evaluator, NetworkEvaluator
from hostler.workloads.alphazero.matches import Match, Record, play
from hostler.workloads.alphazero.model import load_network
from hostler.workloads.alphazero.players import Player, make_player, parse
from hostler.workloads.alphazero.stage import OrderError, Report

OPENING_PLIES = 2
CONSIDERED = 16
MOST_GROUPS = 1_000_000


@dataclass(frozen=True, slots=True)
class Order:
    """An evaluation as ordered."""

    common: Common
    matches: tuple[Match, ...]
    opening_plies: int
    considered: int
    record: bool


def run(order: Mapping[str, Any], artifacts: Artifacts, report: Report) -> Mapping[str, Any]:
    """The stage: see docs/reference/learning.md."""
    began = time.process_time()
    wanted = read_order(order)
    game = wanted.common.game
    players = _players(wanted, artifacts)
    records = play(game, wanted.matches, players, wanted.opening_plies, wanted.common.seed)
    recorded = [_publish(wanted, number, records, artifacts) for number in _recorded(wanted)]
    return {
        "matches": [_result(game, number, match, records) for number, match in enumerate(wanted.matches)],
        "games": len(records),
        "segments": recorded,
        "cpu_s": time.process_time() - began,
    }


def read_order(order: Mapping[str, Any]) -> Order:
    """What is ordered. Raises `OrderError` naming the field that cannot be read."""
    fields = Fields(order)
    shared = common(fields)
    matches = tuple(_match(each) for each in fields.each("matches"))
    if not matches:
        raise OrderError("order.matches: is empty; an evaluation of no games says nothing")
    options = fields.fields("options")
    wanted = Order(
        shared,
        matches,
        options.integer("opening_plies", 0, shared.game.max_plies) if "opening_plies" in options else OPENING_PLIES,
        options.integer("considered", 1, 2**15) if "considered" in options else CONSIDERED,
        fields.boolean("record"),
    )
    options.end()
    fields.end()
    return wanted


def evaluators(artifacts: Artifacts, game: Game, config: str) -> Callable[[str], Evaluator]:
    """Gives the evaluator of a model by its SHA-256, loaded once. It raises what `load_network` raises."""

    @cache
    def evaluator(sha256: str) -> Evaluator:
        return NetworkEvaluator(game, load_network(artifacts, sha256, game, config))

    return evaluator


def _match(given: Fields) -> Match:
    match = Match(_player(given, "a"), _player(given, "b"), given.integer("groups", 1, MOST_GROUPS))
    if match.a == match.b:
        raise OrderError(f"order.matches: {match.a} is to play itself; that says nothing about its strength")
    given.end()
    return match


def _player(given: Fields, name: str) -> str:
    text = given.text(name)
    try:
        return str(parse(text))
    except ValueError as error:
        raise OrderError(f"order.matches, {name}: {error}") from error


def _players(wanted: Order, artifacts: Artifacts) -> dict[str, Player]:
    game = wanted.common.game
    evaluator_of = evaluators(artifacts, game, wanted.common.config)
    names = dict.fromkeys(name for match in wanted.matches for name in (match.a, match.b))
    return {name: make_player(name, game, evaluator_of, considered=wanted.considered) for name in names}


def _result(game: Game, number: int, match: Match, records: Sequence[Record]) -> dict[str, Any]:
    places = [record.ranking.tolist() for record in records if record.match == number]
    groups = [places[first : first + game.players] for first in range(0, len(places), game.players)]
    return {"a": match.a, "b": match.b, "groups": groups}


def _recorded(wanted: Order) -> range:
    return range(len(wanted.matches) if wanted.record else 0)


def _publish(wanted: Order, number: int, records: Sequence[Record], artifacts: Artifacts) -> dict[str, Any]:
    """The games of one match as a segment: what was played is all that is known, so the policy is that action alone.

    The plies of the opening have no policy.
    """
    match, shared = wanted.matches[number], wanted.common
    maker = segments.Maker(
        config=shared.config, player=f"{match.a} vs {match.b}", model=None, engine="match", simulations=None,
        seed=shared.seed, purpose="evaluation", code=__version__,
    )  # fmt: skip
    games = [_played(record, shared.game.players) for record in records if record.match == number]
    segment = segments.assemble(shared.game, maker, games)
    artifact = artifacts.publish(SEGMENT, segments.write(segment))
    return {**asdict(artifact), "games": segment.header.games, "positions": segment.header.positions}


def _played(record: Record, players: int) -> segments.Played:
    unknown = np.full(players, np.nan, np.float32)
    plies = []
    for ply, action in enumerate(record.actions):
        # Nobody chose the opening: it must not become what is learnt.
        chosen = np.array([action] if ply >= record.opening else [], np.int32)
        plies.append(segments.Ply(action, chosen, np.ones(len(chosen), np.float32), unknown, unknown))
    return segments.Played(record.seed, record.ranking, plies)
