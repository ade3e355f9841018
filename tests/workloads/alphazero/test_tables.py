from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from hostler.workloads.alphazero.engines import Decided, HeuristicEngine
from hostler.workloads.alphazero.game import Game, States
from hostler.workloads.alphazero.segments import Played, write
from hostler.workloads.alphazero.stage import StageError, Stopped
from hostler.workloads.alphazero.tables import play
from hostler.workloads.beacons.game import make as beacons
from tests.workloads.alphazero.stages import segment_of
from tests.workloads.alphazero.trivial import Spacing, make

GAME = make(15)


def never() -> bool:
    return False


def ended(game: Game, numbers: list[int], parallel: int, seed: int = 17) -> dict[int, Played]:
    found = list(play(game, HeuristicEngine(game), seed, numbers, parallel, never))
    assert sorted(number for number, _ in found) == sorted(numbers)
    return dict(found)


@pytest.mark.parametrize(
    "game", [GAME, *(pytest.param(beacons(*each), marks=pytest.mark.long) for each in (("hex8", 2), ("square8", 3)))]
)
def test_a_game_is_the_same_in_any_company_to_the_last_bit(game: Game) -> None:
    def segment(games: dict[int, Played]) -> bytes:
        return write(segment_of([games[number] for number in range(12)], game))

    together = segment(ended(game, list(range(12)), 12))
    assert segment(ended(game, list(range(12)), 1)) == together
    assert segment(ended(game, list(range(30)), 5)) == together
    assert segment(ended(game, list(range(11, -1, -1)), 3)) == together


def test_other_seeds_and_numbers_are_other_games() -> None:
    first, second = ended(GAME, list(range(20)), 20), ended(GAME, list(range(20)), 20, seed=18)
    lines = {tuple(ply.action for ply in each.plies) for games in (first, second) for each in games.values()}
    assert len(lines) > 35
    assert len({each.seed for games in (first, second) for each in games.values()}) == 40


def test_never_more_games_than_allowed_are_under_way() -> None:
    widths = []

    class Watched(HeuristicEngine):
        def decide(self, states: States, seeds: NDArray[np.uint64], plies: NDArray[np.int64]) -> Decided:
            widths.append(len(states))
            return super().decide(states, seeds, plies)

    list(play(GAME, Watched(GAME), 1, range(20), 6, never))
    assert max(widths) == 6
    assert sum(width == 6 for width in widths) > len(widths) / 2


def test_a_request_to_stop_is_answered_at_the_next_ply() -> None:
    answers = iter([False, False, True])
    with pytest.raises(Stopped, match="6 games under way are lost"):
        list(play(GAME, HeuristicEngine(GAME), 1, range(20), 6, lambda: next(answers)))


class Endless(Spacing):
    """A game whose rules have a fault: it never ends."""

    def legal(self, states: States) -> NDArray[np.bool_]:
        return np.ones((len(states), self.actions), np.bool_)

    def terminal(self, states: States) -> NDArray[np.bool_]:
        return np.zeros(len(states), np.bool_)

    def heuristic(self, states: States) -> NDArray[np.float32]:
        return np.zeros((len(states), self.actions), np.float32)


class Changed(HeuristicEngine):
    """An engine whose decisions are spoilt."""

    def __init__(self, game: Game, spoil: Callable[[Decided], None]) -> None:
        super().__init__(game)
        self._spoil = spoil

    def decide(self, states: States, seeds: NDArray[np.uint64], plies: NDArray[np.int64]) -> Decided:
        decided = super().decide(states, seeds, plies)
        if plies.max() == 2:
            self._spoil(decided)
        return decided


def illegal(decided: Decided) -> None:
    decided.action[1] = int(np.flatnonzero(decided.policy[1] == 0)[0])


def not_a_number(decided: Decided) -> None:
    decided.policy[1] = np.nan


@pytest.mark.parametrize("spoil", [illegal, not_a_number])
def test_a_decision_that_is_none_is_told_with_the_game_and_the_ply(spoil: Callable[[Decided], None]) -> None:
    with pytest.raises(StageError, match=r"spacing 15 2p: in 1 of 4 games .*: game 1 is at ply 2 of at most 9"):
        list(play(GAME, Changed(GAME, spoil), 1, range(4), 4, never))


def test_a_game_that_never_ends_is_found_out() -> None:
    game = Endless(3, 2)
    with pytest.raises(StageError, match=r"in 2 of 2 games .* ply 3 of at most 3"):
        list(play(game, HeuristicEngine(game), 1, range(2), 2, never))
