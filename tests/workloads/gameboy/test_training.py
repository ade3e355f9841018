"""Trainings: what is asked for means what it says, and what was killed goes on from where it was."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hostler.web.rl.lines import Update, read
from hostler.workloads.gameboy import ppo
from hostler.workloads.gameboy.checkpoints import Checkpoints
from hostler.workloads.gameboy.fragments import Fragment
from hostler.workloads.gameboy.game import Game, Reward, Screen
from hostler.workloads.gameboy.pictures import png
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.room import cpus
from hostler.workloads.gameboy.run import Run, read_run
from hostler.workloads.gameboy.shown import LINE_MAX, PICTURES_MAX, PICTURES_TOLD, line_bytes, unshowable
from hostler.workloads.gameboy.strict import SpecError
from hostler.workloads.gameboy.training import Diverged, Training
from hostler.workloads.gameboy.workers import Here, Plan


def run(**changes: Any) -> Run:
    """A small one, in this process."""
    small = {"steps": 1000, "envs_per_worker": 4, "batch_steps": 128, "fragment_steps": 16, "seed": 1}
    return read_run({**small, **changes})


@pytest.mark.long
def test_a_training_makes_its_steps_in_updates_of_its_batch(keyrooms: Game, cart: Cartridge) -> None:
    told: list[Mapping[str, Any]] = []
    training = Training(run(episode_steps=20), keyrooms, cart, told=told.append)
    progress = training.run()
    assert progress.steps == 8 * 128, "whole updates, until it has at least so many"
    assert training.learner.updates == 8
    assert [each["update"]["steps"] for each in told] == [128] * 8
    assert progress.episodes == 4 * (progress.steps // 4 // 20)
    assert sum(progress.places.values()) >= progress.episodes


@pytest.mark.long
def test_the_same_seed_gives_the_same_policy(keyrooms: Game, cart: Cartridge) -> None:
    ends = []
    for seed in (1, 1, 2):
        training = Training(run(seed=seed), keyrooms, cart)
        training.run()
        ends.append(training.learner.network.state_dict())
    assert all(torch.equal(each, ends[1][name]) for name, each in ends[0].items())
    assert any(not torch.equal(each, ends[2][name]) for name, each in ends[0].items())


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_game_of_which_only_the_screen_is_seen_is_learnt(keyrooms: Game, cart: Cartridge, workers: int) -> None:
    game = replace(keyrooms, features=(), screen=Screen())
    training = Training(run(steps=256, workers=workers, course={"epochs": 1}), game, cart)
    before = [each.clone() for each in training.learner.network.parameters()]
    assert training.run().steps >= 256
    after = training.learner.network.parameters()
    assert all((one != other).any() for one, other in zip(before, after, strict=True))


def test_what_goes_on_has_its_steps_its_optimiser_and_its_counts(
    keyrooms: Game, cart: Cartridge, tmp_path: Path
) -> None:
    first = Training(run(steps=500, episode_steps=20), keyrooms, cart, Checkpoints(tmp_path, {"game": "g"}))
    first.run()
    second = Training(run(steps=1000, episode_steps=20), keyrooms, cart, Checkpoints(tmp_path, {"game": "g"}))
    assert second.progress == first.progress
    assert second.shares.shares == first.shares.shares != {}
    assert second.learner.updates == first.learner.updates
    before, after = first.learner.state()["optimiser"], second.learner.state()["optimiser"]
    assert before["param_groups"] == after["param_groups"]
    for number, own in before["state"].items():
        assert all(torch.equal(each, after["state"][number][name]) for name, each in own.items())
    assert torch.equal(first.learner.state()["random"], second.learner.state()["random"])
    for name, each in first.learner.network.state_dict().items():
        assert torch.equal(each, second.learner.network.state_dict()[name])
    assert second.run().steps == 1024
    assert second.learner.updates == 8


def test_a_damaged_checkpoint_is_passed_over(keyrooms: Game, cart: Cartridge, tmp_path: Path) -> None:
    Training(run(steps=384, checkpoint_updates=1), keyrooms, cart, Checkpoints(tmp_path, {})).run()
    newest = max(tmp_path.iterdir())
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    checkpoints = Checkpoints(tmp_path, {})
    told: list[Mapping[str, Any]] = []
    again = Training(run(), keyrooms, cart, checkpoints, told=told.append)
    assert again.progress.steps == 2 * 128
    assert told == [{"trouble": f"checkpoints that are damaged were passed over: {newest.name}"}]
    assert checkpoints.damaged == (newest.name,)


def test_checkpoints_of_another_training_are_refused(keyrooms: Game, cart: Cartridge, tmp_path: Path) -> None:
    Training(run(steps=128), keyrooms, cart, Checkpoints(tmp_path, {"rom": "1", "course": 1})).run()
    with pytest.raises(ValueError, match="of another training: rom differ"):
        Training(run(), keyrooms, cart, Checkpoints(tmp_path, {"rom": "2", "course": 1}))


def test_variables_that_people_know_mean_what_they_say(keyrooms: Game) -> None:
    variables = {"RAY_WORKERS": "3", "ENVS_PER_WORKER": "5", "EPISODE_LENGTH": "77", "BATCH_SIZE": "600", "OTHER": "x"}
    asked = read_run({"steps": 1}, variables)
    assert (asked.workers, asked.envs_per_worker, asked.episode_steps, asked.batch_steps) == (3, 5, 77, 600)
    assert asked.game(keyrooms).episode_steps == 77
    dear = replace(keyrooms, reward=Reward((replace(keyrooms.reward.components[2], cap=None, worth=10**13),), 0.5))
    with pytest.raises(SpecError, match=r"might be paid 1e\+07 × 4 × 2000000 steps"):
        read_run({"steps": 1}, {"EPISODE_LENGTH": "2000000"}).game(dear)
    assert read_run({"steps": 1}).game(keyrooms) == keyrooms


def test_weights_that_are_no_numbers_end_it_before_a_checkpoint_has_them(
    keyrooms: Game, cart: Cartridge, tmp_path: Path
) -> None:
    training = Training(run(checkpoint_updates=1), keyrooms, cart, Checkpoints(tmp_path, {}))
    with torch.no_grad():
        training.learner.network.worth.bias[0] = float("nan")
    with pytest.raises(Diverged, match="update 1 has left weights that are no numbers"):
        training.run()
    assert list(tmp_path.iterdir()) == []


class Many:
    """So many workers that each update has a fragment of each."""

    def __init__(self, plan: Plan) -> None:
        self.here, self.plan = Here(plan), plan

    def take(self, timeout_s: float) -> Sequence[Fragment]:
        made = [self.here.take(timeout_s)[0] for _ in range(PICTURES_MAX + 5)]
        for number, each in enumerate(made):
            each.pictures = {number: next(iter(each.pictures.values()))}
        return made

    def __getattr__(self, name: str) -> Any:
        return getattr(self.here, name)


def test_what_a_training_with_many_workers_tells_is_read_by_the_page(keyrooms: Game, cart: Cartridge) -> None:
    told: list[Mapping[str, Any]] = []
    asked = run(steps=1, envs_per_worker=1, fragment_steps=2)
    Training(asked, keyrooms, cart, source=lambda plan, *_: Many(plan), told=told.append).run()
    update = read(json.dumps(told[-1]).encode())
    assert isinstance(update, Update)
    assert 0 < len(update.pictures) <= PICTURES_MAX


def test_a_line_that_tells_as_much_as_can_be_is_read_by_the_page(keyrooms: Game, cart: Cartridge) -> None:
    """A map just small enough, come to everywhere; names and numbers as long as they may be; pictures full of noise."""
    components = tuple(replace(keyrooms.reward.components[0], name=f"{index:02}{'ü' * 98}") for index in range(62))
    values = {**keyrooms.values, **{each: replace(keyrooms.values["x"], name=each, below=180) for each in ("p", "q")}}
    game = replace(keyrooms, reward=Reward(components, 0.0), values=values, map=("p", "q"))
    names, axes = [each.name for each in components], [("p", 180), ("q", 180)]
    assert unshowable(names, axes) is None
    told: list[Mapping[str, Any]] = []
    training = Training(run(), game, cart, told=told.append)
    training.progress.places = dict.fromkeys(range(game.places), 10**13)
    training.progress.parts = dict.fromkeys(names, -(10**21) + 1) | {names[0]: 10**21 + 1}
    training.shares.paid = [12345678901234567 + index for index in range(62)]
    noise = np.random.default_rng(0).integers(0, 4, (72, 80), np.uint8)
    training._pictures = {10**6 - 1 - index: png(noise) for index in range(PICTURES_TOLD)}
    training._tell(ppo.Update(2**40, 0.1, 0.1, 0.1, 0.1, 0.1), Here(training._plan(0)))
    line = json.dumps(told[-1]).encode()
    update = read(line)
    assert isinstance(update, Update)
    assert len(update.parts) == 61, "one is more than can be shown"
    assert (len(update.explored), len(update.pictures), len(update.alarms)) == (game.places, PICTURES_TOLD, 62)
    assert LINE_MAX * 0.8 < len(line) <= line_bytes(names, axes) <= LINE_MAX


def test_more_workers_than_cpus_are_begun_for_those_alone_who_ask_for_them(keyrooms: Game, cart: Cartridge) -> None:
    many = cpus() + 1
    with pytest.raises(SpecError, match=rf"{many} workers .*RAY_WORKERS.* Ask for {many - 1}, name the cluster"):
        Training(read_run({"steps": 1}, {"RAY_WORKERS": str(many)}), keyrooms, cart)
    Training(run(workers=many, crowded=True), keyrooms, cart)
    Training(run(workers=many, ray={}), keyrooms, cart)
    Training(run(workers=many - 1), keyrooms, cart)


@pytest.mark.parametrize(
    ("content", "variables", "why"),
    [
        ({}, {}, "training.steps is missing"),
        ({"steps": 0}, {}, "training.steps has to be a whole number from 1"),
        ({"steps": 1, "wrokers": 2}, {}, "training.wrokers is nothing that is known"),
        ({"steps": 1, "course": {"rate": 2}}, {}, "training.course.rate has to be a number from 0 to 1"),
        (None, {}, "training has to be a mapping"),
        (5, {"BATCH_SIZE": "600"}, "training has to be a mapping"),
        ({"steps": 1}, {"EPISODE_LENGTH": ""}, "EPISODE_LENGTH has to be a whole number"),
        ({"steps": 1}, {"BATCH_SIZE": "many"}, "BATCH_SIZE has to be a whole number"),
        ({"steps": 1}, {"BATCH_SIZE": "0"}, "^BATCH_SIZE has to be a whole number from 1 to [0-9]+, not 0"),
        ({"steps": 1, "workers": 2}, {"RAY_WORKERS": "-5"}, "^RAY_WORKERS has to be a whole number from 0 to 100000"),
        ({"steps": 1, "batch_steps": 0}, {"RAY_WORKERS": "5"}, "^training.batch_steps has to be"),
        (
            {"steps": 1, "workers": 1000},
            {"ENVS_PER_WORKER": "4000"},
            "workers × ENVS_PER_WORKER are 1000 × 4000 = 4000000",
        ),
    ],
)
def test_what_cannot_be_asked_for(content: Any, variables: dict[str, str], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        read_run(content, variables)
