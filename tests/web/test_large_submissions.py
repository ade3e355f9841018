"""Submissions of many jobs: read apart from the event loop, known by the same fingerprint, few searches for garbage."""

from __future__ import annotations

import gc
import hashlib
import json
import threading
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model import codec
from hostler.model.groups import GroupSpec
from hostler.model.inputs import Submit, SubmitGroup
from hostler.web import answers, jobs
from hostler.web.answers import FEW_JOBS, LARGE_BYTES
from hostler.web.memory import few_searches
from tests.core.builders import script, sweep
from tests.web.core_desk import Window

MANY = [{"name": f"job-{n}", "argv": ["python", "train.py", f"--seed={n}"]} for n in range(2000)]


def test_large_body_is_read_in_a_thread(served: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    read = jobs.read_jobs

    def note(body: bytes) -> Any:
        threads.append(threading.current_thread())
        return read(body)

    monkeypatch.setattr(jobs, "read_jobs", note)
    assert len(codec.adapter(Any).dump_json(MANY)) > LARGE_BYTES
    assert len(served.post("/api/v1/jobs", MANY).json["ids"]) == len(MANY)
    assert served.post("/api/v1/jobs", MANY[:1]).status == 201
    assert threads[0] is not threads[1]


def test_fault_of_a_large_body_names_its_job(served: Window) -> None:
    seq = served.desk.status().seq
    reply = served.post("/api/v1/jobs", [*MANY, {"name": "bad", "argv": ["x"], "gpus": "many"}])
    assert (reply.status, reply.json["error"]) == (422, "SpecError")
    assert f"jobs[{len(MANY)}].gpus" in reply.json["message"]
    assert served.desk.status().seq == seq


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=40)
@given(
    value=st.lists(JSON, min_size=1) | st.dictionaries(st.text(), JSON | st.lists(JSON), min_size=1),
    indent=st.sampled_from([None, 1]),
    ascii=st.booleans(),
)
def test_text_read_in_parts_is_that_read_at_once(value: Any, indent: int | None, ascii: bool) -> None:
    try:
        body = json.dumps(value, indent=indent, ensure_ascii=ascii).encode()
    except UnicodeEncodeError:
        return
    read = answers._in_parts(b" \n" + body + b"\t\r\n")
    assert read == answers.pydantic_core.from_json(body)
    assert json.dumps(read) == json.dumps(answers.pydantic_core.from_json(body))


@pytest.mark.parametrize(
    "text",
    [
        "", "7", "[", "[1", "[1,", "[1,]", "[1 2]", "[1]]", "[1] x", "[NaN]", "[,1]", "[01]", "[1,,2]", "{", '{"a"',
        '{"a":', '{"a":1', '{"a":1,}', '{"a" 1}', '{"a":1 "b":2}', '{"a":1}}', '{"a":1} x', '{"a":NaN}', "{1:2}",
        '{,"a":1}', '{"a":[1}', '{"a":[1,]}', '{"a":[1]]}', '{"a":}', "[1}", '{"a":1]', "{}", "[]",
    ],
)  # fmt: skip
def test_text_that_cannot_be_read_in_parts_is_left_to_the_whole_reader(text: str) -> None:
    assert answers._in_parts(text.encode()) is None


def test_jobs_of_a_large_group_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest text that one call reads is a job."""
    lengths: list[int] = []
    read = answers.pydantic_core.from_json

    def noted(data: bytes, **options: Any) -> Any:
        lengths.append(len(data))
        return read(data, **options)

    monkeypatch.setattr(answers.pydantic_core, "from_json", noted)
    group = {"group": {"name": "g"}, "jobs": MANY}
    assert answers.decode(json.dumps(group).encode()) == group
    assert max(lengths) <= max(len(json.dumps(each)) for each in MANY)


def test_large_text_that_is_not_json_is_refused_as_a_small_one(served: Window) -> None:
    body = json.dumps(MANY).encode()
    for wrong in (body[:-1], body + b"]", body.replace(b'"argv"', b"argv", 1)):
        reply = served.ask("POST", "/api/v1/jobs", wrong)
        assert (reply.status, reply.json["error"]) == (422, "SpecError")
        assert "is not JSON" in reply.json["message"]
    twice = body.replace(b'"name": "job-7"', b'"name": "x", "name": "job-7"', 1)
    assert "[7].name is given twice" in served.ask("POST", "/api/v1/jobs", twice).json["message"]


@pytest.mark.anyio
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("group", [False, True])
async def test_fingerprint_of_many_jobs_is_that_of_the_whole_request(group: bool, strict: bool) -> None:
    specs = (*(script(f"s{n}", key=f"k{n}") for n in range(FEW_JOBS)), sweep("ß"), script('"jobs":[', after=("k1",)))
    plain = Submit(specs=specs, strict=strict)
    wish = SubmitGroup(spec=GroupSpec(name='x"specs":["jobs":['), jobs=specs, strict=strict) if group else plain
    text = f"what\n{type(wish).__name__}\n".encode() + codec.adapter(type(wish)).dump_json(wish)
    assert await answers._fingerprint("what", wish) == hashlib.sha256(text).hexdigest()


def test_searches_for_garbage_come_back_after_a_large_body() -> None:
    usual = gc.get_threshold()
    with few_searches(b"x"):
        assert gc.get_threshold() == usual
    large = b"x" * (LARGE_BYTES + 1)
    first, second = few_searches(large), few_searches(large)
    with first:
        with second:
            assert gc.get_threshold()[0] == usual[0]
            assert min(gc.get_threshold()[1:]) > 1_000_000
        assert min(gc.get_threshold()[1:]) > 1_000_000
    assert gc.get_threshold() == usual
    gc.unfreeze()
