"""Messages for wrong bodies and parameters name the caller's own fields and have no text of pydantic."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.errors import SpecError
from hostler.web import access, alerts, artifacts, configs, disk, fleet, groups, jobs, secrets
from hostler.web.answers import load
from hostler.web.submissions import read_group, read_jobs
from tests.web.core_desk import Window

THEIRS = re.compile(
    r"Input|[Vv]alue error|Assertion failed|Extra|Field required|Unexpected|[Uu]nable to|[Uu]nion|function-|tagged"
    r"|instance|pydantic|valid (string|tuple|list|dictionary)|after validation|constrained|json_|_type|_error"
)
FAULT = re.compile(r"(?:^|; )([\w.\[\]]+|the whole): (is missing)?")
LETTERS = st.text("abcxyz_", min_size=1, max_size=8)
KNOWN = (
    "name payload kind schema argv script sweep resources gpus tiers retry max_attempts jobs group reason for_s why "
    "who priority env cwd expected_s parameters start stop worker params batch slurm training snapshot float int str"
)
WORDS = st.sampled_from(KNOWN.split())
KEYS = WORDS | LETTERS
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.just(10**30) | st.floats(-2, 2) | KEYS | st.just("")
JUNK = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))
SCRIPT: dict[str, Any] = {
    "name": "a",
    "payload": {"kind": "script", "schema": 1, "argv": ["x"], "env": {"A": "b"}, "submitter": {"env": {}}},
    "resources": {"device": "gpu", "tiers": [1, 2], "labels": ["a=b"]},
    "retry": {"max_attempts": {"exit": 3}},
    "expected_s": {"T4": 3},
    "batch": {"account": "a", "extra": []},
}
SWEEP: dict[str, Any] = {
    "name": "s",
    "payload": {"kind": "sweep", "schema": 1, "start": 0, "stop": 5, "worker": ["w"], "params": {}, "digest": "0" * 64},
}
SHORT: dict[str, Any] = {
    "argv": ["x"],
    "gpus": 1,
    "resources": {"vram_gb": 2},
    "retry": {"max_attempts": {"exit": 3}},
    "expected_s": 5,
    "slurm": {"account": "a"},
    "env": {"A": "b"},
}
BODIES: dict[str, Any] = {
    "jobs": [SCRIPT, SHORT, SWEEP],
    "full": [SCRIPT, SWEEP],
    "group": {"group": {"name": "g", "max_running": 2}, "jobs": [SHORT, SCRIPT]},
}
SHAPES: dict[type, dict[str, Any]] = {
    secrets.SecretBody: {"name": "wandb", "value": "x"},
    groups.CancelGroupBody: {"reason": "x"},
    groups.RetryGroupBody: {"only_failed": True},
    jobs.CancelBody: {"reason": "x"},
    jobs.PriorityBody: {"priority": 1},
    access.TokenBody: {"name": "a", "scope": "read"},
    configs.RollBackBody: {},
    configs.PauseBody: {},
    configs.ResumeConfigBody: {},
    configs.SpawnBody: {},
    artifacts.VerifyBody: {},
    fleet.CordonBody: {"reason": "x"},
    fleet.DrainBody: {"reason": "x"},
    fleet.ResumeBody: {},
    fleet.DeviceCordonBody: {"reason": "x"},
    alerts.AcknowledgeBody: {},
    alerts.SilenceBody: {"rule": "r", "for_s": 3, "why": "w"},
    alerts.ProbeBody: {},
    disk.CleanBody: {},
    disk.UndoBody: {},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(below for key, part in parts for below in places(part, (*path, key)))]


@st.composite
def spoilt(draw: st.DrawFn, good: Any) -> Any:
    """A body with one to three changes: a value replaced, a field added or left out; or some other value."""
    if draw(st.integers(0, 9)) == 0:
        return draw(JUNK)
    made = copy.deepcopy({"": good})
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(made)[1:]))
        around: Any = made
        for part in path[:-1]:
            around = around[part]
        what = draw(st.sampled_from(["replace", "add", "leave out"]))
        if what == "replace":
            around[path[-1]] = draw(JUNK)
        elif what == "add" and isinstance(around[path[-1]], dict):
            around[path[-1]][draw(KEYS)] = draw(JUNK)
        elif what == "leave out" and isinstance(around, dict) and len(path) > 1:
            del around[path[-1]]
    return made[""]


def check(said: str, body: Any) -> None:
    """The text names places of the body, and has no text of pydantic."""
    begin, _, faults = said.partition(": ")
    assert begin in ("the jobs were refused, none was submitted", "the body was refused, nothing was done")
    assert not THEIRS.search(re.sub(r"'[^']*'|\(allowed here[^)]*\)", "", faults)), said
    found = FAULT.findall(faults)
    assert found, said
    for place, missing in found:
        parts: list[Any] = [] if place == "the whole" else re.findall(r"[^.\[\]]+", place)
        at = body
        for i, part in enumerate(parts):
            if missing and i == len(parts) - 1:
                assert part not in at, said
            elif isinstance(at, list):
                at = at[int(part)]
            else:
                assert part in at, said
                at = at[part]


@settings(max_examples=25)
@given(st.data())
@pytest.mark.parametrize("name", BODIES)
def test_a_wrong_submission_is_explained_in_the_words_of_the_caller(name: str, data: st.DataObject) -> None:
    body = data.draw(spoilt(BODIES[name]))
    try:
        (read_group if name == "group" else read_jobs)(json.dumps(body).encode())
    except SpecError as error:
        check(str(error), body if name == "group" else {"jobs": body})


@settings(max_examples=25)
@given(st.data())
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_a_wrong_body_is_explained_in_the_words_of_the_caller(shape: type, data: st.DataObject) -> None:
    body = data.draw(spoilt(SHAPES[shape]))
    try:
        load(shape, json.dumps(body).encode())
    except SpecError as error:
        check(str(error), body)


def test_every_body_of_the_interface_is_tried(served: Window) -> None:
    document = served.get("/api/v1/openapi.json").json
    text = json.dumps(document["paths"])
    tried = {shape.__name__ for shape in SHAPES} | {"JobSpec", "ShortJob", "GroupBody"}
    assert set(re.findall(r"schemas/(\w+)-Input", text)) == tried


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/jobs?limit=x", "limit: should be a valid integer (found 'x')"),
        ("/jobs?limit=0", "limit: should be greater than or equal to 1 (found '0')"),
        ("/jobs?state=gone", "state[0]: should be 'pending', 'leased',"),
        ("/attempts/j1.1/log?stream=both", "stream: should be 'out', 'err' or 'setup' (found 'both')"),
    ],
)
def test_a_wrong_parameter_is_named_in_our_words(served: Window, path: str, said: str) -> None:
    reply = served.get("/api/v1" + path)
    assert (reply.status, reply.json["error"]) == (422, "UsageError")
    assert reply.json["message"].startswith(said)
