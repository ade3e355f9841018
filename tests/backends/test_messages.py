"""Whatever a node says in place of any value: its link is lost with a reason, or a journal gives back what follows.

The recipe of a node that reports `cpus: 0`, and every other value of every message replaced in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from hostler.backends.facts import described
from hostler.core import Core
from hostler.model.codec import dump_event, load_event
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import LinkDown, NodeFound, Reported
from tests.core.builders import Driver, fleet, script, sweep
from tests.fuzz.controller_lines import (
    DONE,
    ENDED,
    FACTS,
    HELLO,
    OPENING,
    PROBE,
    PROVED,
    REFUSED,
    RETURNED,
    STARTED,
    TELEMETRY,
    WORK,
    _heard,
)
from tests.fuzz.extremes import JSON
from tests.fuzz.samples import DIGEST, said

MESSAGES: dict[str, tuple[Any, ...]] = {
    "hello": (HELLO, PROBE),
    "probe": (HELLO, PROBE),
    "started": (*OPENING, {"type": "facts", "facts": [STARTED]}),
    "ended": (*OPENING, {"type": "facts", "facts": [ENDED]}),
    "done": (*OPENING, {"type": "facts", "facts": [DONE]}),
    "returned": (*OPENING, {"type": "facts", "facts": [RETURNED]}),
    "refused": (*OPENING, {"type": "facts", "facts": [REFUSED]}),
    "progress": (*OPENING, {"type": "progress", "chunks": {"j2.1": [5, 1, DIGEST, [{"at": 3}]]}}),
    "telemetry": (*OPENING, TELEMETRY),
    "work": (*OPENING, WORK),
    "proved": (*OPENING, PROVED),
    "so far": (*OPENING, {"type": "so_far", "attempt": "j1.1", "result": {"a": 1}}),
    "leaving": (*OPENING, {"type": "leaving", "why": "its machine goes"}),
    "error": (*OPENING, {"type": "error", "error": "unknown", "request": {"type": "prove", "id": 1}}),
}
CHANGED = {"hello": 0, "probe": 1}
"""Which message of the conversation is changed; of others the last."""
MARK = "@@@"


def changed(value: Any, put: Any) -> Iterator[Any]:
    """The value with each part of it replaced, one at a time."""
    yield put
    if isinstance(value, dict):
        for key in value:
            yield from ({**value, key: each} for each in changed(value[key], put))
            yield {**{name: value[name] for name in value if name != key}, f"{key}?": value[key]}
    elif isinstance(value, list):
        for at in range(len(value)):
            yield from ([*value[:at], each, *value[at + 1 :]] for each in changed(value[at], put))


def conversations(name: str) -> Iterator[bytes]:
    messages = MESSAGES[name]
    at = CHANGED.get(name, len(messages) - 1)
    for made in changed(messages[at], MARK):
        whole = said(*messages[:at], made, *messages[at + 1 :])
        for text in JSON:
            yield whole.replace(f'"{MARK}"'.encode(), text.encode())


def expect_readable_journal(data: bytes) -> None:
    """All entries that follow from what a node has sent load again as they were, and the core replays them."""
    world = fleet(devices=2)
    world.submit(script(), sweep())
    reports, why = asyncio.run(_heard(data))
    given = [each for report in reports for each in report.inputs]
    if why is not None:
        assert 0 < len(why) < 5000
        given.append(LinkDown(node="n", why=why))
    for each in given:
        world.tell(Reported(node="n", given=each))
    for entry in world.entries:
        text = dump_event(entry.event)
        assert load_event(text) == entry.event
        assert "\\u0000" not in text.replace("\\\\", "") or '"result":' in text or '"hits":' in text, text
    again = Core()
    again.replay(world.entries)


@pytest.mark.parametrize("name", MESSAGES)
def test_journal_gives_back_whatever_follows_from_a_changed_message(name: str) -> None:
    cases = list(dict.fromkeys(conversations(name)))
    for data in cases[:: max(len(cases) // 30, 1)]:
        expect_readable_journal(data)


@pytest.mark.long
@pytest.mark.parametrize("name", MESSAGES)
def test_journal_gives_back_whatever_follows_from_any_changed_message(name: str) -> None:
    for data in dict.fromkeys(conversations(name)):
        expect_readable_journal(data)


@pytest.mark.parametrize("cpus", [0, -1, -(2**70), 10**30, "-3", "0", 0.5, [], {}, False])
@pytest.mark.parametrize("slots", [None, 2])
def test_node_with_cores_that_cannot_be_is_not_taken(cpus: object, slots: int | None) -> None:
    driver = Driver()
    data = said(HELLO, {**PROBE, "facts": {**FACTS, "cpus": cpus}})
    reports, why = asyncio.run(_heard(data, slots))
    driver.tell(*(Reported(node="n", given=each) for report in reports for each in report.inputs))
    assert driver.state.nodes == {}
    assert "cannot be understood" in str(why)


@pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"1e999"])
def test_numbers_that_json_does_not_know_are_not_taken(text: bytes) -> None:
    data = said(HELLO, {**PROBE, "facts": {**FACTS, "cpus": MARK}}).replace(f'"{MARK}"'.encode(), text)
    reports, why = asyncio.run(_heard(data))
    assert reports == []
    assert why


def test_spec_that_a_journal_would_not_give_back_is_none() -> None:
    with pytest.raises(ValueError, match="cpus"):
        described(NodeSpec(name="n", backend="test", devices=(), cpus=0.0))
    assert described(NodeSpec(name="n", backend="test", devices=(), cpus=1.0)).cpus == 1.0


def test_rest_of_a_message_is_taken_where_one_fact_does_not_fit() -> None:
    facts = [{**STARTED, "pid": -1}, {**ENDED, "seq": 7}]
    reports, _ = asyncio.run(_heard(said(*OPENING, {"type": "facts", "facts": facts})))
    kinds = [type(each).__name__ for each in reports[-1].inputs]
    assert kinds == ["Trouble", "Ended"]
    assert reports[-1].receipt == 7
    assert isinstance(reports[0].inputs[0], NodeFound)
