from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings, strategies as st

from hostler.agent.state import State

NAMES = [f"j{n}.1" for n in range(4)]
CHUNKS = [f"c.{n}" for n in range(4)]
Story = list[dict[str, Any]]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Entries as a supervisor writes them: each only when the ones before allow it."""
    state, story = State(), []
    for _ in range(draw(st.integers(0, 40))):
        entry = draw(st.sampled_from(possible(state)))
        story.append(entry)
        state.apply(copy.deepcopy(entry))
    return story


def possible(state: State) -> Story:
    entries: Story = [
        {"op": "agent", "agent": "a", "incarnation": state.incarnation + 1, "boot": "b"},
        {"op": "epoch", "epoch": state.epoch + 1},
        {"op": "ack", "seq": (state.acked + state.seq + 1) // 2},
        {"op": "contact", "at": 1.0 + (state.contact or 0.0)},
        {"op": "something newer", "x": 1},
    ]
    for name in NAMES:
        entries += of_attempt(state, name)
    entries += of_worker(state)
    return entries


def of_attempt(state: State, name: str) -> Story:
    record = state.attempts.get(name)
    if record is None:
        held = any(fact.get("attempt") == name and fact["fact"] == "ended" for fact in state.facts.values())
        return [] if held else [{"op": "launch", "attempts": [{"id": name}]}]
    fact = {"seq": state.seq + 1, "attempt": name}
    if "starting" not in record:
        return [{"op": "starting", "attempt": name, "at": 1.0}, {**fact, "fact": "ended", "reason": "stopped"}]
    if "started" not in record:
        return [{**fact, "fact": "started", "pid": 1, "pid_start": 2, "at": 1.0}, {**fact, "fact": "ended"}]
    if "exit" not in record:
        return [
            {"op": "stop", "attempt": name, "reason": "walltime", "error": "x"},
            {"op": "exit", "attempt": name, "code": 0, "signal": None},
        ]
    return [{**fact, "fact": "ended"}]


def of_worker(state: State) -> Story:
    if "w" not in state.workers:
        return [{"op": "open", "worker": {"id": "w"}}]
    entries: Story = [{"op": "process", "worker": "w", "pid": 1, "pid_start": 2}]
    for name in CHUNKS:
        if name in state.chunks:
            entries.append({"op": "checkpoint", "chunk": name, "position": 5, "hits": []})
            entries.append({"seq": state.seq + 1, "fact": "chunk_done", "chunk": name})
            entries.append({"seq": state.seq + 1, "fact": "returned", "chunk": name})
        elif not any(fact.get("chunk") == name for fact in state.facts.values()):
            entries.append({"op": "chunks", "worker": "w", "chunks": [[name, 0, 9]]})
    if not state.chunks:
        entries.append({"op": "close", "worker": "w"})
        entries.append({"op": "forget", "worker": "w"})
        entries.append({"seq": state.seq + 1, "fact": "worker_refused", "worker": "w"})
    return entries


def parts(state: State) -> dict[str, Any]:
    return copy.deepcopy(vars(state))


@settings(max_examples=100)
@given(stories())
def test_compaction_changes_nothing(story: Story) -> None:
    state = State(copy.deepcopy(story))
    compact = json.loads(json.dumps(list(state.entries())))
    assert parts(State(compact)) == parts(state)
    assert list(State(compact).entries()) == compact


@settings(max_examples=50)
@given(stories(), st.integers(0, 40))
def test_compaction_at_any_moment_changes_nothing_later(story: Story, moment: int) -> None:
    before, after = copy.deepcopy(story[:moment]), copy.deepcopy(story[moment:])
    compacted = State([*copy.deepcopy(list(State(before).entries())), *after])
    assert parts(compacted) == parts(State(copy.deepcopy(story)))


@settings(max_examples=50)
@given(stories())
def test_nothing_acknowledged_is_kept_and_nothing_else_is_forgotten(story: Story) -> None:
    state = State(copy.deepcopy(story))
    numbered = {entry["seq"] for entry in story if "fact" in entry}
    assert set(state.facts) == {seq for seq in numbered if seq > state.acked}
    assert state.seq == max(numbered, default=0)
