"""What attempts that run have left is told as it changes, to the controller of now, and no oftener than asked."""

from __future__ import annotations

import time
from pathlib import Path

from .harness import Agent, Client, Json, until
from .test_attempts import attempt

TWO_LOOKS_S = 2.5
WRITES = """
import os, sys, time
def leave(value):
    with open(os.environ["HOSTLER_RESULT"] + ".new", "w") as output:
        output.write(value)
    os.rename(os.environ["HOSTLER_RESULT"] + ".new", os.environ["HOSTLER_RESULT"])
for number, value in enumerate(sys.argv[2:]):
    while not os.path.exists("%s.%d" % (sys.argv[1], number)):
        time.sleep(0.02)
    leave(value)
    open("%s.%d.left" % (sys.argv[1], number), "w").close()
time.sleep(3600)
"""


class Writing:
    """An attempt that leaves its values one after the other, each when it may."""

    def __init__(self, gate: Path, name: str, *values: str, **fields: object) -> None:
        self._gate = gate
        self.order: Json = attempt(name, "python3", "-c", WRITES, str(gate), *values, **fields)

    def allow(self, *numbers: int) -> None:
        for number in numbers:
            Path(f"{self._gate}.{number}").touch()

    def leave(self, number: int) -> None:
        """Return when this value is there."""
        self.allow(number)
        until(Path(f"{self._gate}.{number}.left").exists, f"value {number}")


def results(client: Client, count: int) -> list[tuple[str, object]]:
    told = [client.message("so_far") for _ in range(count)]
    return [(each["attempt"], each["result"]) for each in told]


def test_interim_results_are_told_as_they_change(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    writing = Writing(tmp_path / "gate", "j1.1", '{"games": 1}', "no JSON", '{"games": 2}', tell_s=0.0)
    client.launch(writing.order)
    writing.allow(0)
    assert results(client, 1) == [("j1.1", {"games": 1})]
    writing.leave(1)
    time.sleep(TWO_LOOKS_S)
    writing.allow(2)
    assert results(client, 1) == [("j1.1", {"games": 2})]


def test_interim_results_that_nobody_asked_for_are_not_told(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    first = Writing(tmp_path / "first", "j1.1", "1", queue="cpu0")
    second = Writing(tmp_path / "second", "j2.1", "2", queue="cpu1", tell_s=0.0)
    client.launch(first.order, second.order)
    first.leave(0)
    second.allow(0)
    assert results(client, 1) == [("j2.1", 2)]
    time.sleep(TWO_LOOKS_S)
    client.sync()
    assert [each["attempt"] for each in client.messages if each["type"] == "so_far"] == ["j2.1"]


def test_interim_results_are_told_no_oftener_than_asked_but_at_last(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    writing = Writing(tmp_path / "gate", "j1.1", "1", "2", "3", "4", tell_s=3.0)
    client.launch(writing.order)
    began = time.monotonic()
    writing.allow(0)
    told = results(client, 1)
    assert told == [("j1.1", 1)]
    writing.allow(1, 2, 3)
    while told[-1] != ("j1.1", 4):
        told += results(client, 1)
        assert time.monotonic() - began >= 3.0 * (len(told) - 1)


def test_whoever_connects_next_is_told_the_interim_result_anew(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    writing = Writing(tmp_path / "gate", "j1.1", "1", tell_s=1000.0)
    writing.allow(0)
    client.launch(writing.order)
    assert results(client, 1) == [("j1.1", 1)]
    client.close()
    assert results(agent.client(), 1) == [("j1.1", 1)]


def test_interim_results_that_are_too_long_are_left_to_the_end(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    writing = Writing(tmp_path / "gate", "j1.1", '"%s"' % ("x" * 100), '"short"', tell_s=0.0, result_bytes=50)
    client.launch(writing.order)
    writing.leave(0)
    time.sleep(TWO_LOOKS_S)
    writing.allow(1)
    assert results(client, 1) == [("j1.1", "short")]
