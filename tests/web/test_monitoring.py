"""The examples for Prometheus, Alertmanager and Grafana: valid, tested, and of metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from hostler.web.metrics import Fleet, described
from hostler.web.timing import Timing
from tests.patience import PATIENCE_S
from tests.web.readings import FULL

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "examples" / "monitoring"
RULES = MONITORING / "hostler.rules.yml"
TESTS = sorted(MONITORING.glob("*_test.yml"))
DASHBOARD = MONITORING / "grafana-dashboard.json"

WORDS = frozenset(
    [
        "sum",
        "avg",
        "count",
        "rate",
        "increase",
        "by",
        "on",
        "and",
        "unless",
        "bool",
        "time",
        "min_over_time",
        "count_over_time",
        "histogram_quantile",
        "group_left",
        "label_values",
    ]
)
"""What PromQL has of its own, as far as it is used here."""
OTHERS = frozenset({"up"})
"""Series that Prometheus makes itself."""
LABELS_OF_PROMETHEUS = frozenset({"job", "instance", "le", "alertname", "severity"})


def tool(name: str, *arguments: str | Path) -> str:
    """What a tool of Prometheus or Alertmanager prints; it must be content."""
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name} here; Debian has it in prometheus, or in prometheus-alertmanager")
    done = subprocess.run([name, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rules() -> Iterator[Mapping[str, Any]]:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        yield from group["rules"]


def expressions() -> Iterator[tuple[str, str]]:
    """Where, and what is asked there."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]


def known() -> Mapping[str, frozenset[str]]:
    """Labels by name of series, as a controller tells them of which everything is known."""
    registry = CollectorRegistry(auto_describe=False)
    timing = Timing(lambda: 0.0)
    timing.note({"method": "GET", "path": "/"}, 200, 0.1)
    registry.register(Fleet(FULL, timing.collect))
    assert generate_latest(registry)
    return {
        sample.name: frozenset(sample.labels) for family in registry.collect() for sample in family.samples
    }  # fmt: skip


def asked(expression: str) -> tuple[set[str], set[str]]:
    """Names of series, and of labels, that an expression asks for."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"\"", bare))
    for listed in re.findall(r"\b(?:by|on|group_left)\s*\(([^)]*)\)", bare):
        labels |= {each.strip() for each in listed.split(",") if each.strip()}
    bare = re.sub(r"\b(by|on|group_left)\s*\([^)]*\)", " ", re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", bare))
    if (variable := re.fullmatch(r"label_values\((\w+), (\w+)\)", bare)) is not None:
        return {variable[1]}, {variable[2]}
    return set(re.findall(r"\b[a-zA-Z_]\w*", bare)) - WORDS, labels


def test_whatever_is_asked_for_is_told() -> None:
    there = known()
    for where, expression in expressions():
        names, labels = asked(expression)
        assert names, (where, expression)
        assert names <= there.keys() | OTHERS, (where, names - there.keys())
        possible = frozenset().union(*(there.get(name, frozenset()) for name in names)) | LABELS_OF_PROMETHEUS
        assert labels <= possible, (where, labels - possible)


@pytest.mark.parametrize(
    ("expression", "names", "labels"),
    [
        ('sum by (node) (rate(a{b="x", c!~"y|z"}[5m])) * 3600 > bool 0', {"a"}, {"node", "b", "c"}),
        ('a / on (node) group_left (tier) b{le="1"}', {"a", "b"}, {"node", "tier", "le"}),
        ("label_values(a, node)", {"a"}, {"node"}),
        ("increse(a[1h])", {"a", "increse"}, set()),
    ],
)
def test_expressions_are_taken_apart(expression: str, names: set[str], labels: set[str]) -> None:
    assert asked(expression) == (names, labels)


def test_summaries_name_labels_that_the_alert_has() -> None:
    for rule in rules():
        by = asked(rule["expr"])[1] | {label for name in asked(rule["expr"])[0] for label in known().get(name, ())}
        for text in rule["annotations"].values():
            assert set(re.findall(r"\$labels\.(\w+)", text)) <= by | LABELS_OF_PROMETHEUS, rule["alert"]


def test_every_alert_is_shown_to_fire_and_not_to_fire() -> None:
    shown: dict[str, set[bool]] = {}
    for path in TESTS:
        for test in yaml.safe_load(path.read_text())["tests"]:
            for each in test["alert_rule_test"]:
                shown.setdefault(each["alertname"], set()).add(bool(each["exp_alerts"]))
    assert shown == {rule["alert"]: {True, False} for rule in rules()}


def test_every_metric_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    listed = set(re.findall(r"^\| `(hostler_\w+)` \| (?:gauge|counter|histogram) \|", page, re.MULTILINE))
    assert listed == {each.name for each in described()}
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in known()} == listed


def test_panels_have_places_of_their_own() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert [panel["title"] for panel in panels if panel["type"] == "row"] == [
        "Fleet",
        "Queue",
        "Learning",
        "Shares and cost",
        "Data",
    ]


@pytest.mark.services
def test_promtool_accepts_the_configuration_and_the_rules(tmp_path: Path) -> None:
    for path in (MONITORING / "prometheus.yml", RULES):
        shutil.copy(path, tmp_path)
    (tmp_path / "token").write_text("a-token")
    assert "SUCCESS" in tool("promtool", "check", "config", tmp_path / "prometheus.yml")
    assert "SUCCESS" in tool("promtool", "check", "rules", RULES)


@pytest.mark.services
def test_the_alerts_fire_when_they_should() -> None:
    assert "SUCCESS" in tool("promtool", "test", "rules", *TESTS)


@pytest.mark.services
def test_amtool_accepts_the_alertmanager() -> None:
    assert "SUCCESS" in tool("amtool", "check-config", MONITORING / "alertmanager.yml")
