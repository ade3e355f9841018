"""Jobs in short form: needs beside the command, and the fields that requests may leave out."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from hostler.model.errors import SettingsError
from hostler.model.faults import faults_in, rules_of
from hostler.model.schemas import keys_at, node_at
from hostler.model.work import Resources, ScriptPayload
from hostler.settings import load_jobs
from hostler.settings.jobs import NEEDS, JobForm, Jobs, ShortJob
from hostler.settings.jobsfile import short_spec
from hostler.settings.schema import schema_of

FINE: dict[str, Any] = {"name": "a", "argv": ["x"]}


def in_file(tmp_path: Path, job: object) -> Resources:
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps([job]))
    (spec,) = load_jobs(path)
    return spec.resources


def submitted(**job: Any) -> ShortJob:
    return ShortJob.model_validate_json(json.dumps(job))


def refusal(**job: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        submitted(**job)
    ((_, faults),) = faults_in(caught.value, job).items()
    return rules_of(faults)


def test_needs_beside_the_command_are_those_of_resources(tmp_path: Path) -> None:
    needs = {
        "device": "gpu",
        "vram_gb": 8,
        "memory_gb": 2,
        "gpus": 2,
        "shards": True,
        "shared": True,
        "cpus": 1.5,
        "tiers": [2, 1],
        "disk_gb": 3,
        "nodes": ["rig"],
        "exclude_nodes": ["old"],
        "gpu_models": ["4090"],
        "exclude_gpu_models": ["T4"],
        "providers": ["lab"],
        "labels": ["zone=b"],
    }
    assert needs.keys() | {"cpu_too"} == set(NEEDS)
    assert in_file(tmp_path, {**FINE, **needs}) == in_file(tmp_path, {**FINE, "resources": needs})


def test_needs_beside_the_command_and_in_resources_go_together(tmp_path: Path) -> None:
    assert in_file(tmp_path, {**FINE, "vram_gb": 8, "resources": {"shards": True}}).shards
    assert in_file(tmp_path, {**FINE, "device": "any", "resources": {"cpu_too": True}}).cpu_too


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("device_in_resources", [False, True])
@pytest.mark.parametrize("gpus_in_resources", [False, True])
def test_gpus_on_a_cpu_are_refused_by_both_names(
    tmp_path: Path, gpus: int, device_in_resources: bool, gpus_in_resources: bool
) -> None:
    inner = {**({"device": "cpu"} if device_in_resources else {}), **({"gpus": gpus} if gpus_in_resources else {})}
    outer = {**({} if device_in_resources else {"device": "cpu"}), **({} if gpus_in_resources else {"gpus": gpus})}
    with pytest.raises(SettingsError, match=f"gpus asks for {gpus} GPUs?, and device is cpu; leave one of the two out"):
        in_file(tmp_path, {**FINE, **outer, "resources": inner})


def test_gpus_beside_the_command_state_the_device(tmp_path: Path) -> None:
    assert in_file(tmp_path, {**FINE, "gpus": 1}).device == "gpu"
    assert in_file(tmp_path, {**FINE, "gpus": 2, "resources": {"device": "any"}}).device == "any"
    assert in_file(tmp_path, {**FINE, "resources": {"gpus": 1}}).device is None


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (
            {**FINE, "gpus": 1, "resources": {"gpus": 2}},
            "jobs[0]: gpus is given beside the command and in resources; keep one of them",
        ),
        (
            {**FINE, "tiers": [], "resources": {"tiers": []}},
            "jobs[0]: tiers is given beside the command and in resources; keep one of them",
        ),
        ({**FINE, "gpus": 0}, "jobs[0].gpus: should be greater than or equal to 1 (found 0)"),
        ({**FINE, "gpu": 1}, "jobs[0].gpu: is no setting; did you mean 'gpus'?"),
        ({**FINE, "shards": True}, "jobs[0]: shards spreads vram_gb over several GPUs; give it"),
        ({**FINE, "device": "cpu", "resources": {"cpu_too": True}}, "jobs[0].resources: cpu_too allows for a CPU slot"),
        ({**FINE, "device": "tpu"}, "jobs[0].device: should be 'any', 'cpu' or 'gpu' (found 'tpu')"),
    ],
)
def test_wrong_needs_beside_the_command_are_named(tmp_path: Path, job: object, message: str) -> None:
    with pytest.raises(SettingsError, match=r"jobs\.json:1:\d+: " + re.escape(message)):
        in_file(tmp_path, job)


SHORT = {"nodes", "exclude_nodes", "gpu_models", "exclude_gpu_models", "providers", "labels"}


def test_schema_knows_needs_beside_the_command_with_their_meaning() -> None:
    schema = schema_of(Jobs)
    resources = TypeAdapter(Resources).json_schema()["properties"]
    assert tuple(field.name for field in fields(Resources)) == NEEDS
    assert set(NEEDS) <= set(keys_at(schema, ("jobs", 0)))
    for name in NEEDS:
        node = dict(node_at(schema, ("jobs", 0, name)) or {})
        assert node.pop("description"), name
        # Where one text is a list, the list is the first of the alternatives.
        first = {**node, **node.pop("anyOf")[0]} if name in SHORT else node
        wanted = {key: value for key, value in resources[name].items() if key != "title"}
        assert {key: first[key] for key in wanted if key != "items"} == {
            key: value for key, value in wanted.items() if key != "items"
        }


def test_needs_beside_the_command_have_the_defaults_of_resources() -> None:
    usual = Resources()
    assert {name: JobForm.model_fields[name].default for name in NEEDS} == {
        name: getattr(usual, name) for name in NEEDS
    }


def test_a_submitted_job_may_leave_out_all_but_the_command() -> None:
    spec = short_spec(submitted(argv=["python", "train.py", "--lr", "0.1"]))
    assert (spec.name, spec.key) == ("python train.py --lr 0.1", None)
    assert spec.payload == ScriptPayload(schema=1, argv=("python", "train.py", "--lr", "0.1"))


def test_the_name_of_a_submitted_job_is_the_beginning_of_its_command() -> None:
    assert short_spec(submitted(argv=["x" * 100])).name == "x" * 60
    assert short_spec(submitted(argv=[""])).name == "job"
    assert short_spec(submitted(script="a.py", args=["1"])).name == "{python} a.py 1"
    named = short_spec(submitted(argv=["x"], name="a"))
    assert (named.name, named.key) == ("a", None)
    assert short_spec(submitted(argv=["x"], name="j1", key="k")).key == "k"


@pytest.mark.parametrize(("cwd", "expected"), [("/abs", "/abs"), ("{attempt}", None)])
def test_where_a_submitted_job_runs(cwd: str, expected: str | None) -> None:
    payload = short_spec(submitted(argv=["x"], cwd=cwd)).payload
    assert isinstance(payload, ScriptPayload)
    assert payload.cwd == expected


@pytest.mark.parametrize("cwd", [".", "src", "../x", "~/x"])
def test_a_relative_folder_is_refused_with_the_remedy(cwd: str) -> None:
    said = refusal(argv=["x"], cwd=cwd)
    assert said.startswith("is a relative path, and the controller reads no path of the machine it comes from. Give")
    assert "snapshot" in said


def test_a_submitted_job_may_name_a_snapshot() -> None:
    payload = short_spec(submitted(argv=["x"], snapshot="a" * 64)).payload
    assert isinstance(payload, ScriptPayload)
    assert (payload.snapshot, payload.cwd) == ("a" * 64, None)
    assert "match pattern" in refusal(argv=["x"], snapshot="A" * 64)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"name": "a"}, "give its command as exactly one of argv, run and script"),
        ({"argv": ["x"], "name": "a", "job_id": "b"}, "name and job_id mean the same; keep name"),
        ({"argv": ["x"], "key": "j7"}, "the key 'j7' looks like the id of a job"),
    ],
)
def test_a_submitted_job_that_contradicts_itself_is_refused(job: dict[str, Any], message: str) -> None:
    assert refusal(**job).startswith(message)


@pytest.mark.parametrize("field", ["outputs", "files"])
@pytest.mark.parametrize("pattern", ["../x", "a/../../x", "/x"])
def test_patterns_that_lead_out_of_the_folder_are_refused(tmp_path: Path, field: str, pattern: str) -> None:
    with pytest.raises(SettingsError, match=field):
        in_file(tmp_path, {**FINE, field: [pattern]})
