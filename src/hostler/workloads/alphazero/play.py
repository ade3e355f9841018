"""A person against a model, on the terminal or through pipes."""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero import chance
from hostler.workloads.alphazero.artifacts import MODEL, ArtifactError, Artifacts
from hostler.workloads.alphazero.game import Game, Shows, States, load
from hostler.workloads.alphazero.inference import NetworkEvaluator
from hostler.workloads.alphazero.model import load_network, read_manifest
from hostler.workloads.alphazero.search import GumbelSearch, Searched
from hostler.workloads.alphazero.stage import StageError

SEATS = ("first", "second", "third", "fourth")
LINE_PLIES = 6
SHOWN_ACTIONS = 5
SIMULATIONS = 64
CONSIDERED = 16
HELP = "a move (such as {example}), ? for what the model thinks, moves, board, undo, help, quit"


def main(arguments: Sequence[str]) -> int:
    """Play one game; answers the exit status: 0 played or left, 1 impossible, 130 interrupted."""
    options = _parser().parse_args(arguments)
    try:
        _session(options, _ask, print).run()
    except (StageError, ArtifactError, ValueError, TypeError) as error:
        print(f"play: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print()
        return 130
    return 0


class Session:
    """One game between a person in seat `person` and a search that has all other seats.

    `ask` gives the next line for a prompt, `None` at the end of the input; `tell` shows text.
    """

    def __init__(
        self,
        game: Game,
        search: GumbelSearch,
        person: int,
        ask: Callable[[str], str | None],
        tell: Callable[[str], None],
    ) -> None:
        self._game, self._search, self._person = game, search, person
        self._ask, self._tell = ask, tell
        self._view: Shows = game if isinstance(game, Shows) else Numbers(game)
        self._past: list[States] = []
        self._states = game.initial(1)
        self._ended = False

    def run(self) -> None:
        """Play until the game is over, or the person leaves."""
        example = self._view.action_name(int(np.flatnonzero(self._legal())[0]))
        self._help = HELP.format(example=example)
        self._tell(f"{self._game.name}: you have seat {self._person}. Type {self._help}.")
        self._board()
        while not self._ended:
            if self._game.terminal(self._states)[0]:
                return self._tell(self._outcome())
            if self._mover() == self._person:
                self._turn()
            else:
                self._reply()
        return None

    def _turn(self) -> None:
        line = self._ask("> ")
        words = {"?": self._opinion, "moves": self._moves, "board": self._board, "undo": self._undo}
        if line is None or line.strip().lower() in ("quit", "exit", "q"):
            self._ended = True
            self._tell("Left.")
        elif line.strip().lower() in words:
            words[line.strip().lower()]()
        elif line.strip().lower() in ("help", "h", ""):
            self._tell(f"Type {self._help}.")
        else:
            self._try(line.strip())

    def _try(self, name: str) -> None:
        try:
            action = self._view.action_of(name)
        except ValueError as error:
            return self._tell(f"{error}. Type {self._help}.")
        if not self._legal()[action]:
            return self._tell(f"{name} cannot be played now; 'moves' lists what can.")
        self._apply(action)
        if self._mover() == self._person or self._game.terminal(self._states)[0]:
            self._board()
        return None

    def _reply(self) -> None:
        mover, action = self._mover(), int(self._think(self._states).action[0])
        self._apply(action)
        self._tell(f"The model, seat {mover}, plays {self._view.action_name(action)}.")
        self._board()

    def _undo(self) -> None:
        """Back to the person's previous decision."""
        back = len(self._past) - 1
        while back >= 0 and self._game.to_move(self._past[back])[0] != self._person:
            back -= 1
        if back < 0:
            return self._tell("There is no move of yours to take back.")
        self._states = self._past[back]
        del self._past[back:]
        return self._board()

    def _opinion(self) -> None:
        found = self._think(self._states)
        order = np.argsort(-found.policy[0], kind="stable")[:SHOWN_ACTIONS]
        likely = ", ".join(
            f"{self._view.action_name(int(a))} {found.policy[0, a]:.0%}" for a in order if found.policy[0, a]
        )
        self._tell(f"The network thinks: {_by_seat(found.network_value[0])}; after search: {_by_seat(found.value[0])}.")
        self._tell(f"It would play: {likely}.")
        self._tell(f"The best line it sees: {' '.join(self._line(int(found.action[0])))}")

    def _line(self, action: int) -> list[str]:
        """What the search would play from here, for all seats, beginning with `action`."""
        states, names = self._states, [self._view.action_name(action)]
        states = self._game.apply(states, np.array([action], np.int32))
        while len(names) < LINE_PLIES and not self._game.terminal(states)[0]:
            chosen = self._think(states).action
            names.append(self._view.action_name(int(chosen[0])))
            states = self._game.apply(states, chosen)
        return names

    def _moves(self) -> None:
        self._tell(" ".join(self._view.action_name(int(action)) for action in np.flatnonzero(self._legal())))

    def _board(self) -> None:
        self._tell(f"\n{self._view.text(self._states[0])}\n")

    def _outcome(self) -> str:
        ranking = self._game.ranking(self._states)[0]
        place = int(ranking[self._person])
        order = ", ".join(f"seat {seat}" for seat in np.argsort(ranking))
        won = "You win" if place == 0 else f"You are number {place + 1} of {self._game.players}"
        return f"The game is over. {won}. From the best to the last: {order}."

    def _apply(self, action: int) -> None:
        self._past.append(self._states)
        self._states = self._game.apply(self._states, np.array([action], np.int32))

    def _think(self, states: States) -> Searched:
        return self._search.search(states, np.zeros(1, np.uint64))

    def _legal(self) -> NDArray[np.bool_]:
        return np.asarray(self._game.legal(self._states)[0])

    def _mover(self) -> int:
        return int(self._game.to_move(self._states)[0])


class Numbers:
    """How a game is shown that does not say how: its actions by their numbers."""

    def __init__(self, game: Game) -> None:
        self._game = game

    def text(self, state: NDArray[np.int8]) -> str:
        """The bytes of the position."""
        return " ".join(map(str, state.tolist()))

    def action_name(self, action: int) -> str:
        """Its number."""
        return str(action)

    def action_of(self, name: str) -> int:
        """The action of that number."""
        if not name.isdecimal() or int(name) >= self._game.actions:
            raise ValueError(f"{name!r} is no action; they are 0 to {self._game.actions - 1}")
        return int(name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hostler.workloads.alphazero play", description="Play against a model on the terminal."
    )
    parser.add_argument("--artifacts", type=Path, required=True, metavar="DIR", help="the artifact folder")
    parser.add_argument("--model", required=True, metavar="SHA256", help="the model to play against")
    parser.add_argument(
        "--game", type=json.loads, required=True, metavar="JSON", help='{"factory": "module:function", "params": {...}}'
    )
    parser.add_argument("--config", help="the config that the model must be of (default: its own)")
    parser.add_argument("--simulations", type=_positive, default=SIMULATIONS, help=f"default {SIMULATIONS}")
    parser.add_argument("--considered", type=_positive, default=CONSIDERED, help=f"default {CONSIDERED}")
    parser.add_argument("--seat", choices=(*SEATS, "random"), default="first", help="where you sit (default first)")
    parser.add_argument("--seed", type=int, help="chance in drawing a seat (default: from the system)")
    return parser


def _session(options: argparse.Namespace, ask: Callable[[str], str | None], tell: Callable[[str], None]) -> Session:
    game = load(options.game)
    artifacts = Artifacts(options.artifacts)
    config = options.config or read_manifest(artifacts.read(options.model, MODEL)).config
    evaluator = NetworkEvaluator(game, load_network(artifacts, options.model, game, config))
    search = GumbelSearch(game, evaluator, options.simulations, options.considered, gumbel_scale=0.0)
    return Session(game, search, _seat(options.seat, game.players, options.seed), ask, tell)


def _seat(name: str, players: int, seed: int | None) -> int:
    if name == "random":
        drawn = secrets.randbits(63) if seed is None else seed
        return int(chance.uniform(np.array([drawn], np.uint64), 1)[0, 0] * players)
    if SEATS.index(name) >= players:
        raise ValueError(f"--seat {name}: this game has {players} seats")
    return SEATS.index(name)


def _ask(prompt: str) -> str | None:
    try:
        return input(prompt)
    except EOFError:
        print()
        return None


def _by_seat(values: Sequence[float] | NDArray[np.float32]) -> str:
    return ", ".join(f"seat {seat} {value:+.2f}" for seat, value in enumerate(values))


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value
