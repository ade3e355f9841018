"""What people do about alerts: silences, acknowledgements, tests; and what they are shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.core.alerting import views
from hostler.core.shown import bans
from hostler.core.views import status_view
from hostler.model import events, inputs
from hostler.model.alerts import TEST_SUBJECT, USUAL_ALERTS
from hostler.model.errors import Conflict, NotFound, UsageError
from tests.core.alerting.test_rules import kinds, live, watched
from tests.core.builders import Driver, fleet, link_up, node, replayed, snapshot


def unreachable() -> Driver:
    """A fleet of one node, out of reach, of which an alert tells."""
    world = watched(fleet(), "node_unreachable")
    world.tell(inputs.LinkDown(node="n", why="no route"))
    live(world, 400.0)
    assert world.state.alerts.firing["node_unreachable"]["n"].id == "a1"
    return world


def silence(rule: str = "*", subject: str | None = None, for_s: float = 600.0) -> inputs.SilenceAlerts:
    return inputs.SilenceAlerts(rule=rule, subject=subject, for_s=for_s, why="the switch is replaced", who="ann")


def shown(world: Driver) -> list[str]:
    return [f"{each.id} {each.state} {each.subject}" for each in views.alert_views(world.state, world.core.index)]


class TestSilences:
    def test_what_fires_under_a_silence_is_not_told_until_that_is_over(self) -> None:
        world = watched(fleet(), "node_unreachable")
        world.tell(silence("node_unreachable", "n*", for_s=1000.0))
        assert world.answers == ["s1"]
        world.tell(inputs.LinkDown(node="n", why="no route"))
        ((_, fired),) = live(world, 600.0)
        assert (fired.kind, fired.silence) == ("alert.fired", "s1")
        alert = world.state.alerts.firing["node_unreachable"]["n"]
        assert not alert.told
        assert status_view(world.state, world.core.index, "v", "f").alerts == 0
        ((_, over),) = live(world, 500.0)
        assert (over.kind, over.who, over.alerts) == ("alert.unsilenced", None, ("a1",))
        assert alert.told
        assert status_view(world.state, world.core.index, "v", "f").alerts == 1

    def test_a_silence_is_listed_with_whose_it_is_and_how_to_end_it(self) -> None:
        world = unreachable()
        world.tell(silence())
        (ban,) = (each for each in bans(world.state, world.core.index) if each.kind == "silence")
        assert (ban.what, ban.of, ban.owner, ban.until) == ("*", None, "ann", world.now + 600.0)
        assert "alert unsilence s1" in ban.why
        (view,) = views.silence_views(world.state)
        assert view.alerts == ("a1",)
        world.tell(inputs.UnsilenceAlerts(silence="s1", who="bob"))
        (over,) = world.of(events.AlertsUnsilenced)
        assert (over.who, over.alerts) == ("bob", ()), "it was told before the silence"
        assert views.silence_views(world.state) == []

    def test_two_silences_hold_until_the_last_of_them_is_over(self) -> None:
        world = watched(fleet(), "node_unreachable")
        world.tell(silence(), silence("node_unreachable"))
        world.tell(inputs.LinkDown(node="n", why="no route"))
        live(world, 400.0)
        world.tell(inputs.UnsilenceAlerts(silence="s1", who="bob"))
        assert world.of(events.AlertsUnsilenced)[0].alerts == ()
        assert world.state.alerts.firing["node_unreachable"]["n"].silence == "s2"
        world.tell(inputs.UnsilenceAlerts(silence="s2", who="bob"))
        assert world.of(events.AlertsUnsilenced)[0].alerts == ("a1",)

    @pytest.mark.parametrize(
        ("given", "error"),
        [
            (silence("no-such-rule"), NotFound),
            (silence(for_s=0.0), UsageError),
            (silence(for_s=1e-9), UsageError),
            (silence(for_s=float("nan")), UsageError),
            (silence(for_s=1e9), UsageError),
            (replace(silence(), why=" "), UsageError),
            (replace(silence(), who=""), UsageError),
            (inputs.UnsilenceAlerts(silence="s7", who="ann"), NotFound),
            (inputs.AcknowledgeAlert(alert="a7", who="ann"), NotFound),
            (inputs.ProbeAlert(rule="no-such-rule"), NotFound),
            (inputs.ProbeAlert(rule="node_unreachable", lasts_s=-1.0), UsageError),
        ],
    )
    def test_what_cannot_be_is_refused_and_leaves_nothing(self, given: inputs.Input, error: type[Exception]) -> None:
        world = watched(fleet(), "node_unreachable")
        assert world.tell(given) == []
        assert isinstance(world.answers[0], error)


class TestAcknowledging:
    def test_somebody_looks_after_it_once(self) -> None:
        world = unreachable()
        seen = inputs.AcknowledgeAlert(alert="a1", who="ann", note="on my way")
        assert [each.kind for each in world.tell(seen)] == ["alert.acknowledged"]
        assert world.tell(seen) == []
        assert snapshot(world.state) == world.state
        assert replayed(world.entries).state == world.state
        view = views.alert_views(world.state, world.core.index)[0]
        assert (view.acknowledged_by, view.note) == ("ann", "on my way")

    def test_what_is_over_needs_nobody(self) -> None:
        world = unreachable()
        world.tell(link_up())
        live(world, 60.0)
        world.tell(inputs.AcknowledgeAlert(alert="a1", who="ann"))
        assert isinstance(world.answers[0], Conflict)
        assert shown(world) == ["a1 over n"]


class TestProbes:
    @pytest.mark.parametrize("rule", [rule.name for rule in USUAL_ALERTS])
    def test_each_rule_fires_and_is_over_when_it_is_tried(self, rule: str) -> None:
        world = watched(fleet(), rule)
        (fired,) = world.tell(inputs.ProbeAlert(rule=rule))
        assert isinstance(fired, events.AlertFired)
        assert (fired.subject, fired.test, world.answers) == (TEST_SUBJECT, True, ["a1"])
        assert "made up for a test" in fired.why
        world.tell(inputs.ProbeAlert(rule=rule))
        assert isinstance(world.answers[0], Conflict)
        assert kinds(live(world, 120.0)) == [("alert.ended", TEST_SUBJECT)]
        assert shown(world) == [f"a1 over {TEST_SUBJECT}"]
        assert live(world, 600.0) == []

    def test_an_alert_of_a_node_that_is_called_test_is_none(self) -> None:
        world = watched(fleet(), "node_unreachable")
        world.tell(inputs.NodeFound(node=node("test")), link_up("test"))
        world.tell(inputs.LinkDown(node="test", why="no route"))
        ((_, fired),) = live(world, 400.0)
        assert (fired.subject, fired.test) == ("test", False)

    def test_a_rule_that_cannot_fire_is_found(self) -> None:
        world = watched(fleet(), "gpu_idle", threshold=0.0, over=0.0)
        assert world.tell(inputs.ProbeAlert(rule="gpu_idle")) == []
        assert "can never fire: threshold 0: no value can be below that" in str(world.answers[0])
        watched(world, "gpu_idle", enabled=False)
        world.tell(inputs.ProbeAlert(rule="gpu_idle"))
        assert "is not in force" in str(world.answers[0])

    def test_a_test_is_forgotten_with_the_controller_and_its_alert_ends(self) -> None:
        world = watched(fleet(), "gpu_idle")
        world.tell(inputs.ProbeAlert(rule="gpu_idle"))
        again = Driver(replayed(world.entries), world.now)
        again.tell(inputs.Begin(version="test", epoch=2))
        assert kinds(live(again, 120.0)) == [("alert.ended", TEST_SUBJECT)]


class TestShown:
    def test_pending_firing_and_over(self) -> None:
        world = watched(fleet(), "node_unreachable", for_s=300.0)
        world.tell(inputs.LinkDown(node="n", why="no route"))
        live(world, 400.0)
        assert shown(world) == ["None pending n"]
        live(world, 300.0)
        assert shown(world) == ["a1 firing n"]
        world.tell(link_up())
        live(world, 60.0)
        assert shown(world) == ["a1 over n"]

    def test_rules_tell_what_they_measure_and_where_their_numbers_come_from(self) -> None:
        world = unreachable()
        (view,) = views.rule_views(world.state, world.core.index, {"node_unreachable": {"threshold": "fleet.yaml:3:5"}})
        assert view.origins == {"threshold": "fleet.yaml:3:5"}
        assert (view.subjects, view.unknown, view.firing) == (1, 0, 1)
        assert view.readings[0].subject == "n"
        assert view.looked_at is not None

    def test_only_the_newest_that_are_over_are_kept(self) -> None:
        world = watched(fleet(), "gpu_idle")
        for _ in range(203):
            world.tell(inputs.ProbeAlert(rule="gpu_idle", lasts_s=1.0))
            live(world, 31.0)
        assert len(world.state.alerts.recent) == 200
        assert world.state.alerts.recent[-1].id == "a203"
        assert snapshot(world.state) == world.state
