"""Every config of the fleet files, from no model to a rated one: all stages on tiny budgets, checked as the core does.

The networks are of 8 channels and one block. They learn from games of the heuristic engine, whose policies tell enough
that a few steps are honestly better than nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from hostler.core.loop import results
from hostler.core.loop.state import Config
from hostler.model.learning import ConfigSpec, EvaluationResult, ExportResult, SelfplayResult, TrainingResult
from hostler.model.work import StagePayload
from hostler.settings import config_specs, load
from hostler.workloads.alphazero import evaluation, export, segments, selfplay, training
from hostler.workloads.alphazero.artifacts import SEGMENT
from tests.workloads.alphazero.stages import Node

pytestmark = pytest.mark.long
BOARDS = {"hex8": 61, "square8": 64, "square19": 361, "hexagonal": 469}
TWELVE = [f"{board}_{players}p" for board in BOARDS for players in (2, 3, 4)]
WORKS = {"selfplay": selfplay.run, "export": export.run, "training": training.run, "evaluation": evaluation.run}
SIMULATIONS = 2
BATCH = 64


class Loop:
    """The stages of one config on one node; every result is held against its order as the core holds it."""

    def __init__(self, node: Node, spec: ConfigSpec) -> None:
        self.node, self.spec = node, spec
        self.config = Config(spec=spec)

    def done(self, stage: str, **order: Any) -> Any:
        """The result of a stage that keeps its contract."""
        status, result = self._run(stage, order)
        assert status == 0, result
        read = results.read(stage, {"schema": 1, **result})
        assert not isinstance(read, str), read
        payload = StagePayload(
            kind=stage,  # type: ignore[arg-type]
            schema=1,
            config=self.spec.name,
            argv=("true",),
            order=self._order(stage, order),
        )
        assert results.fault(self.config, "j1", payload, read) is None
        return read

    def refused(self, stage: str, **order: Any) -> Mapping[str, Any]:
        """The result of a stage that says why it cannot."""
        status, result = self._run(stage, order)
        assert status == 1
        return result

    def _run(self, stage: str, order: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        return self.node.run(WORKS[stage], self._order(stage, order))

    def _order(self, stage: str, order: Mapping[str, Any]) -> dict[str, Any]:
        game = {"factory": self.spec.game.factory, "params": dict(self.spec.game.params)}
        return {"schema": 1, "stage": stage, "config": self.spec.name, "seed": 20261121, "game": game, **order}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, ConfigSpec]:
    """The twelve as a fleet file that only names them makes them."""
    file = tmp_path_factory.mktemp("fleet") / "fleet.yaml"
    file.write_text(f"nodes: [{{name: here}}]\nconfigs: [{', '.join(f'{{name: {name}}}' for name in TWELVE)}]\n")
    return {spec.name: spec for spec in config_specs(load(file, {}, {}), until_idle=False)}


@pytest.mark.parametrize("name", TWELVE)
def test_it_plays_exports_trains_and_evaluates(name: str, specs: Mapping[str, ConfigSpec], tmp_path: Path) -> None:
    loop = Loop(Node(tmp_path), specs[name])
    base = begun(loop)
    taught, untaught = played(loop, "heuristic"), played(loop, f"gumbel-{SIMULATIONS}@{base}")
    exported(loop, taught, untaught)
    model = trained(loop, base, exported(loop, taught))
    evaluated(loop, model, base)
    refused(loop, model, taught)


def begun(loop: Loop) -> str:
    """The untrained model."""
    made = loop.done("training", base=None, init={"channels": 8, "blocks": 1}, dataset=None, steps=0)
    assert isinstance(made, TrainingResult)
    return made.model.sha256


def played(loop: Loop, player: str) -> SelfplayResult:
    """Games of one player, each to its end."""
    cells = BOARDS[loop.spec.name.rpartition("_")[0]]
    games = 4 if cells < 100 else 2
    result = loop.done("selfplay", player=player, games=games, segment_games=games, options={"considered": 4})
    assert isinstance(result, SelfplayResult)
    (closed,) = result.segments
    segment = segments.read(loop.node.artifacts.read(closed.sha256, SEGMENT))
    # Every cell is filled; a swap is a move more.
    assert set(segment.lengths()) <= ({cells, cells + 1} if loop.spec.game.players == 2 else {cells})
    assert (segment.header.player, segment.header.players) == (player, loop.spec.game.players)
    return result


def exported(loop: Loop, *played: SelfplayResult) -> ExportResult:
    """A dataset of all these games, of which the gate must find nothing wrong."""
    games = sum(each.games for each in played)
    result = loop.done("export", **export_order(*played, min_games=games))
    assert isinstance(result, ExportResult)
    assert result.dataset is not None
    assert result.dataset.games == games
    assert result.dataset.positions == sum(each.positions for each in played)
    assert set(result.quality.values()) <= {1.0, None}
    return result


def trained(loop: Loop, base: str, exported: ExportResult) -> TrainingResult:
    """A model that has learnt from all of it."""
    result = loop.done("training", **training_order(base, exported))
    assert isinstance(result, TrainingResult)
    assert result.before is not None
    assert result.after is not None
    assert result.after.policy < result.before.policy
    assert result.steps >= 1
    return result


def evaluated(loop: Loop, model: TrainingResult, base: str) -> None:
    """The new model with search against the one it came from, and its policy alone against an anchor."""
    name = model.model.sha256
    matches = [
        {"a": f"gumbel-{SIMULATIONS}@{name}", "b": f"gumbel-{SIMULATIONS}@{base}", "groups": 1},
        {"a": f"policy@{name}", "b": "random", "groups": 1},
    ]
    result = loop.done("evaluation", matches=matches, options={"considered": 4}, record=True)
    assert isinstance(result, EvaluationResult)
    assert result.games == 2 * loop.spec.game.players
    assert [segment.games for segment in result.segments] == [loop.spec.game.players] * 2


def refused(loop: Loop, model: TrainingResult, played: SelfplayResult) -> None:
    """Too few games make no dataset, and the model is of no use to another config: with the numbers and the names."""
    few = loop.refused("export", **export_order(played, min_games=played.games + 1))
    assert (few["dataset"], few["lengths"]) == (None, None)
    assert f"{played.games} games" in few["error"]
    match = {"a": f"policy@{model.model.sha256}", "b": "random", "groups": 1}
    other = loop.refused("evaluation", config="another", matches=[match], options={}, record=False)
    assert loop.spec.name in other["error"]
    assert "another" in other["error"]


def export_order(*played: SelfplayResult, min_games: int) -> dict[str, Any]:
    offered = [{"sha256": each.sha256, "games": each.games} for result in played for each in result.segments]
    terms = {"quality": 0.7, "strength": None, "lengths": None, "include_evaluation": False}
    return {"segments": offered, "min_games": min_games, **terms}


def training_order(base: str, exported: ExportResult) -> dict[str, Any]:
    assert exported.dataset is not None
    found = exported.dataset
    return {
        "base": base,
        "init": None,
        "dataset": {"sha256": found.sha256, "games": found.games, "positions": found.positions},
        "steps": 32 if found.positions < 500 else 16,
        "batch": BATCH,
        "options": {},
    }
