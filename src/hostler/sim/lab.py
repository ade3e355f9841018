"""What stages of a loop would report: games without bytes, models whose true strength is known here.

The report of an order depends on the order alone, as the contract of the stages demands: done twice, it is the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, TypeAlias

from hostler.model.codec import digest
from hostler.model.commands import Fit
from hostler.model.inputs import Fitted
from hostler.model.learning import INTERVAL_SD, Rating, model_of

Order: TypeAlias = Mapping[str, Any]
Result: TypeAlias = dict[str, Any]

PLIES = 60
GAIN_ELO = 60.0
GAIN_SPREAD_ELO = 60.0
SECONDS_PER_GAME = 0.5
SECONDS_PER_STEP = 0.05
GAME_SD_ELO = 400.0
"""Standard deviation of a rating by one game against an equal: 400 / (ln 10 · sqrt(1/4)) is 347."""


class Lab:
    """Does the orders of stages. `anchors` are the true strengths of players without a model, in Elo.

    Where configs have anchors of their own, these are by config. A lab in which strength is `known` fits no ratings:
    it tells the truth, as blurred as that many games would leave it, with the interval of as many.

    With probability `fails` an order breaks: the stage ends with status 1 and says so, every time it is tried. With
    probability `lies` it ends with status 0 and a result that breaks its contract. Games are for `params["players"]`,
    and last `plies`. A `lenient` lab accepts every game there is, so that datasets are as large as they can be.
    """

    def __init__(
        self,
        anchors: Mapping[str, float] | Mapping[str, Mapping[str, float]],
        fails: float = 0.0,
        lies: float = 0.0,
        *,
        plies: int = PLIES,
        lenient: bool = False,
        known: bool = False,
    ) -> None:
        self.strength: dict[str, float] = {}
        """True strength by model."""
        self._anchors = anchors
        self._fails = fails
        self._lies = lies
        self._plies = plies
        self._lenient = lenient
        self._known = known
        self._work: dict[str, Callable[[Order, Random], Result]] = {
            "selfplay": self._selfplay,
            "export": self._export,
            "training": self._training,
            "evaluation": self._evaluation,
        }

    def seconds(self, order: Order) -> float:
        """How long the order takes."""
        groups: int = sum(match["groups"] for match in order.get("matches", ()))
        games: int = order.get("games") or groups * _players(order)
        return 2.0 + SECONDS_PER_GAME * games + SECONDS_PER_STEP * int(order.get("steps", 0))

    def report(self, order: Order) -> tuple[int, Result]:
        """Exit status and result."""
        random = _chance(order)
        luck = random.random()
        if luck < self._fails:
            return 1, {"schema": 1, "error": "the lab burns"}
        result = {"schema": 1, **self._work[order["stage"]](order, random)}
        if luck > 1 - self._lies:
            return 0, _lie(order["stage"], result)
        return int("error" in result), result

    def is_broken(self, order: Order) -> bool:
        """Whether the report on an order is a failure or a lie, whatever it would have come to."""
        return not self._fails <= _chance(order).random() <= 1 - self._lies

    def partial(self, order: Order, share: float) -> Result | None:
        """What an order that was killed when this share of it was done has left: self-play, what it had closed."""
        if order["stage"] != "selfplay":
            return None
        status, result = self.report(order)
        done = math.floor(share * len(result.get("segments", ())))
        if status or not done:
            return None
        closed = result["segments"][:done]
        games, positions = (sum(segment[what] for segment in closed) for what in ("games", "positions"))
        return {"schema": 1, "segments": closed, "games": games, "positions": positions}

    def fit(self, command: Fit) -> Fitted:
        """The answer to a `Fit`."""
        if self._known:
            return Fitted(config=command.config, matches=command.through, ratings=self._told(command))
        from hostler.learning.ratings import fit_live  # which needs openskill; plans of a fleet file do not

        ratings = fit_live(command.matches, command.anchors, command.frozen)
        return Fitted(config=command.config, matches=command.through, ratings=ratings)

    def _selfplay(self, order: Order, random: Random) -> Result:
        segments, left = [], order["games"]
        while left:
            games = min(order["segment_games"], left)
            name = digest({"config": order["config"], "seed": order["seed"], "left": left})
            first = order["games"] - left
            numbers = f"{first}-{first + games - 1}" if games > 1 else str(first)
            told = {"bytes": 100 * games, "games": games, "positions": self._plies * games, "numbers": numbers}
            segments.append({"sha256": name, **told})
            left -= games
        return {"segments": segments, "games": order["games"], "positions": self._plies * order["games"], "cpu_s": 1.0}

    def _export(self, order: Order, random: Random) -> Result:
        verdicts = [self._verdict(segment) for segment in order["segments"]]
        accepted = sum(verdict["accepted"] for verdict in verdicts)
        result: Result = {
            "dataset": None,
            "segments": verdicts,
            "quality": {"replay": 1.0, "unique": 0.9},
            "lengths": {"mean": float(self._plies), "sd": 0.0, "games": accepted},
            "bootstrap": order["strength"] is None,
        }
        if accepted < order["min_games"]:
            return {**result, "error": f"{accepted} games accepted, {order['min_games']} needed"}
        name = digest({"dataset": [segment["sha256"] for segment in order["segments"]]})
        positions = self._plies * accepted
        return {**result, "dataset": {"sha256": name, "bytes": 1, "games": accepted, "positions": positions}}

    def _verdict(self, segment: Mapping[str, Any]) -> Result:
        """A tenth of the segments is refused, and of the others a game is a duplicate, as their names will have it."""
        luck = int(segment["sha256"][:8], 16) / 2**32
        games = segment["games"]
        refused, doubled = luck < 0.1 and not self._lenient, 0 if self._lenient else min(1, games - 1)
        return {
            "sha256": segment["sha256"],
            "games": games,
            "accepted": 0 if refused else games - doubled,
            "rejected": {} if refused else {"duplicate": doubled},
            "quality": {"replay": 0.0 if refused else 1.0},
            "score": 0.0 if refused else 0.9,
            "refused": "it does not replay" if refused else None,
        }

    def _training(self, order: Order, random: Random) -> Result:
        base, dataset = order["base"], order["dataset"]
        if dataset is not None and order["steps"] * order["batch"] < dataset["positions"]:
            return {"error": f"{order['steps']} steps do not visit all {dataset['positions']} positions"}
        name = digest({"model": order["config"], "seed": order["seed"]})
        gain = random.gauss(GAIN_ELO, GAIN_SPREAD_ELO)
        self.strength[name] = 0.0 if base is None else self.strength[base] + gain
        result: Result = {
            "model": {"sha256": name, "bytes": 1},
            "base": base,
            "steps": order["steps"],
            "stopped": "steps",
        }
        if dataset is None:
            return {**result, "dataset": None, "positions_in": 0, "positions_used": 0, "samples": 0}
        return {
            **result,
            "dataset": dataset["sha256"],
            "positions_in": dataset["positions"],
            "positions_used": dataset["positions"],
            "samples": order["steps"] * order["batch"],
            "before": {"policy": 3.0, "value": 0.7},
            "after": {"policy": 2.0, "value": 0.6},
        }

    def _evaluation(self, order: Order, random: Random) -> Result:
        matches = [self._match(match, order, random) for match in order["matches"]]
        games = sum(len(group) for match in matches for group in match["groups"])
        return {"matches": matches, "games": games}

    def _match(self, match: Mapping[str, Any], order: Order, random: Random) -> Result:
        players = _players(order)
        lead = self._true(match["a"], order["config"]) - self._true(match["b"], order["config"])
        chance = 1 / (1 + 10 ** (-lead / 400))
        groups = [[_game(seat, players, chance, random) for seat in range(players)] for _ in range(match["groups"])]
        return {"a": match["a"], "b": match["b"], "groups": groups}

    def _true(self, player: str, config: str) -> float:
        model = model_of(player)
        if model is not None:
            return self.strength[model]
        own = self._anchors.get(config)
        elo = own[player] if isinstance(own, Mapping) else self._anchors[player]
        assert not isinstance(elo, Mapping)
        return elo

    def _told(self, command: Fit) -> dict[str, Rating | None]:
        """The truth about everybody who is an anchor or played, but for those frozen."""
        games: Counter[str] = Counter()
        for match in command.matches:
            played = len(match.groups) * (match.players or 0)
            games[match.a] += played
            games[match.b] += played
        told = {name: Rating(elo=elo, low=elo, high=elo, games=games[name]) for name, elo in command.anchors.items()}
        for name in sorted(games.keys() - command.anchors.keys() - command.frozen.keys()):
            told[name] = self._blurred(name, command.config, games[name])
        return dict(sorted(told.items()))

    def _blurred(self, name: str, config: str, games: int) -> Rating:
        sd = GAME_SD_ELO / math.sqrt(max(games, 1))
        luck = Random(f"{config} {name}").gauss(0.0, 1.0)  # noqa: S311  reproducible, not secret
        elo, half = self._true(name, config) + luck * sd, INTERVAL_SD * sd
        return Rating(elo=elo, low=elo - half, high=elo + half, games=games)


def _chance(order: Order) -> Random:
    return Random(digest({name: order[name] for name in order if name != "closed"}))  # noqa: S311  reproducible, not secret


def _players(order: Order) -> int:
    players: int = order["game"]["params"]["players"]
    return players


def _game(seat: int, players: int, chance: float, random: Random) -> list[int]:
    """Places in which the player at `seat` outranks each other seat with this chance."""
    place = sum(random.random() >= chance for _ in range(players - 1))
    others = iter(random.sample([each for each in range(players) if each != place], players - 1))
    return [place if each == seat else next(others) for each in range(players)]


def _lie(stage: str, result: Result) -> Result:
    """The result with a number in it that is not that of the order."""
    match stage:
        case "export":
            first, *others = result["segments"]
            return {**result, "segments": [{**first, "games": first["games"] + 1}, *others]}
        case "training":
            return {**result, "positions_used": result.get("positions_used", 0) + 1}
    return {**result, "games": result["games"] + 1}
