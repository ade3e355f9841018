"""Training whose policy targets lie on other actions: what a wrong key format did for months, unseen."""

import sys
from dataclasses import replace

import numpy as np

from hostler.workloads.alphazero import __main__, dataset, training
from hostler.workloads.beacons.game import make

read = dataset.read


def shuffled(content: bytes) -> dataset.Dataset:
    """The dataset with each position's probabilities dealt anew, among all its legal actions."""
    found = read(content)
    random, legal = np.random.default_rng(1), make("hex4", 2).legal(found.states)
    action = found.policy_action.copy()
    for row, (start, stop) in enumerate(zip(found.policy_offsets[:-1], found.policy_offsets[1:], strict=True)):
        action[start:stop] = random.permutation(np.flatnonzero(legal[row]))[: stop - start]
    return replace(found, policy_action=action)


training.read = shuffled
sys.exit(__main__.main(["training"]))
