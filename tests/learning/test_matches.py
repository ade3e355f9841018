"""Scores of groups from the places of seats, for two, three and four players."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from hostler.learning.matches import Game, games, group_score, scores
from hostler.model import codec
from hostler.model.learning import Group, Match

WON: Group = ((0, 1), (1, 0))
SPLIT: Group = ((0, 1), (0, 1))
LOST: Group = ((1, 0), (0, 1))


@st.composite
def _groups(draw: st.DrawFn) -> Group:
    players = draw(st.integers(2, 4))
    return tuple(tuple(draw(st.permutations(range(players)))) for _ in range(players))


def test_with_two_players_a_score_is_the_share_of_games_won() -> None:
    assert list(scores(Match(a="x", b="y", groups=(WON, SPLIT, LOST)))) == [1.0, 0.5, 0.0]


def test_with_three_players_a_score_is_the_share_of_opponents_outranked() -> None:
    assert group_score(((0, 1, 2), (0, 1, 2), (0, 1, 2))) == 0.5
    assert group_score(((0, 1, 2), (1, 0, 2), (2, 1, 0))) == 1.0
    assert group_score(((0, 1, 2), (1, 0, 2), (0, 1, 2))) == pytest.approx(2 / 3)


def test_a_tie_is_half_a_win() -> None:
    assert group_score(((0, 0), (1, 0))) == 0.75
    assert group_score(((1, 0, 1), (0, 0, 0), (1, 1, 0))) == pytest.approx((0.5 + 1 + 2) / 6)


@settings(max_examples=40)
@given(_groups())
def test_reversed_places_give_the_opposite_score(group: Group) -> None:
    opposite = tuple(tuple(len(places) - 1 - place for place in places) for places in group)
    assert group_score(group) + group_score(opposite) == pytest.approx(1)
    assert 0 <= group_score(group) <= 1


@settings(max_examples=40)
@given(_groups(), st.integers(0, 2**32))
def test_only_the_place_of_a_counts(group: Group, seed: int) -> None:
    assert group_score(tuple(_shuffled(places, seat, seed) for seat, places in enumerate(group))) == group_score(group)


def _shuffled(places: tuple[int, ...], seat: int, seed: int) -> tuple[int, ...]:
    others = [place for other, place in enumerate(places) if other != seat]
    Random(seed).shuffle(others)
    return (*others[:seat], places[seat], *others[seat:])


def test_games_are_those_of_every_group_by_seat() -> None:
    found = list(games([Match(a="x", b="y", groups=(WON, LOST)), Match(a="y", b="z", groups=())]))
    assert [(game.seat, game.places) for game in found] == [(0, (0, 1)), (1, (1, 0)), (0, (1, 0)), (1, (0, 1))]
    assert found[0] == Game(a="x", b="y", seat=0, places=(0, 1))


@pytest.mark.parametrize(
    "groups",
    [
        (((0, 1),),),
        (((0,),),),
        (((0, 1, 2), (0, 1, 2)),),
        (((0, 1), (1, 2)),),
        (((0, 1), (-1, 0)),),
        (WON, ((0, 1, 2), (0, 1, 2), (0, 1, 2))),
        ((),),
    ],
)
def test_what_is_no_group_is_refused_with_its_number(groups: tuple[Group, ...]) -> None:
    with pytest.raises(ValueError, match=r"match x against y, group \d"):
        Match(a="x", b="y", groups=groups)


def test_a_match_against_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="x against itself"):
        Match(a="x", b="x", groups=(WON,))


def test_an_evaluation_result_is_read_as_matches() -> None:
    text = '{"a": "gumbel-64@ab", "b": "random", "groups": [[[0, 1], [1, 0]], [[1, 0], [1, 0]]]}'
    read = codec.adapter(Match).validate_json(text)
    assert read == Match(a="gumbel-64@ab", b="random", groups=(WON, ((1, 0), (1, 0))))
    with pytest.raises(ValueError, match="not the places"):
        codec.adapter(Match).validate_json(text.replace("[0, 1]", "[0, 7]"))
