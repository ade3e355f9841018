"""Self-play with random weights that says it plays with the model it was told to."""

import sys
from typing import Any

from hostler.workloads.alphazero import __main__, model
from hostler.workloads.alphazero.network import Network, build

load_network = model.load_network


def random_network(artifacts: Any, sha256: str, game: Any, config: str) -> Network:
    """Another network of the same shape."""
    right = load_network(artifacts, sha256, game, config)
    wrong = build(game, channels=32, blocks=2, seed=666)
    assert [each.shape for each in wrong.parameters()] == [each.shape for each in right.parameters()]
    return wrong


model.load_network = random_network
sys.exit(__main__.main(["selfplay"]))
