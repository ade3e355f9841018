"""What is told of a survivor: the object that a worker sends and a person reads, one a line."""

from typing import Any

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.judge import Survivor
from hostler.workloads.sieve.spec import Spec


def hit(search: Spec, survivor: Survivor) -> dict[str, Any]:
    """The item, how many draws it fits in which alignment, the chance that a wrong one does as well, what comes next.

    ``fitting`` only where not all draws have to fit; ``skip`` and ``gap`` only where they were searched for;
    ``dropped`` only where outputs may be missing.
    """
    told: dict[str, Any] = {"at": survivor.item, "draws": search.known, "chance": chance(search, survivor.fitting)}
    if search.need < search.known:
        told["fitting"] = survivor.fitting
    if search.alignments_count > 1:
        told |= {"skip": survivor.skip, "gap": survivor.gap}
    if survivor.dropped is not None:
        told["dropped"] = list(survivor.dropped)
    return {**told, "next": list(survivor.following)}


def chance(search: Spec, fitting: int) -> float:
    """The chance that a wrong item fits as many draws; times the items searched it is the E-value. Never 0."""
    return spec.probability(spec.log_chance(search, fitting if search.need < search.known else None))
