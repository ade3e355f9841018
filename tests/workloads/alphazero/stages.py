"""Stages run as their processes run them, their orders, and segments made to measure."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hostler.workloads.alphazero import segments
from hostler.workloads.alphazero.artifacts import SEGMENT, Artifacts
from hostler.workloads.alphazero.engines import HeuristicEngine
from hostler.workloads.alphazero.game import Game
from hostler.workloads.alphazero.segments import Header, Maker, Played, Segment
from hostler.workloads.alphazero.stage import Work, run_stage
from hostler.workloads.alphazero.tables import play
from tests.workloads.alphazero.trivial import Spacing, make, order_of

CONFIG = "spacing_2p"
GAME = make(15)


class Node:
    """A node's folder, in which stages run."""

    def __init__(self, folder: Path, artifacts: Path | None = None) -> None:
        self.folder = folder
        self.root = artifacts or folder / "artifacts"
        self.artifacts = Artifacts(self.root)

    def environ(self, order: Mapping[str, Any]) -> dict[str, str]:
        inputs = self.folder / "inputs.json"
        inputs.write_text(json.dumps(order))
        names = {"HOSTLER_INPUTS": inputs, "HOSTLER_RESULT": self.result_path, "HOSTLER_ARTIFACTS": self.root}
        return {name: str(path) for name, path in names.items()}

    @property
    def result_path(self) -> Path:
        return self.folder / "result.json"

    def result(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self.result_path.read_text())
        assert result.pop("schema") == 1
        return result

    def run(self, work: Work, order: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """The exit status and the result of a stage in this process."""
        self.result_path.unlink(missing_ok=True)
        status = run_stage(order["stage"], work, self.environ(order))
        return status, self.result()

    def run_forked(self, work: Work, order: Mapping[str, Any], prepare: Callable[[], None]) -> int:
        """How a process of its own ended: its exit status, or minus the signal that killed it."""
        environ = self.environ(order)
        pid = os.fork()
        if pid == 0:
            prepare()
            os._exit(run_stage(order["stage"], work, environ))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def files(self) -> set[str]:
        """Everything in the artifact folder, by its relative path."""
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}

    def publish(self, segment: Segment) -> dict[str, Any]:
        """A segment as the order of an export names it."""
        artifact = self.artifacts.publish(SEGMENT, segments.write(segment))
        return {"sha256": artifact.sha256, "games": segment.header.games}


def call_on(times: int, what: Callable[[], None], holder: Any, name: str, monkeypatch: Any) -> None:
    """Do `what` at the `times`-th call of a function, before it."""
    original, calls = getattr(holder, name), []

    def counted(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == times:
            what()
        return original(*arguments, **options)

    monkeypatch.setattr(holder, name, counted)


def common_order(game: Spacing = GAME, seed: int = 17) -> dict[str, Any]:
    return {"schema": 1, "stage": "any", "config": CONFIG, "seed": seed, "game": order_of(game)}


def selfplay_order(**changed: Any) -> dict[str, Any]:
    options = {"considered": 4, "sampled_plies": None, "parallel": 7}
    order = {"stage": "selfplay", "player": "heuristic", "games": 40, "segment_games": 8, "options": options}
    return {**common_order(), **order, **changed}


def export_order(offered: Sequence[Mapping[str, Any]], **changed: Any) -> dict[str, Any]:
    order = {
        "stage": "export", "segments": offered, "min_games": 1, "quality": 0.7, "strength": None, "lengths": None,
        "include_evaluation": False,
    }  # fmt: skip
    return {**common_order(), **order, **changed}


def maker(**changed: Any) -> Maker:
    given = Maker(
        config=CONFIG, player="heuristic", model=None, engine="heuristic", simulations=None, seed=17,
        purpose="selfplay", code="0",
    )  # fmt: skip
    return replace(given, **changed)


def games_of(game: Game, count: int, seed: int = 17) -> list[Played]:
    """Games of the heuristic engine."""
    ended = dict(play(game, HeuristicEngine(game), seed, range(count), count, lambda: False))
    return [ended[number] for number in range(count)]


def segment_of(games: Sequence[Played], game: Game = GAME, **changed: Any) -> Segment:
    return segments.assemble(game, maker(**changed), games)


def played(game: Game, actions: Sequence[int]) -> Played:
    """The game of these actions, to its end or not; policies are even."""
    states, plies = game.initial(1), []
    unknown = np.full(game.players, np.nan, np.float32)
    for action in actions:
        legal = np.flatnonzero(game.legal(states)[0]).astype(np.int32)
        even = np.full(len(legal), 1 / max(len(legal), 1), np.float32)
        plies.append(segments.Ply(action, legal, even, unknown, unknown))
        states = game.apply(states, np.array([action], np.int32))
    return Played(0, game.ranking(states)[0], plies)


def with_header(segment: Segment, **changed: Any) -> Segment:
    header: Header = replace(segment.header, **changed)
    return replace(segment, header=header)
