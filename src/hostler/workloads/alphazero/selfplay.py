"""The self-play stage: one player plays all seats of many games at once, recorded in segments.

What game `i` does depends on the order's seed and on `i` alone, not on the games that run beside it. With the heuristic
engine that holds to the last bit: a killed order that goes on leaves the very segments it would have left. A
network's sums may differ in the last bits with the number of positions it is given at once, and two almost equal
actions may then change places; so with a network a killed order leaves games that are as good, but perhaps others. One
that is told to end closes its segments with the games that are there. In all cases no game is in two of them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from hostler.workloads.alphazero.artifacts import Artifacts
from hostler.workloads.alphazero.engines import make_engine
from hostler.workloads.alphazero.fields import Fields, common
from hostler.workloads.alphazero.players import PlayerName, parse
from hostler.workloads.alphazero.shelf import Order, Seconds, Shelf, read_before
from hostler.workloads.alphazero.stage import OrderError, Report, Stopped, termination
from hostler.workloads.alphazero.tables import play

MOST_GAMES = 10_000_000
PARALLEL = 64
CONSIDERED = 16


def run(order: Mapping[str, Any], artifacts: Artifacts, report: Report) -> Mapping[str, Any]:
    """The stage: see docs/reference/learning.md."""
    began = time.process_time()
    wanted = read_order(order)
    shelf = Shelf(wanted, artifacts, artifacts.work(order))
    if shelf.closed:
        report(shelf.result())
    missing = shelf.missing()
    if not missing:
        return shelf.result()
    engine = make_engine(wanted.player, wanted.common, artifacts, wanted.considered, wanted.sampled_plies)

    def spent() -> Seconds:
        return Seconds(time.process_time() - began, engine.search_s, engine.network_s)

    with termination() as asked:
        try:
            for number, played in play(wanted.common.game, engine, wanted.common.seed, missing, wanted.parallel, asked):
                if shelf.add(number, played, spent()):
                    report(shelf.result())
        except Stopped:
            if shelf.flush(spent()):
                report(shelf.result())
            raise
    return shelf.result()


def read_order(order: Mapping[str, Any]) -> Order:
    """What is ordered. Raises `OrderError` naming the field that cannot be read."""
    fields = Fields(order)
    shared = common(fields)
    options = fields.fields("options")
    third = -(-shared.game.max_plies // 3)
    games = fields.integer("games", 1, MOST_GAMES)
    wanted = Order(
        shared,
        _player(fields.text("player")),
        games,
        fields.integer("segment_games", 1, MOST_GAMES),
        options.integer("considered", 1, 2**15) if "considered" in options else CONSIDERED,
        options.integer("sampled_plies", 0, 2**15) if "sampled_plies" in options else third,
        options.integer("parallel", 1, 2**16) if "parallel" in options else PARALLEL,
        read_before(fields, games),
    )
    options.end()
    fields.end()
    return wanted


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
