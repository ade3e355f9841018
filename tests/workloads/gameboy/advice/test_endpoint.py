"""Calls of a real server on this machine, which does whatever servers do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from hostler.workloads.gameboy.advice.answers import PROMISES, Advice
from hostler.workloads.gameboy.advice.counts import Came
from hostler.workloads.gameboy.advice.endpoint import BODY_MAX, Endpoint, Said
from tests.workloads.gameboy.advice import stub
from tests.workloads.gameboy.advice.asking import asking
from tests.workloads.gameboy.advice.stub import Stub

ACTIONS = ("noop", "left", "right")
KEY = "a-token-that-is-secret"


@pytest.fixture
def server() -> Iterator[Stub]:
    """One that advises to go right."""
    with stub.serving() as made:
        yield made


def ask(url: str, **changes: Any) -> Said:
    """One call."""
    endpoint = Endpoint(asking(url=url, **{"timeout_s": 60, **changes}), ACTIONS, KEY, time.monotonic)
    try:
        return endpoint.ask("Where to?")
    finally:
        endpoint.close()


def test_what_is_asked_is_constrained(server: Stub) -> None:
    said = ask(server.url, model="m", tokens=99)
    assert said == Said(Came.ANSWERED, Advice(2, 0.5))
    (asked,) = server.asked
    assert asked["path"] == "/v1/chat/completions"
    assert {key.lower(): each for key, each in asked["headers"].items()}["authorization"] == f"Bearer {KEY}"
    body = asked["body"]
    assert (body["model"], body["max_tokens"], body["messages"][1]["content"]) == ("m", 99, "Where to?")
    form = body["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["schema"]["properties"] == {
        "action": {"enum": list(ACTIONS)},
        "promise": {"enum": list(PROMISES)},
    }


def test_a_connection_is_used_again(server: Stub) -> None:
    endpoint = Endpoint(asking(url=server.url, timeout_s=60), ACTIONS, None, time.monotonic)
    assert [endpoint.ask("?").came for _ in range(3)] == [Came.ANSWERED] * 3
    endpoint.close()
    assert not any("authorization" in {key.lower() for key in each["headers"]} for each in server.asked)


@pytest.mark.parametrize(
    ("answer", "came"),
    [
        (stub.says("go EAST"), Came.GARBAGE),
        (stub.says({"action": "start", "promise": 1}), Came.GARBAGE),
        (lambda handler: handler.reply(b"<html>hello</html>"), Came.GARBAGE),
        (lambda handler: handler.reply(b"x" * (BODY_MAX * 2)), Came.GARBAGE),
        (stub.status(429), Came.LIMITED),
        (stub.status(500), Came.FAILED),
        (stub.status(503), Came.FAILED),
        (stub.status(404), Came.DENIED),
        (stub.status(401), Came.DENIED),
        (stub.status(307, Location="http://elsewhere.example/"), Came.DENIED),
        (stub.breaks_off, Came.REFUSED),
    ],
)
def test_what_goes_wrong_is_told_by_its_kind(server: Stub, answer: stub.Answered, came: Came) -> None:
    server.answer = answer
    said = ask(server.url)
    assert (said.came, said.advice) == (came, None)
    assert said.words is not None
    assert said.words.startswith(server.url)


@pytest.mark.parametrize(
    ("header", "pause_s"), [("7", 7.0), ("0", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("-1", None), ("", None)]
)
@pytest.mark.parametrize("number", [429, 503])
def test_who_wants_to_be_left_alone_says_for_how_long(
    server: Stub, number: int, header: str, pause_s: float | None
) -> None:
    server.answer = stub.status(number, Retry_After=header)
    assert ask(server.url).pause_s == pause_s


@pytest.mark.parametrize("answer", [stub.hangs, stub.drips])
def test_whoever_hangs_or_drips_is_not_waited_for(server: Stub, answer: stub.Answered) -> None:
    server.answer = answer
    assert ask(server.url, timeout_s=0.3).came is Came.TIMEOUT


def test_where_nobody_listens_is_told() -> None:
    said = ask(f"http://127.0.0.1:{stub.closed_port()}")
    assert said.came is Came.REFUSED


def test_a_token_is_never_told(server: Stub) -> None:
    server.answer = lambda handler: handler.reply(f"who is {handler.headers['authorization']}?".encode(), 403)
    said = ask(server.url)
    assert said.words is not None
    assert "who is Bearer ***?" in said.words
    assert KEY not in said.words
