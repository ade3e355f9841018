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
        """Canonical parameters with the draws inline; raises ``ValueError`` naming the field that is wrong.

        So it does where no kernel searches for them yet.
        """
        prepared = _refusing(spec.prepare, params, base_dir)
        _refusing(spec.need_kernel, spec.parse(prepared))
        return prepared

    def chance(self, params: Mapping[str, Any]) -> float:
        """The probability that a wrong seed passes."""
        return _refusing(spec.chance, params)

    def kernel(self, params: Mapping[str, Any]) -> str:
        """Seeds cost the same for one generator, one kind of output and one number of outputs to the first draw."""
        search = _refusing(spec.parse, params)
        first = search.skip + next(i for i, draw in enumerate(search.draws) if draw is not None)
        return f"sieve/{search.generator.name}/{search.output.kind}/{first}"

    def bounds(self, params: Mapping[str, Any]) -> tuple[int, int]:
        """All seeds of the generator, half-open."""
        return _refusing(spec.seed_range, params)


PROGRAM = SieveProgram()


def _refusing(ask: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    try:
        return ask(*args, **kwargs)
    except SpecError as error:
        raise ValueError(str(error)) from error
