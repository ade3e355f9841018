"""What attempts that run have left is told as it changes, to the controller of now, and no oftener than asked."""

from __future__ import annotations

import time

from .harness import Agent, Client, Json
from .test_attempts import attempt

WRITES = """
import json, os, sys, time
def leave(value):
    with open(os.environ["HOSTLER_RESULT"] + ".new", "w") as output:
        output.write(value)
    os.rename(os.environ["HOSTLER_RESULT"] + ".new", os.environ["HOSTLER_RESULT"])
for value in sys.argv[1:]:
    leave(value)
    sys.stdin.readline() if value == "wait" else time.sleep(1.5)
time.sleep(3600)
"""


def writing(name: str, *values: str, **fields: object) -> Json:
    return attempt(name, "python3", "-c", WRITES, *values, **fields)


def results(client: Client, count: int) -> list[tuple[str, object]]:
    told = [client.message("so_far") for _ in range(count)]
    return [(each["attempt"], each["result"]) for each in told]


def test_what_changes_is_told_as_it_does(agent: Agent) -> None:
    client = agent.client()
    client.launch(writing("j1.1", '{"games": 1}', "no JSON", '{"games": 2}', tell_s=0.0))
    assert results(client, 2) == [("j1.1", {"games": 1}), ("j1.1", {"games": 2})]


def test_what_nobody_asked_for_is_not_told(agent: Agent) -> None:
    client = agent.client()
    client.launch(writing("j1.1", "1", queue="cpu0"), writing("j2.1", "2", queue="cpu1", tell_s=0.0))
    assert results(client, 1) == [("j2.1", 2)]
    time.sleep(2.5)  # two looks
    client.sync()
    assert [each["attempt"] for each in client.messages if each["type"] == "so_far"] == ["j2.1"]


def test_it_is_not_told_oftener_than_asked_but_told_at_last(agent: Agent) -> None:
    client = agent.client()
    client.launch(writing("j1.1", "1", "2", "3", "4", tell_s=6.0))
    began = time.monotonic()
    assert results(client, 2) == [("j1.1", 1), ("j1.1", 4)]
    assert time.monotonic() - began >= 6.0


def test_whoever_connects_next_is_told_anew(agent: Agent) -> None:
    client = agent.client()
    client.launch(writing("j1.1", "1", tell_s=1000.0))
    assert results(client, 1) == [("j1.1", 1)]
    client.close()
    assert results(agent.client(), 1) == [("j1.1", 1)]


def test_a_result_that_is_too_long_is_left_to_the_end(agent: Agent) -> None:
    client = agent.client()
    client.launch(writing("j1.1", '"%s"' % ("x" * 100), '"short"', tell_s=0.0, result_bytes=50))
    assert results(client, 1) == [("j1.1", "short")]
