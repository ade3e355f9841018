"""The `scheduling` section: what becomes of it, and what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.alerts import USUAL_ALERTS
from hostler.model.codec import record_fault
from hostler.model.errors import SettingsError
from hostler.model.rules import SHARES, USUAL, Preferences, Quota, Rules
from hostler.model.work import WorkKind
from hostler.settings import describe, load, rules
from hostler.settings.environment import ALIASES
from hostler.settings.models import RECORD_FIELDS, Fleet
from hostler.settings.schema import schema_of, settings_of

Given = Callable[..., Rules]

AS_LOADED = replace(USUAL, alerts=USUAL_ALERTS)
RECORDS = ("priority", "targets", "quarantine", "placement", "cost")


@pytest.fixture
def ruled(tmp_path: Path) -> Given:
    """The rules of a fleet file with this text."""

    def made(text: str, **environ: str) -> Rules:
        path = tmp_path / "fleet.yaml"
        path.write_text(text, encoding="utf-8")
        return rules(load(path, environ))

    return made


FULL = """
scheduling:
  shares: {selfplay: 0.5, training: 0.4, evaluation: 0.05, script: 0, sweep: 2, rl: 3}
  quotas: {hexagonal_4p: 0.25, 'hex8_*': 0.1}
  priority: {curriculum: 1, starvation: 2, data_age: 3, velocity: 4, quality: 5}
  cost:
    providers: {training: {prefer: [runpod, nebius], avoid: [vast]}, selfplay: {prefer: [vast], fallback: [vultr]}}
    max_price_per_h: {sweep: 0.5}
  targets: {gpu_min: 0.5, gpu_max: 0.9, pid_kp: 1, pid_ki: 2, pid_kd: 3, lanes_max: 2, idle_below: 0.1,
    idle_after_s: 1, idle_check_s: 2, memory_max: 0.5, disk_warning: 0.1, disk_clean: 0.2, disk_critical: 0.3,
    disk_free_gb: 2, disk_roomy_gb: 9, disk_full_within_s: 1, queue_max: 5, backlog_max_s: 1, load_max: 9,
    telemetry_max_age_s: 1, unknown_hold_s: 1, disk_store: 0.15}
  quarantine: {failures: 1, rest_s: 1, rest_max_s: 2}
  placement: {beta: 1, round_s: 1, restart_s: 1, plan_every_s: 1, starve_after_s: 1, preempt: false, preempt_after_s: 1,
    hold_s: 1, transfer_mb_per_s: 1}
"""


def test_without_a_word_the_rules_are_the_usual_ones(ruled: Given) -> None:
    assert ruled("{}") == AS_LOADED
    assert ruled("scheduling: {targets: {}, shares: {}}") == AS_LOADED


def test_everything_that_is_written_arrives(ruled: Given) -> None:
    made = ruled(FULL)
    assert made.shares == {
        WorkKind.SELFPLAY: 0.5,
        WorkKind.TRAINING: 0.4,
        WorkKind.EVALUATION: 0.05,
        WorkKind.SCRIPT: 0.0,
        WorkKind.SWEEP: 2.0,
        WorkKind.RL: 3.0,
    }
    assert made.quotas == (Quota(pattern="hexagonal_4p", share=0.25), Quota(pattern="hex8_*", share=0.1))
    assert made.cost.providers == {
        WorkKind.TRAINING: Preferences(prefer=("runpod", "nebius"), avoid=("vast",)),
        WorkKind.SELFPLAY: Preferences(prefer=("vast",), fallback=("vultr",)),
    }
    assert made.cost.max_price_per_h == {WorkKind.SWEEP: 0.5}
    assert made.targets.gpu_max == 0.9
    assert made.placement.preempt is False
    assert record_fault(made) is None


def test_every_rule_can_be_set(ruled: Given) -> None:
    """`FULL` sets each of them to something that is not its default."""
    full, bare = ruled(FULL), USUAL
    assert {*full.shares} == {*SHARES}
    for part in RECORDS:
        for field in fields(getattr(full, part)):
            assert getattr(getattr(full, part), field.name) != getattr(getattr(bare, part), field.name), field.name


def test_kinds_that_are_not_named_keep_their_share(ruled: Given) -> None:
    assert ruled("scheduling: {shares: {rl: 5}}").shares == {**SHARES, WorkKind.RL: 5.0}


def test_quotas_are_for_tier_1_unless_tiers_are_named(ruled: Given) -> None:
    asked = "scheduling: {quotas: {'1': {a: 0.5}, '3': {a: 0.2, 'b*': 0.8}}}"
    assert ruled(asked).quotas == (
        Quota(pattern="a", share=0.5, tier=1),
        Quota(pattern="a", share=0.2, tier=3),
        Quota(pattern="b*", share=0.8, tier=3),
    )


def test_older_words_mean_the_same(ruled: Given) -> None:
    old = "config_quotas: {a: 0.25}\nprovider_preferences: {training: {prefer: [x]}}\n"
    new = "scheduling: {quotas: {a: 0.25}, cost: {providers: {training: {prefer: [x]}}}}"
    assert ruled(old) == ruled(new)


FAULTS = [
    (
        "scheduling: {§share: {}}",
        "scheduling.share: is no setting; did you mean 'shares'? (allowed here: shares, quotas,",
    ),
    ("scheduling: {shares: {§export: 1}}", "scheduling.shares.export: is no setting"),
    ("scheduling: {shares: {rl: §-1}}", "scheduling.shares.rl: should be greater than or equal to 0 (found -1)"),
    ("scheduling: {shares: {rl: §.inf}}", "scheduling.shares.rl: should be a valid number"),
    (
        "scheduling: {shares: §{selfplay: 0, training: 0, evaluation: 0, script: 0, sweep: 0, rl: 0}}",
        "scheduling.shares: all shares are 0, and nothing would run; leave one above",
    ),
    ("scheduling: {quotas: {a: §1.5}}", "scheduling.quotas.a: should be less than or equal to 1 (found 1.5)"),
    ("scheduling: {quotas: {a: §-0.1}}", "scheduling.quotas.a: should be greater than or equal to 0 (found -0.1)"),
    ("scheduling: {quotas: {a: §half}}", "scheduling.quotas.a: should be a valid number (found 'half')"),
    ("scheduling: {quotas: §[1]}", "scheduling.quotas: should be a mapping (found [1])"),
    ("scheduling: {quotas: {a: 0.1, §a: 0.2}}", "scheduling.quotas.a: is written twice; the first is in line 1"),
    ("scheduling: {quotas: {'': §0.1}}", "scheduling.quotas.: the text should have at least 1 character"),
    ("scheduling: {quotas: {§1: {a: 0.1}}}", "keys are texts; 1 is none (put it in quotes)"),
    ("scheduling: {quotas: {'4': §{a: 0.1}}}", "scheduling.quotas.4: should be '1', '2' or '3' (found '4')"),
    ("scheduling: {quotas: {'1': {a: 0.1}, b: §0.2}}", "scheduling.quotas.b: should be '1', '2' or '3'"),
    ("scheduling: {quotas: {'1': {a: §2}}}", "scheduling.quotas.1.a: should be less than or equal to 1 (found 2)"),
    (
        "scheduling: {priority: §{curriculum: 0, starvation: 0, data_age: 0, velocity: 0, quality: 0}}",
        "scheduling.priority: all weights are 0, which ranks nothing; leave one above",
    ),
    ("scheduling: {cost: {providers: {gaming: §{}}}}", "scheduling.cost.providers.gaming: should be 'selfplay',"),
    (
        "scheduling: {cost: {providers: {training: §{prefer: [a], avoid: [a]}}}}",
        "scheduling.cost.providers.training: names a twice; a provider is preferred, a fallback or avoided",
    ),
    (
        "scheduling: {cost: {providers: {training: {§prefers: [a]}}}}",
        "scheduling.cost.providers.training.prefers: is no setting; did you mean 'prefer'? (allowed here: prefer,",
    ),
    (
        "scheduling: {cost: {max_price_per_h: {rl: §-1}}}",
        "scheduling.cost.max_price_per_h.rl: should be greater than or equal to 0 (found -1)",
    ),
    ("scheduling: {targets: §{gpu_min: 0.9}}", "scheduling.targets: gpu_min 0.9 is above gpu_max 0.8; set both"),
    ("scheduling: {targets: §{disk_critical: 0.5}}", "scheduling.targets: disk_clean 0.65 is above disk_critical 0.5"),
    ("scheduling: {targets: §{idle_below: 0.6}}", "scheduling.targets: idle_below 0.6 is not below gpu_min 0.6;"),
    (
        "scheduling: {targets: {gpu_max: §80}}",
        "scheduling.targets.gpu_max: should be less than or equal to 1 (found 80)",
    ),
    ("scheduling: {targets: {§gpu_mim: 1}}", "scheduling.targets.gpu_mim: is no setting; did you mean 'gpu_min'?"),
    ("scheduling: {quarantine: §{rest_max_s: 1}}", "scheduling.quarantine: rest_s 600 is above rest_max_s 1"),
    ("scheduling: {placement: {preempt: §maybe}}", "scheduling.placement.preempt: should be a valid boolean"),
    (
        "scheduling: {quotas: {a: 0.1}}\nconfig_quotas: §{b: 0.1}",
        "config_quotas: means the same as scheduling.quotas, which is there, too; keep one of them",
    ),
    (
        "scheduling: {cost: {providers: {rl: {}}}}\nprovider_preferences: §{rl: {}}",
        "provider_preferences: means the same as scheduling.cost.providers, which is there, too; keep one of them",
    ),
]


@pytest.mark.parametrize(("text", "message"), FAULTS, ids=[text for text, _ in FAULTS])
def test_a_fault_is_told_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    """`§` marks the place."""
    path = tmp_path / "fleet.yaml"
    path.write_text(text.replace("§", ""), encoding="utf-8")
    with pytest.raises(SettingsError) as caught:
        load(path, {})
    before = text[: text.index("§")]
    place = f"{path}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
    assert str(caught.value).startswith(f"{place}: {message}")


def test_every_rule_has_a_meaning_and_an_origin(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("scheduling:\n  targets: {gpu_min: 0.5}\nconfig_quotas: {a: 0.1}\n")
    loaded = load(path, {"HOSTLER_SCHEDULING__TARGETS__GPU_MAX": "0.7"})
    described = {setting.path: setting for setting in describe(loaded)}
    assert all(setting.doc for setting in described.values())
    assert described["scheduling.targets.gpu_min"].origin == f"{path}:2:22"
    assert described["scheduling.targets.gpu_max"].origin.endswith("HOSTLER_SCHEDULING__TARGETS__GPU_MAX")
    assert (described["scheduling.shares.rl"].value, described["scheduling.shares.rl"].origin) == (1.0, "default")
    assert described["config_quotas"].origin == f"{path}:3:16"


def test_the_schema_tells_of_every_rule() -> None:
    told = {path: node for path, node in settings_of(schema_of(Fleet), items=True) if path[0] == "scheduling"}
    names = {f"{part}.{field.name}" for part in RECORDS for field in fields(getattr(USUAL, part))}
    assert names <= {".".join(path[1:]) for path in told}
    assert [path for path, node in told.items() if not node.get("description")] == []


def test_nothing_is_described_that_is_not_there() -> None:
    records = schema_of(Fleet)["$defs"]
    assert {record: {*texts} - {*records[record]["properties"]} for record, texts in RECORD_FIELDS.items()} == {
        record: set() for record in RECORD_FIELDS
    }


@settings(max_examples=25)
@given(
    st.dictionaries(st.text("ab*?_", min_size=1, max_size=5), st.floats(0, 1), max_size=5), st.sampled_from([1, 2, 3])
)
def test_quotas_come_through_unchanged(quotas: dict[str, float], tier: int) -> None:
    environ = {"HOSTLER_SCHEDULING__QUOTAS": json.dumps({str(tier): quotas})}
    made = rules(load(None, environ)).quotas
    assert made == tuple(Quota(pattern=name, share=share, tier=tier) for name, share in quotas.items())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("RINGRIFT_TARGET_UTIL_MIN", "55", 0.55),
        ("RINGRIFT_TARGET_UTIL_MAX", "80", 0.8),
        ("RINGRIFT_MAX_DISK_PERCENT", "70", 0.7),
        ("RINGRIFT_MEMORY_LIMIT_GB", "80", 80.0),
        ("RINGRIFT_IDLE_CHECK_INTERVAL", "60", 60.0),
        ("RINGRIFT_IDLE_GPU_THRESHOLD", "2.5", 0.025),
        ("RINGRIFT_IDLE_GRACE_PERIOD", "300", 300.0),
    ],
)
def test_variables_of_the_older_system_set_what_they_mean(name: str, text: str, value: float) -> None:
    described = {setting.path: setting for setting in describe(load(None, {name: text, "RINGRIFT_OTHER": "x"}))}
    setting = described[".".join(ALIASES[name].path)]
    assert (setting.value, setting.origin) == (value, f"environment variable {name}")


def test_its_defaults_are_ours() -> None:
    """What that system documents as default changes nothing here."""
    usual = {
        "RINGRIFT_TARGET_UTIL_MIN": "60",
        "RINGRIFT_TARGET_UTIL_MAX": "80",
        "RINGRIFT_MAX_DISK_PERCENT": "70",
        "RINGRIFT_IDLE_CHECK_INTERVAL": "60",
        "RINGRIFT_IDLE_GPU_THRESHOLD": "5",
        "RINGRIFT_IDLE_GRACE_PERIOD": "300",
    }
    assert rules(load(None, usual)) == AS_LOADED


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (
            {"RINGRIFT_TARGET_UTIL_MIN": "120"},
            "RINGRIFT_TARGET_UTIL_MIN: should be a percentage, 0 to 100 (found '120')",
        ),
        ({"RINGRIFT_TARGET_UTIL_MIN": "-1"}, "RINGRIFT_TARGET_UTIL_MIN: should be a percentage"),
        ({"RINGRIFT_TARGET_UTIL_MIN": "true"}, "RINGRIFT_TARGET_UTIL_MIN: should be a percentage"),
        (
            {"RINGRIFT_TARGET_UTIL_MIN": "60%"},
            "RINGRIFT_TARGET_UTIL_MIN: should be a percentage, 0 to 100 (found '60%')",
        ),
        ({"RINGRIFT_TARGET_UTIL_MIN": "95"}, "RINGRIFT_TARGET_UTIL_MIN: scheduling.targets: gpu_min 0.95 is above"),
        ({"RINGRIFT_MEMORY_LIMIT_GB": "lots"}, "RINGRIFT_MEMORY_LIMIT_GB: limits.memory_gb: should be a valid number"),
        (
            {"RINGRIFT_IDLE_GRACE_PERIOD": "1", "HOSTLER_SCHEDULING__TARGETS__IDLE_AFTER_S": "2"},
            "RINGRIFT_IDLE_GRACE_PERIOD: sets the same as HOSTLER_SCHEDULING__TARGETS__IDLE_AFTER_S; unset one of them",
        ),
        ({"HOSTLER_TARGET_UTIL_MIN": "60"}, "HOSTLER_TARGET_UTIL_MIN: sets nothing"),
    ],
)
def test_a_variable_that_is_wrong_is_named(environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, environ)
    assert str(caught.value).startswith(f"environment variable {message}")
