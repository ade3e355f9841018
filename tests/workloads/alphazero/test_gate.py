from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from hostler.workloads.alphazero.canonical import openings_possible
from hostler.workloads.alphazero.game import States
from hostler.workloads.alphazero.gate import (
    PROPERTIES,
    Judgement,
    Lengths,
    Rules,
    judge,
    length_bounds,
    measure,
    opening_diversity,
    opening_plies,
    overall,
)
from hostler.workloads.alphazero.segments import Played, Segment
from tests.workloads.alphazero.stages import GAME, games_of, played, segment_of, with_header
from tests.workloads.alphazero.trivial import make

INFINITE = float("inf")
LONG = make(255)
"""Games of the engine last around 110 plies, give or take 3; with a stone on every second cell they last 128, on every
third 85."""
GAMES = games_of(GAME, 60)
MODEL = "ab" * 32
GUMBEL = {"player": f"gumbel-4@{MODEL}", "model": MODEL, "engine": "gumbel", "simulations": 4}


def judged(*window: Segment, game: Any = GAME, **rules: Any) -> list[Judgement]:
    measured = [measure(game, segment, openings_possible(game, opening_plies(game)), None, 1) for segment in window]
    return judge(measured, Rules(**{"quality": 0.7, **rules}))


def one(games: Sequence[Played], **rules: Any) -> Judgement:
    return judged(segment_of(games), **rules)[0]


def test_good_games_pass_with_every_property_measured_that_can_be() -> None:
    judgement = one(GAMES[:20])
    assert judgement.accepted.all()
    assert judgement.rejected == {}
    assert judgement.refused is None
    assert set(judgement.quality) == set(PROPERTIES)
    unmeasured = {name for name, share in judgement.quality.items() if share is None}
    assert unmeasured == {"provenance", "strength"}
    assert judgement.score == min(share for share in judgement.quality.values() if share is not None)


def test_truncated_games_are_rejected_and_too_many_of_them_are_the_end_of_the_segment() -> None:
    cut = [replace(game, plies=game.plies[:-1]) for game in GAMES]
    few = one(GAMES[:16] + cut[16:20])
    assert (few.rejected, few.accepted.tolist()) == ({"undecided": 4}, [True] * 16 + [False] * 4)
    assert few.quality["decided"] == pytest.approx(0.8)
    many = one(GAMES[:10] + cut[10:20])
    assert many.rejected == {"undecided": 10, "segment refused": 10}
    assert many.refused == "its quality is below 0.7: decided 0.50"
    assert not many.accepted.any()
    assert one(cut).rejected == {"undecided": 60}


def test_games_that_do_not_replay_are_rejected() -> None:
    lies = [replace(game, ranking=game.ranking[::-1]) for game in GAMES]
    few = one(GAMES[:17] + lies[17:20])
    assert few.rejected == {"replay": 3}
    assert few.quality["replay"] == pytest.approx(0.85)
    illegal = replace(GAMES[0], plies=[GAMES[0].plies[0], *GAMES[0].plies])
    assert one([illegal, *GAMES[1:10]]).rejected == {"replay": 1}
    assert "replay 0.00" in str(one(lies).refused)


def test_targets_that_cannot_be_are_rejected_under_their_own_name() -> None:
    ply = GAMES[0].plies[0]
    broken = replace(GAMES[0], plies=[replace(ply, policy_probability=ply.policy_probability * 2), *GAMES[0].plies[1:]])
    assert one([broken, *GAMES[1:10]]).rejected == {"targets": 1}


def mirrored(game: Played) -> Played:
    def turn(action: int) -> int:
        return 14 - action if action < 15 else action

    return played(GAME, [turn(ply.action) for ply in game.plies])


def test_copies_are_rejected_even_mirrored_ones_and_the_first_is_kept() -> None:
    judgement = one([*GAMES[:10], GAMES[3], mirrored(GAMES[4])])
    assert judgement.rejected == {"duplicate": 2}
    assert judgement.accepted.tolist() == [True] * 10 + [False] * 2
    assert judgement.quality["unique"] == pytest.approx(10 / 12)


def test_copies_are_found_across_the_segments_of_the_window() -> None:
    first, second = judged(segment_of(GAMES[:20]), segment_of(GAMES[15:35]))
    assert (first.rejected, second.rejected) == ({}, {"duplicate": 5})
    again = judged(segment_of(GAMES[:20]), segment_of(GAMES[:20], seed=18))[1]
    assert again.rejected == {"duplicate": 20}
    assert "unique 0.00" in str(again.refused)


def test_a_copy_of_a_game_that_was_itself_rejected_is_no_copy() -> None:
    cut = [replace(game, plies=game.plies[:-1]) for game in GAMES[20:40]]
    refused, kept = judged(segment_of([*GAMES[:5], *cut]), segment_of(GAMES[:20]))
    assert refused.rejected == {"undecided": 20, "segment refused": 5}
    assert kept.accepted.all()


def test_one_game_over_and_over_is_refused_by_uniqueness_and_openings() -> None:
    judgement = one([GAMES[0]] * 20)
    assert judgement.quality["openings"] == 0.0
    assert judgement.quality["unique"] == pytest.approx(1 / 20)
    assert judgement.rejected == {"duplicate": 19, "segment refused": 1}


def every_second(pass_at: int | None = None) -> Played:
    actions = list(range(0, 255, 2))
    return played(LONG, actions if pass_at is None else [*actions[:pass_at], 255, *actions[pass_at:]])


def short(number: int) -> Played:
    """A game of 85 or 86 plies: every stone takes three cells."""
    chance = np.random.default_rng(number)
    cells = chance.permutation(np.arange(1, 255, 3)).tolist()
    return played(LONG, [*cells[:number], 255, *cells[number:]] if number < 85 else cells)


def test_games_far_outside_the_configs_own_distribution_are_rejected() -> None:
    own = games_of(LONG, 30)
    lengths = [len(game.plies) for game in own]
    strange = [short(5), every_second(7), short(90)]
    assert not set(lengths) & {len(game.plies) for game in strange}
    judgement = judged(segment_of([*own, *strange], LONG), game=LONG)[0]
    assert judgement.rejected == {"length": 3}
    assert judgement.accepted.tolist() == [True] * 30 + [False] * 3
    assert judgement.quality["length"] == pytest.approx(30 / 33)


@pytest.mark.long
def test_a_window_of_strange_games_only_is_rejected_by_what_was_accepted_before() -> None:
    strange = segment_of([short(number) for number in range(20)], LONG)
    assert judged(strange, game=LONG)[0].accepted.all()
    own = np.array([len(game.plies) for game in games_of(LONG, 100)])
    reference = Lengths(float(own.mean()), float(own.std()), 100)
    assert judged(strange, game=LONG, lengths=reference)[0].rejected == {"length": 20}


@pytest.mark.parametrize(
    ("lengths", "reference", "inside", "outside"),
    [
        ([61] * 50, None, [61, 62, 56], [54, 68, 30]),
        ([61] * 50 + [62] * 10, Lengths(61.2, 0.4, 500), [61, 62], [50, 70]),
        ([30, 31, 29, 30, 28, 32] * 10, None, [25, 35], [20, 45, 100]),
        ([30, 31, 29, 30, 28, 32] * 10 + [100] * 59, Lengths(30, 2, 500), [27, 33], [100, 10]),
        ([60, 58, 62] * 20, Lengths(100, 8, 5000), [60, 100], [30, 140]),
        ([60, 58, 62] * 20, Lengths(100, 8, 29), [60, 55], [100]),
        ([3, 3, 3, 4, 2], None, [2, 4], [9]),
    ],
    ids=["fixed length", "with a swap", "scattered", "half strange", "players learn", "no reference yet", "short"],
)
def test_what_is_far(lengths: list[int], reference: Lengths | None, inside: list[int], outside: list[int]) -> None:
    least, most = length_bounds(np.array(lengths), reference)
    assert all(least <= length <= most for length in inside)
    assert not any(least <= length <= most for length in outside)


@given(
    st.lists(st.integers(1, 500), min_size=1, max_size=50), st.integers(1, 500), st.floats(0, 100), st.integers(0, 99)
)
def test_at_least_half_of_a_window_without_reference_is_always_inside(
    lengths: list[int], mean: int, sd: float, games: int
) -> None:
    least, most = length_bounds(np.array(lengths), None)
    assert sum(least <= length <= most for length in lengths) >= len(lengths) / 2
    least, most = length_bounds(np.array(lengths), Lengths(mean, sd, games))
    assert most - least >= 6


def openings(*counts: int) -> NDArray[np.int32]:
    return np.repeat(np.arange(len(counts), dtype=np.int32), counts)[:, None]


@pytest.mark.parametrize(
    ("counts", "possible", "least", "most"),
    [
        ([1] * 50, INFINITE, 1.0, 1.0),
        ([50], INFINITE, 0.0, 0.0),
        ([45] + [1] * 5, INFINITE, 0.15, 0.25),
        ([5] * 10, INFINITE, 0.9, 0.95),
        ([25, 25], 2, 1.0, 1.0),
        ([49, 1], 2, 0.0, 0.1),
        ([10, 10, 10], 6, 0.8, 0.84),
    ],
    ids=["all differ", "collapsed", "nine of ten", "ten favourites", "all there are", "one of two", "half of them"],
)
def test_how_different_openings_are(counts: list[int], possible: float, least: float, most: float) -> None:
    found = opening_diversity(openings(*counts), possible)
    assert found is not None
    assert least <= found <= most


def test_openings_of_one_game_or_of_a_game_with_one_opening_are_unknown() -> None:
    assert opening_diversity(openings(1), INFINITE) is None
    assert opening_diversity(openings(5), 1) is None


def test_a_generator_that_has_collapsed_to_one_opening_is_refused_though_its_games_differ() -> None:
    first = list(range(0, 172, 4))
    assert opening_plies(LONG) == len(first) == 43
    games = [finished(first, seed) for seed in range(20)]
    judgement = judged(segment_of(games, LONG), game=LONG)[0]
    assert judgement.quality["unique"] == 1.0
    assert judgement.refused == "its quality is below 0.7: openings 0.00"


def finished(actions: list[int], seed: int) -> Played:
    chance, states = np.random.default_rng(seed), LONG.initial(1)
    line = list(actions)
    for action in line:
        states = LONG.apply(states, np.array([action], np.int32))
    while not LONG.terminal(states)[0]:
        line.append(int(chance.choice(np.flatnonzero(LONG.legal(states)[0]))))
        states = LONG.apply(states, np.array(line[-1:], np.int32))
    return played(LONG, line)


def test_the_bootstrap_takes_anybodys_games_and_measures_no_strength() -> None:
    assert one(GAMES[:20]).quality["strength"] is None


@pytest.mark.parametrize(
    ("players", "share"),
    [({"heuristic": 1000.0}, 1.0), ({"heuristic": 900.0}, 1.0), ({"heuristic": 899.0}, 0.0), ({"other": 2000.0}, 0.0)],
    ids=["strong", "at the floor", "below the floor", "not rated"],
)
def test_after_a_promotion_games_of_weak_and_unknown_generators_are_refused(
    players: dict[str, float], share: float
) -> None:
    judgement = one(GAMES[:20], floor=900.0, players=players)
    assert judgement.quality["strength"] == share
    if share == 0.0:
        assert judgement.rejected == {"weak generator": 20}
        assert judgement.refused == "its quality is below 0.7: strength 0.00"
    else:
        assert judgement.accepted.all()


@pytest.mark.parametrize(("other", "share"), [(950.0, 1.0), (850.0, 0.0)])
def test_of_a_match_both_players_must_be_strong(other: float, share: float) -> None:
    segment = segment_of(GAMES[:20], purpose="evaluation", player="heuristic vs greedy")
    rules = {"floor": 900.0, "players": {"heuristic": 1000.0, "greedy": other}, "include_evaluation": True}
    assert judged(segment, **rules)[0].quality["strength"] == share


def test_evaluation_games_enter_only_when_asked() -> None:
    segment = segment_of(GAMES[:20], purpose="evaluation")
    refused = judged(segment)[0]
    assert refused.rejected == {"segment refused": 20}
    assert "played for evaluation" in str(refused.refused)
    assert judged(segment, include_evaluation=True)[0].accepted.all()


@pytest.mark.long
def test_refused_evaluation_games_do_not_shape_the_distribution_of_lengths() -> None:
    own, strange = games_of(LONG, 20), [short(number) for number in range(20)]
    window = segment_of(strange, LONG, purpose="evaluation"), segment_of(own, LONG)
    assert judged(*window, game=LONG)[1].accepted.all()


class Network:
    """Values from the states and a seed alone."""

    def __init__(self, seed: int, error: float = 0.0) -> None:
        self.seed, self.error = seed, error

    def __call__(self, states: States) -> NDArray[np.float32]:
        weights = np.random.default_rng(self.seed).normal(size=(states.shape[1], GAME.players))
        return (np.tanh(states @ weights / 3) + self.error).astype(np.float32)


def by_network(network: Network, games: Sequence[Played]) -> Segment:
    segment = segment_of(games, **GUMBEL)
    return replace(segment, network_value=network(replay_states(segment)))


def replay_states(segment: Segment) -> States:
    from hostler.workloads.alphazero.replay import replay

    return replay(GAME, segment).states


def provenance(segment: Segment, network: Network, seed: int = 1) -> Judgement:
    return judge([measure(GAME, segment, INFINITE, network, seed)], Rules(0.7))[0]


def test_a_model_is_recognised_by_its_values_even_on_other_hardware() -> None:
    judgement = provenance(by_network(Network(1, error=0.03), GAMES[:20]), Network(1))
    assert judgement.quality["provenance"] == 1.0
    assert judgement.accepted.all()


def test_games_of_other_weights_than_they_name_are_refused() -> None:
    judgement = provenance(by_network(Network(2), GAMES[:20]), Network(1))
    share = judgement.quality["provenance"]
    assert share is not None
    assert share < 0.3
    assert "provenance" in str(judgement.refused)
    assert judgement.rejected["provenance"] > 5


def test_values_that_are_missing_are_no_proof() -> None:
    segment = by_network(Network(1), GAMES[:20])
    unknown = replace(segment, network_value=np.full_like(segment.network_value, np.nan))
    assert provenance(unknown, Network(1)).quality["provenance"] == 0.0


def test_single_false_games_are_rejected_alone() -> None:
    segment = by_network(Network(1), GAMES[:4])
    values = segment.network_value.copy()
    first = values[: segment.game_offsets[1]]
    first -= np.copysign(0.5, first)
    judgement = provenance(replace(segment, network_value=values), Network(1))
    assert judgement.accepted.tolist() == [False, True, True, True]
    assert judgement.rejected == {"provenance": 1}


def test_in_an_evaluation_only_the_positions_of_this_network_are_compared() -> None:
    segment = with_header(by_network(Network(1), GAMES[:20]), purpose="evaluation")
    values = segment.network_value.copy()
    values[::2] = np.nan
    measured = measure(GAME, replace(segment, network_value=values), INFINITE, Network(1), 1)
    assert measured.provenance == 1.0


def test_which_positions_are_compared_comes_from_the_seed_alone() -> None:
    segment = by_network(Network(1), GAMES[:20])
    values = segment.network_value.copy()
    values[::3] -= np.copysign(0.5, values[::3])
    mixed = replace(segment, network_value=values)
    shares = [provenance(mixed, Network(1), seed).quality["provenance"] for seed in (1, 1, 2, 3)]
    assert shares[0] == shares[1]
    assert len(set(shares)) > 1


def test_the_quality_of_a_window_is_that_of_its_games_and_unknown_where_nothing_was_measured() -> None:
    nothing = dict.fromkeys(PROPERTIES)
    quality = overall([(30, {**nothing, "replay": 1.0, "unique": 0.0}), (10, {**nothing, "replay": 0.2})])
    assert quality == {**nothing, "replay": pytest.approx(0.8), "unique": 0.0}
    assert overall([]) == nothing


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["good", "cut", "lie", "copy"]), min_size=1, max_size=20), st.floats(0, 1))
def test_every_game_is_accepted_or_rejected_for_one_reason(kinds: list[str], quality: float) -> None:
    made = {"cut": lambda g: replace(g, plies=g.plies[:-1]), "lie": lambda g: replace(g, ranking=g.ranking[::-1])}
    games = [GAMES[0] if kind == "copy" else made.get(kind, lambda g: g)(GAMES[i]) for i, kind in enumerate(kinds)]
    judgement = one(games, quality=quality)
    assert judgement.accepted.sum() + sum(judgement.rejected.values()) == len(games)
    if judgement.refused is not None:
        assert not judgement.accepted.any()


def collapsed(number: int) -> Segment:
    return segment_of([finished(list(range(0, 172, 4)), number)], LONG, seed=number)


@pytest.mark.long
def test_a_collapsed_generator_cannot_hide_in_segments_of_one_game() -> None:
    judgements = judged(*(collapsed(number) for number in range(20)), game=LONG)
    assert {judgement.refused for judgement in judgements} == {"its quality is below 0.7: openings 0.00"}


def test_small_segments_of_an_honest_generator_are_measured_together_and_pass() -> None:
    judgements = judged(*(segment_of([game], seed=i) for i, game in enumerate(GAMES[:20])))
    shares = {judgement.quality["openings"] for judgement in judgements}
    assert len(shares) == 1
    assert min(share or 0.0 for share in shares) > 0.7
    assert all(judgement.accepted.all() for judgement in judgements)


def test_other_players_and_large_segments_are_measured_by_themselves() -> None:
    other = with_header(collapsed(1), player="gumbel-2@" + MODEL)
    alone, large, small = judged(other, segment_of(games_of(LONG, 12), LONG), collapsed(2), game=LONG)
    assert alone.quality["openings"] is None
    assert small.quality["openings"] is None
    assert (large.quality["openings"] or 0.0) > 0.9


def test_every_game_has_a_position_that_is_compared() -> None:
    segment = by_network(Network(1), GAMES)
    values = segment.network_value.copy()
    for number in range(0, 60, 3):
        part = values[segment.game_offsets[number] : segment.game_offsets[number + 1]]
        part -= np.copysign(0.5, part)
    judgement = judge([measure(GAME, replace(segment, network_value=values), INFINITE, Network(1), 3)], Rules(0.3))[0]
    assert judgement.accepted.tolist() == [number % 3 != 0 for number in range(60)]


def test_a_policy_that_denies_what_was_played_is_no_target() -> None:
    def denied(ply: Any) -> Any:
        others = ply.policy_action != ply.action
        even = np.full(others.sum(), 1 / max(others.sum(), 1), np.float32)
        return replace(ply, policy_action=ply.policy_action[others], policy_probability=even)

    broken = replace(GAMES[0], plies=[denied(GAMES[0].plies[0]), *GAMES[0].plies[1:]])
    assert one([broken, *GAMES[1:10]]).rejected == {"targets": 1}
