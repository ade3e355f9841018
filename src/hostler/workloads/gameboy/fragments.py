"""What sampling makes: some steps of some machines, with what the policy thought of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hostler.workloads.gameboy.advice.counts import News
from hostler.workloads.gameboy.batch import Batch, Episode, Features, Screens
from hostler.workloads.gameboy.pictures import Greys
from hostler.workloads.gameboy.policy import Floats, Player
from hostler.workloads.gameboy.spent import Spent, clock

Whole: TypeAlias = npt.NDArray[np.int8]


@dataclass(slots=True)
class Fragment:
    """`[steps, machines]` of everything; `features` and `screens` are what was seen before each action."""

    features: Features
    screens: Screens | None
    actions: Whole
    chances: Floats
    """Logarithm of the probability of each action, as the policy had it that took it."""
    worths: Floats
    """What that policy thought the rest of the episode was worth."""
    rewards: Floats
    over: npt.NDArray[np.bool_]
    """After this step another episode began."""
    ahead: Floats
    """What was thought to be ahead of each step's end: the worth of what came after it, 0 where a game was over."""
    version: int
    """Of the policy."""
    episodes: tuple[Episode, ...] = ()
    pictures: Mapping[int, Greys] = field(default_factory=dict)
    """By machine, how it looked at the end: of one of a worker's at a time, since drawing costs."""
    spent: Spent = field(default_factory=Spent)
    """On making it, and on bringing it here."""
    advice: News | None = None
    """What became of calls for advice meanwhile; `None`: there is no advice."""

    @property
    def steps(self) -> int:
        """Of all machines together."""
        return int(self.rewards.size)


class Sampler:
    """Plays a batch of machines, fragment by fragment; a game goes on from one to the next."""

    def __init__(self, batch: Batch, seed: int) -> None:
        self._batch = batch
        self._random = np.random.default_rng(seed)
        self._made = 0
        batch.reset()

    def fragment(self, player: Player, version: int, steps: int) -> Fragment:
        """The next `steps` steps of every machine, by this policy."""
        made = _empty(self._batch, steps, version)
        self.fill(made, player, steps)
        return made

    def fill(self, made: Fragment, player: Player, steps: int) -> None:
        """The same, into arrays that are there."""
        self._batch.learnt(made.version)
        episodes: list[Episode] = []
        before, begun = replace(self._batch.spent), clock()
        shown = self._made % len(self._batch.machines)
        for step in range(steps):
            episodes += self._step(made, step, player, shown if step == steps - 1 else None)
        self._made += 1
        made.ahead[steps - 1] = np.where(made.over[steps - 1], made.ahead[steps - 1], self._worths(player))
        made.episodes = tuple(episodes)
        made.spent = self._batch.spent.since(before)
        made.spent.policy = clock() - begun - made.spent.whole
        made.advice = self._batch.news()

    def close(self) -> None:
        """Let go of the machines."""
        self._batch.close()

    def _step(self, made: Fragment, step: int, player: Player, shown: int | None) -> list[Episode]:
        batch = self._batch
        made.features[step] = batch.features
        if made.screens is not None and batch.screens is not None:
            made.screens[step] = batch.screens
        logits, worths = player.think(batch.features, batch.screens)
        actions, made.chances[step] = chosen(logits, self._random)
        made.actions[step], made.worths[step] = actions, worths
        if step:
            made.ahead[step - 1] = np.where(made.over[step - 1], made.ahead[step - 1], worths)
        done = batch.step(actions, shown=shown)
        if shown is not None and done.picture is not None:
            made.pictures = {shown: done.picture}
        made.rewards[step] = done.reward
        made.over[step] = done.ended | done.cut
        made.ahead[step] = 0
        for machine, (features, screen) in done.last.items():
            if done.cut[machine]:  # it was only cut off: something would have come
                screens = None if screen is None else screen[None]
                made.ahead[step, machine] = player.think(features[None], screens)[1][0]
        return list(done.episodes)

    def _worths(self, player: Player) -> Floats:
        return player.think(self._batch.features, self._batch.screens)[1]


def chosen(logits: Floats, random: np.random.Generator) -> tuple[Whole, Floats]:
    """An action for each row, by chance as the logits have it, and the logarithms of those chances."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    exponents = np.exp(shifted)
    cumulated = exponents.cumsum(axis=1)
    wholes = cumulated[:, -1:]
    actions = (random.random((len(logits), 1), np.float32) * wholes > cumulated).sum(axis=1)
    actions = np.minimum(actions, logits.shape[1] - 1)
    chances: Floats = shifted[np.arange(len(logits)), actions] - np.log(wholes[:, 0])
    return actions.astype(np.int8), chances


def advantages(fragment: Fragment, discount: float, trace: float) -> tuple[Floats, Floats]:
    """By how much each action was better than thought, and what the steps were worth by that, `[steps, machines]`.

    Generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438): `discount` per step of what is ahead,
    `trace` of how far surprises are handed back. Nothing is handed back over the end of an episode.
    """
    surprises = fragment.rewards + discount * fragment.ahead - fragment.worths
    gains = np.empty_like(surprises)
    handed = np.zeros(surprises.shape[1], np.float32)
    for step in range(len(surprises) - 1, -1, -1):
        handed = surprises[step] + discount * trace * np.where(fragment.over[step], 0, handed)
        gains[step] = handed
    return gains, gains + fragment.worths


def _empty(batch: Batch, steps: int, version: int) -> Fragment:
    machines = len(batch.machines)
    shape = (steps, machines)
    return Fragment(
        features=np.empty((*shape, batch.features.shape[1]), np.float32),
        screens=None if batch.screens is None else np.empty((*shape, *batch.screens.shape[1:]), np.uint8),
        actions=np.empty(shape, np.int8),
        chances=np.empty(shape, np.float32),
        worths=np.empty(shape, np.float32),
        rewards=np.empty(shape, np.float32),
        over=np.zeros(shape, np.bool_),
        ahead=np.zeros(shape, np.float32),
        version=version,
    )
