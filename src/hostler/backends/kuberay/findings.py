"""What is wrong with an object: which one, which field, and what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hostler.model.errors import SpecError


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that an object may not say."""

    object: str
    """`RayJob rl/zelda`."""
    field: str
    """`spec.rayClusterSpec.workerGroupSpecs[0].replicas`; empty for the whole."""
    what: str
    """What is wrong, and what would be right."""
    layer: str
    """Who says so: `KubeRay`, `Kueue`, `definition`, `API server`."""

    def __str__(self) -> str:
        place = f"{self.field}: " if self.field else ""
        return f"{self.object}: {place}{self.what} [{self.layer}]"


def refuse(faults: Iterable[Fault]) -> None:
    """Raise `SpecError` with a line for each fault, if there is one."""
    told = [str(each) for each in faults]
    if told:
        raise SpecError("\n".join(told))
