"""Updates go where they should; that they lead anywhere is shown by tests/canary."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hostler.workloads.gameboy.batch import Step
from hostler.workloads.gameboy.fragments import Sampler
from hostler.workloads.gameboy.game import Screen
from hostler.workloads.gameboy.policy import Network, player
from hostler.workloads.gameboy.ppo import Course, Learner
from hostler.workloads.gameboy.spent import Spent


def test_an_update_moves_the_policy_towards_what_was_better() -> None:
    torch.manual_seed(0)
    network = Network(1, None, 3)
    learner = Learner(network, Course(epochs=4, minibatch=64), seed=0)
    seen = np.ones((8, 1), np.float32)
    before = player(network).think(seen, None)[0][0]
    batch = SimpleNamespace(features=seen, screens=None, machines=[None] * 8, spent=Spent(), reset=lambda: None)
    batch.learnt, batch.news = lambda _: None, lambda: None

    def step(actions: Sequence[int], *, shown: int | None = None) -> Step:
        never = np.zeros(8, bool)
        return Step(
            (np.asarray(actions) == 2).astype(np.float32), never, ~never, {i: (seen[i], None) for i in range(8)}, []
        )

    batch.step = step
    sampler = Sampler(batch, seed=0)  # type: ignore[arg-type] - played as one
    for _ in range(10):
        update = learner.learn([sampler.fragment(player(network), learner.updates, 32)])
    after = player(network).think(seen, None)[0][0]
    gained = (after - after.max())[2] - (before - before.max())[2]
    assert after.argmax() == 2
    assert gained >= 0
    assert update.steps == 256
    assert 0 < update.entropy < np.log(3)
    assert update.divergence >= 0


@pytest.mark.parametrize("screen", [None, Screen()])
def test_what_is_advised_weighs_nothing_in_a_new_policy(screen: Screen | None) -> None:
    torch.manual_seed(3)
    plain = Network(5, screen, 3)
    torch.manual_seed(3)
    advised = Network(7, screen, 3, advised=2)
    seen, pictures = torch.rand(4, 5), None if screen is None else torch.randint(0, 4, (4, screen.height, screen.width))
    with torch.no_grad():
        logits, worths = advised(torch.cat([seen, torch.rand(4, 2)], dim=1), pictures)
        wanted, thought = plain(seen, pictures)
    assert torch.allclose(logits, wanted, atol=1e-6)
    assert torch.allclose(worths, thought, atol=1e-5)
    (advised(torch.ones(1, 7), None if pictures is None else pictures[:1])[1]).sum().backward()
    assert advised.body[0].weight.grad[:, 5:7].any(), "and can be learnt"
