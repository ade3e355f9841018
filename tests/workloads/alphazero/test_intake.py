from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hostler.workloads.alphazero.dataset import Dataset
from hostler.workloads.alphazero.intake import IntakeError, check
from hostler.workloads.beacons.game import make
from tests.workloads.alphazero.datasets import heuristic_dataset, shuffled_among_legal, shuffled_among_positions

GAME = make("hex4", 2)
DATA = heuristic_dataset(GAME, "hex4_2p", 8, 1)
POSITIONS = len(DATA.states)


def checked(dataset: Dataset, games: int = 8, positions: int = POSITIONS, config: str = "hex4_2p") -> None:
    check(dataset, GAME, config, games, positions)


def headed(**changes: object) -> Dataset:
    return replace(DATA, header={**DATA.header, **changes})


def test_a_sound_dataset_passes() -> None:
    checked(DATA)


@pytest.mark.parametrize(
    ("dataset", "told"),
    [
        (headed(config="hex8_2p"), "the dataset's config is 'hex8_2p', that of the order is 'hex4_2p'"),
        (
            headed(game="beacons hex8 2p"),
            "the dataset's game is 'beacons hex8 2p', that of the order is 'beacons hex4 2p'",
        ),
        (headed(rules_version=9), "the dataset's rules_version is 9, that of the order is 1"),
        (headed(players=3), "the dataset's players is 3, that of the order is 2"),
        (headed(actions=99), "the dataset's actions is 99, that of the order is 20"),
        (replace(DATA, states=DATA.states[:, 1:]), "positions are 19 bytes wide, those of the game 20"),
    ],
)
def test_a_dataset_of_something_else_is_refused_with_both_sides(dataset: Dataset, told: str) -> None:
    with pytest.raises(IntakeError, match=told):
        checked(dataset)


@pytest.mark.parametrize(
    ("games", "positions", "told"),
    [
        (9, POSITIONS, "9 games were ordered, the dataset's header tells of 8, its arrays hold 8"),
        (8, 68, f"68 positions were ordered, the dataset's header tells of {POSITIONS}, its arrays hold {POSITIONS}"),
    ],
)
def test_other_counts_than_ordered_are_refused(games: int, positions: int, told: str) -> None:
    with pytest.raises(IntakeError, match=told):
        checked(DATA, games, positions)


def test_a_header_that_counts_otherwise_than_its_arrays_is_refused() -> None:
    with pytest.raises(IntakeError, match="8 games were ordered, the dataset's header tells of 8, its arrays hold 7"):
        checked(replace(DATA, game=np.minimum(DATA.game, 6)))


def test_an_empty_dataset_is_refused() -> None:
    none = {name: getattr(DATA, name)[:0] for name in ("states", "places", "root_value", "game", "ply")}
    empty = replace(headed(games=0, positions=0), **none, policy_offsets=np.zeros(1, np.int64))
    with pytest.raises(IntakeError, match="holds no positions: there is nothing to learn from"):
        checked(empty, 0, 0)


def spoilt(name: str, change: Callable[[np.ndarray], None]) -> Dataset:
    array = getattr(DATA, name).copy()
    change(array)
    return replace(DATA, **{name: array})


def test_examples_that_cannot_be_are_counted() -> None:
    def set_to(at: int, value: float) -> Callable[[np.ndarray], None]:
        return lambda array: array.__setitem__(at, value)

    with pytest.raises(IntakeError, match=f"in 1 of {POSITIONS} positions the places are no ranking"):
        checked(spoilt("places", lambda places: places.__setitem__((5, 0), places[5, 1])))
    with pytest.raises(IntakeError, match=r"1 of \d+ policy entries are for actions that do not exist"):
        checked(spoilt("policy_action", set_to(3, 20)))
    with pytest.raises(IntakeError, match=r"1 of \d+ policy entries are no probabilities"):
        checked(spoilt("policy_probability", set_to(3, -0.1)))
    with pytest.raises(IntakeError, match=r"1 of \d+ policy entries are no probabilities"):
        checked(spoilt("policy_probability", set_to(3, np.nan)))
    with pytest.raises(IntakeError, match=f"in 1 of {POSITIONS} positions the recorded policies do not sum to 1"):
        checked(spoilt("policy_probability", set_to(3, 0.9)))


def test_a_finished_game_is_no_example() -> None:
    full = spoilt("states", lambda states: states.__setitem__((5, slice(0, 19)), 1))
    with pytest.raises(
        IntakeError, match=f"in 1 of {POSITIONS} positions the recorded policies give probability to ill"
    ):
        checked(full)


def test_policies_of_other_positions_are_found_out() -> None:
    with pytest.raises(IntakeError, match=r"in \d{2,} of .* give probability to illegal actions"):
        checked(shuffled_among_positions(DATA, 1))


def test_policies_shuffled_among_legal_actions_pass_here_and_are_left_to_the_training() -> None:
    checked(shuffled_among_legal(GAME, DATA, 1))


@pytest.mark.parametrize(
    ("dataset", "told"),
    [
        (spoilt("places", lambda places: places.__setitem__(1, places[1, ::-1])), "places are others than in the posi"),
        (spoilt("root_value", lambda values: values.__setitem__((2, 0), 2.0)), "values of the search lie outside"),
        (spoilt("root_value", lambda values: values.__setitem__((2, 0), np.inf)), "values of the search lie outside"),
        (spoilt("game", lambda game: np.add(game, 1, out=game)), "not numbered from 0 on without gaps"),
        (spoilt("game", lambda game: np.subtract(7, game, out=game)), "not numbered from 0 on without gaps"),
        (spoilt("states", lambda states: states.fill(127)), "positions"),
        (spoilt("states", lambda states: states.fill(-128)), "positions"),
    ],
)
def test_what_no_export_would_leave_is_refused(dataset: Dataset, told: str) -> None:
    with pytest.raises(IntakeError, match=told):
        checked(dataset)
