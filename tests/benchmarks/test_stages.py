"""Stages by hand: a real process, what it cost, and what it says when it cannot."""

from pathlib import Path

import pytest

from hostler.workloads.alphazero.network import build
from hostler.workloads.beacons.game import make
from selfplay import count_parameters
from stages import order, run, run_together, untrained


def _selfplay(seed: int, player: str = "heuristic") -> dict[str, object]:
    return order("selfplay", "hex4_2p", seed, player=player, games=4, segment_games=4, options={})


def test_a_stage_leaves_its_result_and_costs_what_its_process_took(tmp_path: Path) -> None:
    ran = run(_selfplay(1), tmp_path / "artifacts", tmp_path / "work")
    assert ran.result["games"] == 4
    assert ran.result["cpu_s"] < ran.cpu_s, "the process's start counts, which the stage itself does not see"
    assert ran.wall_s > 0


def test_stages_side_by_side_answer_in_the_order_they_were_given(tmp_path: Path) -> None:
    ran = run_together([_selfplay(1), _selfplay(2)], tmp_path / "artifacts", tmp_path / "work")
    first, second = (each.result["segments"][0]["sha256"] for each in ran)
    assert first != second
    assert run(_selfplay(2), tmp_path / "artifacts", tmp_path / "again").result["segments"][0]["sha256"] == second


def test_a_stage_that_cannot_says_why(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"selfplay of hex4_2p ended with status 1: .*c0ffee"):
        run(_selfplay(1, "gumbel-2@" + "c0ffee" * 10 + "c0de"), tmp_path / "artifacts", tmp_path / "work")


def test_an_untrained_model_has_the_parameters_of_its_network(tmp_path: Path) -> None:
    model = untrained("hex4_2p", 8, 2, tmp_path)
    network = build(make(board="hex4", players=2), channels=8, blocks=2, seed=1)
    assert count_parameters(tmp_path, model) == sum(each.numel() for each in network.parameters())
