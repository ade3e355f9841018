"""Ratings: of whom, in which order, how exact, and whether their intervals hold what they promise."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from hostler.learning.elo import DIFFERENCE_SD, PRIOR_SD, slope
from hostler.learning.matches import games
from hostler.model.learning import Group, Match, Rating
from tests.learning.simulated import EVEN, SEATED, SUITED, Openings, ladder, match

pytest.importorskip("openskill", reason="ratings need openskill: the extra [eval]")

from openskill.models import ThurstoneMostellerFull

from hostler.learning.ratings import fit

WON: Group = ((0, 1), (1, 0))
SPLIT: Group = ((0, 1), (0, 1))
LOST: Group = ((1, 0), (0, 1))
ANCHORS = {"random": 0.0, "greedy": 300.0, "mc-64": 700.0}
TRUTH = {**ANCHORS, "m0": 250.0, "m1": 600.0, "m2": 900.0, "m3": 1150.0, "m4": 1300.0}
PLAN = (
    ("m0", "random", 16),
    ("m0", "greedy", 16),
    ("m1", "greedy", 16),
    ("m1", "mc-64", 16),
    ("m2", "m1", 20),
    ("m2", "mc-64", 12),
    ("m3", "m2", 20),
    ("m4", "m3", 20),
    ("m4", "m2", 12),
)
"""`m3` and `m4` meet no anchor."""

NAMES = st.sampled_from(["random", "mc-64", "p", "q", "r"])
MATCHES = st.lists(
    st.builds(
        Match,
        a=NAMES,
        b=NAMES.map(lambda name: f"{name}!"),
        groups=st.lists(st.sampled_from([WON, SPLIT, LOST]), max_size=6).map(tuple),
    ).map(lambda made: replace(made, b=made.b[:-1]) if made.a != made.b[:-1] else replace(made, b="s")),
    max_size=12,
)


def _of(rated: Mapping[str, Rating | None], name: str) -> Rating:
    rating = rated[name]
    assert rating is not None
    return rating


def _ladder(seed: object, players: int, openings: Openings = EVEN) -> list[Match]:
    return ladder(Random(str(seed)), players, TRUTH, [(a, b, max(3, n * 2 // players)) for a, b, n in PLAN], openings)


def test_anchors_are_exactly_where_they_are_put() -> None:
    rated = fit(_ladder(1, 2), ANCHORS, [])
    for name, elo in ANCHORS.items():
        rating = _of(rated, name)
        assert (rating.elo, rating.low, rating.high) == (elo, elo, elo)
    assert (_of(rated, "random").games, _of(rated, "mc-64").games) == (32, 56)


def test_who_met_nobody_known_is_unknown() -> None:
    matches = [
        Match(a="x", b="random", groups=(WON, LOST)),
        Match(a="island", b="rock", groups=(WON, LOST)),
        Match(a="x", b="empty", groups=()),
    ]
    rated = fit(matches, ANCHORS, ["never"])
    assert [rated[name] for name in ("island", "rock", "never")] == [None, None, None]
    assert "empty" not in rated
    assert _of(rated, "x").games == 4
    assert list(rated) == sorted(rated)


def test_nothing_at_all_is_no_error() -> None:
    assert fit([], {}, []) == {}
    assert fit([], {}, ["x"]) == {"x": None}
    assert fit([Match(a="x", b="y", groups=(WON,))], {}, []) == {"x": None, "y": None}
    assert _of(fit([], ANCHORS, []), "greedy") == Rating(elo=300, low=300, high=300, games=0)


def test_games_for_different_numbers_of_players_are_no_one_config() -> None:
    random = Random(1)
    mixed = [match(random, 2, ("x", "random"), 0, 1), match(random, 4, ("x", "random"), 0, 1)]
    with pytest.raises(ValueError, match=r"\[2, 4\] players"):
        fit(mixed, ANCHORS, [])


def test_an_even_score_is_an_equal_rating() -> None:
    rating = _of(fit([Match(a="x", b="greedy", groups=(SPLIT, WON, LOST))], ANCHORS, []), "x")
    assert rating.elo == pytest.approx(300, abs=1e-3)
    assert rating.high - rating.elo == pytest.approx(rating.elo - rating.low, rel=1e-2)


def test_near_equality_the_scale_is_logistic_elo() -> None:
    groups = (WON,) * 11 + (LOST,) * 9
    rating = _of(fit([Match(a="x", b="random", groups=groups * 50)], ANCHORS, []), "x")
    assert rating.elo == pytest.approx(400 * math.log10(55 / 45), abs=0.5)


@pytest.mark.parametrize("groups", [1, 5, 50])
def test_who_never_lost_has_a_finite_rating_open_above(groups: int) -> None:
    rating = _of(fit([Match(a="x", b="random", groups=(WON,) * groups)], ANCHORS, []), "x")
    beaten = _of(fit([Match(a="x", b="random", groups=(LOST,) * groups)], ANCHORS, []), "x")
    assert 300 < rating.elo < 1200
    assert rating.high - rating.elo > 1000
    assert rating.high - rating.elo > 2 * (rating.elo - rating.low)
    assert (beaten.elo, beaten.low, beaten.high) == pytest.approx((-rating.elo, -rating.high, -rating.low), abs=1e-3)


def test_the_better_the_longer_it_never_lost() -> None:
    rated = [_of(fit([Match(a="x", b="random", groups=(WON,) * n)], ANCHORS, []), "x") for n in (1, 3, 10, 30)]
    assert [each.elo for each in rated] == sorted(each.elo for each in rated)
    assert [each.low for each in rated] == sorted(each.low for each in rated)


@settings(max_examples=20)
@given(MATCHES, st.randoms(use_true_random=False))
def test_order_and_orientation_cannot_change_a_bit(matches: list[Match], random: Random) -> None:
    single = [replace(each, groups=(group,)) for each in matches for group in each.groups]
    turned = [_turned(each) if random.random() < 0.5 else each for each in single]
    random.shuffle(turned)
    backwards = dict(reversed(ANCHORS.items()))
    names = {name for each in matches for name in (each.a, each.b)}
    assert fit(turned, backwards, names) == fit(matches, ANCHORS, names)


def _turned(given: Match) -> Match:
    """The same games of two players, told by the other."""
    return Match(a=given.b, b=given.a, groups=tuple(tuple(reversed(group)) for group in given.groups))


@settings(max_examples=40)
@given(MATCHES, st.floats(-1e4, 1e4), st.floats(-1e4, 1e4))
def test_every_fit_settles_within_its_interval(matches: list[Match], random_elo: float, mc_elo: float) -> None:
    for rating in fit(matches, {"random": random_elo, "mc-64": mc_elo}, []).values():
        assert rating is None or rating.low <= rating.elo <= rating.high


@settings(max_examples=15)
@given(MATCHES, st.floats(-2000, 2000))
def test_moved_anchors_move_everybody_along(matches: list[Match], by: float) -> None:
    there = fit(matches, {name: elo + by for name, elo in ANCHORS.items()}, [])
    for name, here in fit(matches, ANCHORS, []).items():
        moved = there[name]
        assert (here is None) == (moved is None)
        if here is not None and moved is not None:
            assert (moved.elo - by, moved.low - by, moved.high - by) == pytest.approx(
                (here.elo, here.low, here.high), abs=1.0
            )


@pytest.mark.parametrize("players", [2, 3, 4])
def test_openskill_given_every_game_as_it_was_moves_nobody(players: int) -> None:
    """The fit is the fixed point of the library's own update on whole games of all seats, but for the prior."""
    matches = _ladder("fixed point", players)
    rated = fit(matches, ANCHORS, [])
    model = ThurstoneMostellerFull(epsilon=0.0, tau=0.0)
    unit = DIFFERENCE_SD / math.sqrt(2 * (model.sigma**2 + model.beta**2))
    moved: defaultdict[str, float] = defaultdict(float)
    for game in games(matches):
        names = [game.a if seat == game.seat else game.b for seat in range(players)]
        teams = [[model.rating(mu=model.mu + _of(rated, name).elo / unit)] for name in names]
        after = model.rate(teams, ranks=[float(place + 1) for place in game.places])
        for name, (before,), (then,) in zip(names, teams, after, strict=True):
            moved[name] += (then.mu - before.mu) / model.sigma**2 / unit
    pull_of_prior = 2 * 500 / PRIOR_SD**2
    assert max(abs(moved[name]) for name in TRUTH.keys() - ANCHORS.keys()) < 5 / 3 * pull_of_prior < slope(0)


def test_players_behind_others_are_known_less_well() -> None:
    rated = fit(_ladder(3, 2), ANCHORS, [])
    widths = [_of(rated, name).high - _of(rated, name).low for name in ("m1", "m2", "m3", "m4")]
    assert widths == sorted(widths)


def test_more_games_narrow_the_interval_as_the_root() -> None:
    once, often = ([match(Random(5), 2, ("x", "greedy"), 50, groups)] for groups in (100, 400))
    narrow, wide = (_of(fit(each, ANCHORS, []), "x") for each in (often, once))
    assert (wide.high - wide.low) / (narrow.high - narrow.low) == pytest.approx(2, rel=0.1)


def test_games_of_openings_that_suit_somebody_count_less() -> None:
    def width(openings: Openings) -> float:
        rating = _of(fit([match(Random(6), 2, ("x", "greedy"), 0, 300, openings)], ANCHORS, []), "x")
        return rating.high - rating.low

    correlation = 400**2 / (400**2 + DIFFERENCE_SD**2)
    dispersed = math.sqrt(1 + 2 / math.pi * math.asin(correlation))
    assert width(Openings(suits=400.0)) / width(EVEN) == pytest.approx(dispersed, rel=0.08)


REPEATS = 150


@pytest.mark.long
@pytest.mark.parametrize(
    ("players", "openings"),
    [
        pytest.param(2, EVEN, id="2-even"),
        *(
            pytest.param(players, openings, id=f"{players}-{name}", marks=pytest.mark.long)
            for players, openings, name in [
                (4, EVEN, "even"),
                (2, SEATED, "seated"),
                (4, SEATED, "seated"),
                (2, SUITED, "suited"),
                (4, SUITED, "suited"),
            ]
        ),
    ],
)
def test_intervals_hold_the_truth_in_95_of_100(players: int, openings: Openings) -> None:
    """All free players of a ladder together: 750 intervals, of five that depend on each other 150 times."""
    held: Counter[str] = Counter()
    errors: defaultdict[str, float] = defaultdict(float)
    free = TRUTH.keys() - ANCHORS.keys()
    for repeat in range(REPEATS):
        rated = fit(_ladder((repeat, players, openings), players, openings), ANCHORS, [])
        for name in free:
            rating = _of(rated, name)
            held[name] += rating.low <= TRUTH[name] <= rating.high
            errors[name] += (rating.elo - TRUTH[name]) / REPEATS
    assert 0.90 <= held.total() / (REPEATS * len(free)) <= 0.985
    assert all(held[name] / REPEATS >= 0.87 for name in free)
    assert all(abs(errors[name]) < 50 for name in free)


def test_a_long_chain_is_not_pulled_back_to_the_anchors() -> None:
    truth = {"mc-64": 0.0, **{f"m{number:02}": 60.0 * number for number in range(1, 31)}}
    names = list(truth)
    plan = [(names[number], names[max(0, number - back)], 100) for number in range(1, 31) for back in (1, 3)]
    rated = fit(ladder(Random(11), 2, truth, plan), {"mc-64": 0.0}, [])
    last = _of(rated, "m30")
    assert last.low <= 1800 <= last.high
    assert last.high - last.low < 450
