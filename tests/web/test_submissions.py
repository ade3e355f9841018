"""Jobs of requests in short form and in full form, and the messages for wrong ones."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.model.work import Resources, ScriptPayload
from tests.web.core_desk import Window

JOBS, GROUPS = "/api/v1/jobs", "/api/v1/groups"
FULL: dict[str, Any] = {"name": "a", "payload": {"kind": "script", "schema": 1, "argv": ["true"]}}
SHORT: dict[str, Any] = {"argv": ["python", "train.py"]}


def spec_of(served: Window, job: str) -> Any:
    return served.desk.driver.state.jobs[job].spec


def test_a_job_in_short_form_is_the_job_in_full_form(served: Window) -> None:
    full = {
        "name": "python train.py",
        "payload": {"kind": "script", "schema": 1, "argv": ["python", "train.py"], "env": {"A": "1"}},
        "resources": {"device": "gpu", "gpus": 1},
    }
    short = {**SHORT, "env": {"A": "1"}, "resources": {"device": "gpu", "gpus": 1}}
    flat = {**SHORT, "env": {"A": "1"}, "gpus": 1}
    assert served.post(JOBS, [full, short, flat]).json["ids"] == ["j1", "j2", "j3"]
    assert spec_of(served, "j1") == spec_of(served, "j2") == spec_of(served, "j3")


def test_one_text_is_a_list_and_a_number_is_a_text(served: Window) -> None:
    full = {
        "name": "echo 3",
        "payload": {
            "kind": "script", "schema": 1, "argv": ["echo", "3"], "env": {"A": "1"}, "outputs": ["*.pt"],
        },
        "resources": {"nodes": ["here"], "gpu_models": ["4090"], "labels": ["zone=a"]},
        "after": ["j1"],
    }  # fmt: skip
    short = {
        "argv": ["echo", 3], "env": {"A": 1}, "outputs": "*.pt", "nodes": "here", "gpu_models": 4090,
        "labels": {"zone": "a"}, "after": "j1",
    }  # fmt: skip
    served.post(JOBS, [FULL])
    assert served.post(JOBS, [full, short]).json["ids"] == ["j2", "j3"]
    assert spec_of(served, "j2") == spec_of(served, "j3")


def test_the_key_of_a_short_form_is_not_its_name(served: Window) -> None:
    named = {**SHORT, "name": "train"}
    assert served.post(JOBS, [named, named]).json["ids"] == ["j1", "j2"]
    keyed = {**named, "key": "k"}
    assert served.post(JOBS, [keyed]).json["ids"] == served.post(JOBS, [keyed]).json["ids"] == ["j3"]


def test_both_forms_may_stand_in_one_list_and_depend_on_each_other(served: Window) -> None:
    reply = served.post(JOBS, [{**FULL, "key": "first"}, {**SHORT, "after": ["first"]}])
    assert reply.status == 201
    assert spec_of(served, "j2").after == ("first",)


def test_jobs_of_a_group_may_be_in_short_form(served: Window) -> None:
    jobs = [{**SHORT, "parameters": {"lr": "0.1"}, "vram_gb": 2}, FULL]
    reply = served.post(GROUPS, {"group": {"name": "lr"}, "jobs": jobs})
    assert (reply.status, reply.json["group"]["id"], reply.json["ids"]) == (201, "g1", ["j1", "j2"])
    assert spec_of(served, "j1").resources == Resources(vram_gb=2.0)
    assert spec_of(served, "j1").parameters == {"lr": "0.1"}


def test_full_form_may_name_the_folder_of_its_attempt(served: Window) -> None:
    script = {**FULL, "payload": {**FULL["payload"], "cwd": "{attempt}"}}
    assert served.post(JOBS, [script]).status == 201
    assert served.post(JOBS, [SHORT, script]).status == 201
    payloads = [spec_of(served, name).payload for name in ("j1", "j3")]
    assert [each.cwd for each in payloads if isinstance(each, ScriptPayload)] == [None, None]


def test_a_short_form_starts_in_a_folder_of_its_own_or_from_a_snapshot(served: Window) -> None:
    assert served.post(JOBS, [SHORT, {**SHORT, "cwd": "/data"}]).status == 201
    payloads = [spec_of(served, name).payload for name in ("j1", "j2")]
    assert [each.cwd for each in payloads if isinstance(each, ScriptPayload)] == [None, "/data"]
    reply = served.post(JOBS, [{**SHORT, "snapshot": "0" * 64}])
    assert (reply.status, f"snapshot {'0' * 64} is not here" in reply.json["message"]) == (422, True)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({**SHORT, "cwd": "src"}, "jobs[1].cwd: is a relative path, and the controller reads no path of the machine"),
        ({"name": "a"}, "jobs[1]: give its command as exactly one of argv, run and script"),
        ({**SHORT, "argv": "ls"}, "jobs[1].argv: should be a list (found 'ls')"),
        (
            {**SHORT, "argv": ["ls", True]},
            "jobs[1].argv[1]: should be a text or a number (put it in quotes) (found True)",
        ),
        ({**SHORT, "walltime": 1}, "jobs[1].walltime: is not a field here; did you mean 'walltime_s'?"),
        ({**SHORT, "depends_on": ["a"]}, "jobs[1].depends_on: is not a field here; write `after`"),
        ({**SHORT, "gpus": "1"}, "jobs[1].gpus: should be a valid integer (found '1')"),
        ({**SHORT, "gpus": 1, "resources": {"gpus": 1}}, "jobs[1]: gpus is given beside the command and in resources"),
        ({**SHORT, "resources": {"vram": 1}}, "jobs[1].resources.vram: is not a field here; did you mean 'vram_gb'?"),
        ({**SHORT, "key": "j1"}, "jobs[1]: the key 'j1' looks like the id of a job"),
        (7, "jobs[1]: should be a mapping (found 7)"),
        ({**FULL, "payload": {"kind": "script"}}, "jobs[1].payload.schema: is missing; jobs[1].payload.argv: is miss"),
        ({**FULL, "argv": ["x"]}, "jobs[1].argv: is not a field here"),
    ],
)
def test_a_wrong_job_beside_a_short_form_is_named(served: Window, job: Any, message: str) -> None:
    begin = "the jobs were refused, none was submitted: "
    reply = served.post(JOBS, [SHORT, job])
    assert (reply.status, reply.json["error"]) == (422, "SpecError")
    assert reply.json["message"].startswith(begin + message)
    reply = served.post(GROUPS, {"group": {"name": "g"}, "jobs": [SHORT, job]})
    assert reply.json["message"].startswith(begin + message)
    assert served.desk.driver.state.jobs == {}


def test_faults_of_a_group_and_of_its_jobs_are_listed_together(served: Window) -> None:
    reply = served.post(GROUPS, {"group": {"nam": "g"}, "jobs": [{**SHORT, "gpus": 0}]})
    assert reply.json["message"] == (
        "the jobs were refused, none was submitted: group.name: is missing; group.nam: is not a field here; "
        "did you mean 'name'? (allowed here: name, max_running, max_failures); "
        "jobs[0].gpus: should be greater than or equal to 1 (found 0)"
    )
    assert served.post(GROUPS, []).json["message"].endswith(": the whole: should be a mapping (found [])")
    assert served.post(GROUPS, {"group": {"name": "g"}}).json["message"].endswith(": jobs: is missing")
    assert served.post(GROUPS, {"group": {"name": "g"}, "jobs": {}}).json["message"].endswith("be a list (found {})")


@pytest.mark.parametrize("job", [{"argv": 1}, {"payload": 1}])
def test_of_very_many_faults_the_first_are_listed(served: Window, job: dict[str, Any]) -> None:
    message = served.post(JOBS, [job] * 2000).json["message"]
    assert message.endswith("; and at least 995 more")
    assert message.count("jobs[") == 5


@pytest.mark.parametrize("job", [FULL, SHORT])
@pytest.mark.parametrize("path", [JOBS, GROUPS])
def test_gpus_on_a_cpu_are_refused_by_both_names(served: Window, job: dict[str, Any], path: str) -> None:
    jobs = [{**job, "resources": {"gpus": 2, "device": "cpu"}}]
    reply = served.post(path, jobs if path == JOBS else {"group": {"name": "a"}, "jobs": jobs})
    assert reply.status == 422
    assert "gpus asks for 2 GPUs, and device is cpu; leave one of the two out" in reply.json["message"]


@pytest.mark.parametrize("field", ["outputs", "files"])
@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("../x", "leads out of the folder"),
        ("a/../../x", "leads out of the folder"),
        ("/etc/passwd", "leads out of the folder"),
        ("a\0b", "contains a NUL"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("form", ["short", "full"])
def test_patterns_that_lead_out_of_the_folder_are_refused(
    served: Window, field: str, pattern: str, why: str, form: str
) -> None:
    more = {field: [pattern], "cwd": "/data"}
    job = {**SHORT, **more} if form == "short" else {**FULL, "payload": {**FULL["payload"], **more}}
    reply = served.post(JOBS, [job])
    assert reply.status == 422
    assert field in reply.json["message"]
    assert why in reply.json["message"]


NUL = "contains a NUL character (U+0000), which no text here may have; leave it out"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (JOBS, [{**FULL, "name": "a\0b"}]),
        (JOBS, [{**FULL, "key": "a\0b"}]),
        (JOBS, [{**FULL, "payload": {**FULL["payload"], "argv": ["true", "\0"]}}]),
        (JOBS, [{**FULL, "payload": {**FULL["payload"], "env": {"A": "\0"}}}]),
        (JOBS, [{**SHORT, "after": ["a\0"]}]),
        (GROUPS, {"group": {"name": "a\0b"}, "jobs": [SHORT]}),
        (f"{JOBS}/j1/cancel", {"reason": "a\0b"}),
        ("/api/v1/nodes/n/cordon", {"why": "a\0b"}),
    ],
)
def test_nul_in_any_text_of_a_request_is_refused_with_one_message(served: Window, path: str, body: Any) -> None:
    assert served.post(JOBS, [FULL]).status == 201
    reply = served.post(path, body)
    assert (reply.status, NUL in reply.json["message"]) == (422, True), reply.json
