from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hostler.workloads.alphazero import dataset as datasets
from hostler.workloads.alphazero.artifacts import DATASET, MODEL, ArtifactError, Artifacts
from hostler.workloads.alphazero.checkpoint import newest
from hostler.workloads.alphazero.dataset import Dataset
from hostler.workloads.alphazero.intake import IntakeError
from hostler.workloads.alphazero.learner import Diverged
from hostler.workloads.alphazero.model import ModelError, load_model, publish, read_manifest
from hostler.workloads.alphazero.network import build
from hostler.workloads.alphazero.stage import OrderError, Report, StageError
from hostler.workloads.alphazero.training import batch_parts, run, thinned
from hostler.workloads.beacons.game import make
from tests.workloads.alphazero.datasets import heuristic_dataset, shuffled_among_legal, shuffled_among_positions
from tests.workloads.alphazero.trivial import make as spacing, order_of

BEACONS = {"factory": "hostler.workloads.beacons.game:make", "params": {"board": "hex4", "players": 2}}
GAME = make("hex4", 2)
CONFIG = "hex4_2p"
OPTIONS = {"validate_every": 20, "checkpoint_every": 40, "learning_rate": 3e-3}


class Bench:
    """A folder of artifacts with an untrained model, and what it takes to order trainings from it."""

    def __init__(self, root: Path, game: Mapping[str, Any] = BEACONS, config: str = CONFIG) -> None:
        self.artifacts, self.report = Artifacts(root), Report(root / "result.json")
        self.common = {"schema": 1, "stage": "training", "config": config, "seed": 11, "game": dict(game)}
        self.base = self.begin()["model"]["sha256"]

    def begin(self, **changes: Any) -> Mapping[str, Any]:
        order = {
            **self.common,
            "base": None,
            "init": {"channels": 8, "blocks": 1},
            "dataset": None,
            "steps": 0,
            **changes,
        }
        return run(order, self.artifacts, self.report)

    def order(self, dataset: Dataset, steps: int = 120, batch: int = 64, **changes: Any) -> dict[str, Any]:
        sha256 = self.artifacts.publish(DATASET, datasets.write(dataset)).sha256
        named = {"sha256": sha256, "games": dataset.header["games"], "positions": dataset.header["positions"]}
        return {**self.common, "base": self.base, "init": None, "dataset": named, "steps": steps, "batch": batch,
                "options": OPTIONS, **changes}  # fmt: skip

    def train(self, dataset: Dataset, **changes: Any) -> Mapping[str, Any]:
        return run(self.order(dataset, **changes), self.artifacts, self.report)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="module")
def games() -> Dataset:
    return heuristic_dataset(GAME, CONFIG, 120, 1)


# ---- beginning ---------------------------------------------------------------------------------------------------


def test_init_makes_an_untrained_model_from_the_seed(bench: Bench) -> None:
    result = bench.begin()
    network, manifest = load_model(bench.artifacts, result["model"]["sha256"], GAME, CONFIG)
    expected = build(GAME, channels=8, blocks=1, seed=11)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), expected.parameters(), strict=True))
    assert (manifest.base, manifest.dataset, manifest.steps, manifest.seed) == (None, None, 0, 11)
    assert (result["base"], result["dataset"], result["steps"], result["positions_used"]) == (None, None, 0, 0)
    assert result["model"] == bench.begin()["model"]
    assert result["model"] != bench.begin(seed=12)["model"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"init": None}, r"order\.base, order\.init: exactly one of them must be null"),
        ({"base": "0" * 64}, r"order\.base, order\.init: exactly one of them must be null"),
        ({"steps": 5}, r"order\.steps: .*`steps` 0"),
        ({"dataset": {"sha256": "0" * 64, "games": 1, "positions": 1}}, r"order\.dataset: .*must be null"),
        ({"init": {"channels": 8}}, r"order\.init\.blocks: missing"),
        ({"init": {"channels": 8, "blocks": 1, "width": 2}}, r"order\.init: unknown width"),
        ({"more": 1}, "order: unknown more"),
    ],
)
def test_nothing_begins_from_random_weights_unless_it_is_ordered(
    bench: Bench, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(OrderError, match=told):
        bench.begin(**changes)


# ---- learning ----------------------------------------------------------------------------------------------------


def test_a_training_learns_and_says_so(bench: Bench, games: Dataset) -> None:
    result = bench.train(games)
    assert result["positions_in"] == result["positions_used"] == len(games.states)
    assert (result["steps"], result["samples"], result["stopped"]) == (120, 120 * 64, "steps")
    assert result["before"]["policy"] == pytest.approx(result["uniform_policy"], abs=0.1)
    assert result["after"]["policy"] < result["before"]["policy"] - 0.15
    assert [point["step"] for point in result["curve"]] == [20, 40, 60, 80, 100, 120]
    assert result["curve"][-1]["policy"] < result["curve"][0]["policy"]
    best = min(result["curve"], key=lambda point: point["validation_policy"] + point["validation_value"])
    assert best["step"] == result["best_step"]
    assert (best["validation_policy"], best["validation_value"]) == tuple(result["after"].values())
    _, manifest = load_model(bench.artifacts, result["model"]["sha256"], GAME, CONFIG)
    assert (manifest.base, manifest.dataset, manifest.steps) == (bench.base, result["dataset"], result["best_step"])
    assert result["cpu_s"] > 0


@pytest.mark.long
def test_the_model_that_is_published_is_the_best_one_and_not_the_last(bench: Bench, games: Dataset) -> None:
    """Few games, learnt by heart: the weights must have the losses that the result claims."""
    few = only(games, 12)
    options = {**OPTIONS, "learning_rate": 0.03, "validation": 0.5, "patience": 1000}
    result = bench.train(few, steps=300, options=options)
    last = result["curve"][-1]
    assert result["best_step"] < 300
    assert sum(result["after"].values()) < last["validation_policy"] + last["validation_value"] - 0.01
    again = bench.train(
        few, steps=300, seed=12, base=result["model"]["sha256"], options={**options, "learning_rate": 1e-3}
    )
    assert again["before"] == pytest.approx(result["after"])


@pytest.mark.long
def test_training_goes_on_from_the_base(bench: Bench, games: Dataset) -> None:
    first = bench.train(games)
    more = heuristic_dataset(GAME, CONFIG, 120, 2)
    second = bench.train(more, base=first["model"]["sha256"], options={**OPTIONS, "learning_rate": 1e-3})
    fresh = bench.train(more)
    assert second["before"]["policy"] == pytest.approx(first["after"]["policy"], abs=0.1)
    assert second["after"]["policy"] < fresh["after"]["policy"]


@pytest.mark.long
def test_the_same_order_gives_the_same_bytes_and_another_seed_others(tmp_path: Path, games: Dataset) -> None:
    first, second = (Bench(tmp_path / name).train(games) for name in "ab")
    assert {**first, "cpu_s": 0} == {**second, "cpu_s": 0}
    third = Bench(tmp_path / "c").train(games, seed=12)
    assert third["model"] != first["model"]


@pytest.mark.long
def test_it_stops_early_when_nothing_improves_but_not_before_all_was_read(bench: Bench, games: Dataset) -> None:
    few = only(games, 30)
    options = {**OPTIONS, "learning_rate": 0.01, "validate_every": 10, "patience": 3, "validation": 0.3}
    result = bench.train(few, steps=4000, batch=16, options=options)
    assert result["stopped"] == "early"
    assert result["steps"] < 4000
    assert result["steps"] * 16 >= len(few.states) * 0.7 * 0.7
    assert result["positions_used"] == len(few.states)
    assert len(result["curve"]) <= 64


@pytest.mark.long
def test_three_players_and_another_game_train_too(tmp_path: Path) -> None:
    game = spacing(9, 3)
    bench = Bench(tmp_path, order_of(game), "spacing9_3p")
    result = bench.train(heuristic_dataset(game, "spacing9_3p", 150, 1), steps=80)
    assert result["after"]["policy"] < result["uniform_policy"]
    assert result["after"]["value"] < result["before"]["value"]


@pytest.mark.long
def test_values_of_the_search_can_be_learnt_from(bench: Bench, games: Dataset) -> None:
    """Values that contradict the places: with all the weight on them the places are predicted the wrong way round."""
    against = -(1.0 - 2.0 * games.places.astype(np.float32))
    deceived = replace(games, root_value=against)
    honest = bench.train(deceived, options={**OPTIONS, "root_weight": 0.0})
    assert honest["after"]["value"] < 0.69
    astray = bench.train(deceived, steps=200, options={**OPTIONS, "root_weight": 1.0})
    assert astray["after"]["value"] > 0.72


def only(dataset: Dataset, games: int) -> Dataset:
    rows = np.flatnonzero(dataset.game < games)
    stop = len(rows)
    entries = dataset.policy_offsets[stop]
    header = {**dataset.header, "games": games, "positions": stop}
    kept = {name: getattr(dataset, name)[:stop] for name in ("states", "places", "root_value", "game", "ply")}
    return replace(dataset, header=header, **kept, policy_offsets=dataset.policy_offsets[: stop + 1],
                   policy_action=dataset.policy_action[:entries],
                   policy_probability=dataset.policy_probability[:entries])  # fmt: skip


# ---- nothing learnt ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
@pytest.mark.parametrize(
    "trained", [False, pytest.param(True, marks=pytest.mark.long)], ids=["untrained base", "trained base"]
)
def test_policy_targets_shuffled_among_the_legal_actions_fail(
    bench: Bench, games: Dataset, seed: int, trained: bool
) -> None:
    base = bench.train(games)["model"]["sha256"] if trained else bench.base
    with pytest.raises(StageError, match=r"nothing was learnt: on the \d+ positions held out") as error:
        bench.train(shuffled_among_legal(GAME, games, seed), base=base, seed=seed)
    facts = error.value.fields
    assert facts["after"]["policy"] > facts["uniform_policy"] - 0.03
    assert "model" not in facts
    assert len(facts["curve"]) > 0


def test_policy_targets_of_other_positions_fail(bench: Bench, games: Dataset) -> None:
    with pytest.raises(IntakeError, match="give probability to illegal actions"):
        bench.train(shuffled_among_positions(games, 1))


@pytest.mark.long
def test_a_learning_rate_of_nearly_nothing_fails_with_both_losses(bench: Bench, games: Dataset) -> None:
    with pytest.raises(StageError, match=r"the policy loss is \d\.\d{4}, better than the base's by "):
        bench.train(games, options={**OPTIONS, "learning_rate": 1e-8})


@pytest.mark.long
def test_nearly_uniform_policies_are_no_reason_to_fail_when_the_places_are_learnt(bench: Bench) -> None:
    """As the first games of an untrained network have them: its search knows no better."""
    games = heuristic_dataset(GAME, CONFIG, 400, 1, opening=15)
    legal = GAME.legal(games.states)
    rows, actions = np.nonzero(legal)
    counts = legal.sum(axis=1)
    even = replace(
        games,
        policy_offsets=np.cumsum([0, *counts], dtype=np.int64),
        policy_action=actions.astype(np.int32),
        policy_probability=(1.0 / counts[rows]).astype(np.float32),
    )
    result = bench.train(even, steps=150, options={**OPTIONS, "validation": 0.4, "learning_rate": 0.01})
    assert result["after"]["value"] < result["before"]["value"] - 0.03
    assert result["after"]["policy"] == pytest.approx(result["uniform_policy"], abs=0.01)


# ---- what it refuses ---------------------------------------------------------------------------------------------


def test_fewer_steps_than_it_takes_to_read_everything_are_refused_at_once(bench: Bench, games: Dataset) -> None:
    with pytest.raises(
        StageError, match=r"3 steps of 64 visit 192 of the \d+ positions to learn from: order \d+ steps"
    ):
        bench.train(games, steps=3)


def test_counts_other_than_ordered_are_refused(bench: Bench, games: Dataset) -> None:
    order = bench.order(games)
    order["dataset"]["positions"] += 1
    with pytest.raises(IntakeError, match="positions were ordered, the dataset's header tells of"):
        run(order, bench.artifacts, bench.report)


def test_an_empty_dataset_is_refused(bench: Bench, games: Dataset) -> None:
    with pytest.raises(StageError, match="nothing to learn from"):
        bench.train(only(games, 0))


def test_one_game_is_refused(bench: Bench, games: Dataset) -> None:
    with pytest.raises(StageError, match="1 games: one to learn from and one to hold out are the least"):
        bench.train(only(games, 1))


def test_a_base_that_is_missing_damaged_or_of_another_config_is_refused(
    bench: Bench, games: Dataset, tmp_path: Path
) -> None:
    with pytest.raises(ArtifactError, match="cannot be read"):
        bench.train(games, base="0" * 64)
    with pytest.raises(ModelError, match="its config is 'hex4_2p', that of the order is 'hex6_2p'"):
        bench.train(games, config="hex6_2p")
    path = bench.artifacts.path(bench.base, MODEL)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match="is damaged"):
        bench.train(games)


def test_a_dataset_of_another_config_is_refused(bench: Bench, games: Dataset) -> None:
    with pytest.raises(IntakeError, match="the dataset's config is 'square5_2p', that of the order is 'hex4_2p'"):
        bench.train(replace(games, header={**games.header, "config": "square5_2p"}))


def test_a_loss_that_diverges_is_told_with_step_and_rate(bench: Bench, games: Dataset) -> None:
    with pytest.raises(Diverged, match=r"step \d+: the (loss|gradient) is not finite.* at learning rate"):
        bench.train(games, steps=400, options={**OPTIONS, "learning_rate": 10.0, "weight_decay": 10.0})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"steps": 0}, r"order\.steps: must be an integer in 1\.\."),
        ({"batch": "64"}, r"order\.batch: must be an integer"),
        ({"options": {"learning_rate": -1}}, r"order\.options\.learning_rate: must be a number in"),
        ({"options": {"learning-rate": 1}}, r"order\.options: unknown learning-rate; the fields are checkpoint_every,"),
        ({"base": "abc"}, r"order\.base: must be a SHA-256"),
    ],
)
def test_an_order_that_cannot_be_read_is_refused_by_field(
    bench: Bench, games: Dataset, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(OrderError, match=told):
        bench.train(games, **changes)


# ---- the curve ---------------------------------------------------------------------------------------------------


def test_a_long_curve_is_thinned_evenly_and_keeps_its_ends() -> None:
    curve = [{"step": float(step)} for step in range(1, 1001)]
    thin = [point["step"] for point in thinned(curve)]
    assert len(thin) == 64
    assert (thin[0], thin[-1]) == (1, 1000)
    assert set(np.diff(thin)) <= {15, 16}
    assert thinned(curve[:64]) == curve[:64]


@pytest.mark.long
def test_nothing_is_left_in_the_work_folder_but_checkpoints(bench: Bench, games: Dataset) -> None:
    order = bench.order(games)
    run(order, bench.artifacts, bench.report)
    names = sorted(path.name[:20] for path in bench.artifacts.work(order).iterdir())
    assert names == ["checkpoint-000000080", "checkpoint-000000120"]
    assert newest(bench.artifacts.work(order)).damaged == ()
    assert read_manifest(bench.artifacts.read(bench.base, MODEL)).config == CONFIG


def test_a_base_whose_losses_are_not_finite_is_told_with_them(bench: Bench, games: Dataset) -> None:
    network, manifest = load_model(bench.artifacts, bench.base, GAME, CONFIG)
    for parameter in network.parameters():
        parameter.data *= 1e30
    wild = publish(bench.artifacts, network, manifest).sha256
    with pytest.raises(Diverged, match=r"the base: the loss of what is held out is not finite \(policy"):
        bench.train(games, base=wild)


def test_games_that_are_all_copies_leave_nothing_to_learn_from(bench: Bench, games: Dataset) -> None:
    one = only(games, 1)
    twice = {name: np.concatenate([getattr(one, name)] * 2) for name in
             ("states", "policy_action", "policy_probability", "places", "root_value", "ply")}  # fmt: skip
    offsets = np.append(one.policy_offsets, one.policy_offsets[1:] + one.policy_offsets[-1])
    header = {**one.header, "games": 2, "positions": 2 * len(one.states)}
    copies = Dataset(header, policy_offsets=offsets, game=np.append(one.game, one.game + 1), **twice)
    with pytest.raises(StageError, match=rf"all {len(copies.states)} positions of the 2 games would be held out"):
        bench.train(copies)


def test_after_a_lack_of_memory_batches_come_in_parts() -> None:
    assert [batch_parts({"HOSTLER_BATCH_SCALE": text}) for text in ("1", "0.5", "0.3", "0.0625")] == [1, 2, 4, 16]
    assert batch_parts({}) == 1
    for nonsense in ("", "half", "0", "-1", "2", "nan", "1e-300"):
        with pytest.raises(OrderError, match="HOSTLER_BATCH_SCALE"):
            batch_parts({"HOSTLER_BATCH_SCALE": nonsense})
