"""Proximal policy optimisation, in plain PyTorch (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from torch import nn

from hostler.workloads.gameboy.course import Course as Course
from hostler.workloads.gameboy.fragments import Fragment, advantages
from hostler.workloads.gameboy.policy import Network


@dataclass(frozen=True, slots=True)
class Update:
    """What an update came to, as means over its minibatches."""

    steps: int
    loss: float
    entropy: float
    """Nats per action."""
    divergence: float
    """How far the policy moved from the one that sampled, in nats (k3 of http://joschu.net/blog/kl-approx.html)."""
    clipped: float
    """Share of the actions at the bound."""
    explained: float | None
    """Share of the variance of returns that the worths had foreseen; `None`: returns do not vary."""


class Learner:
    """A network, and how it gets better."""

    def __init__(self, network: Network, course: Course, seed: int) -> None:
        self.network = network
        self.course = course
        self.updates = 0
        self._optimiser = torch.optim.Adam(network.parameters(), lr=course.rate, eps=1e-5)
        self._random = torch.Generator().manual_seed(seed)

    def learn(self, fragments: Sequence[Fragment]) -> Update:
        """One update from these."""
        rows = _rows(fragments, self.course)
        told = [self._descend(batch) for batch in self._minibatches(rows)]
        self.updates += 1
        loss, entropy, divergence, clipped = (float(np.mean(each)) for each in zip(*told, strict=True))
        return Update(len(rows.actions), loss, entropy, divergence, clipped, _explained(rows))

    @property
    def is_sound(self) -> bool:
        """Whether all weights are numbers still."""
        return all(bool(torch.isfinite(each).all()) for each in self.network.parameters())

    def state(self) -> dict[str, Any]:
        """Everything that it takes to go on just so, but for the network's weights."""
        return {
            "updates": self.updates,
            "optimiser": self._optimiser.state_dict(),
            "random": self._random.get_state(),
        }

    def go_on(self, state: dict[str, Any]) -> None:
        """From such a state."""
        self.updates = state["updates"]
        self._optimiser.load_state_dict(state["optimiser"])
        self._random.set_state(state["random"])

    def _minibatches(self, rows: _Rows) -> Iterator[_Rows]:
        size = self.course.minibatch
        for _ in range(self.course.epochs):
            order = torch.randperm(len(rows.actions), generator=self._random)
            for start in range(0, len(order), size):
                yield rows.some(order[start : start + size])

    def _descend(self, rows: _Rows) -> tuple[float, float, float, float]:
        course = self.course
        logits, worths = self.network(rows.features, rows.screens)
        logs = torch.log_softmax(logits, dim=1)
        moved = logs.gather(1, rows.actions[:, None])[:, 0] - rows.chances
        ratio = moved.exp()
        gains = (rows.gains - rows.gains.mean()) / (rows.gains.std(unbiased=False) + 1e-8)
        held = torch.clamp(ratio, 1 - course.clip, 1 + course.clip)
        acting = -torch.min(ratio * gains, held * gains).mean()
        entropy = -(logs.exp() * logs).sum(dim=1).mean()
        loss = acting + course.worth * 0.5 * (worths - rows.returns).pow(2).mean() - course.entropy * entropy
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), course.gradient)
        self._optimiser.step()
        with torch.no_grad():
            divergence = (ratio - 1 - moved).mean()
            clipped = ((ratio - 1).abs() > course.clip).float().mean()
        return loss.item(), entropy.item(), divergence.item(), clipped.item()


@dataclass(slots=True)
class _Rows:
    """Steps as the update wants them: one after the other, whoever made them."""

    features: torch.Tensor
    screens: torch.Tensor | None
    actions: torch.Tensor
    chances: torch.Tensor
    worths: torch.Tensor
    gains: torch.Tensor
    returns: torch.Tensor

    def some(self, which: torch.Tensor) -> _Rows:
        return _Rows(
            self.features[which],
            None if self.screens is None else self.screens[which],
            self.actions[which],
            self.chances[which],
            self.worths[which],
            self.gains[which],
            self.returns[which],
        )


def _rows(fragments: Sequence[Fragment], course: Course) -> _Rows:
    judged = [advantages(each, course.discount, course.trace) for each in fragments]
    has_screens = all(each.screens is not None for each in fragments)
    return _Rows(
        features=_flat([each.features for each in fragments], 2),
        screens=_flat([each.screens for each in fragments], 2) if has_screens else None,
        actions=_flat([each.actions for each in fragments]).long(),
        chances=_flat([each.chances for each in fragments]),
        worths=_flat([each.worths for each in fragments]),
        gains=_flat([gains for gains, _ in judged]),
        returns=_flat([returns for _, returns in judged]),
    )


def _flat(arrays: Sequence[Any], leading: int = 2) -> torch.Tensor:
    """Steps and machines as one dimension."""
    rows = [each.reshape(prod(each.shape[:leading]), *each.shape[leading:]) for each in arrays]  # not -1: of nothing
    return torch.from_numpy(np.concatenate(rows))


def _explained(rows: _Rows) -> float | None:
    variance = rows.returns.var(unbiased=False).item()
    if variance < 1e-12:
        return None
    return 1 - (rows.returns - rows.worths).var(unbiased=False).item() / variance
