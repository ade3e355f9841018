"""Matches that no rating can change by any more leave; ratings are what they would be with them."""

from __future__ import annotations

import pytest

from hostler.core import shown
from hostler.core.loop import matches
from hostler.learning.ratings import fit_live
from hostler.model import events
from hostler.model.learning import Goal, Match
from hostler.model.work import WorkKind
from tests.core.builders import replayed, snapshot
from tests.core.loop.builders import loop, small


def test_only_matches_of_whom_is_rated_still_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matches, "FITTED_MODELS", 2)
    monkeypatch.setattr(matches, "LOOKED_AT", 1)
    world, played = loop(small(goal=Goal(promotions=1000)), devices=2), list[Match]()
    for _ in range(125):
        world.step()
        played += [match for each in world.of(events.MatchesPlayed) for match in each.matches]
    config = world.config()
    assert len(config.matches) < len(played) / 2 > 20
    assert config.played == len(played)
    assert replayed(world.entries).state.configs == snapshot(world.state).configs

    fit = matches.fit(config)
    here = fit_live(fit.matches, fit.anchors, fit.frozen)
    everything = fit_live(played, fit.anchors, fit.frozen)
    rated = matches.rated(config)
    assert {name: here[name] for name in rated if name in here} == {
        name: everything[name] for name in rated if name in everything
    }
    (row,) = [each for each in shown.costs(world.state).rows if each.work is WorkKind.EVALUATION]
    assert row.units[0].count == sum(map(matches.games, played))


def test_a_few_stay_whoever_played_them() -> None:
    world, played = loop(small(goal=Goal(promotions=1000))), 0
    for _ in range(25):
        world.step()
        played += sum(len(each.matches) for each in world.of(events.MatchesPlayed))
    assert len(world.config().matches) == played < matches.LOOKED_AT
