"""The course of one training: steps, validations, checkpoints, the best weights, and going on after a kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from hostler.workloads.alphazero.checkpoint import Checkpoint, newest, save_checkpoint
from hostler.workloads.alphazero.learner import Diverged, Learner, Losses
from hostler.workloads.alphazero.sampling import Batch, Examples, Visits, drawn_symmetries
from hostler.workloads.alphazero.stage import Stopped

LARGEST_MEASURED = 1024  # positions at once in a validation


@dataclass(frozen=True, slots=True)
class Schedule:
    """How long, in optimiser steps of `batch` positions; `patience` counts validations without improvement."""

    steps: int
    batch: int
    validate_every: int
    patience: int
    checkpoint_every: int


@dataclass(frozen=True, slots=True)
class Material:
    """What is learnt from: rows of `examples` to train with and rows held out; examples have `symmetries`."""

    examples: Examples
    training: NDArray[np.int64]
    held_out: NDArray[np.int64]
    symmetries: int


@dataclass(slots=True)
class Progress:
    """How far it has come, in numbers that JSON gives back exactly.

    `policy` and `value` are the sums of the losses of the `since` steps after the last validation.
    """

    step: int = 0
    best_step: int = 0
    best_loss: float = float("inf")
    own_loss: float | None = None
    """The best of its own: a good base is hard to beat before the learning rate has fallen."""
    stale: int = 0
    since: int = 0
    policy: float = 0.0
    value: float = 0.0
    cpu_s: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A course that has come to its end. The learner has the best weights.

    `before` and `after` are the losses of the base and of the best weights on what was held out;
    `used` positions had a part in it; `resumed_from` is the step that this life began at, `None` for a first one.
    """

    progress: Progress
    before: Losses
    after: Losses
    used: int
    stopped: str
    resumed_from: int | None
    damaged: tuple[str, ...]


class Course:
    """One training, in as many lives as it takes.

    `cpu` gives the CPU-seconds of this life, `tell` gets a line for every validation.
    """

    def __init__(
        self,
        learner: Learner,
        material: Material,
        schedule: Schedule,
        seed: int,
        folder: Path,
        cpu: Callable[[], float],
        tell: Callable[[str], None],
    ) -> None:
        self._learner, self._material, self._schedule = learner, material, schedule
        self._seed, self._folder, self._cpu, self._tell = seed, folder, cpu, tell
        self._visits = Visits(material.training, seed)
        self._seen = np.zeros(len(material.training) + len(material.held_out), dtype=np.bool_)
        self._progress = Progress()
        self._best: dict[str, torch.Tensor] = {}
        self._before: Losses

    def run(self, stopping: Callable[[], bool]) -> Outcome:
        """Train until the steps are done or nothing improves; `Stopped`, after a checkpoint, if told to stop."""
        resumed_from, damaged = self._begin()
        earlier = self._progress.cpu_s
        stopped = "steps"
        while self._progress.step < self._schedule.steps:
            if stopping():
                self._save()
                raise Stopped(f"stopped after step {self._progress.step} of {self._schedule.steps}; all of it is kept")
            self._step()
            self._progress.cpu_s = earlier + self._cpu()
            if self._due(self._schedule.validate_every):
                self._validate()
                if self._exhausted():
                    stopped = "early"
                    break
            if self._due(self._schedule.checkpoint_every):
                self._save()
        after = self._finish()
        self._progress.cpu_s = earlier + self._cpu()
        return Outcome(self._progress, self._before, after, int(self._seen.sum()), stopped, resumed_from, damaged)

    def _begin(self) -> tuple[int | None, tuple[str, ...]]:
        found = newest(self._folder)
        if found.checkpoint is not None:
            self._restore(found.checkpoint)
            return found.checkpoint.step, found.damaged
        self._before = self._learner.measure(self._held_out())
        _check_finite("the base", means(self._before))
        self._progress.best_loss = sum(means(self._before).values())
        self._best = self._learner.weights()
        return None, found.damaged

    def _step(self) -> None:
        step, size = self._progress.step, self._schedule.batch
        rows = self._visits.rows(step * size, size)
        symmetries = drawn_symmetries(self._seed, step, size, self._material.symmetries)
        policy, value = self._learner.step(step, self._material.examples.batch(rows, symmetries))
        self._seen[rows] = True
        self._progress.step += 1
        self._progress.since += 1
        self._progress.policy += policy
        self._progress.value += value

    def _due(self, every: int) -> bool:
        return self._progress.step % every == 0 or self._progress.step == self._schedule.steps

    def _validate(self) -> None:
        now, losses = self._progress, means(self._learner.measure(self._held_out()))
        _check_finite(f"step {now.step}", losses)
        point = {
            "step": now.step,
            "policy": now.policy / now.since,
            "value": now.value / now.since,
            "validation_policy": losses["policy"],
            "validation_value": losses["value"],
        }
        now.curve.append(point)
        now.since, now.policy, now.value = 0, 0.0, 0.0
        self._judge(losses["policy"] + losses["value"])
        numbers = ", ".join(f"{name} {value:.4f}" for name, value in point.items() if name != "step")
        self._tell(f"step {now.step} of {self._schedule.steps}: {numbers}; best at {now.best_step}")

    def _judge(self, loss: float) -> None:
        now = self._progress
        if loss < now.best_loss:
            now.best_loss, now.best_step = loss, now.step
            self._best = self._learner.weights()
        if now.own_loss is None or loss < now.own_loss:
            now.own_loss, now.stale = loss, 0
        else:
            now.stale += 1

    def _exhausted(self) -> bool:
        """Whether it is time to stop early: never before every position was visited."""
        all_visited = self._progress.step * self._schedule.batch >= len(self._material.training)
        return self._progress.stale >= self._schedule.patience and all_visited and not self._over()

    def _over(self) -> bool:
        return self._progress.step == self._schedule.steps

    def _finish(self) -> Losses:
        self._learner.network.load_state_dict(self._best)
        after = self._learner.measure(self._held_out())
        self._seen[self._material.held_out] = True
        return after

    def _held_out(self) -> Iterator[Batch]:
        rows = self._material.held_out
        for start in range(0, len(rows), LARGEST_MEASURED):
            yield self._material.examples.batch(rows[start : start + LARGEST_MEASURED])

    def _save(self) -> None:
        tensors = {
            "weights": self._learner.weights(),
            "moments": self._learner.moments(),
            "best": self._best,
            "seen": {"rows": torch.from_numpy(self._seen)},
            "before": {name: torch.from_numpy(each) for name, each in asdict(self._before).items()},
        }
        save_checkpoint(self._folder, Checkpoint(self._progress.step, tensors, asdict(self._progress)))

    def _restore(self, checkpoint: Checkpoint) -> None:
        self._progress = Progress(**checkpoint.facts)
        self._learner.restore(checkpoint.tensors["weights"], checkpoint.tensors.get("moments", {}))
        self._best = dict(checkpoint.tensors["best"])
        self._seen = checkpoint.tensors["seen"]["rows"].numpy().copy()
        self._before = Losses(**{name: each.numpy() for name, each in checkpoint.tensors["before"].items()})


def _check_finite(where: str, losses: dict[str, float]) -> None:
    if not all(isfinite(loss) for loss in losses.values()):
        numbers = ", ".join(f"{name} {loss}" for name, loss in losses.items())
        raise Diverged(f"{where}: the loss of what is held out is not finite ({numbers})")


def means(losses: Losses) -> dict[str, float]:
    """As the result has them."""
    return {"policy": float(losses.policy.mean()), "value": float(losses.value.mean())}
