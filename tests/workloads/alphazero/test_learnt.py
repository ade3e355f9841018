from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hostler.workloads.alphazero.learner import Losses
from hostler.workloads.alphazero.learnt import Gain, by_game, check_learnt, gain
from hostler.workloads.alphazero.stage import StageError

POSITIONS = 400
GAMES = np.repeat(np.arange(40, dtype=np.int32), 10)
FACTS = {"samples": 3}


def noise(seed: int, size: float) -> NDArray[np.float64]:
    """Of mean 0 and this standard deviation."""
    drawn = np.random.default_rng(seed).normal(size=POSITIONS)
    return (drawn - drawn.mean()) / drawn.std() * size


def losses(policy: float, value: float = 0.7, spread: float = 0.1, least: float = 1.0, seed: int = 1) -> Losses:
    """Losses of these means, against a uniform policy of 2 nats."""
    uniform = np.full(POSITIONS, 2.0)
    return Losses(policy + noise(seed, spread), value + noise(seed + 1, spread), uniform, np.full(POSITIONS, least))


def learnt(before: Losses, after: Losses) -> bool:
    try:
        check_learnt(before, after, GAMES, FACTS)
    except StageError:
        return False
    return True


def test_a_policy_better_than_the_base_and_than_uniform_has_learnt() -> None:
    assert learnt(losses(2.1), losses(1.9))
    assert learnt(losses(1.5), losses(1.49))


def test_a_policy_no_better_than_the_base_has_not() -> None:
    assert not learnt(losses(1.5), losses(1.5))
    assert not learnt(losses(1.5), losses(1.51, value=0.4))


def test_better_than_uniform_by_chance_is_not_learnt() -> None:
    """The standard error is 0.1 / 20 = 0.005: 0.014 is not three of them, 0.016 is."""
    assert not learnt(losses(2.5), losses(2.0 - 0.014))
    assert learnt(losses(2.5), losses(2.0 - 0.016))


def test_where_the_policies_tell_nothing_the_places_must_be_learnt() -> None:
    silent = {"least": 1.85}
    assert learnt(losses(2.0, 0.7, **silent), losses(2.001, 0.6, **silent))
    assert not learnt(losses(2.0, 0.7, **silent), losses(2.001, 0.7, **silent))
    assert not learnt(losses(2.0, 0.7, **silent), losses(2.02, 0.6, **silent))


def test_where_the_policies_do_tell_something_places_are_not_enough() -> None:
    assert not learnt(losses(2.0, 0.7, least=1.65), losses(2.001, 0.4, least=1.65))


def test_the_places_are_judged_by_games() -> None:
    """A gain in two games of forty, in all of their positions: for positions it would be significant, for games not."""
    before = losses(2.0, 0.7, spread=0.0, least=1.9)
    value = before.value.copy()
    value[:20] -= 1.0
    after = Losses(before.policy, value, before.uniform_policy, before.least_policy)
    assert gain(before.value, value).exceeds(3.0)
    assert not learnt(before, after)


def test_the_error_has_the_numbers() -> None:
    with pytest.raises(StageError) as error:
        check_learnt(losses(1.5), losses(1.6, 0.65, seed=5), GAMES, FACTS)
    text = str(error.value)
    assert error.value.fields == FACTS
    assert "on the 400 positions held out the policy loss is 1.6000, better than the base's by -0.1000" in text
    assert "than that of the uniform policy by 0.4000 (standard error 0.0050)" in text
    assert "the recorded policies are 1.0000 from uniform" in text
    assert "the loss of the places is better than the base's by 0.0500" in text


def test_a_gain_is_paired_and_has_its_standard_error() -> None:
    base = noise(3, 1.0)
    found = gain(base, base - 0.1 + noise(4, 0.01))
    assert found.mean == pytest.approx(0.1)
    assert found.standard_error == pytest.approx(0.01 / 20, rel=0.01)
    assert found.exceeds(3.0)
    assert not Gain(0.0, 0.0).exceeds(3.0)
    assert not gain(np.array([2.0]), np.array([1.0])).exceeds(3.0)


def test_losses_by_game_are_means_in_any_order_of_positions() -> None:
    found = by_game(np.array([1.0, 5.0, 3.0, 7.0]), np.array([9, 2, 9, 4], np.int32))
    assert found.tolist() == [5.0, 7.0, 2.0]
