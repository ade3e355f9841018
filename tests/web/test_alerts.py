"""Alerts over HTTP, and by the SDK: what is listed, what is asked for, what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hostler.client import Address, Client
from hostler.model import inputs
from hostler.model.alert_views import TargetView
from hostler.model.alerts import USUAL_ALERTS, Severity
from hostler.model.errors import Conflict, NotFound, UsageError
from hostler.model.rules import USUAL
from tests.web.core_desk import TOKEN, Window

ALERTS = "/api/v1/alerts"


@pytest.fixture
def fires(served: Window) -> Window:
    """A node is out of reach, and an alert tells of it."""
    served.tell(inputs.Configure(rules=replace(USUAL, alerts=USUAL_ALERTS)))
    served.tell(inputs.LinkDown(node="n", why="no <route>"))
    for _ in range(20):
        served.desk.driver.now += 19.0
        served.tell(inputs.Tick())
    return served


@pytest.fixture
def client(fires: Window) -> Client:
    return Client(lambda: Address(f"http://127.0.0.1:{fires.port}", TOKEN))


def target(name: str, least: Severity) -> TargetView:
    return TargetView(
        name=name, kind="ntfy", least=least, through=0, waiting=0, sent=0, given_up=0,
        sent_at=None, failing_since=None, trouble=None,
    )  # fmt: skip


def test_alerts_are_listed_and_filtered(client: Client) -> None:
    (alert,) = client.alerts()
    assert (alert["id"], alert["state"], alert["rule"], alert["subject"]) == ("a1", "firing", "node_unreachable", "n")
    assert alert["why"].endswith("no <route>")
    assert client.alerts(["over"]) == client.alerts(["pending"]) == client.alerts(rule="gpu_idle") == []
    assert client.status()["alerts"] == 1


def test_rules_say_what_they_measure(client: Client) -> None:
    rules = {each["rule"]["name"]: each for each in client.alert_rules()}
    assert rules.keys() == {each.name for each in USUAL_ALERTS}
    assert rules["node_unreachable"]["firing"] == 1
    assert rules["node_unreachable"]["readings"][0]["value"] > 300
    assert rules["gpu_idle"]["subjects"] == 0


def test_somebody_looks_after_it(client: Client) -> None:
    assert client.acknowledge("a1", "ann", "on my way")["acknowledged_by"] == "ann"
    with pytest.raises(NotFound):
        client.acknowledge("a9", "ann")
    with pytest.raises(UsageError, match="say who"):
        client.acknowledge("a1", " ")


def test_a_silence_from_its_beginning_to_its_end(client: Client) -> None:
    made = client.silence("*", for_s=3600, why="the switch", who="ann", subject="n*")
    assert (made["id"], made["alerts"], made["who"]) == ("s1", ["a1"], "ann")
    assert client.silences() == [made]
    assert client.alerts()[0]["silence"] == "s1"
    assert [each["kind"] for each in client.bans()] == ["silence"]
    assert client.status()["alerts"] == 0
    assert client.unsilence("s1", "bob")["id"] == "s1"
    assert client.silences() == []
    with pytest.raises(NotFound):
        client.unsilence("s1", "bob")
    with pytest.raises(NotFound, match="no rule"):
        client.silence("no-such", for_s=3600, why="w", who="ann")


def test_a_test_says_who_is_told(fires: Window, client: Client) -> None:
    fires.desk.told = [target("phone", Severity.CRITICAL), target("team", Severity.WARNING)]
    made = client.test_alert("gpu_idle")
    assert (made["alert"]["test"], made["alert"]["subject"], made["told"]) == (True, "(test)", ["team"])
    with pytest.raises(Conflict, match="under way"):
        client.test_alert("gpu_idle")
    with pytest.raises(NotFound):
        client.test_alert("nothing")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/silences", {"rule": "*", "for_s": -1, "why": "w", "who": "a"}),
        ("/silences", {"rule": "*", "for_s": 60, "who": "a"}),
        ("/silences", {"rule": "*", "for_s": 60, "why": "w", "who": "a", "more": 1}),
        ("/rules/gpu_idle/test", {"lasts_s": 0}),
    ],
)
def test_what_cannot_be_is_refused(fires: Window, path: str, body: Any) -> None:
    before = fires.desk.driver.state.seq
    assert fires.post(ALERTS + path, body).status == 422
    assert fires.desk.driver.state.seq == before


def test_without_a_name_it_is_whose_token_it_is(fires: Window) -> None:
    assert fires.post(ALERTS + "/a1/acknowledge", {}).json["acknowledged_by"] == "local"
    made = fires.post(ALERTS + "/silences", {"rule": "*", "for_s": 60, "why": "the switch"}).json
    assert made["who"] == "local"


def test_reading_changes_nothing(fires: Window) -> None:
    before = fires.desk.driver.state.seq
    for path in ("", "/rules", "/silences", "/targets", "?state=firing&state=over"):
        assert fires.get(ALERTS + path).status == 200
    assert fires.get(ALERTS + "?state=nonsense").status == 422
    assert fires.ask("DELETE", ALERTS + "/silences/s1").status == 404
    assert fires.desk.driver.state.seq == before
