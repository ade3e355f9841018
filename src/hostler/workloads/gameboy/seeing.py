"""What a policy sees of values: shares and flags in one row per machine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hostler.workloads.gameboy.game import Game


class Eyes:
    """Makes rows of features."""

    def __init__(self, game: Game) -> None:
        order = list(game.values)
        scaled = [each for each in game.features if each.encoding == "scaled"]
        flagged = [each for each in game.features if each.encoding == "one_hot"]
        self._scaled = np.array([order.index(each.of) for each in scaled], np.intp)
        self._scales = np.array([1 / (game.values[each.of].below - 1) for each in scaled], np.float32)
        self._flagged = np.array([order.index(each.of) for each in flagged], np.intp)
        widths = [game.values[each.of].below for each in flagged]
        self._bases = np.cumsum([len(scaled), *widths])[:-1].astype(np.int64)
        self.width = len(scaled) + sum(widths)

    def see(self, values: npt.NDArray[np.int64], into: npt.NDArray[np.float32]) -> None:
        """Write the features of `[machines, values]` into `[machines, width]`."""
        flags = len(self._scaled)
        into[:, flags:] = 0.0
        np.multiply(values.take(self._scaled, axis=1), self._scales, out=into[:, :flags], casting="same_kind")
        lit = values.take(self._flagged, axis=1)
        lit += self._bases
        into[np.arange(len(values))[:, None], lit] = 1.0
