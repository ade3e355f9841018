"""From positions to logits and values: what a search or a player asks of a network."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from hostler.workloads.alphazero.game import Game, States, values_of
from hostler.workloads.alphazero.network import Network, relative_to_absolute
from hostler.workloads.alphazero.stage import StageError

CPU_CELLS = 4096  # at once: what a core's second-level cache holds of a block's work, measured on the boards of Beacons
GPU_CELLS = 1 << 20  # at once: half a gigabyte in the widest step of a network of 32 channels


class JudgementError(StageError):
    """A network gives logits or values that are not finite; the text has the counts."""


class Evaluator(Protocol):
    """A judgement of positions that are not over."""

    def evaluate(self, states: States) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Logits `(batch, actions)`, `-inf` where illegal, and the value of every seat `(batch, players)` in -1..1."""


class NetworkEvaluator:
    """A network's judgement: with automatic mixed precision on a GPU, in 32 bits on a CPU.

    Places are worth 0 on average, so the values of all seats are made to sum to 0: what they have in common is the
    network's error. `seconds` is the time spent so far in the network, transfers to and from the device included.
    """

    def __init__(
        self,
        game: Game,
        network: Network,
        device: torch.device | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.seconds = 0.0
        self._game, self._clock = game, clock
        self._device = accelerator() if device is None else device
        self._network = network.to(self._device).eval()
        self._rows = max(1, (GPU_CELLS if self._device.type == "cuda" else CPU_CELLS) // len(game.graph))
        self._worth = values_of(np.arange(game.players, dtype=np.int8))

    def evaluate(self, states: States) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """See `Evaluator`; `JudgementError` if the network says what is no number."""
        planes = self._game.encode(states)
        began = self._clock()
        logits, places = self._forward(planes)
        self.seconds += self._clock() - began
        legal = self._game.legal(states)
        _check_finite(logits, places, legal)
        values = places @ self._worth
        values = np.clip(values - values.mean(axis=1, keepdims=True), -1.0, 1.0)
        return np.where(legal, logits, np.float32(-np.inf)), relative_to_absolute(values, self._game.to_move(states))

    def _forward(self, planes: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Logits, and the probabilities of the places of the seats from the one to move on."""
        with torch.inference_mode(), self._precision():
            inputs = torch.from_numpy(planes).to(self._device)
            outputs = [self._network(part) for part in torch.split(inputs, self._rows)]
            logits, places = (torch.cat(each).float() for each in zip(*outputs, strict=True))
            return logits.cpu().numpy(), places.softmax(dim=2).cpu().numpy()

    def _precision(self) -> torch.autocast:
        on_gpu = self._device.type == "cuda"
        bfloat16 = not on_gpu or torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.autocast(self._device.type, torch.bfloat16 if bfloat16 else torch.float16, enabled=on_gpu)


def _check_finite(logits: NDArray[np.float32], places: NDArray[np.float32], legal: NDArray[np.bool_]) -> None:
    """`logits` of illegal actions may be anything."""
    bad_logits = (~np.isfinite(logits) & legal).any(axis=1)
    bad_values = ~np.isfinite(places).all(axis=(1, 2))
    if bad_logits.any() or bad_values.any():
        raise JudgementError(
            f"of {len(logits)} positions the network gives logits of legal actions that are not finite in "
            f"{int(bad_logits.sum())}, values that are not in {int(bad_values.sum())}: its weights are of no use"
        )


def accelerator() -> torch.device:
    """The GPU if there is one (torch calls those of AMD `cuda` too), else the CPU.

    On the CPU torch is set to one thread, unless `OMP_NUM_THREADS` says otherwise: a node runs a process for every
    slot, and work of this size gains little from a second thread.
    """
    if torch.cuda.is_available():
        return torch.device("cuda")
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    return torch.device("cpu")
