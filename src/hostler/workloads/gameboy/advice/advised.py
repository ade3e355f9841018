"""What advice adds to a batch of machines: features that the policy sees, and a part of the reward."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from hostler.workloads.gameboy.advice.advisor import Advisor
from hostler.workloads.gameboy.advice.answers import Advice
from hostler.workloads.gameboy.advice.counts import News
from hostler.workloads.gameboy.advice.endpoint import Endpoint
from hostler.workloads.gameboy.advice.hands import Threads
from hostler.workloads.gameboy.advice.settings import COMPONENT, Asking, token
from hostler.workloads.gameboy.advice.shaped import Shaped
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.rewards import Numbers

GOLDEN = 0.6180339887498949
"""Multiples of it, without their whole parts, lie evenly between 0 and 1."""
SEEDS = 999_983
"""Multiples of it by larger numbers have hardly anything behind the point."""


class Advised:
    """Advice for the machines of one worker."""

    def __init__(
        self, asked: Asking, game: Game, machines: int, discount: float, advisor: Advisor, clock: Callable[[], float]
    ) -> None:
        self._advisor = advisor
        self._clock = clock
        order = list(game.values)
        self._columns = [order.index(name) for name in asked.of]
        self._widths = [game.values[name].below for name in asked.of]
        self._flag = len(game.actions)
        self._observes = asked.observe
        self._shaped = None if asked.shaping is None else Shaped(asked.shaping, discount, machines)
        self.width = asked.width(len(game.actions))
        self.components = () if self._shaped is None else (COMPONENT,)

    def learnt(self, updates: int) -> None:
        """The policy that plays from now on was updated so often."""
        if self._shaped is not None:
            self._shaped.learnt(updates)

    def begin(self, machine: int, values: Numbers, features: npt.NDArray[np.float32]) -> None:
        """An episode of a machine begins with `[1, values]`; its `[1, width]` features are written."""
        found = self._looked_up(values)
        self._show(found, features)
        if self._shaped is not None:
            self._shaped.begin(machine, _promise(found[0]))

    def step(self, values: Numbers, ended: npt.NDArray[np.bool_], features: npt.NDArray[np.float32]) -> Numbers | None:
        """Write `[machines, width]` features for `[machines, values]`; answer what each is paid, `None`: nothing."""
        found = self._looked_up(values)
        self._show(found, features)
        return None if self._shaped is None else self._shaped.step([_promise(each) for each in found], ended)

    def spent(self, machine: int) -> int:
        """What was paid and taken in the episode of a machine together, in millionths."""
        return 0 if self._shaped is None else int(self._shaped.spent[machine])

    def news(self) -> News:
        """What has become of calls since this was asked last."""
        return self._advisor.news()

    def close(self) -> None:
        """No more of it."""
        self._advisor.close()

    def _looked_up(self, values: Numbers) -> list[Advice | None]:
        state = values[:, self._columns[0]]
        for column, width in zip(self._columns[1:], self._widths[1:], strict=True):
            state = state * width + values[:, column]
        now = self._clock()
        return [self._advisor.seen(each, now) for each in state.tolist()]

    def _show(self, found: Sequence[Advice | None], features: npt.NDArray[np.float32]) -> None:
        if not self._observes:
            return
        features[...] = 0.0
        for row, advice in enumerate(found):
            if advice is not None:
                features[row, advice.action] = features[row, self._flag] = 1.0


def advised(asked: Asking, game: Game, machines: int, discount: float, *, workers: int, seed: int) -> Advised:
    """For one of `workers`, in its own process. Raises `SpecError` where the token is not there."""
    clock = time.monotonic
    key = token(asked, os.environ)
    hands = Threads(
        asked.at_once,
        lambda: Endpoint(asked, game.actions, key, clock),
        lambda state: asked.asked(state, game),
        clock,
        asked.timeout_s,
    )
    advisor = Advisor(asked, hands, max(workers, 1), seed % SEEDS * GOLDEN % 1)
    return Advised(asked, game, machines, discount, advisor, clock)


def _promise(advice: Advice | None) -> float | None:
    return None if advice is None else advice.promise
