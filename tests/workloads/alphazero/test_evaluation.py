from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hostler.workloads.alphazero import dataset, evaluation, export, segments
from hostler.workloads.alphazero.artifacts import DATASET, SEGMENT, Artifacts
from hostler.workloads.alphazero.game import load
from hostler.workloads.alphazero.intake import check
from hostler.workloads.alphazero.model import Manifest, publish
from hostler.workloads.alphazero.network import build
from hostler.workloads.alphazero.replay import Verdict, replay
from tests.workloads.alphazero.stages import Node
from tests.workloads.alphazero.trivial import make, order_of

BEACONS = {"factory": "hostler.workloads.beacons.game:make", "params": {"board": "hex4", "players": 2}}
CONFIG = "hex4_2p"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def order(*matches: tuple[str, str, int], **changes: Any) -> dict[str, Any]:
    each = [{"a": a, "b": b, "groups": groups} for a, b, groups in matches]
    return {"schema": 1, "stage": "evaluation", "config": CONFIG, "seed": 9, "game": BEACONS, "matches": each,
            "options": {"opening_plies": 2, "considered": 4}, "record": False, **changes}  # fmt: skip


def model(artifacts: Artifacts, config: str = CONFIG, seed: int = 1) -> str:
    game, size = load(BEACONS), {"channels": 4, "blocks": 1, "seed": seed}
    return publish(artifacts, build(game, **size), Manifest.untrained(game, config, **size)).sha256


def test_results_are_places_by_group_and_seat(node: Node) -> None:
    status, result = node.run(evaluation.run, order(("greedy", "random", 20), ("random", "mc-5", 3)))
    assert status == 0
    assert result["games"] == 46
    assert result["segments"] == []
    first, second = result["matches"]
    assert (first["a"], first["b"], len(first["groups"])) == ("greedy", "random", 20)
    assert (second["a"], second["b"], len(second["groups"])) == ("random", "mc-5", 3)
    for group in (*first["groups"], *second["groups"]):
        assert [sorted(places) for places in group] == [[0, 1], [0, 1]]
    won = [group[seat][seat] == 0 for group in first["groups"] for seat in range(2)]
    assert np.mean(won) > 0.8


def test_the_same_order_gives_the_same_games(node: Node) -> None:
    def matches(**changes: Any) -> Any:
        return node.run(evaluation.run, order(("heuristic", "random", 10), **changes))[1]["matches"]

    assert matches() == matches()
    assert matches() != matches(seed=10)


def test_models_play_with_and_without_search(node: Node) -> None:
    one, other = model(node.artifacts), model(node.artifacts, seed=2)
    status, result = node.run(
        evaluation.run, order((f"gumbel-8@{one}", f"policy@{other}", 2), (f"policy@{one}", "random", 2))
    )
    assert status == 0
    assert [match["a"] for match in result["matches"]] == [f"gumbel-8@{one}", f"policy@{one}"]
    assert result["games"] == 8


def test_a_search_with_the_same_model_beats_random(node: Node) -> None:
    """An untrained network's search still sees how games end."""
    _, result = node.run(evaluation.run, order((f"gumbel-16@{model(node.artifacts)}", "random", 20)))
    won = [group[seat][seat] == 0 for group in result["matches"][0]["groups"] for seat in range(2)]
    assert np.mean(won) > 0.7


def test_recorded_games_are_segments_that_replay(node: Node) -> None:
    status, result = node.run(evaluation.run, order(("greedy", "random", 5), ("mc-5", "random", 2), record=True))
    assert status == 0
    assert [segment["games"] for segment in result["segments"]] == [10, 4]
    for told, match in zip(result["segments"], result["matches"], strict=True):
        content = node.artifacts.read(told["sha256"], SEGMENT)
        assert len(content) == told["bytes"]
        segment = segments.read(content)
        segments.check_game(segment, CONFIG, load(BEACONS))
        assert segment.header.purpose == "evaluation"
        assert segment.header.player == f"{match['a']} vs {match['b']}"
        assert segment.header.positions == told["positions"]
        assert (replay(load(BEACONS), segment).verdicts == Verdict.SOUND).all()
        assert segment.ranking.tolist() == [places for group in match["groups"] for places in group]
        for first, end in zip(segment.game_offsets, segment.game_offsets[1:], strict=False):
            # Nobody chose the opening.
            assert np.diff(segment.policy_offsets)[first:end].tolist() == [0, 0] + [1] * (end - first - 2)


def test_only_what_was_chosen_enters_a_dataset(node: Node) -> None:
    _, result = node.run(evaluation.run, order(("greedy", "random", 5), record=True))
    told = result["segments"][0]
    offered = [{"sha256": told["sha256"], "games": told["games"]}]
    wanted = {"min_games": 1, "quality": 0.5, "strength": None, "lengths": None, "include_evaluation": True}
    whole = {name: order()[name] for name in ("schema", "config", "seed", "game")}
    status, result = node.run(export.run, {**whole, "stage": "export", "segments": offered, **wanted})
    assert status == 0
    found = dataset.read(node.artifacts.read(result["dataset"]["sha256"], DATASET))
    assert result["dataset"]["games"] == 10
    assert len(found.states) == told["positions"] - 20
    assert found.ply.min() == 2
    check(found, load(BEACONS), CONFIG, 10, told["positions"] - 20)


@pytest.mark.parametrize("engine", ["policy", "gumbel-4"])
def test_a_network_that_says_no_numbers_is_never_rated(node: Node, engine: str) -> None:
    game, size = load(BEACONS), {"channels": 4, "blocks": 1, "seed": 1}
    network = build(game, **size)
    for parameter in network.parameters():
        parameter.data *= 1e30
    sha256 = publish(node.artifacts, network, Manifest.untrained(game, CONFIG, **size)).sha256
    status, result = node.run(evaluation.run, order((f"{engine}@{sha256}", "random", 1)))
    assert (status, set(result)) == (1, {"error"})
    assert "not finite" in result["error"]


def test_three_players_and_another_game(node: Node) -> None:
    game = make(9, 3)
    status, result = node.run(evaluation.run, order(("greedy", "random", 4), game=order_of(game), config="spacing9_3p"))
    assert status == 0
    assert result["games"] == 12
    assert all(sorted(places) == [0, 1, 2] for group in result["matches"][0]["groups"] for places in group)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"matches": []}, "order.matches: is empty; an evaluation of no games says nothing"),
        (
            {"matches": [{"a": "greedy", "b": "random", "groups": 0}]},
            "order.matches[0].groups: must be an integer in 1..",
        ),
        ({"matches": [{"a": "greedy", "b": "greedy", "groups": 1}]}, "order.matches: greedy is to play itself"),
        ({"matches": [{"a": "greedy", "b": "clever", "groups": 1}]}, "order.matches, b: player 'clever'"),
        ({"matches": [{"a": "greedy", "b": "random"}]}, "order.matches[0].groups: missing"),
        ({"matches": [{"a": "greedy", "b": "random", "groups": 1, "c": 1}]}, "order.matches[0]: unknown c"),
        ({"options": {"opening_plies": -1}}, "order.options.opening_plies: must be an integer"),
        ({"record": "yes"}, "order.record: must be true or false"),
        ({"extra": 1}, "order: unknown extra"),
    ],
)
def test_an_order_that_cannot_be_read_is_refused_by_field(node: Node, changes: dict[str, Any], told: str) -> None:
    status, result = node.run(evaluation.run, order(("greedy", "random", 1), **changes))
    assert status == 2
    assert told in result["error"]


def test_a_model_of_another_config_or_missing_fails_and_is_named(node: Node) -> None:
    stranger = model(node.artifacts, config="hex6_2p")
    status, result = node.run(evaluation.run, order((f"policy@{stranger}", "random", 1)))
    assert status == 1
    assert result["error"] == f"model {stranger}: its config is 'hex6_2p', that of the order is 'hex4_2p'"
    status, result = node.run(evaluation.run, order((f"policy@{'0' * 64}", "random", 1)))
    assert status == 1
    assert "cannot be read" in result["error"]
    assert "matches" not in result
