"""Machines in a batch: what is seen and paid, how episodes end, and that a wrong address does not go unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from hostler.workloads.gameboy.batch import Batch, OverAtOnce, WrongValue
from hostler.workloads.gameboy.game import MICRO, Game, Screen
from hostler.workloads.gameboy.machine import Layout
from hostler.workloads.gameboy.rom import Cartridge

RIGHT, DOWN, A, NOOP = 4, 2, 5, 0
TO_THE_KEY = 26
"""Steps to the right: past where the first key lies, into the fourth room."""


@pytest.fixture
def batch_of(keyrooms: Game, cart: Cartridge) -> Iterator[Callable[..., Batch]]:
    """Makes batches of our game, with what is otherwise."""
    made: list[Batch] = []

    def make(machines: int, **changes: object) -> Batch:
        made.append(Batch(replace(keyrooms, **changes), cart, machines))  # type: ignore[arg-type]
        made[-1].reset()
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_machines_go_their_own_ways(batch_of: Callable[..., Batch]) -> None:
    both, alone = batch_of(2), batch_of(1)
    for _ in range(TO_THE_KEY):
        done, single = both.step([RIGHT, DOWN]), alone.step([RIGHT])
        assert done.reward[0] == single.reward[0]
        assert (both.features[0] == alone.features[0]).all()
    assert both.parts(0) == alone.parts(0)
    assert both.parts(0)["rooms"] == 3 * MICRO
    assert both.parts(0)["keys"] == MICRO // 2
    assert both.parts(1)["rooms"] == 0


def test_an_episode_is_cut_off_when_it_is_long_enough_and_the_next_begins(batch_of: Callable[..., Batch]) -> None:
    batch = batch_of(2, episode_steps=5)
    first = batch.features.copy()
    for step in range(1, 11):
        done = batch.step([RIGHT, NOOP])
        assert done.cut.tolist() == [step % 5 == 0] * 2
        assert not done.ended.any()
        assert len(done.episodes) == (2 if step % 5 == 0 else 0)
        if step % 5 == 0:
            assert (batch.features == first).all(), "of the next episode"
            assert (done.last[0][0] != first[0]).any(), "of the one that is over"
    assert [each.steps for each in done.episodes] == [5, 5]


def test_an_episode_ends_with_the_game(batch_of: Callable[..., Batch], keyrooms: Game) -> None:
    ends = replace(keyrooms.ends[0], of="taken", value=1)
    batch = batch_of(1, ends=(ends,))
    for _ in range(TO_THE_KEY):
        done = batch.step([RIGHT])
        if done.ended[0]:
            break
    (episode,) = done.episodes
    assert (episode.ended, len(episode.places)) == (True, 3)
    assert episode.total == sum(episode.parts) > 2 * MICRO


def test_an_episode_that_would_be_over_at_once_is_not_begun(batch_of: Callable[..., Batch], keyrooms: Game) -> None:
    over = replace(keyrooms.ends[0], of="keys", value=0)
    with pytest.raises(OverAtOnce, match=r"end\[1\]: keys is 0 where episodes begin already.*`boot_frames`"):
        batch_of(2, ends=(*keyrooms.ends, over))


def test_a_screen_is_drawn_only_for_games_that_show_it(batch_of: Callable[..., Batch]) -> None:
    assert batch_of(1).screens is None
    batch = batch_of(1, screen=Screen())
    before = batch.screens
    assert before is not None
    before = before.copy()
    for _ in range(3):
        batch.step([RIGHT])
    assert batch.screens is not None
    assert batch.screens.shape == (1, 72, 80)
    assert batch.screens.max() == 3
    assert 0 < (batch.screens != before).sum() < 100, "the player has moved"


def test_a_value_beyond_its_bound_is_an_error(batch_of: Callable[..., Batch], keyrooms: Game) -> None:
    wrong = {**keyrooms.values, "x": replace(keyrooms.values["x"], below=80)}
    batch = batch_of(1, values=wrong)
    with pytest.raises(WrongValue, match=r"x at 0xc002 is 9\d, and is always below 80"):
        batch.step([RIGHT])


def test_values_are_read_from_as_few_pieces_as_that_is_cheap(keyrooms: Game) -> None:
    near = Layout(tuple(keyrooms.values.values()))
    assert near.pieces == [slice(0xC000, 0xC00E)]
    far = replace(keyrooms.values["x"], at=0xD000, size=2)
    both = Layout((far, keyrooms.values["y"]))
    assert both.pieces == [slice(0xC003, 0xC004), slice(0xD000, 0xD002)]
    assert both.numbers(np.array([[7, 1, 2]], np.uint8)).tolist() == [[1 + 2 * 256, 7]]
