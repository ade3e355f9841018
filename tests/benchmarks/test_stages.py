"""Stages by hand: a real process, what it cost, and what it says when it cannot."""

import json
from pathlib import Path

import pytest

from hostler.workloads.alphazero.network import build
from hostler.workloads.beacons.game import make
from selfplay import count_parameters
from stages import Ran, order, run, run_together, untrained


def _selfplay(seed: int, player: str = "heuristic") -> dict[str, object]:
    return order("selfplay", "hex4_2p", seed, player=player, games=4, segment_games=4, options={})


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Ran]]:
    """Two stages that ran side by side, and the folder above theirs."""
    place = tmp_path_factory.mktemp("together")
    return place / "work", run_together([_selfplay(1), _selfplay(2)], place / "artifacts", place / "work")


def test_a_stage_leaves_its_result_and_costs_what_its_process_took(together: tuple[Path, list[Ran]]) -> None:
    _, (ran, _) = together
    assert ran.result["games"] == 4
    assert ran.result["cpu_s"] < ran.cpu_s, "the process's start counts, which the stage itself does not see"
    assert ran.wall_s > 0


def test_stages_side_by_side_tell_what_each_of_them_left(together: tuple[Path, list[Ran]]) -> None:
    work, both = together
    for number, ran in enumerate(both):
        assert json.loads((work / str(number) / "order.json").read_text()) == _selfplay(number + 1)
        assert json.loads((work / str(number) / "result.json").read_text()) == ran.result
    first, second = (each.result["segments"][0]["sha256"] for each in both)
    assert first != second


@pytest.mark.long
def test_stages_side_by_side_answer_in_the_order_they_were_given(tmp_path: Path) -> None:
    ran = run_together([_selfplay(1), _selfplay(2)], tmp_path / "artifacts", tmp_path / "work")
    first, second = (each.result["segments"][0]["sha256"] for each in ran)
    assert first != second
    assert run(_selfplay(2), tmp_path / "artifacts", tmp_path / "again").result["segments"][0]["sha256"] == second


@pytest.mark.long
@pytest.mark.parametrize(
    ("player", "says", "status"),
    [
        ("nobody", "nobody", 2),
        # Only torch, which takes seconds to load, can say what is wrong with a model.
        pytest.param("gumbel-2@" + "c0ffee" * 10 + "c0de", "c0ffee", 1, marks=pytest.mark.long),
    ],
    ids=["no player", "no model"],
)
def test_a_stage_that_cannot_says_why(player: str, says: str, status: int, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=rf"selfplay of hex4_2p ended with status {status}: .*{says}"):
        run(_selfplay(1, player), tmp_path / "artifacts", tmp_path / "work")


def test_an_untrained_model_has_the_parameters_of_its_network(tmp_path: Path) -> None:
    model = untrained("hex4_2p", 8, 2, tmp_path)
    network = build(make(board="hex4", players=2), channels=8, blocks=2, seed=1)
    assert count_parameters(tmp_path, model) == sum(each.numel() for each in network.parameters())
