"""Answers of canaries: one is right, whatever else comes keeps the device out and is told in words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hostler.agent.canary import SCHEME, Task, search
from hostler.agent.protocol import PROTOCOL, VERSION
from hostler.backends.canaries import LONGEST, Canaries
from hostler.model.commands import CanaryOrder
from hostler.model.inputs import DeviceProved
from hostler.model.work import DeviceKind

HELLO = {"version": VERSION}


def order(*argv: str, kind: DeviceKind = DeviceKind.CPU) -> CanaryOrder:
    return CanaryOrder(device=f"far/{kind}0", kind=kind, queue=f"{kind}0", argv=argv, env={"A": "b"})


def asked(canaries: Canaries, number: int = 1) -> int:
    """Ask a CPU slot; returns the right answer, found as the agent's program would."""
    device = canaries.ask(number, order())
    assert device["env"] == {"A": "b"}
    assert device["argv"][:3] == ["{canary}", "--kind", "cpu"]
    hit = search("cpu", Task(*map(int, device["argv"][4].split(","))))
    assert hit is not None
    return hit


def answer(hit: int | None, **fields: Any) -> dict[str, Any]:
    told = {"scheme": SCHEME, "protocol": PROTOCOL, "version": VERSION, "hit": hit, **fields}
    return {"id": 1, "device": "cpu0", "ok": True, "why": None, "seconds": 0.25, "answer": json.dumps(told)}


def test_the_right_answer_proves_the_device_once() -> None:
    canaries = Canaries("far", HELLO)
    message = answer(asked(canaries))
    assert list(canaries.judge(message)) == [DeviceProved(device="far/cpu0", ok=True, seconds=0.25)]
    assert list(canaries.judge(message)) == []


def test_what_was_asked_on_another_connection_says_nothing() -> None:
    message = answer(asked(Canaries("far", HELLO)))
    assert list(Canaries("far", HELLO).judge(message)) == []
    here = Canaries("far", HELLO)
    asked(here, number=2)
    assert list(here.judge(message)) == []


def test_no_two_devices_are_asked_the_same() -> None:
    canaries = Canaries("far", HELLO)
    assert len({asked(canaries, number) for number in range(20)}) == 20


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"answer": None}, "its answer cannot be read"),
        ({"answer": "[1]"}, "its answer cannot be read"),
        ({"ok": False, "why": "cuInit failed with 999"}, "cuInit failed with 999"),
        ({"ok": False}, "did not say why"),
        (answer(None), "wrong answer: it found None where"),
        (answer(0, version="0.0.1"), "wrong version: its program answers as [1, 1, '0.0.1']"),
        (answer(0, scheme=2), "wrong version"),
        (answer(0, protocol=None), "wrong version"),
    ],
)
def test_anything_else_keeps_it_out(change: dict[str, Any], told: str) -> None:
    canaries = Canaries("far", HELLO)
    right = answer(asked(canaries))
    (said,) = canaries.judge({**right, **change})
    assert not said.ok
    assert said.why is not None
    assert told in said.why
    assert len(said.why) <= LONGEST


def test_one_beside_the_right_answer_is_wrong() -> None:
    canaries = Canaries("far", HELLO)
    hit = asked(canaries)
    (said,) = canaries.judge(answer(hit + 1))
    assert said.why == f"wrong answer: it found {hit + 1} where {hit} was planted; the device computes wrongly"


@pytest.mark.parametrize("version", ["0.0.9", None])
def test_an_agent_of_another_version_keeps_its_devices_out(version: str | None) -> None:
    canaries = Canaries("far", {"version": version})
    (said,) = canaries.judge(answer(asked(canaries)))
    assert said.why is not None
    assert said.why.startswith(f"wrong version: the agent there is {version}")


def test_an_agent_that_knows_no_canaries_keeps_its_devices_out() -> None:
    canaries = Canaries("far", HELLO)
    asked(canaries)
    asked(canaries, number=2)
    error = {"type": "error", "error": "unknown type 'prove'", "request": {"type": "prove", "id": 1, "truncated": True}}
    (said,) = canaries.refused(error)
    assert (said.device, said.ok) == ("far/cpu0", False)
    assert "it is too old; end the agent there" in str(said.why)
    asked(canaries)
    (said,) = canaries.refused({**error, "error": "argv must be a list"})
    assert said.why == "the agent on far cannot run it (argv must be a list)"
    assert list(canaries.refused({**error, "request": None})) == []
    assert list(canaries.refused({**error, "request": {"type": "launch", "id": 2}})) == []


def test_a_command_must_say_the_word_that_it_was_given() -> None:
    canaries = Canaries("far", HELLO)
    device = canaries.ask(1, order("mine", "--fast"))
    word = device["env"].pop("HOSTLER_CANARY")
    assert device == {"device": "cpu0", "argv": ("mine", "--fast"), "env": {"A": "b"}}
    other = canaries.ask(2, order("mine"))["env"]["HOSTLER_CANARY"]
    assert other != word
    (said,) = canaries.judge({**answer(0), "answer": word})
    assert said.ok
    (said,) = canaries.judge({**answer(0), "id": 2, "answer": word})
    assert said.why == f"its last line should have been the word of $HOSTLER_CANARY, not {word!r}"
