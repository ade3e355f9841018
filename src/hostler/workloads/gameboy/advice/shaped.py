"""What promises are worth: the difference of a potential, so that no policy is better for being paid than it was.

`F = discount * potential(after) - potential(before)` (Ng, Harada and Russell 1999), where each potential is as it was
known when its state was come to (Devlin and Kudenko 2012: potentials may change with time). What an episode is paid,
discounted, is then what its last potential is worth less its first one's, whatever was done in between.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hostler.workloads.gameboy.advice.settings import Shaping
from hostler.workloads.gameboy.rewards import Numbers


class Shaped:
    """Payments for some machines, in whole millionths.

    Before the sum of what was paid and taken in an episode would be more than the cap, the potential is called in, and
    is 0 for the rest of it: it is a potential still, and nobody has earned anything by the cap.
    """

    def __init__(self, shaping: Shaping, discount: float, machines: int) -> None:
        self._shaping = shaping
        self._discount = discount
        self._weight = shaping.weight_at(0)
        self._promises = [0.0] * machines
        """What the last state promised that anything was known of."""
        self._potential: Numbers = np.zeros(machines, np.int64)
        self.spent: Numbers = np.zeros(machines, np.int64)
        """Paid and taken in this episode, together."""
        self._is_closed: npt.NDArray[np.bool_] = np.zeros(machines, np.bool_)

    def learnt(self, updates: int) -> None:
        """From now on, promises are worth what they are to a policy that was updated so often."""
        self._weight = self._shaping.weight_at(updates)

    def begin(self, machine: int, promise: float | None) -> None:
        """An episode begins in a state that promises this; `None`: nobody knows, it counts as nothing."""
        self._promises[machine] = promise or 0.0
        self._potential[machine] = round(self._weight * self._promises[machine])
        self.spent[machine] = 0
        self._is_closed[machine] = False

    def step(self, promises: Sequence[float | None], ended: npt.NDArray[np.bool_]) -> Numbers | None:
        """What each machine is paid for coming to states that promise this; `None`: nothing, to none of them.

        A state that nobody knows anything of counts as the one before: were it worth nothing, whoever comes to new
        places would pay for it. `ended`: the game is over. An episode that is only cut off would go on, so what its
        state promises counts.
        """
        self._promises = [old if new is None else new for old, new in zip(self._promises, promises, strict=True)]
        before = self._potential
        if not any(self._promises) and not before.any():
            return None
        after: Numbers = np.rint(self._weight * np.array(self._promises)).astype(np.int64)
        after[ended | self._is_closed] = 0
        paid: Numbers = np.rint(self._discount * after).astype(np.int64) - before
        is_too_much = self.spent + np.abs(paid) + after > self._shaping.cap
        after[is_too_much] = 0
        paid[is_too_much] = -before[is_too_much]
        self._is_closed |= is_too_much
        self.spent += np.abs(paid)
        self._potential = after
        return paid
