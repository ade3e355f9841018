"""Canaries of one connection: what each device is asked, and whether it answered right. Only here is that known."""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Iterator
from typing import Any

from hostler.agent.canary import SCHEME, planted
from hostler.agent.protocol import PROTOCOL, VERSION
from hostler.backends.base import Facts
from hostler.backends.channel import words
from hostler.model.commands import CanaryOrder
from hostler.model.inputs import DeviceProved
from hostler.model.record import record

PATIENCE_S = 60.0
"""A canary that takes longer hangs."""
WORD = "HOSTLER_CANARY"
"""Variable in which a command of the node's owner finds what it must say."""
LONGEST = 300
FOREVER_S = 1e9
"""No canary has run for so long, whatever its agent says."""
UPDATE = "end the agent there once it is idle, and this controller starts its own"


@record
class Asked:
    """A device that was asked, and its one right answer."""

    order: CanaryOrder
    answer: int | str


class Canaries:
    """What was asked on one connection, to the agent that said `hello`."""

    def __init__(self, node: str, hello: Facts) -> None:
        self._node = node
        self._hello = hello
        self._asked: dict[tuple[int, str], Asked] = {}

    def ask(self, number: int, order: CanaryOrder) -> dict[str, Any]:
        """The device as request `number` names it, with a question of its own."""
        if order.argv:
            word = secrets.token_hex(8)
            self._asked[number, order.queue] = Asked(order=order, answer=word)
            return {"device": order.queue, "argv": order.argv, "env": {**order.env, WORD: word}}
        task, answer = planted(order.kind, random.SystemRandom())
        self._asked[number, order.queue] = Asked(order=order, answer=answer)
        argv = ["{canary}", "--kind", order.kind, "--task", ",".join(map(str, task))]
        return {"device": order.queue, "argv": argv, "env": order.env}

    def judge(self, message: Facts) -> Iterator[DeviceProved]:
        """What a `proved` message says of a device; one that was not asked for on this connection says nothing."""
        asked = self._asked.pop((message["id"], words(message["device"])), None)
        if asked is None:
            return
        why = self._fault(asked, message)
        yield DeviceProved(
            device=asked.order.device,
            ok=why is None,
            why=None if why is None else why[:LONGEST],
            seconds=_seconds(message.get("seconds")),
        )

    def refused(self, message: Facts) -> Iterator[DeviceProved]:
        """What an `error` about a whole request of canaries says: nothing was run."""
        request = message.get("request")
        number = request.get("id") if isinstance(request, dict) and request.get("type") == "prove" else None
        error = str(message.get("error"))
        advice = f": it is too old; {UPDATE}" if error.startswith("unknown type") else ""
        for key in [each for each in self._asked if each[0] == number]:
            why = f"the agent on {self._node} cannot run it ({error}){advice}"
            yield DeviceProved(device=self._asked.pop(key).order.device, ok=False, why=why[:LONGEST])

    def _fault(self, asked: Asked, message: Facts) -> str | None:
        """What is wrong, if anything is."""
        version = self._hello.get("version")
        if version != VERSION:
            return f"wrong version: the agent there is {version}, this controller wants {VERSION}; {UPDATE}"
        if message.get("ok") is not True:
            return str(message.get("why") or "it failed and did not say why")
        if asked.order.argv:
            said = message.get("answer")
            return None if said == asked.answer else f"its last line should have been the word of ${WORD}, not {said!r}"
        return _wrong(message.get("answer"), asked.answer)


def _seconds(told: object) -> float | None:
    """How long it took; `None` where that is no time that it can have taken."""
    if isinstance(told, bool) or not isinstance(told, int | float):
        return None
    return float(told) if 0 <= told < FOREVER_S else None


def _wrong(text: object, right: int | str) -> str | None:
    """What is wrong with the answer of the agent's own program."""
    try:
        answer = json.loads(str(text))
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        return f"its answer cannot be read: {text!r}"
    told, wanted = [answer.get(name) for name in ("scheme", "protocol", "version")], [SCHEME, PROTOCOL, VERSION]
    if told != wanted:
        return f"wrong version: its program answers as {told}, this controller wants {wanted}; {UPDATE}"
    if answer.get("hit") != right:
        return f"wrong answer: it found {answer.get('hit')} where {right} was planted; the device computes wrongly"
    return None
