"""Advice in a batch of machines: what the policy sees of it, and that it is a part of the reward like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostler.workloads.gameboy.advice.advised import Advised
from hostler.workloads.gameboy.advice.advisor import Advisor
from hostler.workloads.gameboy.advice.answers import Advice
from hostler.workloads.gameboy.advice.counts import Came
from hostler.workloads.gameboy.advice.endpoint import Said
from hostler.workloads.gameboy.batch import Batch
from hostler.workloads.gameboy.game import MICRO, Game
from hostler.workloads.gameboy.rewards import Shares
from hostler.workloads.gameboy.rom import Cartridge
from tests.workloads.gameboy.advice.asking import asking
from tests.workloads.gameboy.advice.test_advisor import Hands

RIGHT, DOWN, NOOP = 4, 2, 0
DISCOUNT = 0.99
ROOM, NEXT_ROOM = 0, 20
"""States of the first room and the one to the right of it."""


class Told(Hands):
    """Each question is answered at once, by what a table has for its state."""

    def __init__(self, known: dict[int, Advice]) -> None:
        super().__init__()
        self.known = known

    def ask(self, state: int, now: float) -> None:
        """As the table has it."""
        super().ask(state, now)
        advice = self.known.get(state)
        self.answer(Said(Came.GARBAGE) if advice is None else Said(Came.ANSWERED, advice))


Make = Callable[..., Batch]


@pytest.fixture
def batch_of(keyrooms: Game, cart: Cartridge) -> Iterator[Make]:
    """Makes batches with advice from a table."""
    made: list[Batch] = []

    def make(machines: int, known: dict[int, Advice], game: Game = keyrooms, **changes: Any) -> Batch:
        asked = asking(calls_per_s=1e6, rests={"after": 1000}, **changes)
        ticks = iter(range(10**9))
        advisor = Advisor(asked, Told(known), 1, 1.0)
        advised = Advised(asked, game, machines, DISCOUNT, advisor, lambda: float(next(ticks)) / 1e3)
        made.append(Batch(game, cart, machines, advised))
        made[-1].reset()
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_the_policy_sees_what_to_do_and_that_there_is_advice(batch_of: Make, keyrooms: Game) -> None:
    batch, plain = batch_of(2, {ROOM: Advice(RIGHT, 0.3)}), len(keyrooms.actions)
    width = batch.features.shape[1] - plain - 1
    for _ in range(3):
        batch.step([NOOP, NOOP])
    shown = batch.features[:, width:]
    assert shown.tolist() == [[0, 0, 0, 0, 1, 0, 0, 1]] * 2
    unknown = batch_of(1, {})
    unknown.step([NOOP])
    assert not unknown.features[:, width:].any(), "all zero while there is none"
    assert (unknown.features[0, :width] == batch.features[0, :width]).all()


def test_without_observation_there_is_nothing_more_to_see(batch_of: Make) -> None:
    assert batch_of(1, {}, observe=False).features.shape[1] == batch_of(1, {}).features.shape[1] - 8


def test_a_promise_is_paid_as_a_component_of_its_own(batch_of: Make) -> None:
    batch = batch_of(1, {ROOM: Advice(NOOP, 0.2), NEXT_ROOM: Advice(RIGHT, 0.8)})
    assert "advice" in batch.parts(0)
    paid = []
    for _ in range(12):
        before = sum(batch.parts(0).values())
        done = batch.step([RIGHT])
        parts = batch.parts(0)
        assert done.reward[0] == np.float32((sum(parts.values()) - before) / MICRO)
        paid.append(parts["advice"])
    assert max(np.diff(paid)) == round(0.99 * 400_000) - 100_000, "0.5 * 0.8 there, 0.5 * 0.2 here"
    assert min(np.diff(paid)) == round(0.99 * 400_000) - 400_000, "and nothing for not knowing a room yet"


@pytest.mark.long
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.integers(0, 79), st.builds(Advice, st.integers(0, 6), st.floats(0, 1)), max_size=30),
    st.integers(0, 2**32 - 1),
    st.integers(1, 20),
)
def test_parts_add_up_to_the_reward_exactly(batch_of: Make, known: dict[int, Advice], seed: int, updates: int) -> None:
    batch, random = batch_of(3, known), np.random.default_rng(seed)
    paid = np.zeros(3, np.int64)
    for step in range(60):
        batch.learnt(updates * step // 60)
        before = [sum(batch.parts(machine).values()) for machine in range(3)]
        done = batch.step(random.choice([RIGHT, RIGHT, DOWN, NOOP], 3), restart=False)
        after = [sum(batch.parts(machine).values()) for machine in range(3)]
        assert np.rint(done.reward.astype(np.float64) * MICRO).tolist() == pytest.approx(
            np.subtract(after, before).tolist(), abs=1
        )
        paid += np.subtract(after, before)
    assert paid.tolist() == [sum(batch.parts(machine).values()) for machine in range(3)]


def test_an_episode_tells_what_advice_has_moved(batch_of: Make, keyrooms: Game) -> None:
    batch = batch_of(1, {ROOM: Advice(NOOP, 1.0)}, replace(keyrooms, episode_steps=9))
    episodes = [each for _ in range(9) for each in batch.step([NOOP]).episodes]
    (episode,) = episodes
    assert episode.total == sum(episode.parts)
    assert episode.gross >= abs(episode.parts[-1]) > 0
    assert episode.amounts == (*episode.parts[:-1], episode.gross)
    names = (*(each.name for each in keyrooms.reward.components), "advice")
    shares = Shares(names, 0.75)
    shares.add(episode.amounts)
    assert shares.alarms == ("advice",), "nothing else was paid"


def test_news_come_once(batch_of: Make) -> None:
    batch = batch_of(1, {ROOM: Advice(NOOP, 1.0)})
    for _ in range(5):
        batch.step([NOOP])
    news = batch.news()
    assert news is not None
    assert (news.counts.answered, news.counts.cached + news.counts.unknown) == (1, 6)
    again = batch.news()
    assert again is not None
    assert again.counts.unknown == 0
