"""selfplay.py: what is taken off, what is divided by what, and what is a bar."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from openspiel_peer import LimitReached, Meter, MeteredBot

import selfplay
from selfplay import MAIN, Measured, Node, PeerLine, Workplace, bars, engine_row, node_row, peer_rows
from stages import Order, Ran

OURS = Measured(
    MAIN, "gumbel", at_once=32, games=10, positions=600, cpu_s=6.0, start_cpu_s=2.5, search_s=3.0, network_s=9.0
)
PEER = PeerLine("2.0.2", "hex", parameters=40_000, games=1, positions=30, cpu_s=60.0, start_cpu_s=10.0)
NODE = Node(games=40, wall_s=720.0, cpu_s=1440.0)


def test_a_search_is_told_by_cpu_time_and_divided_by_the_clock() -> None:
    row = engine_row(OURS)
    assert (row["engine"], row["tree %"], row["network %"]) == ("gumbel-64", 25.0, 75.0)
    assert (row["games/h and core"], row["positions/s and core"], row["CPU ms/position"]) == (6000.0, 100.0, 10.0)


def test_an_engine_without_a_search_has_no_share_of_it() -> None:
    row = engine_row(Measured(MAIN, "heuristic", 64, 1000, 60_000, 3.0, 2.5, search_s=0.0, network_s=0.0))
    assert (row["engine"], row["tree %"], row["network %"]) == ("heuristic", None, None)


def test_the_bars_are_positions_per_cpu_second_and_games_by_the_clock() -> None:
    times, node = bars(OURS, PEER, NODE)
    assert (times.value, times.target, times.met) == (200.0, 5.0, True)
    assert (node.value, node.target, node.met) == (200.0, 100.0, True)
    slow, late = bars(OURS, PeerLine("2", "hex", 1, 1, 30, 1.4, 0.0), Node(40, 1441.0, 1440.0))
    assert (slow.met, late.met) == (False, False)


def test_every_row_tells_how_many_times_faster_the_first_of_ours_is() -> None:
    alone = Measured(MAIN, "gumbel", 1, 2, 122, cpu_s=2.44, start_cpu_s=2.5, search_s=1.0, network_s=1.0)
    rows = list(peer_rows([OURS, alone], 42_000, [("Peer", PEER), ("Peer, compiled", PEER)]))
    assert [row["Hostler's first is times"] for row in rows] == [1.0, 2.0, 200.0, 200.0]
    assert [row["parameters"] for row in rows] == [42_000, 42_000, 40_000, 40_000]


def test_a_node_is_told_with_everything_it_took() -> None:
    assert (node_row(NODE)["games/h"], node_row(NODE)["games/CPU-h"]) == (200.0, 100.0)


class Stages:
    """Stages that cost what they are told to, and remember what was ordered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cpu_s: Sequence[float]) -> None:
        self.orders: list[Order] = []
        self._cpu_s = iter(cpu_s)
        monkeypatch.setattr(selfplay, "run", self._run)

    def _run(self, order: Order, artifacts: Path, folder: Path) -> Ran:
        self.orders.append(order)
        result = {"games": order["games"], "positions": 60 * order["games"], "search_s": 1.0, "network_s": 2.0}
        return Ran(result, next(self._cpu_s), wall_s=1.0)


def test_the_start_up_is_measured_once_with_a_warm_cache_and_taken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = Stages(monkeypatch, [30.0, 3.0, 7.0, 5.0])
    place = Workplace(tmp_path)
    first, second = (place.measure("hex8_2p", "heuristic", 100, 64) for _ in range(2))
    assert (first.cpu_s, second.cpu_s, first.start_cpu_s) == (4.0, 2.0, 3.0)
    assert [order["games"] for order in stages.orders] == [1, 1, 100, 100]
    assert len({order["seed"] for order in stages.orders}) == 4


def test_a_run_that_costs_no_more_than_its_start_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Stages(monkeypatch, [3.0, 3.0, 2.9])
    with pytest.raises(SystemExit, match="4 games of hex8_2p cost"):
        Workplace(tmp_path).measure("hex8_2p", "heuristic", 4, 4)


class Bot:
    """Searches without effort."""

    def mcts_search(self, state: Any) -> str:
        return f"root of {state}"


def test_searches_of_the_peer_are_counted_until_its_cpu_time_is_spent() -> None:
    meter = Meter(limit_s=1e9)
    bots = [MeteredBot(Bot(), meter) for _ in range(2)]
    assert [bot.mcts_search("x") for bot in bots] == ["root of x"] * 2
    assert meter.positions == 2
    spent = Meter(limit_s=0.0)
    with pytest.raises(LimitReached):
        MeteredBot(Bot(), spent).mcts_search("x")
    assert spent.positions == 0
