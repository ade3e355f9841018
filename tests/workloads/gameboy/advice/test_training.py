"""Trainings with advice: what comes of it is told and kept, and one whose endpoint is dead learns as any other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from hostler.workloads.gameboy.advice.report import ALARM
from hostler.workloads.gameboy.checkpoints import Checkpoints
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.order import order_of
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.run import Run, read_run
from hostler.workloads.gameboy.strict import SpecError
from hostler.workloads.gameboy.training import Training
from tests.workloads.gameboy.advice import stub
from tests.workloads.gameboy.advice.asking import section

Told = Mapping[str, Any]
STEPS_MAX = 200_000


def run(url: str, *, advice: Mapping[str, Any] | None = None, **changes: Any) -> Run:
    """A small one."""
    small = {"steps": 2048, "envs_per_worker": 4, "batch_steps": 128, "fragment_steps": 16, "episode_steps": 40}
    asked = {"calls_per_s": 500, "timeout_s": 60, **(advice or {})}
    return read_run({**small, "seed": 1, "advice": section(url=url, **asked), **changes})


def lines(asked: Run, game: Game, cart: Cartridge, enough: Callable[[Told], bool]) -> list[Told]:
    """What a training tells until it is enough: answers come when they come."""
    told: list[Told] = []
    done = threading.Event()

    class Enough(Exception):
        """It is."""

    def tell(line: Told) -> None:
        told.append(line)
        if enough(line):
            done.set()
            raise Enough

    with pytest.raises(Enough):
        Training(asked, game, cart, told=tell).run()
    assert done.is_set()
    return told


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_advice_is_seen_paid_and_told(keyrooms: Game, cart: Cartridge, workers: int) -> None:
    with stub.serving() as server:
        asked = run(server.url, workers=workers, steps=STEPS_MAX)

        def enough(line: Told) -> bool:
            return bool(line.get("shares", {}).get("advice")) and line["advice"]["cached"] > 100

        line = lines(asked, keyrooms, cart, enough)[-1]
    assert line["advice"]["success"] == 1.0
    assert line["advice"]["calls"]["answered"]["mean_s"] > 0
    assert line["spent"]["advice"] > 0
    assert ALARM not in line["alarms"]
    assert line["advice"]["alarm"] is None
    assert len(server.asked) <= line["advice"]["asked"] + max(workers, 1)


def test_a_dead_endpoint_is_told_of_and_left_alone(keyrooms: Game, cart: Cartridge) -> None:
    asked = run(f"http://127.0.0.1:{stub.closed_port()}", steps=STEPS_MAX)
    told = lines(asked, keyrooms, cart, lambda line: ALARM in line["alarms"])
    advice = told[-1]["advice"]
    assert advice["success"] == 0
    assert advice["calls"]["refused"]["calls"] == advice["asked"] == asked.advice.rests.after  # type: ignore[union-attr]
    assert "calls were answered as they should be" in advice["alarm"]
    assert "127.0.0.1" in advice["trouble"]


def learnt(game: Game, cart: Cartridge, advice: Mapping[str, Any] | None) -> Training:
    """Some updates of a training with this section, or without any."""
    asked = {"steps": 2048, "envs_per_worker": 4, "batch_steps": 512, "fragment_steps": 64, "seed": 1}
    training = Training(read_run({**asked, **({} if advice is None else {"advice": advice})}), game, cart)
    training.run()
    return training


@pytest.mark.long
@pytest.mark.parametrize("observe", [False, True])
def test_a_dead_endpoint_changes_nothing_of_what_is_learnt(keyrooms: Game, cart: Cartridge, observe: bool) -> None:
    """To the last bit, where advice is only paid; where it is seen, inputs that are 0 move how sums are rounded."""
    dead = section(url=f"http://127.0.0.1:{stub.closed_port()}", observe=observe)
    off, on = learnt(keyrooms, cart, None), learnt(keyrooms, cart, dead)
    assert on.progress.advice.finished > 0
    assert on.progress.parts == {**off.progress.parts, "advice": 0}
    weights = on.learner.network.state_dict()
    for name, each in off.learner.network.state_dict().items():
        own = weights[name][:, : each.shape[1]] if name == "body.0.weight" else weights[name]
        assert torch.allclose(each, own, atol=1e-3 if observe else 0, rtol=0), name
    advised = weights["body.0.weight"][:, off.learner.network.state_dict()["body.0.weight"].shape[1] :]
    assert not advised.any(), "nothing was learnt of what was never seen"


@pytest.mark.long
def test_a_training_whose_endpoint_is_dead_still_learns(keyrooms: Game, cart: Cartridge) -> None:
    """By chance it comes to one or two rooms."""
    asked = {"envs_per_worker": 16, "batch_steps": 2048, "seed": 1, "course": {"entropy": 0.02}, "target_places": 3.8}
    dead = section(url=f"http://127.0.0.1:{stub.closed_port()}")
    progress = Training(read_run({**asked, "steps": 200_000, "advice": dead}), keyrooms, cart).run()
    assert progress.mean_places is not None
    assert progress.mean_places >= 3.8, progress.steps
    assert progress.advice.answered == 0
    assert progress.parts["advice"] == 0


def test_what_became_of_calls_is_kept(keyrooms: Game, cart: Cartridge, tmp_path: Path) -> None:
    asked = run(f"http://127.0.0.1:{stub.closed_port()}", steps=512)
    first = Training(asked, keyrooms, cart, Checkpoints(tmp_path, {})).run()
    assert first.advice.asked > 0
    second = Training(asked, keyrooms, cart, Checkpoints(tmp_path, {}))
    assert second.progress == first


def test_a_checkpoint_of_other_advice_is_refused(tmp_path: Path) -> None:
    def kept(**changes: Any) -> Training:
        training = {"steps": 64, "envs_per_worker": 2, "batch_steps": 64, "fragment_steps": 16}
        advice = section(**{"url": f"http://127.0.0.1:{stub.closed_port()}", **changes})
        content = {"schema": 1, "game": "keyrooms", "rom": "keyrooms", "training": {**training, "advice": advice}}
        order = order_of(content, tmp_path, {})
        return Training(order.run, order.game, order.cartridge, Checkpoints(tmp_path / "kept", order.made_of))

    kept().run()
    assert kept(url="http://elsewhere.example/v1", calls_per_s=1).progress.steps == 64
    with pytest.raises(ValueError, match="of another training: advice differ"):
        kept(shaping={"weight": 1, "cap": 4, "decay_updates": 10})


def test_a_training_without_its_token_does_not_begin(
    keyrooms: Game, cart: Cartridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    with pytest.raises(SpecError, match="there is no variable NO_SUCH_TOKEN"):
        Training(run("http://llm.example", advice={"key": "NO_SUCH_TOKEN"}), keyrooms, cart).run()


def test_an_order_whose_game_does_not_have_the_values_is_refused(tmp_path: Path) -> None:
    advice = section(of=["lives"], prompt="{lives}")
    content = {"schema": 1, "game": "keyrooms", "rom": "keyrooms", "training": {"steps": 1, "advice": advice}}
    with pytest.raises(SpecError, match=r"training.advice.of: there is no value 'lives'"):
        order_of(content, tmp_path, {})
