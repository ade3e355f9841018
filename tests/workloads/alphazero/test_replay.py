from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hostler.workloads.alphazero.replay import Verdict, replay
from hostler.workloads.alphazero.segments import Played, Segment
from hostler.workloads.beacons.game import make as beacons
from tests.workloads.alphazero.stages import GAME, games_of, played, segment_of
from tests.workloads.alphazero.trivial import make

PATH = make(5)
"""Stones on 0, 2, 4 end the game after three plies, on 1 and 3 after two; action 5 passes."""


def verdicts(*games: list[int]) -> list[str]:
    segment = segment_of([played(PATH, actions) for actions in games], PATH)
    return [Verdict(verdict).name for verdict in replay(PATH, segment).verdicts]


def changed(segment: Segment, name: str, place: Any, value: Any) -> Segment:
    array = getattr(segment, name).copy()
    array[place] = value
    return replace(segment, **{name: array})


def test_sound_games_are_sound_and_the_states_are_those_before_each_action() -> None:
    segment = segment_of([played(PATH, [0, 2, 4]), played(PATH, [1, 5, 3])], PATH)
    found = replay(PATH, segment)
    assert found.verdicts.tolist() == [Verdict.SOUND] * 2
    assert found.states.tolist() == [
        [0, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 1, 0], [1, 0, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 1, 0], [0, 1, 0, 0, 0, 0, 1],
    ]  # fmt: skip


def test_each_kind_of_foul_has_its_verdict_and_spoils_no_other_game() -> None:
    assert verdicts([0, 2, 4], [0, 1, 4], [0, 2], [1, 3, 4], [2], [1, 3]) == [
        "SOUND", "ILLEGAL", "UNDECIDED", "ILLEGAL", "UNDECIDED", "SOUND",
    ]  # fmt: skip


def test_a_game_without_moves_is_undecided() -> None:
    assert verdicts([], [1, 3], []) == ["UNDECIDED", "SOUND", "UNDECIDED"]


def test_another_ranking_than_recorded() -> None:
    segment = segment_of([played(PATH, [1, 3]), played(PATH, [0, 2, 4])], PATH)
    assert replay(PATH, changed(segment, "ranking", 0, [0, 1])).verdicts.tolist() == [Verdict.RANKING, Verdict.SOUND]


@pytest.mark.parametrize("action", [-1, 6, 2**31 - 1, -(2**31)])
def test_actions_that_do_not_exist(action: int) -> None:
    segment = segment_of([played(PATH, [1, 3]), played(PATH, [1, 3])], PATH)
    assert replay(PATH, changed(segment, "action", 1, action)).verdicts.tolist() == [Verdict.ILLEGAL, Verdict.SOUND]


@pytest.mark.parametrize(
    ("name", "place", "value"),
    [
        ("policy_probability", 0, np.nan),
        ("policy_probability", 0, np.inf),
        ("policy_probability", 0, 0.5),
        ("policy_probability", 0, -0.1),
        ("policy_action", 0, 6),
        ("policy_action", 0, -1),
        ("policy_action", 0, 1),
        ("root_value", (0, 1), 1.1),
        ("root_value", (0, 1), -np.inf),
        ("network_value", (1, 0), 7.0),
    ],
)
def test_targets_that_cannot_be(name: str, place: Any, value: Any) -> None:
    segment = segment_of([played(PATH, [1, 3]), played(PATH, [1, 3])], PATH)
    assert replay(PATH, changed(segment, name, place, value)).verdicts.tolist() == [Verdict.TARGETS, Verdict.SOUND]


def test_a_policy_for_an_illegal_action_of_a_later_position() -> None:
    segment = segment_of([played(PATH, [1, 3]), played(PATH, [1, 3])], PATH)
    last = segment.policy_offsets[-2]
    assert replay(PATH, changed(segment, "policy_action", last, 1)).verdicts.tolist() == [
        Verdict.SOUND,
        Verdict.TARGETS,
    ]


def test_unknown_values_are_no_fault_and_values_of_1_are_none() -> None:
    segment = segment_of([played(PATH, [1, 3])], PATH)
    assert replay(PATH, changed(segment, "root_value", 0, [1.0, -1.0])).verdicts.tolist() == [Verdict.SOUND]


@pytest.mark.parametrize("game", [GAME, make(8, players=3), beacons("hex8", 2), beacons("square8", 4)])
def test_what_the_engine_plays_is_sound(game: Any) -> None:
    assert (replay(game, segment_of(games_of(game, 12), game)).verdicts == Verdict.SOUND).all()


def without_policies(game: Played, plies: int) -> Played:
    nothing = {"policy_action": np.empty(0, np.int32), "policy_probability": np.empty(0, np.float32)}
    return replace(game, plies=[replace(ply, **nothing) for ply in game.plies[:plies]] + list(game.plies[plies:]))


@pytest.mark.parametrize(
    ("purpose", "plies", "verdict"),
    [("evaluation", 2, "SOUND"), ("evaluation", 99, "TARGETS"), ("selfplay", 1, "TARGETS")],
)
def test_only_an_evaluation_may_leave_policies_out_and_never_all(purpose: str, plies: int, verdict: str) -> None:
    game = without_policies(games_of(GAME, 1)[0], plies)
    assert Verdict(replay(GAME, segment_of([game], purpose=purpose)).verdicts[0]).name == verdict
