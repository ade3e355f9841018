"""The stages one after another, each with what the one before has left: from no model to one that plays better."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hostler.workloads.alphazero import dataset as datasets, evaluation, export, selfplay, training
from hostler.workloads.alphazero.artifacts import DATASET
from hostler.workloads.alphazero.game import load
from tests.workloads.alphazero.datasets import shuffled_among_legal, shuffled_among_positions
from tests.workloads.alphazero.stages import Node

GAME = {"factory": "hostler.workloads.beacons.game:make", "params": {"board": "hex4", "players": 2}}
GAMES = 240
pytestmark = pytest.mark.long


class Chain:
    """Orders of one config on one node."""

    def __init__(self, node: Node) -> None:
        self.node = node

    def done(self, stage: str, work: Any, seed: int, **order: Any) -> dict[str, Any]:
        common = {"schema": 1, "stage": stage, "config": "hex4_2p", "seed": seed, "game": GAME}
        status, result = self.node.run(work, {**common, **order})
        assert status == (1 if "error" in result else 0)
        return result

    def begin(self) -> str:
        size = {"channels": 16, "blocks": 2}
        result = self.done("training", training.run, 1, base=None, init=size, dataset=None, steps=0)
        return str(result["model"]["sha256"])

    def games(self, player: str, seed: int) -> list[dict[str, Any]]:
        result = self.done("selfplay", selfplay.run, seed, player=player, games=GAMES, segment_games=60, options={})
        return [{"sha256": segment["sha256"], "games": segment["games"]} for segment in result["segments"]]

    def dataset(self, segments: list[dict[str, Any]]) -> dict[str, Any]:
        result = self.done("export", export.run, 2, segments=segments, min_games=GAMES // 2, quality=0.5, strength=None,
                           lengths=None, include_evaluation=False)  # fmt: skip
        return {name: result["dataset"][name] for name in ("sha256", "games", "positions")}

    def train(self, base: str, dataset: dict[str, Any], seed: int = 3) -> dict[str, Any]:
        options = {"validate_every": 40, "learning_rate": 8e-3, "validation": 0.15}
        return self.done("training", training.run, seed, base=base, init=None, dataset=dataset, steps=160, batch=128,
                         options=options)  # fmt: skip

    def share_won(self, a: str, b: str) -> float:
        """By `a`, in 60 games."""
        matches = [{"a": a, "b": b, "groups": 30}]
        match = self.done("evaluation", evaluation.run, 4, matches=matches, options={}, record=False)["matches"][0]
        return float(np.mean([group[seat][seat] == 0 for group in match["groups"] for seat in range(2)]))


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return Chain(Node(tmp_path_factory.mktemp("node")))


@pytest.fixture(scope="module")
def untrained(chain: Chain) -> str:
    return chain.begin()


@pytest.fixture(scope="module")
def first(chain: Chain, untrained: str) -> dict[str, Any]:
    """Trained with the first games of an untrained network, whose search knows nothing but how games end."""
    return chain.train(untrained, chain.dataset(chain.games(f"gumbel-16@{untrained}", 5)))


@pytest.fixture(scope="module")
def second(chain: Chain, first: dict[str, Any]) -> dict[str, Any]:
    """The dataset of the first model's games."""
    return chain.dataset(chain.games(f"gumbel-16@{first['model']['sha256']}", 6))


def test_the_first_games_of_an_untrained_network_teach_the_places(
    chain: Chain, untrained: str, first: dict[str, Any]
) -> None:
    """60 games, of which chance gives 40 or more 1 time in 140; 59 were measured."""
    assert first["after"]["value"] < first["before"]["value"] - 0.05
    assert chain.share_won(f"gumbel-16@{first['model']['sha256']}", f"gumbel-16@{untrained}") > 2 / 3


def test_the_next_games_teach_the_policy(chain: Chain, first: dict[str, Any], second: dict[str, Any]) -> None:
    base = first["model"]["sha256"]
    result = chain.train(base, second)
    assert result["after"]["policy"] < min(result["uniform_policy"], result["before"]["policy"]) - 0.1
    assert chain.share_won(f"policy@{result['model']['sha256']}", f"policy@{base}") > 2 / 3


def test_their_policies_shuffled_teach_nothing(chain: Chain, first: dict[str, Any], second: dict[str, Any]) -> None:
    sound = datasets.read(chain.node.artifacts.read(second["sha256"], DATASET))
    for seed in range(2):
        spoilt = shuffled_among_legal(load(GAME), sound, seed)
        sha256 = chain.node.artifacts.publish(DATASET, datasets.write(spoilt)).sha256
        result = chain.train(first["model"]["sha256"], {**second, "sha256": sha256}, seed=10 + seed)
        assert "nothing was learnt" in result["error"]
        assert "model" not in result
    moved = shuffled_among_positions(sound, 1)
    sha256 = chain.node.artifacts.publish(DATASET, datasets.write(moved)).sha256
    assert "illegal actions" in chain.train(first["model"]["sha256"], {**second, "sha256": sha256})["error"]
