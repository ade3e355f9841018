"""Packages that Hostler's own programs need on this machine, and that are not installed here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hostler.model.learning import ConfigSpec
    from hostler.model.work import JobSpec
    from hostler.settings.nodes import Node

SIEVE, ALPHAZERO = "hostler.workloads.sieve", "hostler.workloads.alphazero"
NEEDED = {
    SIEVE: ("kernels", ("numpy", "numba")),
    ALPHAZERO: ("train,eval", ("numpy", "numba", "torch", "safetensors", "openskill")),
}
"""By program: the extras of Hostler that have what it imports, and the names of that."""


def missing_packages(nodes: Sequence[Node], configs: Iterable[ConfigSpec], jobs: Iterable[JobSpec]) -> Iterator[str]:
    """What work of a fleet file lacks on this machine, by program; the remedy with it.

    Nodes with a `python` of their own are left out: what that has is unknown here.
    """
    here = [node.name for node in nodes if node.backend == "local" and node.python is None]
    if not here:
        return
    for program, names in _users(configs, jobs).items():
        extras, packages = NEEDED[program]
        lacking = [name for name in packages if find_spec(name) is None]
        if lacking:
            yield (
                f"{', '.join(names)}: this machine lacks the Python packages {', '.join(lacking)}; "
                f"`pip install 'hostler[{extras}]'` brings them"
            )


def _users(configs: Iterable[ConfigSpec], jobs: Iterable[JobSpec]) -> dict[str, list[str]]:
    """The work that runs each program, as it is named in the file."""
    found: dict[str, list[str]] = {}
    for config in configs:
        stages = (config.selfplay.stage, config.export.stage, config.training.stage, config.evaluation.stage)
        if any(ALPHAZERO in stage.command for stage in stages):
            found.setdefault(ALPHAZERO, []).append(f"training config {config.name!r}")
    for job in jobs:
        words = getattr(job.payload, "worker", ())
        if SIEVE in words:
            found.setdefault(SIEVE, []).append(f"sweep {job.name!r}")
    return found
