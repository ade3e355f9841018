"""Updates go where they should; that they lead anywhere is shown by tests/canary."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import torch

from hostler.workloads.gameboy.batch import Step
from hostler.workloads.gameboy.fragments import Sampler
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
