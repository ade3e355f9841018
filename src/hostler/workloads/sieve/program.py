"""The sieve as a program for sweeps: what a controller asks before any worker runs. Imports neither numpy nor numba."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.errors import SpecError

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SieveProgram:
    """What a sweep needs to know of the sieve. Items are seeds; parameters are those of :mod:`spec`."""

    name: str = "sieve"
    worker: tuple[str, ...] = ("{python}", "-m", "hostler.workloads.sieve", "worker")

    def prepare(self, params: Mapping[str, Any], base_dir: Path) -> dict[str, Any]:
        """Canonical parameters with the draws inline; raises ``ValueError`` naming the field that is wrong."""
        return _refusing(spec.prepare, params, base_dir)

    def chance(self, params: Mapping[str, Any]) -> float:
        """The probability that a wrong seed passes."""
        return _refusing(spec.chance, params)

    def kernel(self, params: Mapping[str, Any]) -> str:
        """Items cost the same for one generator, one kind of output, one way to look and one number of first output."""
        search = _refusing(spec.parse, params)
        first = search.skip[1] + next(i for i, draw in enumerate(search.draws) if draw is not None)
        kinds = "+".join(dict.fromkeys(call.kind for call in search.calls))
        return "/".join(["sieve", search.generator.name, kinds, str(first), *_ways(search)])

    def bounds(self, params: Mapping[str, Any]) -> tuple[int, int]:
        """All items, half-open."""
        return _refusing(spec.item_range, params)


PROGRAM = SieveProgram()


def _ways(search: spec.Spec) -> list[str]:
    """What makes it dearer or cheaper to search than the usual way; nothing where it is the usual one."""
    alignments = f"{search.alignments_count}x{search.missing}" if search.alignments_count > 1 or search.missing else ""
    needs = f"{search.need}of{search.known}" if search.need < search.known else ""
    items = "" if search.items == spec.SEEDS else search.items
    return [each for each in (alignments, needs, items, search.method.replace(spec.AUTO, "")) if each]


def _refusing(ask: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    try:
        return ask(*args, **kwargs)
    except SpecError as error:
        raise ValueError(str(error)) from error
