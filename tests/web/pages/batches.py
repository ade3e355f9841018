"""Batches of function calls, as `hostler.Executor` submits them."""

from __future__ import annotations

from dataclasses import replace

from hostler.client.call_batches import params_of
from hostler.model.calls import WORKER
from hostler.model.work import JobSpec, SweepPayload
from tests.core.builders import sweep


def batch(name: str, count: int) -> JobSpec:
    """A batch of so many calls."""
    made = sweep(name, stop=count, params=dict(params_of(count, False, "b" * 64)))
    assert isinstance(made.payload, SweepPayload)
    return replace(made, payload=replace(made.payload, worker=("{python}", WORKER)))
