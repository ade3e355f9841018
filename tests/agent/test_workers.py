"""Warm workers, good and bad, against a real agent."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.journal import Journal
from hostler.agent.leftovers import Leftovers
from hostler.agent.loop import Loop
from hostler.agent.node import Node
from hostler.agent.state import State
from hostler.agent.workers import Workers

from .harness import PATIENCE_S, WORKER, Agent, Client, Json, alive, fresh_name, until
from .test_attempts import attempt


def digest_of(params: Json) -> str:
    return hashlib.sha256(json.dumps(params, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def worker(name: str = "w1", habit: str = "", params: Json | None = None, **more: Any) -> Json:
    params = {"every": 10} if params is None else params
    opening = {"digest": digest_of(params), "params": params}
    argv = [sys.executable, str(WORKER), habit]
    return {"id": name, "queue": "cpu0", "argv": argv, "open": opening, "silence_s": PATIENCE_S, **more}


def opened(agent: Agent, *workers: Json) -> Client:
    client = agent.client()
    for item in workers:
        client.send(type="open", worker=item)
    return client


def worker_pid(agent: Agent, name: str = "w1") -> int:
    def find() -> int | None:
        whole = (agent.directory / "journal.jsonl").read_text().rpartition("\n")[0]  # the agent may be writing a line
        for line in whole.splitlines()[::-1]:
            entry = json.loads(line)
            if entry.get("op") == "process" and entry["worker"] == name:
                return int(entry["pid"])
        return None

    return int(until(find, "a worker process") or 0)


def ats(fact: Json) -> list[int]:
    return [hit["at"] for hit in fact["hits"]]


def test_chunks_are_searched_in_order_by_one_warm_process(agent: Agent) -> None:
    client = opened(agent, worker(), worker())
    client.send(type="chunks", worker="w1", chunks=[[f"c.{n}", n * 100, n * 100 + 100] for n in range(200)])
    client.send(type="chunks", worker="w1", chunks=[["c.0", 0, 100]])
    last = client.fact("chunk_done", chunk="c.199")
    done = [fact for fact in client.facts if fact["fact"] == "chunk_done"]
    assert [fact["chunk"] for fact in done] == [f"c.{n}" for n in range(200)]
    assert ats(done[3]) == list(range(300, 400, 10))
    assert (last["start"], last["stop"], last["digest"]) == (19900, 20000, digest_of({"every": 10}))
    assert last["elapsed_s"] >= 0
    assert len({hit["by"] for fact in done for hit in fact["hits"]}) == 1
    assert client.hello["chunks"] == []
    assert len(agent.client().hello["chunks"]) == 200
    assert agent.client(ack=client.facts[-1]["seq"]).hello["chunks"] == []


def test_big_integers_and_empty_chunks(agent: Agent) -> None:
    client = opened(agent, worker())
    start = 10**40 + 5
    client.send(type="chunks", worker="w1", chunks=[["c.1", start, start + 10], ["c.2", 7, 7]])
    assert ats(client.fact("chunk_done", chunk="c.1")) == [10**40 + 10]
    assert ats(client.fact("chunk_done", chunk="c.2")) == []


def test_killed_worker_gives_its_chunk_back_from_its_last_checkpoint(agent: Agent) -> None:
    client = opened(agent, worker(params={"every": 10, "delay_s": 3600}))
    client.send(type="chunks", worker="w1", chunks=[["c.1", 0, 100], ["c.2", 100, 100]])
    (told,) = client.message("progress")["chunks"].values()
    assert (told[:2], len(told[2]), len(told[3])) == ([50, 5], 64, 5)
    first = worker_pid(agent)
    os.kill(first, signal.SIGKILL)
    returned = client.fact("returned", chunk="c.1")
    assert (returned["reason"], returned["position"], ats(returned)) == ("worker_died", 50, [0, 10, 20, 30, 40])
    assert returned["digest"] == digest_of({"every": 10, "delay_s": 3600})
    until(lambda: worker_pid(agent) != first, "a fresh worker for the next chunk")
    client.send(type="recall", chunks=["c.2"], reason="enough")
    assert client.fact("returned", chunk="c.2")["reason"] == "recalled"


def test_a_chunk_that_its_worker_parts_comes_back_with_its_hits_and_the_worker_stays(agent: Agent) -> None:
    client = opened(agent, worker(habit="part"))
    client.send(type="chunks", worker="w1", chunks=[["c.1", 0, 100], ["c.2", 100, 200]])
    first, second = (client.fact("returned", chunk=name) for name in ("c.1", "c.2"))
    assert (first["reason"], first["position"], ats(first)) == ("parted", 50, [0, 10, 20, 30, 40])
    assert (second["reason"], second["position"]) == ("parted", 150)
    assert len({hit["by"] for fact in (first, second) for hit in fact["hits"]}) == 1


def test_a_worker_that_wants_no_chunk_ahead_is_sent_one_at_a_time(agent: Agent) -> None:
    client = opened(agent, worker(habit="alone"))
    client.send(type="chunks", worker="w1", chunks=[[f"c.{n}", n * 10, n * 10 + 10] for n in range(50)])
    client.fact("chunk_done", chunk="c.49")
    hits = [hit for fact in client.facts if fact["fact"] == "chunk_done" for hit in fact["hits"]]
    assert [hit["lines"] for hit in hits] == [1] * 50


@pytest.mark.parametrize("habit", ["part-nothing", "part-all"])
def test_a_part_that_is_nothing_or_the_whole_chunk_is_a_bad_answer(agent: Agent, habit: str) -> None:
    client = opened(agent, worker(habit=habit))
    client.send(type="chunks", worker="w1", chunks=[["c.1", 0, 100]])
    returned = client.fact("returned", chunk="c.1")
    assert returned["reason"] == "worker_protocol"
    assert "within the chunk" in returned["error"]


@pytest.mark.parametrize(
    ("habit", "reason", "words"),
    [
        ("die", "worker_died", "signal 9"),
        ("hang", "worker_silent", "sent nothing"),
        ("garbage", "worker_protocol", "no JSON"),
        (
            "long",
            "worker_protocol",
            f"longer than {6 << 20} bytes; have it find fewer hits per chunk: a smaller",
        ),
        ("infinite", "worker_protocol", "too large"),
        ("deep", "worker_protocol", "deeper"),
        ("stranger", "worker_protocol", "no.such"),
        ("fail", "failed", "the table is missing"),
    ],
)
def test_bad_habits(shared_agent: Agent, habit: str, reason: str, words: str) -> None:
    name, first, second = (fresh_name() for _ in range(3))
    silence_s = 0.5 if habit == "hang" else PATIENCE_S
    client = opened(shared_agent, worker(name, habit, silence_s=silence_s))
    client.send(type="chunks", worker=name, chunks=[[first, 0, 100], [second, 100, 200]])
    for chunk in (first, second):
        returned = client.fact("returned", chunk=chunk)
        assert (returned["reason"], returned["position"], returned["hits"]) == (reason, None, [])
        assert words in returned["error"]
    assert not [fact for fact in client.facts if fact["fact"] == "worker_refused" and fact["worker"] == name]
    client.send(type="close", worker=name)


def test_a_chunk_may_have_very_many_hits(agent: Agent) -> None:
    client = opened(agent, worker(params={"every": 1}))
    client.send(type="chunks", worker="w1", chunks=[["c.1", 0, 100_000]])
    done = client.fact("chunk_done", chunk="c.1")
    assert len(json.dumps(done)) > 1 << 20
    assert ats(done) == list(range(100_000))


NOT_COMING_UP = {
    "refuse": ["unknown field: every", "its last words: I do not like them"],
    "exit": ["exit status 7", "its last words: looking\n for it\ncannot find my library"],
    "digest": ["digest"],
    "deaf": ["did not come up in 0.3 s"],
}


def test_workers_that_do_not_come_up(agent: Agent) -> None:
    """All at once: each but the one that refuses is tried three times, with rests of some seconds between."""
    many = {habit: worker(habit, habit, queue=habit, start_s=0.3 if habit == "deaf" else 60) for habit in NOT_COMING_UP}
    client = opened(agent, *many.values())
    for habit in many:
        client.send(type="chunks", worker=habit, chunks=[[f"{habit}.1", 0, 100], [f"{habit}.2", 100, 200]])
    for habit, words in NOT_COMING_UP.items():
        error = client.fact("worker_refused", worker=habit)["error"]
        assert [part for part in words if part not in error] == []
        assert all(character.isprintable() or character == "\n" for character in error)
        assert client.fact("returned", chunk=f"{habit}.1")["reason"] == "worker_start"
        assert client.fact("returned", chunk=f"{habit}.2")["reason"] == "worker_start"
    client.send(type="chunks", worker="exit", chunks=[["c.3", 0, 100]])
    late = client.fact("returned", chunk="c.3")
    assert late["reason"] == "worker_start"
    assert "cannot find my library" in late["error"]
    client.send(type="open", worker=worker("exit"))
    client.send(type="chunks", worker="exit", chunks=[["c.4", 0, 100]])
    assert len(ats(client.fact("chunk_done", chunk="c.4"))) == 10


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"argv": [""]}, "'argv'"),
        ({"open": {"digest": "x"}}, "'open'"),
        ({"open": {"digest": 7, "params": {}}}, "'open'"),
        ({"queue": None}, "'queue'"),
        ({"speed": 9}, "unknown fields: speed"),
    ],
)
def test_a_worker_that_cannot_be_declared_is_refused(shared_agent: Agent, fields: Json, words: str) -> None:
    name, first, second = (fresh_name() for _ in range(3))
    client = opened(shared_agent, {**worker(name), **fields})
    client.send(type="chunks", worker=name, chunks=[[first, 0, 100]])
    assert words in client.fact("worker_refused", worker=name)["error"]
    returned = client.fact("returned", chunk=first)
    assert (returned["reason"], words in returned["error"]) == ("worker_start", True)
    client.send(type="open", worker=worker(name))
    client.send(type="open", worker={**worker(name), **fields})
    client.send(type="chunks", worker=name, chunks=[[second, 0, 100]])
    assert words in client.message("error")["error"]
    assert client.fact("chunk_done", chunk=second)
    client.send(type="close", worker=name)


class VirtualLoop(Loop):
    """Time passes only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.monotonic = lambda: self.now

    def pass_to(self, now: float) -> None:
        self.now = now
        self.turn(0.0)


@pytest.fixture
def virtual(tmp_path: Path) -> Iterator[tuple[Node, VirtualLoop]]:
    here, loop, journal = os.getcwd(), VirtualLoop(), Journal(str(tmp_path / "journal.jsonl"))
    node = Node(str(tmp_path), loop, journal, State())
    yield node, loop
    journal.close()
    os.close(node.null)
    os.chdir(here)


@pytest.mark.parametrize(
    ("is_program", "words"), [(False, "no such program"), (True, os.strerror(errno.ENOTDIR))], ids=["program", "folder"]
)
def test_rests_between_failed_starts_grow(
    virtual: tuple[Node, VirtualLoop], tmp_path: Path, is_program: bool, words: str
) -> None:
    node, loop = virtual
    workers = Workers(node, Leftovers(node, dict))
    if is_program:
        (tmp_path / "workers").touch()
    workers.open({**worker(), "argv": ["true" if is_program else "no-such-worker"]})
    workers.queue("w1", [("c.1", 0, 100)])
    failures = []
    for now in (0.0, 0.9, 1.1, 3.9, 4.2):
        loop.pass_to(now)
        for place in node.places.values():
            workers.feed(place)
        failures.append(workers.live["w1"].failures if "w1" in workers.live else None)
    assert failures == [1, 1, 2, 2, None]
    refused, returned = (json.loads(fact.encoded) for fact in node.facts.after(0, 1 << 20))
    assert (refused["fact"], words in refused["error"]) == ("worker_refused", True)
    assert (returned["fact"], returned["reason"]) == ("returned", "worker_start")


def test_recall(agent: Agent) -> None:
    client = opened(agent, worker(params={"every": 10, "delay_s": 3600}))
    client.send(type="chunks", worker="w1", chunks=[["c.1", 0, 100], ["c.2", 100, 200], ["c.3", 0, 1]])
    client.message("progress")
    pid = worker_pid(agent)
    client.send(type="recall", chunks=["c.2", "c.9"], reason="tail")
    assert client.fact("returned", chunk="c.2")["reason"] == "recalled"
    unknown = client.fact("returned", chunk="c.9")
    assert (unknown["reason"], unknown["position"], unknown["digest"]) == ("recalled", None, None)
    assert alive(pid)
    client.send(type="recall", chunks=["c.1", "c.3"], reason="tail")
    returned = client.fact("returned", chunk="c.1")
    assert (returned["reason"], returned["position"], len(returned["hits"])) == ("recalled", 50, 5)
    assert client.fact("returned", chunk="c.3")["reason"] == "recalled"
    assert not alive(pid)


def test_a_worker_that_is_past_the_new_end_of_its_chunk_is_ended(agent: Agent) -> None:
    client = opened(agent, worker(params={"every": 10, "delay_s": 3600}))
    client.send(type="chunks", worker="w1", chunks=[["c.1", 0, 100], ["c.2", 100, 101]])
    client.message("progress")
    pid = worker_pid(agent)
    client.send(type="trim", chunks=[["c.1", 40], ["c.9", 5]])
    returned = client.fact("returned", chunk="c.1")
    assert (returned["reason"], returned["position"], len(returned["hits"])) == ("trimmed", 50, 5)
    assert not alive(pid)


def send_with_chunks(client: Client, request: Json) -> None:
    """Send a request in one piece with two chunks: the agent takes it before it begins the second chunk."""
    chunks = {"type": "chunks", "worker": "w1", "chunks": [["c.1", 0, 100], ["c.2", 100, 200]]}
    client.send_raw(b"".join(json.dumps(each).encode() + b"\n" for each in (chunks, request)))


def test_a_worker_that_is_not_there_yet_goes_on_and_a_waiting_chunk_is_cut(agent: Agent) -> None:
    client = opened(agent, worker(params={"every": 10, "delay_s": 2.0}))
    send_with_chunks(client, {"type": "trim", "chunks": [["c.1", 80], ["c.2", 120], ["c.2", 300], ["c.1", 0]]})
    whole = client.fact("chunk_done", chunk="c.1")
    assert whole["stop"] in (80, 100)  # it may have been cut before it was begun
    assert client.fact("chunk_done", chunk="c.2")["stop"] == 120


def test_ends_that_cannot_be_read_are_told_of_and_the_others_taken(agent: Agent) -> None:
    client = opened(agent, worker(params={"every": 10, "delay_s": 2.0}))
    send_with_chunks(client, {"type": "trim", "chunks": [["c.2", 120], ["c.1", "x"]]})
    assert "[id, stop]" in client.message("error")["error"]
    assert client.fact("chunk_done", chunk="c.2")["stop"] == 120


@pytest.mark.parametrize("habit", ["", "stubborn"])
def test_close(agent: Agent, habit: str) -> None:
    client = opened(agent, worker(habit=habit, grace_s=0.3))
    client.send(type="chunks", worker="w1", chunks=[["c.1", 0, 100]])
    client.fact("chunk_done", chunk="c.1")
    pid = worker_pid(agent)
    client.send(type="close", worker="w1")
    until(lambda: not alive(pid), "the worker's end")
    client.send(type="chunks", worker="w1", chunks=[["c.2", 0, 100]])
    assert client.fact("returned", chunk="c.2")["reason"] == "closed"


def test_close_waits_for_the_queue(agent: Agent) -> None:
    client = opened(agent, worker(params={"every": 10, "delay_s": 0.05}))
    client.send(type="chunks", worker="w1", chunks=[[f"c.{n}", 0, 100] for n in range(5)])
    client.send(type="close", worker="w1")
    client.fact("chunk_done", chunk="c.4")
    until(lambda: not os.path.exists(agent.directory / "workers" / "w1"), "the worker to be forgotten")


def test_an_attempt_goes_before_the_next_chunk_of_its_place(agent: Agent) -> None:
    client = opened(agent, worker(params={"every": 10, "delay_s": 0.2}))
    many = [f"c.{n}" for n in range(1000)]
    client.send(type="chunks", worker="w1", chunks=[[name, 0, 100] for name in many])
    client.fact("chunk_done", chunk="c.0")
    client.launch(attempt("j1.1", "true"))
    client.ended("j1.1")
    client.send(type="recall", chunks=many[10:], reason="enough")
    client.fact("returned", chunk="c.999")
    between = client.facts[client.facts.index(client.fact("started")) :]
    assert between[1]["fact"] == "ended"


def test_two_workers_of_one_place_take_turns(agent: Agent) -> None:
    client = opened(agent, worker("w1"), worker("w2"))
    for n in range(6):
        client.send(type="chunks", worker=f"w{1 + n % 2}", chunks=[[f"c.{n}", 0, 100]])
    client.fact("chunk_done", chunk="c.5")
    done = [fact for fact in client.facts if fact["fact"] == "chunk_done"]
    assert [fact["chunk"] for fact in done] == [f"c.{n}" for n in range(6)]
    assert len({fact["hits"][0]["by"] for fact in done}) == 2


def test_restarted_agent_returns_chunks_from_their_checkpoints(agent: Agent) -> None:
    client = opened(agent, worker(params={"every": 10, "delay_s": 3600}))
    client.send(type="chunks", worker="w1", chunks=[["c.1", 0, 100], ["c.2", 100, 200]])
    client.message("progress")
    pid = worker_pid(agent)
    agent.kill_supervisor()
    client = agent.client()
    first, second = client.fact("returned", chunk="c.1"), client.fact("returned", chunk="c.2")
    assert (first["reason"], first["position"], len(first["hits"])) == ("agent_restarted", 50, 5)
    assert (second["reason"], second["position"]) == ("agent_restarted", None)
    until(lambda: not alive(pid), "the old worker's end")
    client.send(type="chunks", worker="w1", chunks=[["c.3", 5, 5]])
    client.message("progress")
    assert worker_pid(agent) != pid


def test_shutdown_returns_chunks(agent: Agent) -> None:
    client = opened(agent, worker(params={"every": 10, "delay_s": 3600}))
    client.send(type="chunks", worker="w1", chunks=[["c.1", 0, 100], ["c.2", 100, 200]])
    client.message("progress")
    client.send(type="shutdown", when="now")
    assert client.fact("returned", chunk="c.1")["position"] == 50
    assert client.fact("returned", chunk="c.2")["reason"] == "closed"
    assert agent.process.wait(PATIENCE_S) == 0


def test_a_worker_that_does_not_read_blocks_nothing(agent: Agent) -> None:
    deaf = {**worker("deaf"), "argv": ["sleep", "3600"], "queue": "cpu1"}
    deaf["open"] = {"digest": "x", "params": {"table": "y" * (4 << 20)}}
    client = opened(agent, deaf, worker())
    client.send(type="chunks", worker="deaf", chunks=[["d.1", 0, 100]])
    client.send(type="chunks", worker="w1", chunks=[["c.1", 0, 100]])
    assert client.fact("chunk_done", chunk="c.1")
    client.send(type="recall", chunks=["d.1"], reason="enough")
    assert client.fact("returned", chunk="d.1")["reason"] == "recalled"
