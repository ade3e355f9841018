"""What decides: a small network over values, over the screen, or over both. Learnt with PyTorch, played with NumPy.

A forward pass of so small a network costs PyTorch several times its arithmetic in calls; workers have one for each step
of a few machines. Where there is a screen, its convolutions are PyTorch's there, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from hostler.workloads.gameboy.batch import Features, Screens
from hostler.workloads.gameboy.game import Screen

Weights: TypeAlias = Mapping[str, npt.NDArray[np.float32]]
Floats: TypeAlias = npt.NDArray[np.float32]

SHADES = 3.0
SMALL = 0.01
"""Gain of the layer that chooses: a new policy plays everything about as often."""


class Network(nn.Module):
    """Logits of actions, and what the rest of an episode is worth.

    The last `advised` of the features weigh nothing in a new one: where they are never anything but 0, the same seed
    makes the same policy as without them.
    """

    def __init__(
        self, features: int, screen: Screen | None, actions: int, hidden: int = 128, *, advised: int = 0
    ) -> None:
        super().__init__()
        self.convolved = None if screen is None else _convolved(screen)
        own = features - advised
        width = own + (0 if self.convolved is None else _width(self.convolved, screen))
        first = _widened(_linear(width, hidden), own, advised)
        self.body = nn.Sequential(first, nn.Tanh(), _linear(hidden, hidden), nn.Tanh())
        self.choice = _linear(hidden, actions, SMALL)
        self.worth = _linear(hidden, 1, 1.0)

    def forward(self, features: torch.Tensor, screens: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Of `[rows, features]` and `[rows, height, width]`: `[rows, actions]` and `[rows]`."""
        seen = features
        if self.convolved is not None:
            assert screens is not None
            seen = torch.cat([features, self.convolved(screens[:, None].float() / SHADES)], dim=1)
        thought = self.body(seen)
        return self.choice(thought), self.worth(thought)[:, 0]


class Player(Protocol):
    """A policy at play."""

    def think(self, features: Features, screens: Screens | None) -> tuple[Floats, Floats]:
        """Logits, `[rows, actions]`, and worths, `[rows]`."""
        ...


def weights_of(network: Network) -> dict[str, npt.NDArray[np.float32]]:
    """Its weights, to be sent about."""
    return {name: each.detach().cpu().numpy().copy() for name, each in network.state_dict().items()}


def player(network: Network) -> Player:
    """The network, as it is now, at play; `adopt` other weights by making another one."""
    return _Small(weights_of(network)) if network.convolved is None else _Large(network)


class _Small:
    """A network without convolutions."""

    def __init__(self, weights: Weights) -> None:
        self._body = [(weights[f"body.{layer}.weight"].T.copy(), weights[f"body.{layer}.bias"]) for layer in (0, 2)]
        self._head = np.concatenate([weights["choice.weight"], weights["worth.weight"]]).T.copy()
        self._bias = np.concatenate([weights["choice.bias"], weights["worth.bias"]])

    def think(self, features: Features, screens: Screens | None) -> tuple[Floats, Floats]:
        thought = features
        for weight, bias in self._body:
            thought = np.tanh(thought @ weight + bias)
        out: Floats = thought @ self._head + self._bias
        return out[:, :-1], out[:, -1]


class _Large:
    """One with a screen to look at."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def think(self, features: Features, screens: Screens | None) -> tuple[Floats, Floats]:
        assert screens is not None
        with torch.inference_mode():
            logits, worths = self._network(torch.from_numpy(features), torch.from_numpy(screens))
        return logits.numpy(), worths.numpy()


def _convolved(screen: Screen) -> nn.Sequential:
    """Three layers, as in the usual network for Atari (Mnih et al. 2015, doi:10.1038/nature14236), half as wide."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Conv2d(32, 32, 3, 1), nn.ReLU(),
        nn.Flatten(),
    )  # fmt: skip


def _width(convolved: nn.Sequential, screen: Screen | None) -> int:
    assert screen is not None
    with torch.no_grad():
        return int(convolved(torch.zeros(1, 1, screen.height, screen.width)).shape[1])


def _widened(layer: nn.Linear, at: int, by: int) -> nn.Linear:
    """With so many more inputs there, which weigh nothing."""
    weight = layer.weight.detach()
    more = torch.zeros(layer.out_features, by)
    layer.weight = nn.Parameter(torch.cat([weight[:, :at], more, weight[:, at:]], dim=1))
    layer.in_features += by
    return layer


def _linear(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    """Orthogonal weights, as PPO is usually begun with (Andrychowicz et al. 2021, arXiv:2006.05990)."""
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
