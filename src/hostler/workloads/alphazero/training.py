"""The training stage: from a base model and a dataset to a better model, or an error with its numbers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hostler import __version__
from hostler.workloads.alphazero.artifacts import DATASET, Artifacts
from hostler.workloads.alphazero.course import Course, Material, Outcome, Schedule, means
from hostler.workloads.alphazero.dataset import Dataset, read
from hostler.workloads.alphazero.fields import Common, Fields, common
from hostler.workloads.alphazero.inference import accelerator
from hostler.workloads.alphazero.intake import check
from hostler.workloads.alphazero.learner import Hyperparameters, Learner
from hostler.workloads.alphazero.learnt import check_learnt
from hostler.workloads.alphazero.model import Manifest, load_model, publish
from hostler.workloads.alphazero.network import build
from hostler.workloads.alphazero.sampling import Examples, held_out
from hostler.workloads.alphazero.stage import OrderError, Report, StageError, termination

CURVE_POINTS = 64  # at most, in the result
MOST_STEPS = 10_000_000
LARGEST_BATCH = 1 << 20


@dataclass(frozen=True, slots=True)
class Options:
    """How to train: see "training" in docs/reference/learning.md."""

    learning_rate: float = 4e-3
    weight_decay: float = 1e-4
    validation: float = 0.1
    patience: int = 8
    validate_every: int = 50
    checkpoint_every: int = 200
    root_weight: float = 0.0

    @classmethod
    def read(cls, given: Fields) -> Options:
        """Those of an order; what is not said has its default."""
        default = cls()
        options = cls(
            given.number("learning_rate", 1e-8, 10.0) if "learning_rate" in given else default.learning_rate,
            given.number("weight_decay", 0.0, 10.0) if "weight_decay" in given else default.weight_decay,
            given.number("validation", 1e-6, 0.5) if "validation" in given else default.validation,
            given.integer("patience", 1) if "patience" in given else default.patience,
            given.integer("validate_every", 1) if "validate_every" in given else default.validate_every,
            given.integer("checkpoint_every", 1) if "checkpoint_every" in given else default.checkpoint_every,
            given.number("root_weight", 0.0, 1.0) if "root_weight" in given else default.root_weight,
        )
        given.end()
        return options


@dataclass(frozen=True, slots=True)
class Wanted:
    """The dataset of an order."""

    sha256: str
    games: int
    positions: int


@dataclass(frozen=True, slots=True)
class Order:
    """A training as ordered: with `dataset` from `base`, or an untrained model of `channels` and `blocks`."""

    common: Common
    base: str
    dataset: Wanted
    steps: int
    batch: int
    options: Options


@dataclass(frozen=True, slots=True)
class Untrained:
    """An untrained model as ordered."""

    common: Common
    channels: int
    blocks: int


def run(order: Mapping[str, Any], artifacts: Artifacts, report: Report) -> Mapping[str, Any]:
    """The stage: see docs/reference/learning.md."""
    began = time.process_time()

    def cpu() -> float:
        return time.process_time() - began

    wanted = read_order(order)
    if isinstance(wanted, Untrained):
        return {**_begin(wanted, artifacts), "cpu_s": cpu()}
    return _train(wanted, artifacts, artifacts.work(order), cpu)


def read_order(order: Mapping[str, Any]) -> Order | Untrained:
    """What is ordered. Raises `OrderError` naming the field that cannot be read."""
    fields = Fields(order)
    shared = common(fields)
    if ("base" in fields) == ("init" in fields):
        raise OrderError(
            "order.base, order.init: exactly one of them must be null; a model begins from random weights "
            "only where `init` says so"
        )
    read_as = _read_training if "base" in fields else _read_untrained
    wanted = read_as(fields, shared)
    fields.end()
    return wanted


def batch_parts(environ: Mapping[str, str]) -> int:
    """In how many parts to send each batch to the device: `HOSTLER_BATCH_SCALE` says what share of it fits there."""
    text = environ.get("HOSTLER_BATCH_SCALE", "1")
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 1 / LARGEST_BATCH <= scale <= 1:
        raise OrderError(f"HOSTLER_BATCH_SCALE: must be a share, more than 0 and at most 1, not {text!a}")
    return ceil(1 / scale)


def thinned(curve: list[dict[str, float]]) -> list[dict[str, float]]:
    """At most `CURVE_POINTS` of the points, evenly spread, the first and the last among them."""
    if len(curve) <= CURVE_POINTS:
        return curve
    last = len(curve) - 1
    return [curve[round(i * last / (CURVE_POINTS - 1))] for i in range(CURVE_POINTS)]


def _read_training(fields: Fields, shared: Common) -> Order:
    given = fields.fields("dataset")
    dataset = Wanted(given.sha256("sha256"), given.integer("games"), given.integer("positions"))
    given.end()
    steps, batch = fields.integer("steps", 1, MOST_STEPS), fields.integer("batch", 1, LARGEST_BATCH)
    return Order(shared, fields.sha256("base"), dataset, steps, batch, Options.read(fields.fields("options")))


def _read_untrained(fields: Fields, shared: Common) -> Untrained:
    for name in ("dataset", "steps"):
        if name in fields and fields.any(name) != 0:
            raise OrderError(f"order.{name}: with `init` an untrained model is made: `dataset` must be null, `steps` 0")
    if "batch" in fields:
        fields.integer("batch")
    if "options" in fields:
        Options.read(fields.fields("options"))
    given = fields.fields("init")
    untrained = Untrained(shared, given.integer("channels", 1, 4096), given.integer("blocks", 0, 256))
    given.end()
    return untrained


def _begin(wanted: Untrained, artifacts: Artifacts) -> Mapping[str, Any]:
    shared = wanted.common
    network = build(shared.game, channels=wanted.channels, blocks=wanted.blocks, seed=shared.seed)
    manifest = Manifest.untrained(
        shared.game, shared.config, channels=wanted.channels, blocks=wanted.blocks, seed=shared.seed
    )
    artifact = publish(artifacts, network, manifest)
    counts = dict.fromkeys(("steps", "best_step", "positions_in", "positions_used", "samples"), 0)
    unknown = dict.fromkeys(("base", "dataset", "before", "after", "uniform_policy", "resumed_from"))
    return {"model": asdict(artifact), **counts, **unknown, "stopped": "steps", "curve": [], "damaged": []}


def _train(wanted: Order, artifacts: Artifacts, folder: Path, cpu: Callable[[], float]) -> Mapping[str, Any]:
    shared, device = wanted.common, accelerator()
    network, manifest = load_model(artifacts, wanted.base, shared.game, shared.config)
    dataset = read(artifacts.read(wanted.dataset.sha256, DATASET))
    check(dataset, shared.game, shared.config, wanted.dataset.games, wanted.dataset.positions)
    material = _material(wanted, dataset)
    learner = Learner(network, _hyperparameters(wanted), device, parts=batch_parts(os.environ))
    course = Course(learner, material, _schedule(wanted), shared.seed, folder, cpu, _tell)
    with termination() as stopping, _reproducible(device):
        outcome = course.run(stopping)
    facts = _facts(wanted, outcome)
    _check_used(facts)
    check_learnt(outcome.before, outcome.after, dataset.game[material.held_out], facts)
    artifact = publish(artifacts, learner.network, _lineage(manifest, wanted, outcome.progress.best_step))
    return {"model": asdict(artifact), **facts}


def _material(wanted: Order, dataset: Dataset) -> Material:
    if wanted.dataset.games < 2:
        raise StageError(f"{wanted.dataset.games} games: one to learn from and one to hold out are the least")
    out = held_out(dataset, wanted.options.validation)
    training = np.flatnonzero(~out)
    if not len(training):
        raise StageError(
            f"all {len(out)} positions of the {wanted.dataset.games} games would be held out, for these games are "
            "copies of each other: nothing is left to learn from",
            positions_in=wanted.dataset.positions,
        )
    visited = wanted.steps * wanted.batch
    if visited < len(training):
        raise StageError(
            f"{wanted.steps} steps of {wanted.batch} visit {visited} of the {len(training)} positions to learn from: "
            f"order {-(-len(training) // wanted.batch)} steps or more, or a smaller dataset",
            positions_in=wanted.dataset.positions,
        )
    game = wanted.common.game
    return Material(Examples(game, dataset), training, np.flatnonzero(out), len(game.symmetries))


def _hyperparameters(wanted: Order) -> Hyperparameters:
    options = wanted.options
    return Hyperparameters(options.learning_rate, options.weight_decay, wanted.steps, options.root_weight)


def _schedule(wanted: Order) -> Schedule:
    options = wanted.options
    return Schedule(wanted.steps, wanted.batch, options.validate_every, options.patience, options.checkpoint_every)


def _facts(wanted: Order, outcome: Outcome) -> dict[str, Any]:
    progress = outcome.progress
    return {
        "base": wanted.base,
        "dataset": wanted.dataset.sha256,
        "steps": progress.step,
        "best_step": progress.best_step,
        "positions_in": wanted.dataset.positions,
        "positions_used": outcome.used,
        "samples": progress.step * wanted.batch,
        "stopped": outcome.stopped,
        "before": means(outcome.before),
        "after": means(outcome.after),
        "uniform_policy": float(outcome.after.uniform_policy.mean()),
        "curve": thinned(progress.curve),
        "resumed_from": outcome.resumed_from,
        "damaged": list(outcome.damaged),
        "cpu_s": progress.cpu_s,
    }


def _check_used(facts: Mapping[str, Any]) -> None:
    if facts["positions_used"] != facts["positions_in"]:
        raise StageError(f"{facts['positions_used']} of {facts['positions_in']} positions were used: this is a defect "
                         "of the training stage, report it", **facts)  # fmt: skip


def _lineage(manifest: Manifest, wanted: Order, steps: int) -> Manifest:
    dataset, seed = wanted.dataset.sha256, wanted.common.seed
    return replace(manifest, base=wanted.base, dataset=dataset, steps=steps, seed=seed, code=__version__)


@contextmanager
def _reproducible(device: torch.device) -> Iterator[None]:
    """On a CPU the same order gives the same bytes, in one life or in several; on a GPU that would cost too much."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(device.type == "cpu")
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def _tell(line: str) -> None:
    print(f"training: {line}", file=sys.stderr, flush=True)
