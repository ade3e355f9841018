"""The words that a condition on a part of them leaves, counted off in blocks."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from hostler.workloads.sieve.generators.rules import Residue, Want
from hostler.workloads.sieve.methods.picks import Single

U64 = npt.NDArray[np.uint64]


class Choices:
    """The words of ``width`` bits, 64 at most, that meet a condition; ``count`` of them, each once."""

    def __init__(self, single: Single, width: int) -> None:
        want, self._part = single.want, single.part
        values = range(1 << self._part.bits)
        # A draw that never comes has a span that ends before it starts.
        self._values = values[want.target :: want.modulus] if isinstance(want, Residue) else _span(want.low, want.high)
        self._free = width - self._part.bits
        self.count = (self._values.stop - self._values.start + self._values.step - 1) // self._values.step << self._free

    def blocks(self, size: int) -> Iterator[U64]:
        """All words, up to ``size`` at a time."""
        for start in range(0, self.count, size):
            yield self._words(np.arange(start, min(start + size, self.count), dtype=np.uint64))

    def _words(self, numbers: U64) -> U64:
        """The words of these numbers: the free bits count first, those below the part before those above it."""
        free, shift = np.uint64(self._free), np.uint64(self._part.shift)
        values: U64 = (numbers >> free) * np.uint64(self._values.step) + np.uint64(self._values.start)
        others: U64 = numbers & np.uint64((1 << self._free) - 1)
        words: U64 = values << shift | others & np.uint64((1 << self._part.shift) - 1)
        if self._free > self._part.shift:
            words |= others >> shift << shift + np.uint64(self._part.bits)
        return words


def meets(v: U64, want: Want) -> npt.NDArray[np.bool_]:
    """Which of these values give the wanted draw."""
    if isinstance(want, Residue):
        kept: npt.NDArray[np.bool_] = v % np.uint64(want.modulus) == want.target
    else:
        kept = (v >= want.low) & (v <= want.high)
    return kept


def _span(low: int, high: int) -> range:
    return range(low, max(low, high + 1))
