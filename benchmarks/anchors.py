"""The fixed ratings of the anchors of Beacons: how far `greedy` and `mc-200` are above `random`, on every board.

    python benchmarks/anchors.py [--quick] [--write FILE] [CONFIG ...]

A rating is 400 log10 of the odds of ranking above another player in a game (with more than two players: above each of
the others), after two random plies; `random` has 0. Where `greedy` never loses to `random`, they are joined by a ladder
of players that play a random action with some probability and greedily else: rungs are put in halfway until each wins
less than 90 % against the one below it. `mc-200` is measured against the rungs nearest to it. One Bradley-Terry model
is fitted to all games. Intervals are 95 %, by resampling groups: a group is one opening played once with the first
player in every seat and the second in all others; half of them are played the other way round.

--write puts the figures into a file like src/hostler/workloads/beacons/anchors.json, and leaves what it has of others.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common import machine, table
from hostler.workloads.alphazero import chance
from hostler.workloads.alphazero.game import Game
from hostler.workloads.alphazero.matches import Match, play
from hostler.workloads.alphazero.players import GreedyPlayer, MonteCarloPlayer, Player, RandomPlayer
from hostler.workloads.beacons.configs import BOARDS, PLAYERS, RULES_VERSION, config_name, parameters
from hostler.workloads.beacons.game import make

OPENING_PLIES = 2
PROBE = 0.2  # the share of a match's groups that is played to see whether it says anything
SURE = 0.9  # a match won more often than this says little
FINEST = 1 / 256
RESAMPLES = 400
MONTE_CARLO = "mc-200"
LARGE = 100  # cells from which a board counts as large
GROUPS = {False: 1200, True: 90}  # of a match of two, by whether the board is large
MONTE_CARLO_GROUPS = {False: 300, True: 10}
QUICK = 0.25

Wins = NDArray[np.float64]  # (groups, 2): outcomes for the first and the second player


class Ladder:
    """A rung: plays at random with probability `rate`, greedily else."""

    def __init__(self, game: Game, rate: float) -> None:
        self._random, self._greedy, self._rate = RandomPlayer(game), GreedyPlayer(game), rate

    def choose(self, states: NDArray[np.int8], seeds: NDArray[np.uint64]) -> NDArray[np.int32]:
        """See `Player`."""
        astray = chance.uniform(chance.derive(seeds, 1), 1)[:, 0] < self._rate
        return np.where(astray, self._random.choose(states, seeds), self._greedy.choose(states, seeds)).astype(np.int32)


@dataclass
class Study:
    """One config: its players by name, what was played so far, and how many groups a match should have."""

    game: Game
    scale: float
    players: dict[str, Player] = field(default_factory=dict)
    played: dict[tuple[str, str], Wins] = field(default_factory=dict)

    def add_rung(self, rate: float) -> str:
        """The name of the rung with this rate, which joins the players."""
        name = {1.0: "random", 0.0: "greedy"}.get(rate, f"random {rate:.4g}")
        self.players[name] = Ladder(self.game, rate)
        return name

    def play(self, one: str, other: str, groups: int) -> None:
        """Play until there are this many groups between the two, as many each way round."""
        before = len(self.played.get((one, other), ()))
        if (half := (groups - before + 1) // 2) <= 0:
            return
        seed = len(self.played) * 1_000_003 + before
        there = _outcomes(self.game, self.players, one, other, half, seed)
        back = _outcomes(self.game, self.players, other, one, half, seed + 1)[:, ::-1]
        self.played[one, other] = np.concatenate([self.played.get((one, other), np.empty((0, 2))), there, back])

    def share(self, one: str, other: str) -> float:
        """How often the first was above the second, with one more outcome for each."""
        won, lost = self.played[one, other].sum(axis=0) + 1.0
        return float(won / (won + lost))

    def groups(self, budget: dict[bool, int]) -> int:
        """The groups of a match on this board."""
        return max(4, round(budget[len(self.game.graph) > LARGE] * self.scale))


def main() -> int:
    """Measure the configs, print a line each, write the figures if asked."""
    options = _arguments()
    configs = options.configs or [config_name(board, players) for board in BOARDS for players in PLAYERS]
    print(", ".join(f"{key} {value}" for key, value in machine().items()), flush=True)
    for config in configs:
        began = time.process_time()
        study = Study(make(**parameters(config)), QUICK if options.quick else 1.0)
        figures = measure(study)
        print(f"\n{config}: {time.process_time() - began:.0f} CPU seconds\n{table(_rows(study, figures))}", flush=True)
        if options.write:
            _write(options.write, config, study, figures)
    return 0


def measure(study: Study) -> dict[str, tuple[float, float, float]]:
    """The rating of every player and its 95 % interval."""
    rungs = _build_ladder(study)
    for upper, lower in zip(rungs[1:], rungs, strict=False):
        study.play(upper, lower, study.groups(GROUPS))
    _place_monte_carlo(study, rungs)
    matches = list(study.played.items())
    rating = fit([(pair, wins.sum(axis=0)) for pair, wins in matches], "random")
    rng = np.random.default_rng(0)
    draws = [fit([(pair, _resampled(wins, rng)) for pair, wins in matches], "random") for _ in range(RESAMPLES)]
    spread = {name: np.quantile([draw[name] for draw in draws], [0.025, 0.975]) for name in rating}
    return {name: (rating[name], float(spread[name][0]), float(spread[name][1])) for name in rating}


def fit(matches: Sequence[tuple[tuple[str, str], NDArray[np.float64]]], zero: str) -> dict[str, float]:
    """Maximum-likelihood Bradley-Terry ratings, `zero` at 0; half a win each is added to every match."""
    names = sorted({name for pair, _ in matches for name in pair})
    sign = np.array([[(name == one) - (name == other) for name in names] for (one, other), _ in matches], float)
    sign = np.delete(sign, names.index(zero), axis=1)
    won, lost = (np.array([wins for _, wins in matches]) + 0.5).T
    rating = np.zeros(len(names) - 1)
    for _ in range(100):
        above = 1 / (1 + np.exp(-sign @ rating))
        slope = sign.T @ (won - (won + lost) * above)
        step = np.linalg.solve(sign.T @ (sign * ((won + lost) * above * (1 - above))[:, None]), slope)
        rating += np.clip(step, -1, 1)
        if np.abs(step).max() < 1e-9:
            break
    else:
        raise ArithmeticError(f"the ratings of {names} do not settle")
    elo = dict(zip([name for name in names if name != zero], rating * 400 / np.log(10), strict=True))
    return {name: float(elo.get(name, 0.0)) for name in names}


def _outcomes(game: Game, players: dict[str, Player], a: str, b: str, groups: int, seed: int) -> Wins:
    """`(groups, 2)`: how many of the others `a` was above, and below, in the games of each group."""
    chosen = {name: players[name] for name in (a, b)}
    records = play(game, [Match(a, b, groups)], chosen, OPENING_PLIES, seed)
    wins = np.zeros((groups, 2))
    for record in records:
        place = int(record.ranking[record.seat])
        wins[record.group] += game.players - 1 - place, place
    return wins


def _build_ladder(study: Study) -> list[str]:
    """The rungs from `random` to `greedy`, each winning less than nine in ten against the one below, by a probe."""
    rates = [1.0, 0.0]
    at = 0
    names = {rate: study.add_rung(rate) for rate in rates}
    while at + 1 < len(rates):
        lower, upper = rates[at], rates[at + 1]
        study.play(names[upper], names[lower], study.groups({k: round(v * PROBE) for k, v in GROUPS.items()}))
        if study.share(names[upper], names[lower]) < SURE or lower - upper < FINEST:
            at += 1
            continue
        del study.played[names[upper], names[lower]]
        rates.insert(at + 1, (lower + upper) / 2)
        names[rates[at + 1]] = study.add_rung(rates[at + 1])
    return [names[rate] for rate in rates]


def _place_monte_carlo(study: Study, rungs: list[str]) -> None:
    """Find by bisection the rungs between which `mc-200` belongs; play both, and whatever else was probed stays."""
    study.players[MONTE_CARLO] = MonteCarloPlayer(study.game, int(MONTE_CARLO.partition("-")[2]))
    groups = study.groups(MONTE_CARLO_GROUPS)
    low, high = 0, len(rungs)
    while low < high:
        middle = (low + high) // 2
        study.play(MONTE_CARLO, rungs[middle], max(2, round(groups * PROBE)))
        low, high = (middle + 1, high) if study.share(MONTE_CARLO, rungs[middle]) > 0.5 else (low, middle)
    for rung in rungs[max(0, low - 1) : low + 1]:
        study.play(MONTE_CARLO, rung, groups)


def _resampled(wins: Wins, rng: np.random.Generator) -> NDArray[np.float64]:
    return np.asarray(wins[rng.integers(len(wins), size=len(wins))].sum(axis=0))


def _rows(study: Study, figures: dict[str, tuple[float, float, float]]) -> list[dict[str, Any]]:
    ordered = sorted(figures, key=lambda name: figures[name][0])
    return [
        {
            "player": name,
            "elo": figures[name][0],
            "low": figures[name][1],
            "high": figures[name][2],
            "outranks": "; ".join(
                f"{other} {wins.sum(axis=0)[0] / wins.sum():.0%} of {len(wins)} groups"
                for (one, other), wins in study.played.items()
                if one == name
            ),
        }
        for name in ordered
    ]


def _write(path: Path, config: str, study: Study, figures: dict[str, tuple[float, float, float]]) -> None:
    content: dict[str, Any] = {"rules_version": RULES_VERSION, "measured_by": "benchmarks/anchors.py", "configs": {}}
    if path.exists() and (known := json.loads(path.read_text("utf-8")))["rules_version"] == RULES_VERSION:
        content = known
    games = sum(len(wins) for wins in study.played.values()) * study.game.players
    kept = [name for name in ("random", "greedy", MONTE_CARLO) if name in figures]
    rounded: Callable[[str], list[int]] = lambda name: [round(figure) for figure in figures[name]]  # noqa: E731
    elo = {name: dict(zip(("elo", "low", "high"), rounded(name), strict=True)) for name in kept}
    content["configs"][config] = {"elo": elo, "games": games}
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", "utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="*", metavar="CONFIG", help="such as hex8_2p; default: all")
    parser.add_argument("--quick", action="store_true", help="a quarter of the games; the intervals are twice as wide")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also put the figures into this JSON file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
