"""Training whose policy targets belong to other positions: what a wrong key format did for months, unseen."""

import sys
from dataclasses import replace

import numpy as np

from hostler.workloads.alphazero import __main__, dataset, training

read = dataset.read


def shuffled(content: bytes) -> dataset.Dataset:
    """The dataset with each position's probabilities dealt anew among its actions."""
    found = read(content)
    random = np.random.default_rng(1)
    probability = found.policy_probability.copy()
    for start, stop in zip(found.policy_offsets[:-1], found.policy_offsets[1:], strict=True):
        random.shuffle(probability[start:stop])
    return replace(found, policy_probability=probability)


training.read = shuffled
sys.exit(__main__.main(["training"]))
