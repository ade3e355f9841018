"""Alerts and events as pages show them: nothing is lost by a filter, and every entry has its story."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape

import pytest

from hostler.model import inputs
from hostler.model.access import Scope
from hostler.model.alerts import USUAL_ALERTS
from hostler.model.rules import USUAL
from hostler.web.door import digest_of
from tests.core.builders import Driver, ended, fleet, link_up, node, script, sweep
from tests.web.core_desk import CoreDesk, Window, window

READERS = "a-token-of-somebody-who-looks"


@pytest.fixture
def fires() -> Iterator[Window]:
    """Two nodes, one of them out of reach; three jobs, one of which has failed on it."""
    with window(CoreDesk(world())) as served:
        yield served


def world() -> Driver:
    driver = fleet()
    driver.tell(inputs.Configure(rules=replace(USUAL, alerts=USUAL_ALERTS)))
    driver.tell(inputs.NodeFound(node=node("m")), link_up("m"))
    driver.tell(inputs.Submit(specs=(script("first"), script("second", config="hex"), script("third"))))
    driver.tell(ended("j1.1", exit_code=3, error="a <bad> end"))
    driver.tell(inputs.LinkDown(node="m", why="no route"))
    driver.tell(inputs.Tick(), after_s=600.0)
    return driver


def shown(served: Window, query: str) -> list[int]:
    """Numbers of the entries that a page of events shows, all its further pages included."""
    found: list[int] = []
    path: str | None = f"/pages/events?{query}"
    while path is not None:
        text = served.get(path).body.decode()
        found += [int(seq) for seq in re.findall(r'<td class="num"><a href="/pages/events/(\d+)" title', text)]
        further = re.search(r'<a href="(/pages/events\?before=[^"]+)">', text)
        path = None if further is None else unescape(further[1])
    return found


def test_what_fires_is_told_with_all_of_it(fires: Window) -> None:
    text = fires.get("/pages/events").body.decode()
    alerts = text.partition('id="alerts"')[2].partition('id="silences"')[0]
    for words in ("node_unreachable", "critical", "no route", "above 5m 00s", '"/pages/nodes/m"', '"/pages/events/a1"'):
        assert words in alerts
    assert 'data-api="/api/v1/alerts/a1/acknowledge"' in alerts
    assert re.search(r"<b>\d+m \d\ds</b> now", alerts)


def test_who_looks_after_it_and_who_silenced_it_is_told(fires: Window) -> None:
    fires.tell(inputs.AcknowledgeAlert(alert="a1", who="ann", note="on my <way>"))
    fires.tell(inputs.SilenceAlerts(rule="node_unreachable", subject="m", for_s=3600, why="the switch", who="bob"))
    text = fires.get("/pages/events").body.decode()
    alerts = text.partition('id="alerts"')[2].partition('id="pressures"')[0]
    assert "ann looks after it" in alerts
    assert "on my &lt;way&gt;" in alerts
    assert "silenced by bob" in alerts
    assert 'data-post="/api/v1/alerts/silences/s1" data-method="DELETE"' in alerts
    assert "Acknowledge</button>" not in alerts


def test_what_is_over_stays_to_be_seen_for_a_while(fires: Window) -> None:
    fires.tell(link_up("m"))
    fires.call(lambda: fires.desk.driver.tell(inputs.Tick(), after_s=600.0))
    text = fires.get("/pages/events").body.decode()
    assert "Nothing fires." in text
    assert "Over of late" in text


def test_rules_tell_what_they_measure(fires: Window) -> None:
    text = fires.get("/pages/events").body.decode().partition('id="rules"')[2]
    assert all(each.name in text for each in USUAL_ALERTS)
    assert "below 50 %, over at 60 %" in text


def test_without_filters_every_entry_is_there_once(fires: Window) -> None:
    assert shown(fires, "") == list(range(fires.desk.driver.state.seq, 0, -1))


def test_no_filter_loses_an_entry_on_the_way(fires: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = shown(fires, "text=j1")
    assert whole == sorted(whole, reverse=True)
    monkeypatch.setattr("hostler.web.pages.events.SHOWN", 2)
    monkeypatch.setattr("hostler.web.pages.events.LOOKED_AT", 3)
    assert shown(fires, "text=j1") == whole


def test_kinds_together_are_all_there_is(fires: Window) -> None:
    of_jobs = shown(fires, "kind=jobs")
    kinds = {entry.seq: entry.event.kind for entry in fires.desk.driver.entries}
    assert {kinds[seq].partition(".")[0] for seq in of_jobs} == {"job", "attempt"}
    assert len(of_jobs) == sum(kind.startswith(("job.", "attempt.")) for kind in kinds.values())
    assert [kinds[seq] for seq in shown(fires, "kind=alerts")] == ["alert.fired"]


def test_a_node_has_what_took_place_on_it(fires: Window) -> None:
    driver = fires.desk.driver
    kinds = {entry.seq: entry.event.kind for entry in driver.entries}
    on_m = {kinds[seq] for seq in shown(fires, "node=m")}
    assert {"node.joined", "node.unreachable", "alert.fired", "attempt.leased"} <= on_m
    on_n = [kinds[seq] for seq in shown(fires, "node=n")]
    assert "attempt.ended" in on_n
    assert "node.unreachable" not in on_n


def test_an_attempt_is_found_on_its_node_though_its_lease_lies_far_back(
    fires: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shown(fires, "node=n&kind=jobs")
    monkeypatch.setattr("hostler.web.pages.events.LOOKED_AT", 1)
    assert shown(fires, "node=n&kind=jobs") == whole


def test_a_config_has_its_jobs(fires: Window) -> None:
    rows = shown(fires, "config=hex")
    events = {entry.seq: entry.event for entry in fires.desk.driver.entries}
    assert rows
    assert {getattr(events[seq], "job", None) or "j2" for seq in rows} == {"j2"}


def test_all_of_a_job_is_found_wherever_it_lies(fires: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.web.pages.events.LOOKED_AT", 1)
    text = fires.get("/pages/events?job=j1").body.decode()
    assert "among all entries of the job" in text
    assert "job.submitted" in text


def test_words_are_looked_for_in_all_that_an_entry_says(fires: Window) -> None:
    assert shown(fires, "text=NO+ROUTE")
    assert shown(fires, "text=nothing+says+this") == []


def test_an_alert_has_a_story(fires: Window) -> None:
    fires.tell(inputs.AcknowledgeAlert(alert="a1", who="ann", note=None))
    text = fires.get("/pages/events/a1").body.decode()
    led, _, rest = text.partition("The entry itself")
    assert "node.unreachable" in led.partition("What led to it")[2]
    assert "alert.acknowledged" in rest.partition("What it led to")[2]


def test_the_story_of_an_alert_of_long_ago_is_found(fires: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    fires.tell(inputs.Submit(specs=tuple(script() for _ in range(200))))
    for _ in range(3):
        fires.tell(inputs.Submit(specs=tuple(script() for _ in range(200))))
    monkeypatch.setattr("hostler.web.pages.story.BACK", 20)
    assert "alert.fired" in fires.get("/pages/events/a1").body.decode()


def test_every_entry_has_a_story(fires: Window) -> None:
    fires.tell(inputs.Submit(specs=(sweep(),)))
    for seq in range(1, fires.desk.driver.state.seq + 1):
        reply = fires.get(f"/pages/events/{seq}")
        assert (reply.status, f"#{seq}</a>" in reply.body.decode()) == (200, True)


@pytest.mark.parametrize("name", ["0", "999999", "a9", "%3Cb%3E", "-1", "1e3"])
def test_what_is_no_entry_has_none(fires: Window, name: str) -> None:
    reply = fires.get(f"/pages/events/{name}")
    assert (reply.status, b"there is no entry" in reply.body, b"<b>" in reply.body) == (404, True, False)


def test_entries_that_cannot_be_written_are_not_waited_for(fires: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.web.pages.events.PATIENCE_S", 0.05)
    del fires.desk.driver.entries[-1]
    text = fires.get("/pages/events").body.decode()
    assert f'href="/pages/events/{fires.desk.driver.state.seq - 1}"' in text


def test_who_may_only_look_is_shown_nothing_to_steer_with(fires: Window) -> None:
    fires.tell(inputs.CreateToken(name="eve", sha256=digest_of(READERS), scope=Scope.READ, lifetime_s=None))
    theirs = fires.ask("GET", "/pages/fleet", headers={"Authorization": f"Bearer {READERS}"}).body.decode()
    assert '<body class="looker">' in theirs
    assert "who may look and not steer" in theirs
    assert '<body class="">' in fires.get("/pages/fleet").body.decode()
