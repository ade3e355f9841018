from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.alphazero import npz
from hostler.workloads.alphazero.dataset import LAYOUT, Dataset, DatasetError, read, write
from hostler.workloads.alphazero.gathering import Gathering
from hostler.workloads.alphazero.replay import replay
from hostler.workloads.beacons.game import make
from tests.workloads.alphazero.datasets import heuristic_dataset
from tests.workloads.alphazero.stages import GAME, games_of, segment_of

GAMES = games_of(GAME, 9)
FIRST, SECOND = segment_of(GAMES[:4]), segment_of(GAMES[4:])
MODEL = "ab" * 32


def gathered() -> Dataset:
    gathering = Gathering(GAME)
    gathering.add("1" * 64, FIRST, np.array([0, 3]))
    gathering.add("2" * 64, SECOND, np.array([1, 2, 4]))
    return gathering.dataset("spacing_2p", {"replay": 1.0, "strength": None})


def test_accepted_games_and_no_others_are_gathered_in_their_order() -> None:
    dataset, row = gathered(), 0
    for number, game in enumerate(GAMES[i] for i in (0, 3, 5, 6, 8)):
        states = replay(GAME, segment_of([game])).states
        for ply, played in enumerate(game.plies):
            entries = slice(dataset.policy_offsets[row], dataset.policy_offsets[row + 1])
            assert (dataset.game[row], dataset.ply[row]) == (number, ply)
            assert (dataset.states[row] == states[ply]).all()
            assert (dataset.places[row] == game.ranking).all()
            assert (dataset.policy_action[entries] == played.policy_action).all()
            assert (dataset.policy_probability[entries] == played.policy_probability).all()
            row += 1
    assert row == len(dataset.states) == dataset.header["positions"]
    assert dataset.header["games"] == 5


def test_the_header_tells_the_lineage() -> None:
    assert gathered().header == {
        "schema": 1, "config": "spacing_2p", "game": "spacing 15 2p", "rules_version": 1, "players": 2, "actions": 16,
        "games": 5, "positions": len(gathered().states), "segments": ["1" * 64, "2" * 64], "models": [],
        "quality": {"replay": 1.0, "strength": None},
    }  # fmt: skip
    gathering = Gathering(GAME)
    for name, model in (("1", MODEL), ("2", None), ("3", MODEL)):
        player = "heuristic" if model is None else f"gumbel-2@{model}"
        gathering.add(name * 64, segment_of(GAMES[:2], player=player, model=model), np.array([0]))
    assert gathering.dataset("spacing_2p", {}).header["models"] == [MODEL]


def test_a_dataset_comes_back_as_it_was_with_dtypes_for_anybody_with_numpy(tmp_path: Any) -> None:
    dataset = gathered()
    found = read(write(dataset))
    assert found.header == dataset.header
    assert all(np.array_equal(getattr(found, name), getattr(dataset, name), equal_nan=True) for name in LAYOUT)
    path = tmp_path / "games.dataset.npz"
    path.write_bytes(write(dataset))
    with np.load(path, allow_pickle=False) as archive:
        assert {name: str(archive[name].dtype) for name in archive.files} == {
            "header": "uint8", **{name: dtype for name, (dtype, _) in LAYOUT.items()},
        }  # fmt: skip
        assert not any(array.dtype.hasobject for array in archive.values())


@pytest.mark.parametrize(
    ("header", "arrays", "told"),
    [
        ({"schema": 2}, {}, "schema 2"),
        ({"more": 1}, {}, "more"),
        ({"positions": 1}, {}, r"states has the shape \(\d+, 17\), but by its header it must be \(1, 17\)"),
        ({"players": 3}, {}, "places has the shape"),
        ({}, {"game": gathered().game.astype(np.int64)}, "game: int64"),
        ({}, {"policy_offsets": gathered().policy_offsets[::-1].copy()}, "policy_offsets must rise"),
        ({}, {"policy_action": gathered().policy_action[1:]}, "policy_probability has the shape"),
        ({}, {"more": gathered().game}, "unknown"),
    ],
)
def test_what_is_no_dataset_is_refused_by_what_is_wrong(header: Any, arrays: Any, told: str) -> None:
    dataset = gathered()
    known = {name: getattr(dataset, name) for name in LAYOUT}
    with pytest.raises(DatasetError, match=told):
        read(npz.pack({**dataset.header, **header}, {**known, **arrays}))


CONTENT = write(gathered())


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255), st.booleans())
def test_damaged_bytes_are_found_out_or_change_nothing(position: int, flip: int, cut: bool) -> None:
    damaged = (
        CONTENT[:position] if cut else CONTENT[:position] + bytes([CONTENT[position] ^ flip]) + CONTENT[position + 1 :]
    )
    try:
        found = read(damaged)
    except DatasetError:
        return
    assert not cut
    assert write(found) == CONTENT


@pytest.mark.parametrize(
    ("name", "value"),
    [("positions", None), ("positions", "many"), ("players", 2.0), ("games", -1), ("games", True),
     ("segments", {}), ("segments", ["ab"]), ("models", [1]), ("models", None)],
)  # fmt: skip
def test_a_header_of_other_types_is_refused(name: str, value: object) -> None:
    made = heuristic_dataset(make("hex4", 2), "hex4_2p", 2, 1)
    with pytest.raises(DatasetError, match=f"header has {name}"):
        read(write(replace(made, header={**made.header, name: value})))
