"""What tests of the Slurm backend have in common."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hostler.backends.slurm import attending, cancelling, cluster, following, pool, submitting, verdicts
from tests.patience import PATIENCE_S


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every wait takes a moment, except the one for a verdict, which the next look at the queue brings."""
    moments: Sequence[tuple[object, str, object]] = (
        (cancelling, "REST_S", 0.03),
        (following, "GRACE_S", 0.1),
        (following, "UNEXPLAINED_S", 0.6),
        (verdicts, "UNEXPLAINED_S", PATIENCE_S),
        (pool, "SHOW_EVERY_S", 0.02),
        (pool, "READ_RESTS_S", (0.03, 0.03, 0.03)),
        (cluster, "SOON_S", 0.01),
        (submitting, "GATHER_S", 0.02),
        (submitting, "PATIENCE_S", 0.1),
        (submitting, "GLANCE_S", 0.02),
        (submitting, "RESTS_S", (0.03,)),
        (attending, "RESTS_S", (0.03,)),
    )
    for module, name, value in moments:
        monkeypatch.setattr(module, name, value)
