"""How soon does the campaign find a planted bug, and by which invariant?"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from hostler.sim.cluster.proof import Broken
from tests.simulation.clusters import play
from tests.simulation.mutations import MUTATIONS


@dataclass(frozen=True)
class Found:
    """A planted bug, the seeds that were played until it was found, and what found it."""

    mutation: str
    seeds: int
    seed: int
    what: str
    cpu_s: float


def hunt(mutation: str, most: int, first: int = 0) -> Found | None:
    """Play worlds with a planted bug until one of them fails; `None`: it survives so many."""
    began = time.process_time()
    with pytest.MonkeyPatch.context() as patch:
        MUTATIONS[mutation](patch)
        for seed in range(first, first + most):
            try:
                play(seed)
            except (AttributeError, ImportError, NameError):
                raise  # a plant that does not fit the code any more: it has found nothing
            except Exception as error:  # noqa: BLE001  whatever else ends a world has found the bug
                return Found(mutation, seed - first + 1, seed, named(error), time.process_time() - began)
    return None


def named(error: Exception) -> str:
    """The invariant, or the kind of error by which a part of the system has noticed by itself."""
    return error.what if isinstance(error, Broken) else type(error).__name__
