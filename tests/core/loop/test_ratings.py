"""Ratings come from elsewhere, late, twice or not at all; the loop goes on with what it knows."""

from __future__ import annotations

import pytest

from hostler.core.loop.decide import rating_wanted
from hostler.model import commands, events, inputs
from hostler.model.errors import NotFound
from hostler.model.learning import Goal
from hostler.model.work import WorkKind
from tests.core.builders import replayed
from tests.core.loop.builders import NAME, Loop, loop, order_of, rated, small

E = WorkKind.EVALUATION


def unrated() -> tuple[Loop, str, int]:
    """A loop whose first evaluation has ended; the player, and how many matches there are."""
    world = loop()
    world.answer_fits = lambda: None  # type: ignore[method-assign]
    world.end(world.until_running(E))
    current = world.config().current
    assert current is not None
    return world, world.config().evaluated_as(current), len(world.config().matches)


def test_nothing_more_is_rated_while_a_fit_is_under_way() -> None:
    world, player, matches = unrated()
    assert not world.running(E)
    world.tell(inputs.Fitted(config=NAME, matches=matches, ratings={player: rated(0.0, 300.0)}))
    assert "±300" in (world.waiting(E)[0].wanted or "")


def test_good_enough_is_good_enough() -> None:
    world, player, matches = unrated()
    world.tell(inputs.Fitted(config=NAME, matches=matches, ratings={player: rated(0.0, 100.0)}))
    assert not world.running(E)
    assert rating_wanted(world.config()) is None


def test_what_cannot_be_rated_better_is_not_rated_for_ever() -> None:
    world, player, matches = unrated()
    groups = 12
    while True:
        world.tell(inputs.Fitted(config=NAME, matches=matches, ratings={player: rated(0.0, 300.0)}))
        if not world.waiting(E) and not world.running(E):
            break
        world.end(world.until_running(E))
        matches, groups = len(world.config().matches), groups + 12
    assert groups == 48
    assert world.config().ladder_groups[player] == 48


def test_old_and_doubled_ratings_change_nothing() -> None:
    world, player, matches = unrated()
    newest = inputs.Fitted(config=NAME, matches=matches, ratings={player: rated(7.0, 300.0)})
    world.tell(newest)
    state = world.config().ratings
    assert world.tell(newest) == []
    old = inputs.Fitted(config=NAME, matches=1, ratings={player: rated(99.0, 1.0)})
    assert world.tell(old) == []
    assert world.tell(inputs.Fitted(config=NAME, matches=1, error="no memory")) == []
    assert world.config().ratings == state
    assert world.config().unrated_why is None


def test_ratings_of_matches_nobody_knows_are_refused() -> None:
    world, player, matches = unrated()
    assert world.tell(inputs.Fitted(config=NAME, matches=matches + 1, ratings={player: rated(7.0, 3.0)})) == []
    assert isinstance(world.refused(inputs.Fitted(config="no_2p", matches=1)), NotFound)


def two_fits_under_way() -> tuple[Loop, str, int, int]:
    """Before the first matches are fitted, a test plays more; the numbers of matches."""
    world, player, first = unrated()
    world.until_trial()
    test = world.test_of()
    assert test is not None
    world.end(test)
    return world, player, first, len(world.config().matches)


def test_a_fit_that_is_late_counts_until_the_newer_comes() -> None:
    world, player, first, second = two_fits_under_way()
    assert second > first
    old = inputs.Fitted(config=NAME, matches=first, ratings={player: rated(5.0, 300.0)})
    assert [event.kind for event in world.tell(old)][:1] == ["config.rated"]
    world.tell(inputs.Fitted(config=NAME, matches=second, ratings={player: rated(6.0, 300.0)}))
    assert world.tell(old) == []
    assert world.config().ratings[player] == rated(6.0, 300.0)
    assert [each.rating.elo for each in world.config().rating_history] == [5.0, 6.0]


def test_an_old_failure_is_none_while_a_newer_fit_is_under_way() -> None:
    world, _, first, _ = two_fits_under_way()
    assert world.tell(inputs.Fitted(config=NAME, matches=first, error="no memory")) == []
    assert world.config().unrated_why is None


class TestFailure:
    WHY = "ratings need openskill: pip install 'hostler[eval]'"

    def failed(self, goal: Goal | None = None) -> Loop:
        world = loop(small(goal=goal))
        world.end(world.until_running(E))
        world.fits.clear()
        world.tell(inputs.Fitted(config=NAME, matches=len(world.config().matches), error=self.WHY))
        return world

    def test_it_is_a_fact_and_the_loop_goes_on_without_ratings(self) -> None:
        world = self.failed()
        (failed,) = world.of(events.RatingFailed)
        assert failed.why == self.WHY
        assert world.config().unrated_why == self.WHY
        assert world.state.troubles == 1
        assert not world.running(E), "more games would not be fitted either"
        while world.config().promotions < 1:
            for fit in list(world.fits.values()):
                world.tell(inputs.Fitted(config=NAME, matches=len(fit.matches), error=self.WHY))
            world.fits.clear()
            world.step()
        assert world.config().ratings == {}
        assert replayed(world.entries).state == world.state

    def test_new_matches_are_fitted_all_the_same(self) -> None:
        world = self.failed()
        world.until_trial()
        test = world.test_of()
        assert test is not None
        world.end(test)
        assert any(isinstance(command, commands.Fit) for command in world.commands)
        assert world.config().unrated_why is None

    def test_a_new_controller_tries_again(self) -> None:
        """What was missing may have been installed meanwhile."""
        world = self.failed()
        world.tell(inputs.Begin(version="test", epoch=2))
        (fit,) = (command for command in world.commands if isinstance(command, commands.Fit))
        assert len(fit.matches) == len(world.config().matches)
        world.answer_fits()
        assert world.config().unrated_why is None
        assert world.config().ratings

    def test_a_failure_told_again_is_told_once_for_each_try(self) -> None:
        world = self.failed()
        world.tell(inputs.Begin(version="test", epoch=2))
        again = inputs.Fitted(config=NAME, matches=len(world.config().matches), error="still missing")
        world.tell(again)
        assert world.config().unrated_why == "still missing"


def test_ladders_meet_anchors_and_who_was_current_before() -> None:
    world = loop()
    zero = world.until_running(E)
    assert {match["b"] for match in order_of(zero)["matches"]} == {"random", "greedy"}
    one = world.decide(a_wins=True)
    world.until(lambda: world.running(E) and world.config().trial is None)
    (ladder,) = world.running(E)
    assert {match["a"] for match in order_of(ladder)["matches"]} == {f"gumbel-64@{one}"}
    first = next(iter(world.config().models))
    names = {"random", "greedy", f"gumbel-64@{first}"}
    assert {match["b"] for match in order_of(ladder)["matches"]} <= names


def test_the_gate_asks_for_strength_once_there_is_a_promoted_model() -> None:
    world = loop()
    one = world.decide(a_wins=True)
    export = world.until_running(WorkKind.EXPORT)
    asked = order_of(export)["strength"]
    assert asked is not None
    rating = world.config().ratings.get(f"gumbel-64@{one}")
    assert rating is not None
    assert asked["floor"] == pytest.approx(rating.elo - 400.0)
    assert asked["players"][f"gumbel-64@{one}"] == rating.elo
    assert asked["players"]["random"] == -200.0


def test_a_promoted_model_without_a_rating_lets_only_its_own_games_pass() -> None:
    world = loop()
    world.answer_fits = lambda: None  # type: ignore[method-assign]
    one = world.decide(a_wins=True)
    export = world.until_running(WorkKind.EXPORT)
    assert order_of(export)["strength"] == {"floor": 0.0, "players": {f"gumbel-64@{one}": 0.0}}


def test_a_long_history_is_thinned() -> None:
    from hostler.core.loop import folds

    world, player, _ = unrated()
    for number in range(folds.HISTORY_KEPT + 300):
        event = events.ConfigRated(config=NAME, matches=1, ratings={player: rated(float(number), 1.0)})
        folds.config_rated(world.state, world.core.index, event)
    history = world.config().rating_history
    assert len(history) <= folds.HISTORY_KEPT
    assert (history[0].rating.elo, history[-1].rating.elo) == (0.0, folds.HISTORY_KEPT + 299.0)
