"""Draws as tests look at them: indices ``0..size-1`` that should be independent and equally likely."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hostler.workloads.sieve.data import Recording
from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators import Output

Values: TypeAlias = tuple[int, int] | Output
"""What draws can be: the lowest and the highest integer, or an output, which also reads floats, bytes and lists."""

Floats = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sample:
    """One sequence: ``draws`` are indices below ``size``, ``None`` where nobody wrote one down."""

    source: str
    draws: tuple[int | None, ...]
    size: int

    @cached_property
    def known(self) -> tuple[int, ...]:
        """The known draws, closed up."""
        return tuple(draw for draw in self.draws if draw is not None)

    @cached_property
    def is_known(self) -> npt.NDArray[np.bool_]:
        """Which draws are known."""
        return np.array([draw is not None for draw in self.draws], dtype=np.bool_)

    @cached_property
    def run(self) -> tuple[int, ...]:
        """The longest stretch without an unknown draw, the first of them."""
        best, start = range(0), 0
        for i, draw in enumerate((*self.draws, None)):
            if draw is None:
                best = max(best, range(start, i), key=len)
                start = i + 1
        return tuple(draw for draw in self.draws[best.start : best.stop] if draw is not None)

    def scaled(self, indices: tuple[int | None, ...]) -> Floats:
        """Indices as numbers in (0, 1), unknown ones as their mean."""
        middle = (self.size - 1) / 2
        return np.array([0.5 if i is None else 0.5 + (i - middle) / self.size for i in indices], dtype=np.float64)


def sample(recording: Recording, values: Values) -> Sample:
    """The draws of a recording, which must be among ``values``; raises :class:`SpecError`."""
    lowest, size = (values[0], values[1] - values[0] + 1) if isinstance(values, tuple) else (values.lowest, values.size)
    if size < 2:
        raise SpecError(f"{recording.source}: draws with one value only cannot be tested")
    draws: list[int | None] = []
    for i, draw in enumerate(recording.draws):
        try:
            index = (
                None if draw is None else (_whole(draw) if isinstance(values, tuple) else values.read(draw)) - lowest
            )
        except SpecError as error:
            raise SpecError(f"{recording.source}: draw {i}: {error}") from None
        if index is not None and not 0 <= index < size:
            raise SpecError(f"{recording.source}: draw {i}: {draw} lies outside {lowest}..{lowest + size - 1}")
        draws.append(index)
    return Sample(recording.source, tuple(draws), size)


def _whole(draw: object) -> int:
    if type(draw) is not int:
        raise SpecError(f"{draw!r} is no integer; name the output that the draws are of")
    return draw
