"""Names of players, and that each plays what it should."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from hostler.workloads.alphazero import chance
from hostler.workloads.alphazero.game import Game, PlaysOut, States
from hostler.workloads.alphazero.players import (
    Player,
    PlayerName,
    make_player,
    parse,
    sampled_actions,
    uniform_actions,
)
from hostler.workloads.beacons.game import make as beacons
from tests.workloads.alphazero import trivial
from tests.workloads.alphazero.fakes import HashEvaluator, IgnorantEvaluator

SHA = "0123456789abcdef" * 4
NAMES = ["random", "greedy", "heuristic", "mc-20", f"policy@{SHA}", f"gumbel-8@{SHA}"]


def player_of(name: str, game: Game) -> Player:
    return make_player(name, game, lambda sha256: HashEvaluator(game))


def seeds_of(count: int, seed: int = 0) -> NDArray[np.uint64]:
    return chance.derive(np.arange(count, dtype=np.uint64), seed)


def places(game: Game, first: str, others: str, games: int) -> NDArray[np.int8]:
    """The places of `first`, who has the seats of the games in turn, against `others` everywhere else."""
    states, seats, rows = game.initial(games), np.arange(games) % game.players, np.arange(games)
    one, rest = player_of(first, game), player_of(others, game)
    for ply in range(game.max_plies):
        running = ~game.terminal(states)
        mine = running & (game.to_move(states) == seats)
        for player, moves in ((one, mine), (rest, running & ~mine)):
            states[moves] = _moved(game, states[moves], player, seeds_of(games, ply)[moves])
    return game.ranking(states)[rows, seats]


def _moved(game: Game, states: States, player: Player, seeds: NDArray[np.uint64]) -> States:
    return game.apply(states, player.choose(states, seeds)) if len(states) else states


class TestNames:
    @given(
        st.one_of(
            st.sampled_from([PlayerName("random"), PlayerName("greedy"), PlayerName("heuristic")]),
            st.builds(PlayerName, st.just("mc"), st.integers(1, 10**8)),
            st.builds(PlayerName, st.just("policy"), st.none(), st.text("0123456789abcdef", min_size=64, max_size=64)),
            st.builds(
                PlayerName,
                st.just("gumbel"),
                st.integers(1, 10**8),
                st.text("0123456789abcdef", min_size=64, max_size=64),
            ),
        )
    )
    def test_are_read_back(self, name: PlayerName) -> None:
        assert parse(str(name)) == name

    def test_say_what_they_mean(self) -> None:
        assert parse("mc-200") == PlayerName("mc", 200, None)
        assert parse(f"gumbel-64@{SHA}") == PlayerName("gumbel", 64, SHA)
        assert str(PlayerName("policy", None, SHA)) == f"policy@{SHA}"
        assert [name for name in NAMES if parse(name).is_anchor] == ["random", "greedy", "mc-20"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "write random"),
            ("Random", "write random"),
            ("minimax", "write random"),
            ("random ", "write random"),
            ("mc-0", "write random"),
            ("mc-007", "write random"),
            ("mc--1", "write random"),
            (f"gumbel-64@{SHA[:-1]}", "write random"),
            (f"gumbel-64@{SHA.upper()}", "write random"),
            ("mc", "lacks a budget"),
            (f"gumbel@{SHA}", "lacks a budget"),
            ("gumbel-64", "lacks a model"),
            ("policy", "lacks a model"),
            ("greedy-5", "takes no such thing as a budget"),
            (f"policy-5@{SHA}", "takes no such thing as a budget"),
            (f"mc-200@{SHA}", "takes no such thing as a model"),
        ],
    )
    def test_player_names_that_are_invalid_are_refused(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message) as refused:
            make_player(text, trivial.make(), IgnorantEvaluator)
        assert repr(text) in str(refused.value)

    def test_the_evaluator_of_the_named_model_is_used(self) -> None:
        game, asked = trivial.make(), []

        def evaluator_of(sha256: str) -> HashEvaluator:
            asked.append(sha256)
            return HashEvaluator(game)

        for name in NAMES:
            make_player(name, game, evaluator_of)
        assert asked == [SHA, SHA]


class TestMoves:
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("players", [2, 3])
    def test_are_legal_and_come_from_the_seed_of_the_row_alone(self, name: str, players: int) -> None:
        for game in (trivial.make(9, players), beacons("hex4", players)):
            states, seeds = game.initial(30), seeds_of(30, players)
            player = player_of(name, game)
            for ply in range(3):
                together = player.choose(states, chance.derive(seeds, ply))
                assert together.dtype == np.int32
                assert game.legal(states)[np.arange(30), together].all()
                alone = player.choose(states[7:9], chance.derive(seeds[7:9], ply))
                np.testing.assert_array_equal(alone, together[7:9])
                states = game.apply(states, together)

    @pytest.mark.parametrize("name", ["random", "heuristic", "mc-20"])
    def test_differ_with_the_seed(self, name: str) -> None:
        game = trivial.make(9, 2)
        assert len(set(player_of(name, game).choose(game.initial(50), seeds_of(50)))) > 3

    @pytest.mark.parametrize("name", [f"policy@{SHA}", f"gumbel-8@{SHA}"])
    def test_players_of_a_model_choose_without_chance(self, name: str) -> None:
        game = trivial.make(9, 2)
        assert len(set(player_of(name, game).choose(game.initial(50), seeds_of(50)))) == 1

    def test_greedy_takes_the_best_by_the_heuristic(self) -> None:
        game = beacons("hex8", 3)
        scores = game.heuristic(game.initial(40))
        chosen = player_of("greedy", game).choose(game.initial(40), seeds_of(40))
        np.testing.assert_array_equal(scores[np.arange(40), chosen], scores.max(axis=1))

    def test_the_policy_player_takes_the_most_probable(self) -> None:
        game = trivial.make(9, 2)
        logits, _ = HashEvaluator(game).evaluate(game.initial(1))
        assert player_of(f"policy@{SHA}", game).choose(game.initial(1), seeds_of(1))[0] == logits.argmax()


class TestDraws:
    def test_uniform_over_what_is_allowed(self) -> None:
        allowed = np.tile([False, True, True, False, True], (30_000, 1))
        counts = np.bincount(uniform_actions(allowed, seeds_of(30_000)), minlength=5)
        np.testing.assert_allclose(counts, [0, 10_000, 10_000, 0, 10_000], atol=350)  # four standard deviations

    def test_samples_follow_the_softmax(self) -> None:
        logits = np.tile(np.log([0.5, 0.3, 0.2]), (30_000, 1))
        counts = np.bincount(sampled_actions(logits, seeds_of(30_000)), minlength=3)
        np.testing.assert_allclose(counts, [15_000, 9_000, 6_000], atol=350)


@pytest.mark.long
class TestStrength:
    def test_monte_carlo_beats_random_at_beacons(self) -> None:
        """By the game's own playouts. The chance of 33 of 40 between equals is 2e-5."""
        game = beacons("hex8", 2)
        assert isinstance(game, PlaysOut)
        assert (places(game, "mc-200", "random", 40) == 0).sum() >= 33

    def test_monte_carlo_beats_random_at_any_game(self) -> None:
        """By random moves through the protocol: from each of three seats, with a mean place of 1 among equals."""
        game = trivial.make(11, 3)
        assert not isinstance(game, PlaysOut)
        assert places(game, "mc-200", "random", 60).mean() < 0.6

    def test_search_finds_what_the_policy_does_not_know(self) -> None:
        game = trivial.make(11, 2)
        assert (places(game, f"gumbel-200@{SHA}", "random", 40) == 0).sum() >= 33

    def test_monte_carlo_wins_at_once_where_it_can(self) -> None:
        """With few playouts too: three cells left, and only the one in the middle ends the game."""
        game = trivial.make(3, 2)
        chosen = player_of("mc-30", game).choose(game.initial(50), seeds_of(50))
        assert (chosen == 1).all()


def test_a_node_without_torch_can_play() -> None:
    """Self-play by the heuristic, and every player that has no model, must do without."""
    blocked = "import sys; sys.modules['torch'] = None"
    imports = "import hostler.workloads.alphazero.players, hostler.workloads.alphazero.selfplay"
    subprocess.run([sys.executable, "-c", f"{blocked}; {imports}"], check=True)
