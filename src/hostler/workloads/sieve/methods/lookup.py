"""Linear maps over GF(2) of many 64-bit words at once, by tables of their bytes."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
BYTES = 8


class Lookup:
    """The map that makes ``columns[i]`` of bit ``i``."""

    def __init__(self, columns: Sequence[int]) -> None:
        self._tables = np.zeros((BYTES, 256), np.uint64)
        for i, column in enumerate(columns):
            table, bit = self._tables[i // 8], 1 << i % 8
            table[bit : 2 * bit] = table[:bit] ^ np.uint64(column)

    def __call__(self, words: U64) -> U64:
        parts = np.ascontiguousarray(words, "<u8").view(np.uint8).reshape(-1, BYTES)
        made: U64 = self._tables[0].take(parts[:, 0])
        for i in range(1, BYTES):
            made ^= self._tables[i].take(parts[:, i])
        return made
