"""How a game is learnt: the numbers of PPO. They stand here alone, so that who only reads them needs no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Course:
    """How it is learnt."""

    rate: float = 1e-3
    discount: float = 0.99
    trace: float = 0.95
    clip: float = 0.2
    """By how much an action may become likelier, or less likely, in one update before that is worth no more."""
    entropy: float = 0.01
    worth: float = 0.5
    """Weight of the error in what is thought to be ahead."""
    gradient: float = 0.5
    epochs: int = 4
    minibatch: int = 512
