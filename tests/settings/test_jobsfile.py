"""Jobs files: Hostler's own short form, and that of scripts_coordinator."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hostler.model.errors import SettingsError
from hostler.model.work import FailureClass, JobSpec, Resources, Retry, ScriptPayload, WorkKind
from hostler.settings import load_jobs


def loaded(tmp_path: Path, value: object) -> tuple[JobSpec, ...]:
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(value))
    return load_jobs(path)


def test_every_field_arrives(tmp_path: Path) -> None:
    job = {
        "name": "a; rm -rf \n'\"",
        "key": "k",
        "argv": ["{python}", "x y", "$HOME\n;", ""],
        "cwd": "sub",
        "env": {"A": "1"},
        "after": ["b"],
        "priority": -3,
        "walltime_s": 1.5,
        "grace_s": 0,
        "resources": {"device": "gpu", "vram_gb": 8, "memory_gb": 2, "gpus": 2, "cpus": 1.5, "tiers": [2, 1]},
        "retry": {"max_attempts": {"exit": 4}, "backoff_s": 0, "backoff_max_s": 9},
        "require_result": True,
        "work": "training",
        "config": "hex8_2p",
        "expected_s": {"RTX 4090": 60, "*": 90.5},
        "checkpoints": True,
    }
    (spec,) = loaded(tmp_path, [job])
    assert spec == JobSpec(
        name="a; rm -rf \n'\"",
        key="k",
        payload=ScriptPayload(
            schema=1,
            argv=("{python}", "x y", "$HOME\n;", ""),
            env={"A": "1"},
            cwd=str(tmp_path / "sub"),
            require_result=True,
        ),
        after=("b",),
        priority=-3,
        walltime_s=1.5,
        grace_s=0.0,
        resources=Resources(device="gpu", vram_gb=8.0, memory_gb=2.0, gpus=2, cpus=1.5, tiers=(2, 1)),
        retry=Retry(max_attempts={FailureClass.EXIT: 4}, backoff_s=0.0, backoff_max_s=9.0),
        work_as=WorkKind.TRAINING,
        config="hex8_2p",
        expected_s={"RTX 4090": 60.0, "*": 90.5},
        checkpoints=True,
    )


def test_one_expectation_holds_on_any_device(tmp_path: Path) -> None:
    (spec,) = loaded(tmp_path, [{"name": "a", "run": ["true"], "expected_s": 5}])
    assert spec.expected_s == {"*": 5.0}
    assert (spec.work, spec.work_as) == (WorkKind.SCRIPT, None)


def test_what_is_left_out_has_the_defaults_of_the_model(tmp_path: Path) -> None:
    (spec,) = loaded(tmp_path, {"jobs": [{"name": "a", "run": ["true"]}]})
    payload = ScriptPayload(schema=1, argv=("true",), cwd=str(tmp_path))
    assert spec == JobSpec(name="a", key="a", payload=payload)


@pytest.mark.parametrize(("cwd", "expected"), [("/abs", "/abs"), ("{attempt}", None)])
def test_where_a_job_runs(tmp_path: Path, cwd: str, expected: str | None) -> None:
    (spec,) = loaded(tmp_path, [{"name": "a", "argv": ["x"], "cwd": cwd}])
    assert isinstance(spec.payload, ScriptPayload)
    assert spec.payload.cwd == expected


def test_a_jobs_file_of_scripts_coordinator_is_understood(tmp_path: Path) -> None:
    job = {
        "job_id": "chunk_0001",
        "script": "worker.py",
        "args": ["--output", "results/chunk_0001.json"],
        "timeout": 3600,
        "analysis_type": "script",
    }
    (spec,) = loaded(tmp_path, {"jobs": [job]})
    assert (spec.name, spec.key, spec.walltime_s) == ("chunk_0001", "chunk_0001", 3600.0)
    assert isinstance(spec.payload, ScriptPayload)
    assert spec.payload.argv == ("{python}", "worker.py", "--output", "results/chunk_0001.json")
    assert spec.payload.cwd == str(tmp_path)


def test_short_forms_are_their_long_forms(tmp_path: Path) -> None:
    short = {
        "name": "a", "argv": ["echo", 3, 0.5], "env": {"A": 1, "B": 2.5}, "nodes": "here", "exclude_nodes": "there",
        "gpu_models": 4090, "labels": {"zone": "a"}, "after": "b", "outputs": "*.pt", "files": "*.py",
        "parameters": {"lr": 0.1}, "resources": {"providers": "vast"},
    }  # fmt: skip
    long = {
        "name": "a", "argv": ["echo", "3", "0.5"], "env": {"A": "1", "B": "2.5"}, "nodes": ["here"],
        "exclude_nodes": ["there"], "gpu_models": ["4090"], "labels": ["zone=a"], "after": ["b"], "outputs": ["*.pt"],
        "files": ["*.py"], "parameters": {"lr": "0.1"}, "resources": {"providers": ["vast"]},
    }  # fmt: skip
    assert loaded(tmp_path, [short]) == loaded(tmp_path, [long])
    (one,) = loaded(tmp_path, [{**short, "labels": "zone=a"}])
    assert one.resources.labels == ("zone=a",)


def test_job_without_a_name_has_its_command_as_name_and_key(tmp_path: Path) -> None:
    long = ["x" * 100, "y" * 300]
    one, other, longest = loaded(tmp_path, [{"argv": ["echo", 1]}, {"script": "a b.py"}, {"argv": long}])
    assert (one.name, one.key) == ("echo 1", "echo 1")
    assert (other.name, other.key) == ("{python} a b.py", "'{python}' 'a b.py'")
    assert longest.name == "x" * 60
    assert (longest.key or "").startswith("sha256:")
    (like_an_id,) = loaded(tmp_path, [{"argv": ["j7"]}])
    assert (like_an_id.key or "").startswith("sha256:")
    with pytest.raises(SettingsError, match="the key 'echo 1' is used twice"):
        loaded(tmp_path, [{"argv": ["echo", "1"]}, {"argv": ["echo", 1]}])


FINE: dict[str, Any] = {"name": "a", "argv": ["x"]}


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({**FINE, "gpu_id": 0}, "jobs[0].gpu_id: is no setting; Hostler chooses the device"),
        (
            {**FINE, "expected_output": "x"},
            "jobs[0].expected_output: is no setting; write the result to $HOSTLER_RESULT",
        ),
        ({**FINE, "prioritty": 1}, "jobs[0].prioritty: is no setting; did you mean 'priority'?"),
        ({**FINE, "analysis_type": "sieve"}, "jobs[0].analysis_type: should be 'script' (found 'sieve')"),
        ({**FINE, "script": "x.py"}, "jobs[0]: give its command as exactly one of argv, run and script"),
        ({**FINE, "args": ["x"]}, "jobs[0]: args belong to a script"),
        ({**FINE, "timeout": 1, "walltime_s": 1}, "jobs[0]: walltime_s and timeout mean the same"),
        ({**FINE, "job_id": "b"}, "jobs[0]: name and job_id mean the same; keep name"),
        ({"name": "a"}, "jobs[0]: give its command"),
        ({"name": "a", "argv": "ls -l"}, "jobs[0].argv: should be a list (found 'ls -l')"),
        (
            {**FINE, "argv": ["x", True]},
            "jobs[0].argv[1]: should be a text or a number (put it in quotes) (found True)",
        ),
        ({**FINE, "env": {"A": False}}, "jobs[0].env.A: should be a text or a number (put it in quotes) or a mapping"),
        ({**FINE, "outputs": True}, "jobs[0].outputs: should be a text or a number (put it in quotes) (found True)"),
        ({**FINE, "nodes": ["a", True]}, "jobs[0].nodes[1]: should be a text or a number (put it in quotes)"),
        ({**FINE, "labels": {"zone": True}}, "jobs[0].labels: the value of zone should be a text or a number"),
        ({"name": "a", "argv": ["x", "a\0"]}, "the text contains a NUL character (U+0000)"),
        ({"name": "a", "argv": []}, "jobs[0].argv: the list should have at least 1 item"),
        ({"name": "", "argv": ["x"]}, "jobs[0].name: the text should have at least 1 character"),
        ({**FINE, "priority": 1 << 40}, "jobs[0].priority: should be less than"),
        ({**FINE, "walltime_s": 0}, "jobs[0].walltime_s: should be greater than 0"),
        ({**FINE, "walltime_s": 1e10}, "jobs[0].walltime_s: should be less than or equal to"),
        ({**FINE, "resources": {"memory_gb": 1e300}}, "jobs[0].resources.memory_gb: should be less than or equal to"),
        ({**FINE, "key": "j7"}, "jobs[0]: the key 'j7' looks like the id of a job"),
        ({**FINE, "name": "j7"}, "jobs[0]: the key 'j7' looks like the id of a job"),
        (5, "jobs[0]: should be a mapping (found 5)"),
        ({**FINE, "work": "sweep"}, "jobs[0].work: should be 'script', 'selfplay', 'training',"),
        ({**FINE, "expected_s": 0}, "jobs[0].expected_s: should be greater than 0 or a mapping (found 0)"),
        ({**FINE, "expected_s": {"T4": -1}}, "jobs[0].expected_s.T4: should be greater than 0 (found -1)"),
        ({**FINE, "checkpoints": 1}, "jobs[0].checkpoints: should be a valid boolean"),
        ({**FINE, "resources": {"gpus": 0}}, "jobs[0].resources.gpus: should be greater than or equal to 1"),
        ({**FINE, "resources": {"tiers": [4]}}, "jobs[0].resources.tiers[0]: should be 1, 2 or 3 (found 4)"),
        ({**FINE, "resources": {"tiers": [1, 1]}}, "jobs[0].resources: tiers names one twice; once is enough"),
        (
            {**FINE, "resources": {"shards": True}},
            "jobs[0].resources: shards spreads vram_gb over several GPUs; give it",
        ),
        ({**FINE, "resources": {"device": "cpu", "cpu_too": True}}, "jobs[0].resources: cpu_too allows for a CPU slot"),
    ],
)
def test_a_fault_is_told(tmp_path: Path, job: object, message: str) -> None:
    with pytest.raises(SettingsError, match=r"jobs\.json:1:\d+: " + re.escape(message)):
        loaded(tmp_path, [job])


def test_faults_in_yaml_have_their_line(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text("# first\n- name: a\n  argv: [x]\n- name: b\n  argv: [x]\n  after: {}\n")
    with pytest.raises(SettingsError, match=r"jobs\.yaml:6:10: jobs\[1\]\.after: should be a list \(found \{\}\)"):
        load_jobs(path)


def test_a_key_names_one_job(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"jobs\.json:1:\d+: the key 'a' is used twice"):
        loaded(tmp_path, [FINE, FINE])


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nodes: is no setting"):
        loaded(tmp_path, {"nodes": []})
    with pytest.raises(SettingsError, match="the whole: should be a mapping"):
        loaded(tmp_path, "jobs")


@pytest.mark.parametrize("field", ["files", "outputs"])
@pytest.mark.parametrize("pattern", ["/etc/passwd", "../x", "a/../../b", "a[0-9].csv", ""])
def test_patterns_of_files_stay_in_the_folder(tmp_path: Path, field: str, pattern: str) -> None:
    with pytest.raises(SettingsError, match=rf"{field}\[0\]"):
        loaded(tmp_path, [{"name": "a", "argv": ["true"], field: [pattern]}])


def test_files_and_outputs_arrive(tmp_path: Path) -> None:
    (spec,) = loaded(tmp_path, [{"name": "a", "argv": ["true"], "files": ["*.py"], "outputs": ["out/**", "a.csv"]}])
    assert isinstance(spec.payload, ScriptPayload)
    assert (spec.payload.files, spec.payload.outputs) == (("*.py",), ("out/**", "a.csv"))


def test_secrets_are_values_of_variables_by_their_names(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text("- {name: a, argv: [x], env: {SEED: '1', HF_TOKEN: {secret: hf}}}\n")
    (spec,) = load_jobs(file)
    assert isinstance(spec.payload, ScriptPayload)
    assert (spec.payload.env, spec.payload.secrets) == ({"SEED": "1"}, {"HF_TOKEN": "hf"})
    file.write_text("- {name: a, argv: [x], env: {HF_TOKEN: {secret: 'job:00'}}}\n")
    with pytest.raises(SettingsError, match="secret"):
        load_jobs(file)
