"""What can be asked for, and everything that must be refused."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from hostler.model import codec
from hostler.web import answers
from tests.core.builders import ended, script, sweep
from tests.patience import PATIENCE_S
from tests.snapshots.kept import kept
from tests.web.core_desk import Window

JOBS = "/api/v1/jobs"
GOOD: dict[str, Any] = {"name": "a", "payload": {"kind": "script", "schema": 1, "argv": ["true"]}}
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
HOSTILE = ["; rm -rf ~", "$(reboot)", "a\nb\x1b[2J", "'\"`", "[bold]x[/bold]", "\u202egnp", "a" * 256, "ß 名"]


def submit(served: Window, *specs: Any) -> Any:
    return served.post(JOBS, [codec.plain(spec) for spec in specs])


def test_jobs_are_submitted_together_and_named_in_order(served: Window) -> None:
    reply = submit(served, script("a", key="a"), sweep("s", stop=2**70), script("c", after=("a",)))
    told = {"ids": ["j1", "j2", "j3"], "notes": [], "gpu_by_default": 0, "with_earlier_files": []}
    assert (reply.status, reply.json) == (201, told)
    assert served.desk.job("j2").sweep.total == 2**70  # type: ignore[union-attr]


def test_a_key_makes_submission_repeatable_and_not_overwritable(served: Window) -> None:
    assert submit(served, script("a", key="a")).json == submit(served, script("a", key="a")).json
    reply = submit(served, script("b", key="a"))
    assert (reply.status, reply.json["error"]) == (409, "Conflict")


def test_sweep_with_a_snapshot_is_accepted_once_the_snapshot_is_here(served: Window, tmp_path: Path) -> None:
    reply = submit(served, script("a"), sweep("s", snapshot="ab" * 32))
    assert (reply.status, reply.json["error"]) == (422, "SpecError")
    assert "is not here; nothing was submitted" in reply.json["message"]
    assert served.get(JOBS).json == []
    (tmp_path / "search.py").touch()
    digest = kept(served.desk.snapshots(), tmp_path)
    assert submit(served, sweep("s", snapshot=digest)).status == 201
    assert served.get(f"{JOBS}/j1").json["spec"]["payload"]["snapshot"] == digest


def test_one_bad_job_keeps_all_out(served: Window) -> None:
    reply = submit(served, script("a"), script("b", after=("nobody",)))
    assert (reply.status, reply.json["error"]) == (422, "SpecError")
    assert served.get(JOBS).json == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"nmae": "b"}, "jobs[0].nmae"),
        ({"name": 7}, "jobs[0].name"),
        ({"name": ""}, "jobs[0].name"),
        ({"name": "x" * 257}, "jobs[0].name"),
        ({"priority": "high"}, "jobs[0].priority"),
        ({"payload": {}}, "jobs[0].payload"),
        ({"payload": {"kind": "magic"}}, "jobs[0].payload"),
        ({"payload": {"kind": "script", "schema": 2, "argv": ["x"]}}, "schema"),
        ({"payload": {"kind": "script", "schema": 1, "argv": []}}, "argv"),
        ({"payload": {"kind": "script", "schema": 1, "argv": [1]}}, "argv[0]"),
        ({"payload": {"kind": "script", "schema": 1, "argv": "rm -rf /"}}, "argv"),
        ({"payload": None}, "jobs[0].payload"),
        ({"resources": {"vram_gb": -1}}, "vram_gb"),
        ({"retry": {"max_attempts": {"boredom": 1}}}, "max_attempts"),
        ({"walltime_s": 0}, "walltime_s"),
    ],
)
def test_a_wrong_field_is_named(served: Window, change: dict[str, Any], named: str) -> None:
    reply = served.post(JOBS, [{**GOOD, **change}])
    assert (reply.status, reply.json["error"]) == (422, "SpecError")
    assert named in reply.json["message"]
    assert served.desk.status().jobs["pending"] == 0  # type: ignore[index]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"\xff\xfe",
        b"[",
        json.dumps([GOOD]).encode()[:-2],
        b"{}",
        b"null",
        b'"jobs"',
        b"[1]",
        b"[[]]",
        b"[" * 100_000,
        b'[{"name": "\\ud800"}]',
        b'[{"name": NaN}]',
        b"9" * 100_000,
        b'["' + b"x" * 10_000_000 + b'"]',
    ],
    ids=lambda body: repr(body[:12]),
)
def test_bodies_that_are_no_jobs(served: Window, body: bytes) -> None:
    reply = served.ask("POST", JOBS, body)
    assert (reply.status, reply.json["error"]) == (422, "SpecError")
    assert len(reply.json["message"]) < 2000
    assert served.desk.driver.state.jobs == {}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"group": {"name": "a"}, "group": {"name": "b"}, "jobs": []}', "group"),
        ('{"group": {"name": "a", "name": "b"}, "jobs": []}', "group.name"),
        ('{"group": {"name": "a"}, "jobs": [{"argv": ["true"]}, {"argv": ["true"], "env": {"A": "1", "A": "2"}}]}',
         "jobs[1].env.A"),
    ],
    ids=["top", "nested", "in a list"],
)  # fmt: skip
def test_field_that_is_given_twice_is_refused_by_its_path(served: Window, body: str, field: str) -> None:
    reply = served.ask("POST", "/api/v1/groups", body.encode())
    assert (reply.status, reply.json["error"]) == (422, "SpecError")
    assert f"{field} is given twice" in reply.json["message"]
    assert served.desk.driver.state.groups == {}


def test_priority_that_is_given_twice_is_refused(served: Window) -> None:
    submit(served, script("a"))
    reply = served.ask("POST", f"{JOBS}/j1/priority", b'{"priority": 1, "priority": 2}')
    assert (reply.status, "priority is given twice" in reply.json["message"]) == (422, True)


@pytest.mark.parametrize("path", [f"{JOBS}/a%00b", f"{JOBS}/a%00b/story", f"{JOBS}?called=a%00b", f"{JOBS}?node=%00"])
def test_name_with_nul_in_a_path_or_query_is_refused(served: Window, path: str) -> None:
    assert served.get(path).status == 422
    assert served.get(f"{JOBS}/{'x' * 257}").status == 422


@pytest.mark.parametrize("field", ["name", "key", "config"])
@pytest.mark.parametrize(("text", "why"), [("a\0b", "NUL"), ("x" * 257, "256")])
def test_name_with_nul_or_too_long_is_refused_and_not_cut(served: Window, field: str, text: str, why: str) -> None:
    for job in (GOOD, {"argv": ["true"]}):
        reply = served.post(JOBS, [{**job, field: text}])
        assert (reply.status, field in reply.json["message"], why in reply.json["message"]) == (422, True, True)
    group = served.post("/api/v1/groups", {"group": {"name": text}, "jobs": [GOOD]})
    assert (group.status, why in group.json["message"]) == (422, True)
    assert served.desk.driver.state.jobs == {}


def test_a_string_of_ten_megabytes_is_refused_by_its_length(served: Window) -> None:
    reply = served.post(JOBS, [{**GOOD, "name": "x" * 10_000_000}])
    assert (reply.status, "jobs[0].name" in reply.json["message"]) == (422, True)


@pytest.mark.parametrize("declared", [True, False], ids=["by its length", "by its bytes"])
def test_a_body_beyond_the_limit_is_too_large(served: Window, monkeypatch: pytest.MonkeyPatch, declared: bool) -> None:
    monkeypatch.setattr(answers, "MAX_BODY_BYTES", 1000)
    length = "Content-Length: 2000" if declared else "Transfer-Encoding: chunked"
    reply = raw(served, length, b"" if declared else b"7d0\r\n" + b" " * 2000 + b"\r\n")
    assert b" 413 " in reply.splitlines()[0]
    assert b'"error":"BodyTooLarge"' in reply
    assert b"1000 bytes" in reply


def test_a_body_of_the_limit_is_not(served: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps([GOOD]).encode()
    monkeypatch.setattr(answers, "MAX_BODY_BYTES", len(body))
    assert served.ask("POST", JOBS, body).status == 201


def test_a_body_that_is_cut_off_does_nothing_and_is_no_trouble(served: Window) -> None:
    body = json.dumps([GOOD]).encode()
    raw(served, f"Content-Length: {len(body) + 5}", body, half_close=True)
    assert served.get("/status").json["troubles"] == 0
    assert served.desk.driver.state.jobs == {}


def raw(served: Window, header: str, body: bytes, half_close: bool = False) -> bytes:
    """What the server says to a hand-made POST."""
    token = served.headers["Authorization"]
    head = f"POST {JOBS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n{header}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S) as connection:
        connection.sendall(head.encode() + body)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        said = b""
        while not said.endswith(b"}") and (piece := connection.recv(65536)):
            said += piece
        return said


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_and_keys_come_back_as_they_were(served: Window, name: str) -> None:
    assert served.post(JOBS, [{**GOOD, "name": name, "key": name}]).status == 201
    assert served.get(f"{JOBS}/{quote(name, safe='')}").json["job"]["name"] == name


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON)
def test_no_body_breaks_the_server(served: Window, value: Any) -> None:
    reply = served.ask("POST", JOBS, json.dumps(value).encode())
    assert reply.status == (201 if value == [] else 422)
    assert served.get("/healthz").status == 200


def test_cancel_retry_and_priority_answer_with_the_job(served: Window) -> None:
    submit(served, script("a", key="a"), script("b", after=("a",)))
    reply = served.post(f"{JOBS}/j2/priority", {"priority": 7})
    assert (reply.status, reply.json["priority"]) == (200, 7)
    assert served.post(f"{JOBS}/j1/cancel", {"reason": "no need"}).json["cancelling"] is True
    served.tell(ended("j1.1", signal=15, reason="cancelled"))
    assert served.get(f"{JOBS}/j1").json["job"]["state"] == "cancelled"
    assert served.post(f"{JOBS}/j1/retry").json["state"] in ("pending", "leased")
    assert "no need" in served.get(f"{JOBS}/j1/story").body.decode()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("j9/cancel", None, 404),
        ("j9/retry", None, 404),
        ("j1/retry", None, 409),
        ("j1/priority", None, 422),
        ("j1/priority", {"priority": 1.5}, 422),
        ("j1/priority", {"priority": 1, "why": "x"}, 422),
        ("j1/cancel", {"raeson": "x"}, 422),
        ("j1/cancel", [], 422),
    ],
)
def test_what_cannot_be_done_is_refused(served: Window, path: str, body: Any, status: int) -> None:
    submit(served, script("a"))
    before = len(served.desk.driver.entries)
    assert served.post(f"{JOBS}/{path}", body).status == status
    assert len(served.desk.driver.entries) == before


def test_draining_is_accepted(served: Window) -> None:
    assert served.post("/api/v1/controller/drain").status == 202
    assert served.desk.drained == 1


class TestNodes:
    NODE = "/api/v1/nodes/n"

    def test_a_node_is_cordoned_drained_and_resumed(self, served: Window) -> None:
        reply = served.post(f"{self.NODE}/cordon", {"why": "a loud fan", "who": "anna"})
        assert (reply.status, reply.json["name"], reply.json["cordon"]["state"]) == (200, "n", "cordoned")
        assert (reply.json["cordon"]["why"], reply.json["cordon"]["who"]) == ("a loud fan", "anna")
        submit(served, script("a"))
        assert served.desk.job("j1").job.state == "pending"
        assert served.post(f"{self.NODE}/drain", {"now": True}).json["cordon"]["state"] == "drained"
        assert served.post(f"{self.NODE}/resume", None).json["cordon"] is None
        assert served.desk.job("j1").job.state == "leased"

    @pytest.mark.parametrize("what", ["cordon", "drain", "resume"])
    def test_once_more_does_no_harm(self, served: Window, what: str) -> None:
        replies = [served.post(f"{self.NODE}/{what}", None) for _ in range(2)]
        assert [reply.status for reply in replies] == [200, 200]
        assert replies[0].json == replies[1].json

    @pytest.mark.parametrize("what", ["cordon", "drain", "resume"])
    def test_an_unknown_node_is_not_found(self, served: Window, what: str) -> None:
        reply = served.post(f"/api/v1/nodes/x/{what}", None)
        assert (reply.status, reply.json["error"]) == (404, "NotFound")
        assert "it has n" in reply.json["message"]

    @pytest.mark.parametrize("body", [{"wyh": "x"}, {"why": 7}, {"why": ""}, {"why": "x" * 1001}, {"now": "yes"}, []])
    def test_a_wrong_field_does_nothing(self, served: Window, body: Any) -> None:
        assert served.post(f"{self.NODE}/drain", body).status == 422
        assert served.get("/api/v1/nodes").json[0]["cordon"] is None
