"""`hostler plan`, and what `hostler check` finds in a fleet file."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostler.cli.planning import _worded
from hostler.policy import programme
from tests.cli.conftest import Hostler, Said

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "multi-provider.yaml"

Planned = Callable[..., Said]


@pytest.fixture
def planned(tmp_path: Path, hostler: Hostler, monkeypatch: pytest.MonkeyPatch) -> Planned:
    """`hostler plan` of a fleet file with this text, on a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("HOSTLER_STATE_DIR", str(tmp_path / "state"))

    def call(text: str, *words: str, command: str = "plan") -> Said:
        path = tmp_path / "fleet.yaml"
        path.write_text(text, encoding="utf-8")
        return hostler(command, str(path), *words)

    return call


GPU = "{name: g, backend: virtual, provider: x, price_per_h: 2, gpus: [{model: RTX 4090, count: 2, vram_gb: 24}]}"
CPU = "{name: here, gpus: none, cpu_slots: 1}"


def test_nothing_is_started_and_no_state_is_touched(
    planned: Planned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a process is started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr("os.posix_spawn", refuse)
    monkeypatch.setattr("os.fork", refuse)
    said = planned("nodes: [{name: here}]\njobs: [{name: a, argv: [x]}]\nconfigs: [{name: hex8_2p}]")
    assert (said.status, said.err) == (0, "")
    assert not (tmp_path / "state").exists()


def test_an_empty_fleet_file_has_a_plan(planned: Planned) -> None:
    said = planned(f"nodes: [{CPU}]")
    assert said.status == 0
    assert said.out.splitlines()[0] == "fleet: 1 node, 0 GPUs, 1 CPU slot"
    assert "nothing is asked for" in said.out


def test_a_fleet_without_devices_says_so(planned: Planned) -> None:
    said = planned("nodes: [{name: a, gpus: none, cpu_slots: 0}]\njobs: [{name: j, argv: [x]}]")
    assert "waits: script j: the fleet has no devices that are known" in said.out


def test_it_tells_what_runs_what_waits_and_by_which_gate(planned: Planned) -> None:
    said = planned(
        f"nodes: [{GPU}, {CPU}]\n"
        "jobs:\n- {name: small, argv: [x], resources: {device: cpu}}\n"
        "- {name: big, argv: [x], resources: {device: gpu, vram_gb: 48}}\n- {name: late, argv: [x], after: [small]}\n"
    )
    text = " ".join(said.out.split())
    assert "script: small" in text
    assert "waits: script big: fits on no device: VRAM on 2 (needs 48 GB, g/cuda0 has 24 GB); device kind on 1" in text
    assert "waits: 1 job after others that are not done" in text
    assert "2.00 an hour" in text


def test_a_loop_is_shown_at_once_and_with_models(planned: Planned) -> None:
    said = planned(f"nodes: [{GPU}]\nconfigs: [{{name: hex8_2p}}, {{name: square8_2p}}]", "--json")
    (cls,) = said.json["classes"]
    assert cls["first"] == {"training hex8_2p": 1, "training square8_2p": 1}
    assert sum(cls["then"].values()) == 2
    assert {name.split()[0] for name in cls["then"]} == {"selfplay"}


def test_devices_are_told_one_by_one_with_reasons(planned: Planned) -> None:
    said = planned(f"nodes: [{GPU}]\njobs: [{{name: j, argv: [x], resources: {{gpus: 2}}}}]", "--nodes")
    assert "g/cuda0" in said.out
    assert "script j on g/cuda0 g/cuda1:" in said.out


@pytest.mark.parametrize("mark", ["·", "-", "^"])
def test_reasons_break_between_words(monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = f" {mark} ".join(f"value{number} runpod-a100-{number}" for number in range(9))
    lines = list(_worded("    at once  ", text))
    assert all(len(line) <= 40 for line in lines)
    assert " ".join(" ".join(lines).split()) == f"at once {text}"


QUOTAS = (
    "nodes: [{name: a, backend: virtual, gpus: [{model: H100, vram_gb: 80}]},"
    " {name: b, backend: virtual, gpus: [{model: RTX 4090, count: 4, vram_gb: 24}]}]\n"
    "configs: [{name: hexagonal_2p}, {name: hex8_2p}]\nconfig_quotas: {hexagonal_2p: 0.5, hex8_2p: 0.5}\n"
)


@pytest.mark.skipif(not programme.available(), reason="highspy is not installed")
def test_a_quota_that_cannot_be_met_is_proven_in_words(planned: Planned) -> None:
    text = " ".join(planned(QUOTAS).out.split())
    assert "cannot be met: quota hexagonal_2p of tier 1: 0.5 of 5 devices is 2.5" in text
    sharded = "{name: hexagonal_2p, selfplay: {resources: {device: gpu, vram_gb: 32, shards: true}}}"
    text = " ".join(planned(QUOTAS.replace("{name: hexagonal_2p}", sharded)).out.split())
    assert "all quotas can be met at the same time" in text


def test_without_the_solver_it_says_what_is_lost(planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programme, "available", lambda: False)
    said = planned(QUOTAS)
    assert said.status == 0
    assert "note: highspy is not installed (extra `opt`)" in said.out
    assert "can be met at the same time" not in said.out
    assert {each["best"] for each in planned(QUOTAS, "--json").json["quotas"]} == {None}


def test_quotas_of_a_tier_that_is_not_there(planned: Planned) -> None:
    said = planned(f"nodes: [{GPU}]\nconfigs: [{{name: hex8_2p}}]\nconfig_quotas: {{hex8_2p: 1}}")
    assert "cannot be met: quotas of tier 1: the fleet has no node of that tier" in said.out


ALONE = f"nodes: [{GPU}]\nconfigs: [{{name: hex8_2p}}, {{name: hex8_3p}}]\n"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (ALONE, 0),
        pytest.param(ALONE + "config_quotas: {'2': {'hex8_*': 1}}", 0, marks=pytest.mark.long),
        (ALONE + "config_quotas: {hex8_2p: 1}", 1),
        pytest.param(ALONE + "config_quotas: {'2': {hex8_2p: 0.7, hex8_3p: 0.6}}", 1, marks=pytest.mark.long),
        pytest.param(ALONE + "config_quotas: {'2': {nope: 0.1}}", 1, marks=pytest.mark.long),
        (ALONE + "jobs: [{name: big, argv: [x], resources: {device: gpu, vram_gb: 48}}]", 1),
        # Nobody knows yet which tiers there are.
        ("nodes: [{name: here, cpu_slots: 1}]\nconfigs: [{name: hex8_2p}]\nconfig_quotas: {hex8_2p: 1}", 0),
        pytest.param(ALONE.replace(", vram_gb: 24", "") + "config_quotas: {hex8_2p: 1}", 0, marks=pytest.mark.long),
    ],
)
def test_a_plan_fails_where_the_check_does(planned: Planned, text: str, status: int) -> None:
    assert [planned(text, command=command).status for command in ("check", "plan")] == [status, status]
    assert planned(text, "--json").status == status


@pytest.mark.skipif(not programme.available(), reason="highspy is not installed")
def test_a_plan_fails_where_it_proves_that_quotas_cannot_be_met(planned: Planned) -> None:
    assert (planned(QUOTAS).status, planned(QUOTAS, "--json").status) == (1, 1)


def test_what_is_said_of_a_part_of_the_devices_says_so(planned: Planned) -> None:
    text = "nodes: [{name: here, cpu_slots: 1}]\nconfigs: [{name: hex8_2p}]\nconfig_quotas: {hex8_2p: 1}"
    said = " ".join(planned(text).out.split())
    assert "cannot be met with the devices that are known: quotas of tier 1: the fleet has no node of that tier" in said


def test_gpus_of_this_machine_are_not_known_without_a_probe(planned: Planned) -> None:
    said = planned("nodes: [{name: here, cpu_slots: 1}]")
    assert "note: the GPUs of here are found by a probe when it starts" in said.out


def test_the_multi_provider_fleet_fits_80_columns(hostler: Hostler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in ([], ["--nodes"]):
        said = hostler("plan", str(EXAMPLE), *words)
        assert (said.status, said.err) == (0, "")
        assert all(len(line) <= 80 for line in said.out.splitlines())
    assert said.out.startswith("multi-provider: 19 nodes, 33 GPUs, 4 CPU slots, 19.55 an hour\n")


@pytest.mark.skipif(not programme.available(), reason="highspy is not installed")
def test_the_quotas_of_the_multi_provider_fleet_can_be_met(hostler: Hostler) -> None:
    found = hostler("plan", str(EXAMPLE), "--json").json
    assert (found["conflicts"], found["notes"], found["solved"]) == ([], [], True)
    assert sum(quota["target"] for quota in found["quotas"]) == pytest.approx(1)
    assert found["waiting"] == []
    assert all(device["then"] for device in found["devices"] if "cuda" in device["id"])


def test_names_reach_the_terminal_harmless(planned: Planned) -> None:
    said = planned(f'nodes: [{CPU}]\njobs: [{{name: "a\\e[2J", argv: [x], resources: {{device: gpu}}}}]')
    assert "\x1b" not in said.out
    assert "a\\x1b[2J" in said.out


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("config_quotas: {hex8_2p: 0.7, 'hex*': 0.6}", "wrong: quotas of tier 1 sum to 1.3: a tier has no more than 1"),
        pytest.param(
            "config_quotas: {nope: 0.1}",
            "wrong: quotas of tier 1: 'nope' matches no training config",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "nodes: [{name: b, backend: virtual, gpus: [{model: T4}]}]",
            "note: video memory unknown: b; what asks for some is not put there (gpus[].vram_gb)",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "nodes: [{name: b, provider: x}]\nscheduling: {cost: {max_price_per_h: {rl: 1}}}",
            "note: price unknown: b; they pass every cap and count as nothing (price_per_h)",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "nodes: [{name: b, ends_at: 5}]",
            "note: gone already, by its ends_at: b; nothing is put there",
            marks=pytest.mark.long,
        ),
        (
            "stores: [{name: nas, kind: directory, path: /mnt}]\nretention: {read_within_s: 604800}",
            "note: copies are read again once in replication.reread_s = 2592000 s, and prove for "
            "retention.read_within_s = 604800 s only",
        ),
        ("provider_preferences: {rl: {avoid: [y, x]}}", "note: providers of rl: no node is of x, y"),
    ],
)
def test_check_tells_what_was_hardly_meant(planned: Planned, text: str, finding: str) -> None:
    text += "\nconfigs: [{name: hex8_2p}, {name: hex8_3p}]"
    said = planned(text, command="check")
    assert finding in " ".join(said.out.split())
    assert said.status == finding.startswith("wrong")
    assert said.out.splitlines()[-1].startswith("has faults:" if said.status else "good:")
    as_json = planned(text, "--json", command="check")
    assert as_json.status == said.status
    assert as_json.json
    assert finding in as_json.err


def test_check_tells_what_is_lost_without_the_solver(planned: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programme, "available", lambda: False)
    said = planned("configs: [{name: hex8_2p}]", command="check")
    assert "note: highspy is not installed (extra `opt`)" in said.out
    assert said.status == 0


FAR = "{name: far, backend: ssh, gpus: none, cpu_slots: 1}"


@pytest.mark.parametrize(
    ("nodes", "job", "kind", "words"),
    [
        (FAR, "cwd: nowhere", "wrong", "nowhere is no folder"),
        (f"{CPU}, {FAR}", "cwd: nowhere", "note", "nowhere is no folder"),
        (FAR, "cwd: ., files: [nothing.py]", "wrong", "holds no file that `files: nothing.py` means"),
        (FAR, "cwd: ., files: [fleet.yaml]", None, ""),
        (FAR, "cwd: '{attempt}'", None, ""),
        (CPU, "cwd: nowhere", None, ""),
    ],
)
def test_check_looks_at_files_that_are_to_travel(
    planned: Planned, nodes: str, job: str, kind: str | None, words: str
) -> None:
    said = planned(f"nodes: [{nodes}]\njobs: [{{name: a, argv: [x], {job}}}]", command="check")
    told = " ".join(said.out.split())
    assert (f"{kind}: files of a cannot go to nodes elsewhere" in told) == (kind is not None)
    assert words in told
    assert said.status == (kind == "wrong")


def test_up_refuses_what_is_only_described(planned: Planned, tmp_path: Path) -> None:
    said = planned(f"nodes: [{GPU}]", command="up")
    assert said.status == 2
    assert "fleet.yaml:1:28: node 'g' is virtual" in said.err
    assert not (tmp_path / "state").exists()
