"""The week of a rented fleet: the same lives and trainings for everybody, and figures that add up."""

import pytest

import providers
import providers_ours
import providers_rules
from hostler.sim.faults import DAY_S, HOUR_S
from providers_fleet import Case, Week, week
from providers_rules import RULES, Fleet, Outcome, Rule

LIVES_S = (2 * HOUR_S, 5 * HOUR_S)
CASE = Case(seed=7, scale=1.0, days=0.25)


@pytest.fixture(scope="module")
def drawn() -> Week:
    return week(CASE, LIVES_S)


def figures(drawn: Week, played: Outcome) -> tuple[float, float]:
    """Busy share, and useful work ÷ bound."""
    up_s = {device.id: drawn.up_s(node.name) for node in drawn.nodes for device in node.devices}
    bound, slack = providers.lp_bound(drawn, Fleet(drawn), up_s)
    assert slack == pytest.approx(0.0, abs=1e-6)
    assert bound == pytest.approx(sum(drawn.power[name] * seconds for name, seconds in up_s.items()), rel=1e-6)
    return played.busy_s / sum(up_s.values()), played.useful / bound


def test_a_week_is_drawn_once_and_for_all(drawn: Week) -> None:
    again = week(CASE, LIVES_S)
    assert (again.gone, again.trainings) == (drawn.gone, drawn.trainings)
    assert {each.node for each in drawn.gone} <= {node.name for node in drawn.nodes if node.ephemeral}
    assert all(0 < drawn.up_s(node.name) <= 0.25 * DAY_S for node in drawn.nodes)
    assert sum(len(node.devices) for node in drawn.nodes) == 33


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_no_rule_does_more_than_can_be_done(drawn: Week, rule: Rule) -> None:
    played = providers_rules.play(drawn, rule)
    busy, useful = figures(drawn, played)
    assert 0.2 < useful < 1
    assert 0.2 < busy <= 1 + 1e-9
    assert len(played.waits) == len(drawn.trainings)


@pytest.mark.long
def test_hostler_plays_the_same_week(drawn: Week) -> None:
    played = providers_ours.play(drawn)
    busy, useful = figures(drawn, played)
    assert 0.9 < useful < busy < 1.001, "what a dead node had is known a few seconds later"
    assert len(played.waits) == len(drawn.trainings)
    assert providers.quota_error(drawn, played.had_s) < 50
    assert providers.without_s(drawn, played) < 0.25 * DAY_S
