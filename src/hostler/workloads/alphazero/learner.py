"""One optimiser over one network: steps, measuring, and the whole state as tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import cos, isfinite, pi

import numpy as np
import torch
from numpy.typing import NDArray

from hostler.workloads.alphazero.losses import place_loss, policy_loss, value_loss
from hostler.workloads.alphazero.model import plain_tensors
from hostler.workloads.alphazero.network import Network
from hostler.workloads.alphazero.sampling import Batch
from hostler.workloads.alphazero.stage import StageError

GRADIENT_NORM = 1.0  # longer gradients are cut to this length
FINAL_RATE = 0.02  # where the cosine ends, as a share of the learning rate
LONGEST_WARM_UP = 100  # steps
MOMENTS = ("exp_avg", "exp_avg_sq", "step")  # what AdamW remembers of a parameter


class Diverged(StageError):
    """A loss or gradient is not finite; the text has the step and the learning rate."""


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """What the optimiser is told; `steps` is where the learning rate ends, `root_weight` that of `value_loss`."""

    learning_rate: float
    weight_decay: float
    steps: int
    root_weight: float = 0.0

    def rate(self, step: int) -> float:
        """The learning rate of a step, from 0 on: a linear warm-up, then half a cosine wave down to nearly nothing."""
        warm_up = min(LONGEST_WARM_UP, max(1, self.steps // 10))
        if step < warm_up:
            return self.learning_rate * (step + 1) / warm_up
        done = (step - warm_up) / max(1, self.steps - warm_up)
        return self.learning_rate * (FINAL_RATE + (1.0 - FINAL_RATE) * 0.5 * (1.0 + cos(pi * done)))


@dataclass(frozen=True, slots=True)
class Losses:
    """Of every position, in nats: those of the network, that of the uniform policy, and the least there could be."""

    policy: NDArray[np.float64]
    value: NDArray[np.float64]
    uniform_policy: NDArray[np.float64]
    least_policy: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Precision:
    """What the network computes in. Half precision needs its gradients scaled up, for they would vanish."""

    autocast: torch.dtype | None
    scaled: bool

    @classmethod
    def of(cls, device: torch.device) -> Precision:
        """The fastest that is safe: bfloat16 where the GPU has it in hardware, else float16; float32 on the CPU."""
        if device.type != "cuda":
            return cls(None, False)
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return cls(torch.bfloat16, False)
        return cls(torch.float16, True)


class Learner:
    """Trains `network`, which it moves to `device`, with AdamW (Loshchilov and Hutter, ICLR 2019).

    Batches go to the device in so many `parts`, whose gradients are added up: the same step in less memory.
    """

    def __init__(
        self,
        network: Network,
        how: Hyperparameters,
        device: torch.device,
        precision: Precision | None = None,
        parts: int = 1,
    ) -> None:
        self.network = network.to(device)
        self._parts = parts
        self._how, self._device = how, device
        self._precision = precision or Precision.of(device)
        self._parameters = dict(network.named_parameters())
        self._optimizer = torch.optim.AdamW(_groups(self._parameters.values(), how.weight_decay), lr=how.learning_rate)
        self._scaler = torch.amp.GradScaler(device.type, enabled=self._precision.scaled)

    def step(self, number: int, batch: Batch) -> tuple[float, float]:
        """Learn from a batch as optimiser step `number` (from 0); its mean policy and value loss before the step."""
        self.network.train()
        rate = self._how.rate(number)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.zero_grad(set_to_none=True)
        whole = len(batch.planes)
        losses = [self._learn(part, len(part.planes) / whole, number, rate) for part in split(batch, self._parts)]
        self._descend(number, rate)
        return sum(policy for policy, _ in losses), sum(value for _, value in losses)

    @torch.no_grad()
    def measure(self, batches: Iterable[Batch]) -> Losses:
        """The losses of the network as it is; that of the value against the final places alone."""
        self.network.eval()
        pieces = (piece for batch in batches for piece in split(batch, self._parts))
        parts = [(*self._losses(piece, 0.0), *_bounds(piece)) for piece in pieces]
        return Losses(*(torch.cat(each).double().cpu().numpy() for each in zip(*parts, strict=True)))

    def weights(self) -> dict[str, torch.Tensor]:
        """A copy of the network's, on the CPU."""
        return plain_tensors(self.network.state_dict())

    def moments(self) -> dict[str, torch.Tensor]:
        """A copy, on the CPU, of what the optimiser remembers, `<parameter>/<moment>`, and of the gradients' scale."""
        remembered = {
            f"{name}/{moment}": self._optimizer.state[parameter][moment]
            for name, parameter in self._parameters.items()
            for moment in MOMENTS
            if parameter in self._optimizer.state
        }
        return plain_tensors({**remembered, **_scaler_tensors(self._scaler)})

    def restore(self, weights: Mapping[str, torch.Tensor], moments: Mapping[str, torch.Tensor]) -> None:
        """Go on from what `weights` and `moments` gave."""
        self.network.load_state_dict(dict(weights))
        for name, parameter in self._parameters.items():
            if f"{name}/step" in moments:
                self._optimizer.state[parameter] = {
                    moment: _placed(moments[f"{name}/{moment}"], moment, self._device) for moment in MOMENTS
                }
        if self._precision.scaled and "scale" in moments:
            growth = int(moments["growth"].item())
            self._scaler.load_state_dict(
                {**self._scaler.state_dict(), "scale": moments["scale"].item(), "_growth_tracker": growth}
            )

    def _learn(self, part: Batch, share: float, number: int, rate: float) -> tuple[float, float]:
        """Add the gradients of a part that is this share of the batch; what it adds to the batch's mean losses."""
        policy, value = (losses.mean() * share for losses in self._losses(part, self._how.root_weight))
        if not isfinite((policy + value).item()):
            raise Diverged(
                f"step {number + 1}: the loss is not finite (policy {policy.item()}, value {value.item()}) "
                f"at learning rate {rate:.3g}"
            )
        torch.autograd.backward(self._scaler.scale(policy + value))
        return policy.item(), value.item()

    def _losses(self, batch: Batch, root_weight: float) -> tuple[torch.Tensor, torch.Tensor]:
        planes, legal, policy, places, root_value = (_tensor(each, self._device) for each in _arrays(batch))
        half = self._precision.autocast
        with torch.autocast(self._device.type, dtype=half, enabled=half is not None):
            logits, place_logits = self.network(planes)
        by_policy = policy_loss(logits, legal, policy)
        if not root_weight:
            return by_policy, place_loss(place_logits, places)
        return by_policy, value_loss(place_logits, places, root_value, root_weight)

    def _descend(self, number: int, rate: float) -> None:
        self._scaler.unscale_(self._optimizer)
        norm = clip(self.network)
        # With scaled gradients an overflow is no fault: the scaler skips the step and scales less from then on.
        if not self._precision.scaled and not isfinite(norm):
            raise Diverged(f"step {number + 1}: the gradient is not finite at learning rate {rate:.3g}")
        self._scaler.step(self._optimizer)
        self._scaler.update()


def split(batch: Batch, parts: int) -> Iterator[Batch]:
    """A batch in so many parts of nearly the same size; fewer where it has not as many positions."""
    size = -(-len(batch.planes) // parts)
    if size >= len(batch.planes):
        yield batch
        return
    for start in range(0, len(batch.planes), size):
        at = slice(start, start + size)
        yield Batch(batch.planes[at], batch.legal[at], batch.policy[at], batch.places[at], batch.root_value[at])


def clip(network: torch.nn.Module, longest: float = GRADIENT_NORM) -> float:
    """Cut the gradient of all parameters together to this length; answers how long it was."""
    # A list: what is given as a generator is used up by the first pass over it, and nothing would be cut.
    return torch.nn.utils.clip_grad_norm_(list(network.parameters()), longest).item()


def _groups(parameters: Iterable[torch.nn.Parameter], decay: float) -> list[dict[str, object]]:
    """Weights decay, biases do not."""
    each = list(parameters)
    return [
        {"params": [parameter for parameter in each if parameter.ndim > 1], "weight_decay": decay},
        {"params": [parameter for parameter in each if parameter.ndim <= 1], "weight_decay": 0.0},
    ]


def _arrays(batch: Batch) -> Iterator[NDArray[np.generic]]:
    yield from (batch.planes, batch.legal, batch.policy, batch.places, batch.root_value)


def _tensor(array: NDArray[np.generic], device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)


def _bounds(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """The policy loss of the uniform distribution over the legal actions, and the entropy of the recorded one."""
    uniform = np.log(batch.legal.sum(axis=1))
    entropy = -(batch.policy * np.log(np.where(batch.policy > 0, batch.policy, 1.0))).sum(axis=1)
    return torch.from_numpy(uniform), torch.from_numpy(entropy)


def _scaler_tensors(scaler: torch.amp.GradScaler) -> dict[str, torch.Tensor]:
    if not scaler.is_enabled():
        return {}
    state = scaler.state_dict()
    return {"scale": torch.tensor(state["scale"]), "growth": torch.tensor(state["_growth_tracker"])}


def _placed(tensor: torch.Tensor, moment: str, device: torch.device) -> torch.Tensor:
    # AdamW counts its steps on the CPU.
    return tensor.clone() if moment == "step" else tensor.to(device, copy=True)
