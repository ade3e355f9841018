"""The `alerts` section: every number with its origin, rules that cannot work refused, addresses kept secret."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hostler.model.alerts import USUAL_ALERTS, Severity
from hostler.model.errors import SettingsError
from hostler.settings import alert_origins, describe, load, rules, telling

SECRET = "https://hooks.example.org/services/T000/B000/verysecret"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    return path


def test_without_a_word_the_rules_are_the_usual_ones() -> None:
    loaded = load(None, {})
    assert rules(loaded).alerts == USUAL_ALERTS
    assert {origin for each in alert_origins(loaded).values() for origin in each.values()} == {"default"}
    assert telling(loaded, {}).targets == ()


def test_what_is_written_counts_and_is_known_by_its_place(tmp_path: Path) -> None:
    path = written(tmp_path, "alerts:\n  rules:\n    gpu_idle: {threshold: 0.3, severity: critical}\n")
    loaded = load(path, {"HOSTLER_ALERTS__RULES__GPU_IDLE__FOR_S": "60"})
    usual = USUAL_ALERTS[0]
    assert rules(loaded).alerts[0] == replace(usual, threshold=0.3, severity=Severity.CRITICAL, for_s=60.0)
    assert rules(loaded).alerts[1:] == USUAL_ALERTS[1:]
    origins = alert_origins(loaded)["gpu_idle"]
    assert origins["threshold"] == f"{path}:3:27"
    assert "HOSTLER_ALERTS__RULES__GPU_IDLE__FOR_S" in origins["for_s"]
    assert origins["over"] == "default"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{rules: {gpu_idle: {threshold: 0.0, over: 0.1}}}", "no value can be below that"),
        ("{rules: {gpu_idle: {over: 0.2}}}", "over 0.2 must lie above threshold 0.5"),
        ("{rules: {gpu_idle: {over: 1.5}}}", "no value can reach that"),
        ("{rules: {gpu_idle: {threshold: .nan}}}", "threshold"),
        ("{rules: {gpu_idle: {severity: dire}}}", "severity"),
        ("{rules: {nothing: {}}}", "is no setting"),
        ("{notify: [{name: a, kind: slack}]}", "exactly one of url_file and url_env"),
        ("{notify: [{name: a, kind: slack, url: x}]}", "is no setting"),
        ("{notify: [{name: a, kind: slack, url_env: A}, {name: a, kind: ntfy, url_env: B}]}", "called 'a'"),
        ("{per_hour: 0}", "per_hour"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_written(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(written(tmp_path, f"alerts: {text}\n"), {})
    assert why in str(refused.value)
    assert "fleet.yaml:1:" in str(refused.value)


def test_addresses_come_from_files_and_variables_and_are_shown_nowhere(tmp_path: Path) -> None:
    (tmp_path / "slack.url").write_text(SECRET + "\nmore\n")
    path = written(
        tmp_path,
        "alerts:\n  notify:\n    - {name: team, kind: slack, url_file: slack.url, least: warning}\n"
        "    - {name: post, kind: apprise, url_env: POST_URL}\n",
    )
    loaded = load(path, {})
    told = telling(loaded, {"POST_URL": "mailto://u:verysecret@example.org"})
    assert [each.url for each in told.targets] == [SECRET, "mailto://u:verysecret@example.org"]
    assert told.targets[0].least is Severity.WARNING
    assert "verysecret" not in repr(told)
    assert "verysecret" not in repr(describe(loaded))
    assert "verysecret" not in repr(rules(loaded))


@pytest.mark.parametrize(
    ("target", "url", "why"),
    [
        ("{name: a, kind: slack, url_file: nowhere}", "", "nowhere cannot be read"),
        ("{name: a, kind: slack, url_env: A_URL}", "", "the variable A_URL holds no address"),
        ("{name: a, kind: webhook, url_env: A_URL}", "mailto://verysecret", "begins with http"),
        ("{name: a, kind: webhook, url_env: A_URL}", "https://[verysecret", "begins with http"),
        ("{name: a, kind: apprise, url_env: A_URL}", "verysecret", "apprise understands"),
    ],
)
def test_an_address_that_is_none_is_told_of_without_it(tmp_path: Path, target: str, url: str, why: str) -> None:
    loaded = load(written(tmp_path, f"alerts: {{notify: [{target}]}}\n"), {})
    with pytest.raises(SettingsError) as refused:
        telling(loaded, {"A_URL": url})
    assert why in str(refused.value)
    assert "fleet.yaml:1:" in str(refused.value)
    assert "verysecret" not in str(refused.value)
    assert "verysecret" not in repr(refused.value.__context__)
