"""What the preflight asks of clusters. What speaks to them is in `raying` and `kubing`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hostler.model.record import record
from hostler.model.rl import RlPlan
from hostler.runtime.preflight.proof import Proof


@record
class Machine:
    """A node of Ray."""

    name: str
    cpus: float
    """That it was begun with, whoever has them now."""


@record
class Ran:
    """What a program came to."""

    status: int | None
    """`None`: it was killed, or did not begin."""
    out: str
    err: str


class RayCluster(Protocol):
    """A Ray cluster, as the preflight asks it. Every method ends within some seconds, or raises `LinkError`."""

    async def version(self) -> str:
        """Of Ray, as `2.60.0`."""
        ...

    async def machines(self) -> Sequence[Machine]:
        """Nodes that live."""
        ...

    async def run(self, machine: str, argv: Sequence[str], timeout_s: float) -> Ran:
        """Run a program on one of them; a first word `{python}` is what runs Hostler's workloads there."""
        ...


class Allows(Protocol):
    """A Kubernetes cluster, as the preflight asks it."""

    async def proofs(self, plan: RlPlan) -> Sequence[Proof]:
        """Whether it is all there for it to begin, each with its fix. Raises `LinkError` where it cannot be asked."""
        ...
