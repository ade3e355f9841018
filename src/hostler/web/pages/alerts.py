"""Alerts as they are shown: what fires, what may, what did; who looks after it; silences, rules, who is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hostler.model.alert_views import AlertView, RuleView, SilenceView, TargetView
from hostler.model.alerts import MEASURES
from hostler.model.views import NodeView
from hostler.web.desk import Desk
from hostler.web.pages.part import Part
from hostler.web.pages.words import part_of_path

OVER_SHOWN = 20
FIGURES = 3
STEP_S = 10.0
"""How exactly times are shown that grow by themselves: a page that followed each second would never rest."""


def alert_parts(desk: Desk) -> Sequence[Part]:
    """What fires, what is silenced, and the rules behind it."""
    rules, silences = desk.alert_rules(), desk.silences()
    shown = Shown(desk.nodes(), rules, silences)
    alerts = desk.alerts()
    by_state = {state: [shown.alert(each) for each in alerts if each.state == state] for state in STATES}
    return [
        Part("alerts", "parts/alerts.html", {"firing": by_state["firing"], "pending": by_state["pending"]}),
        Part("silences", "parts/silences.html", {"silences": [_silence(each) for each in silences]}),
        Part("over", "parts/alerts_over.html", {"rows": by_state["over"][:OVER_SHOWN]}),
        Part("rules", "parts/alert_rules.html", _rules(rules, desk.targets())),
    ]


STATES = ("firing", "pending", "over")


class Shown:
    """Alerts in words, with links to what they are about."""

    def __init__(self, nodes: Sequence[NodeView], rules: Sequence[RuleView], silences: Sequence[SilenceView]) -> None:
        self._about = {each.rule.name: MEASURES[each.rule.measures].about for each in rules}
        self._node = {device.id: node.name for node in nodes for device in node.devices}
        self._silences = {each.id: each for each in silences}

    def alert(self, view: AlertView) -> Mapping[str, Any]:
        """One alert, rounded to what is seen."""
        silence = None if view.silence is None else self._silences.get(view.silence)
        return {
            "id": view.id,
            "rule": view.rule,
            "subject": view.subject,
            "link": None if view.test else self._link(view.rule, view.subject),
            "severity": str(view.severity),
            "value": _rounded(view.value, view.unit),
            "low": _rounded(view.low, view.unit),
            "high": _rounded(view.high, view.unit),
            "value_now": _rounded(view.value_now, view.unit),
            "unit": view.unit,
            "comparison": view.comparison,
            "threshold": view.threshold,
            "since": view.since,
            "fired_at": view.fired_at,
            "ended_at": view.ended_at,
            "why": view.why,
            "ended_why": view.ended_why,
            "test": view.test,
            "silenced": view.silence is not None,
            "silence": None if silence is None else _silence(silence),
            "acknowledged_by": view.acknowledged_by,
            "acknowledged_at": view.acknowledged_at,
            "note": view.note,
        }

    def _link(self, rule: str, subject: str) -> str | None:
        """The page of what an alert is about; `None` where there is none."""
        match self._about.get(rule):
            case "node":
                return f"/pages/nodes/{part_of_path(subject)}"
            case "device":
                node = self._node.get(subject)
                return None if node is None else f"/pages/nodes/{part_of_path(node)}"
            case "config":
                return f"/pages/learning/{part_of_path(subject)}"
            case "sweep":
                return f"/pages/sweeps/{part_of_path(subject)}"
            case "fleet":
                return "/pages/fleet"
        return None


def _silence(view: SilenceView) -> Mapping[str, Any]:
    return {
        "id": view.id,
        "rule": view.rule,
        "subject": view.subject,
        "who": view.who,
        "why": view.why,
        "since": view.since,
        "until": view.until,
        "alerts": view.alerts,
    }


def _rules(rules: Sequence[RuleView], targets: Sequence[TargetView]) -> Mapping[str, Any]:
    return {"rules": [_rule(each) for each in rules], "targets": [_target(each) for each in targets]}


def _rule(view: RuleView) -> Mapping[str, Any]:
    rule = view.rule
    return {
        "name": rule.name,
        "meaning": view.meaning,
        "comparison": rule.comparison,
        "threshold": rule.threshold,
        "over": rule.over,
        "target": rule.target,
        "for_s": rule.for_s,
        "unit": view.unit,
        "severity": str(rule.severity),
        "enabled": rule.enabled,
        "subjects": view.subjects,
        "unknown": view.unknown,
        "pending": view.pending,
        "firing": view.firing,
        "looked_at": None if view.looked_at is None else view.looked_at // STEP_S * STEP_S,
    }


def _target(view: TargetView) -> Mapping[str, Any]:
    return {
        "name": view.name,
        "kind": view.kind,
        "least": str(view.least),
        "waiting": view.waiting,
        "sent": view.sent,
        "given_up": view.given_up,
        "sent_at": view.sent_at,
        "failing_since": view.failing_since,
        "trouble": view.trouble,
    }


def _rounded(value: float | None, unit: str) -> float | None:
    """What is seen of a value."""
    if value is None:
        return None
    return value // STEP_S * STEP_S if unit == "s" else float(f"{value:.{FIGURES}g}")
