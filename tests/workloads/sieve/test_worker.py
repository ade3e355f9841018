"""The worker as a process, over its pipes, as docs/reference/worker-protocol.md has it."""

import io
import json
import os
import selectors
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from hostler.workloads.sieve import spec
from hostler.workloads.sieve.protocol import Requests
from hostler.workloads.sieve.worker import Worker

from .support import command, draws, environment, params

OUTPUT = {"kind": "bound", "bound": 1000}
MADE = draws("java-random", OUTPUT, 5_000_000, 17)
PARAMS = params("java-random", OUTPUT, MADE[:12])
HIT = {"at": 5_000_000, "chance": spec.chance(PARAMS), "draws": 12, "next": MADE[12:]}
ONE_BY_ONE = {"schema": 2, "generator": "java-random", "calls": [OUTPUT], "draws": MADE[:12], "method": "lanes"}
"""The same, in a way that takes its time."""
PATIENCE_S = 120.0


class Process:
    """A worker and its two pipes."""

    def __init__(self) -> None:
        self.popen = subprocess.Popen(
            command("worker"), env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def send(self, *requests: dict[str, Any] | bytes) -> None:
        assert self.popen.stdin is not None
        lines = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in requests]
        self.popen.stdin.write(b"".join(line + b"\n" for line in lines))

    def open(self, given: dict[str, Any]) -> dict[str, Any]:
        self.send({"type": "open", "digest": spec.digest(given), "params": given})
        return self.answer()

    def answer(self) -> dict[str, Any]:
        line = b""
        while not line.endswith(b"\n"):
            more = self._read()
            assert more, f"the worker ended its output after {line!r}"
            line += more
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> dict[str, Any]:
        """The next answer that is no checkpoint: the first slice may have had something to compile."""
        while (answer := self.answer())["type"] == "checkpoint":
            pass
        return answer

    def finish(self) -> int:
        assert self.popen.stdin is not None
        self.popen.stdin.close()
        return self.popen.wait(PATIENCE_S)

    def close(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> bytes:
        assert self.popen.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.popen.stdout, selectors.EVENT_READ)
            assert selector.select(PATIENCE_S), "the worker is silent"
        return self.popen.stdout.read(1) or b""


@pytest.fixture
def worker() -> Iterator[Process]:
    process = Process()
    yield process
    process.close()


def chunk(name: str, start: Any, stop: Any) -> dict[str, Any]:
    return {"type": "chunk", "id": name, "start": start, "stop": stop}


@pytest.mark.long
def test_chunks_queued_in_the_pipe_are_answered_in_order(worker: Process) -> None:
    assert worker.open(PARAMS) == {"type": "opened", "digest": spec.digest(PARAMS), "trims": True}
    worker.send(chunk("a", 0, 5_000_000), chunk("b", 5_000_000, 5_000_001), chunk("c", 4_999_999, 9_000_000))
    done = {"type": "done", "digest": spec.digest(PARAMS)}
    assert worker.end() == {**done, "id": "a", "start": 0, "stop": 5_000_000, "hits": []}
    assert worker.end() == {**done, "id": "b", "start": 5_000_000, "stop": 5_000_001, "hits": [HIT]}
    assert worker.end() == {**done, "id": "c", "start": 4_999_999, "stop": 9_000_000, "hits": [HIT]}
    assert worker.finish() == 0


def test_checkpoints_carry_all_hits_so_far_and_the_end_of_input_ends_a_running_chunk(worker: Process) -> None:
    worker.open(ONE_BY_ONE)
    worker.send(chunk("long", 0, 2**48))
    # How far it is at its first checkpoint depends on the machine, and on whether there was something to compile.
    while (first := worker.answer())["position"] <= 5_000_000:
        assert first["hits"] == []
    second = worker.answer()
    assert first["type"] == second["type"] == "checkpoint"
    assert first["id"] == "long"
    assert first["position"] < second["position"] < 2**48
    assert first["hits"] == second["hits"] == [HIT]
    assert worker.finish() == 0


@pytest.mark.long
def test_a_chunk_that_is_shortened_ends_soon_and_says_where(worker: Process) -> None:
    worker.open(ONE_BY_ONE)
    worker.send(chunk("long", 0, 2**48), chunk("next", 0, 10))
    worker.answer()
    worker.send({"type": "trim", "id": "long", "stop": 6_000_000})
    answer = worker.end()
    assert (answer["type"], answer["id"], answer["start"]) == ("done", "long", 0)
    assert (6_000_000 <= answer["stop"] < 2**48, answer["hits"]) == (True, [HIT])
    assert worker.answer()["id"] == "next"


def test_end_of_input_at_once_is_a_clean_exit(worker: Process) -> None:
    assert worker.finish() == 0


def test_a_chunk_that_is_wrong_fails_alone() -> None:
    wrong = [(-1, 5), (5, 5), (6, 5), (0, 2**48 + 1), (0, "9"), (True, 9), (0, 1.5)]
    chunks = [chunk(f"w{i}", *interval) for i, interval in enumerate(wrong)]
    chunks += [{**chunk("extra", 0, 9), "skip": 1}, {"type": "chunk", "id": "short", "start": 0}]
    *failed, right = answered(PARAMS, *chunks, chunk("right", 0, 9))
    assert len(failed) == len(chunks)
    for asked, answer in zip(chunks, failed, strict=True):
        assert (answer["type"], answer["id"]) == ("failed", asked["id"])
        assert f"chunk {asked['id']}" in answer["error"]
    assert (right["type"], right["id"]) == ("done", "right")


def test_a_chunk_with_too_many_hits_fails_alone() -> None:
    asked = params("xorshift32", {"kind": "mod", "modulus": 2}, [1])
    failed, done = answered(asked, chunk("many", 0, 10**6), chunk("few", 0, 100))
    assert (failed["type"], failed["id"]) == ("failed", "many")
    assert "give more known draws" in failed["error"]
    assert done["id"] == "few"
    assert len(done["hits"]) in range(30, 70)


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({"type": "open", "digest": "0" * 64, "params": PARAMS}, "digest"),
        pytest.param({"type": "open", "digest": spec.digest(PARAMS)}, "params", marks=pytest.mark.long),
        ({"type": "open", "digest": spec.digest(PARAMS), "params": PARAMS, "threads": 2}, "threads"),
        pytest.param(
            {"type": "open", "digest": "", "params": PARAMS | {"window": 8}}, "unknown window", marks=pytest.mark.long
        ),
        pytest.param(
            {"type": "open", "digest": "", "params": {"data": "draws/java.json"}}, "missing", marks=pytest.mark.long
        ),
        pytest.param({"type": "open", "digest": "", "params": 7}, "JSON object", marks=pytest.mark.long),
        (chunk("early", 0, 5), "'open' was due"),
        pytest.param([], "no JSON object", marks=pytest.mark.long),
        pytest.param(b"hello", "no JSON", marks=pytest.mark.long),
        (b"\xff\xfe", "no JSON"),
        (b'{"type":"open","digest":"' + b"x" * (1 << 20) + b'"}', "longer than"),
    ],
)
def test_a_worker_that_cannot_open_says_why_and_exits(request_: Any, complaint: str) -> None:
    status, (answer,) = served(request_ if isinstance(request_, bytes) else json.dumps(request_).encode())
    assert status == 1
    assert answer["type"] == "failed"
    assert "id" not in answer
    assert complaint in answer["error"]


def answered(given: dict[str, Any], *chunks: dict[str, Any]) -> list[dict[str, Any]]:
    """What a worker in this process says of the chunks, until garbage ends it."""
    asked = [{"type": "open", "digest": spec.digest(given), "params": given}, *chunks]
    status, answers = served(*(json.dumps(each).encode() for each in asked), b"garbage")
    opened, *said, ended = [answer for answer in answers if answer["type"] != "checkpoint"]
    assert (status, opened["type"], ended["type"], "id" in ended) == (1, "opened", "failed", False)
    return said


def served(*lines: bytes) -> tuple[int, list[dict[str, Any]]]:
    """Exit status and answers of a worker in this process, whose input stays open until it has answered."""
    reading, writing = os.pipe()
    output = io.BytesIO()
    with open(reading, "rb") as given:
        requests = Requests(given)
        with open(writing, "wb") as asking:
            asking.write(b"".join(line + b"\n" for line in lines))
            asking.flush()
            status = Worker(requests, output, time.monotonic).run()
        ends_at = time.monotonic() + PATIENCE_S
        while not requests.ended:
            assert time.monotonic() < ends_at
            time.sleep(0.001)
    return status, [json.loads(answer) for answer in output.getvalue().splitlines()]


@pytest.mark.long
@pytest.mark.parametrize("request_", [b"garbage", b'{"type":"open"}', b'{"type":"chunk","start":0,"stop":5}', b"[1]"])
def test_garbage_after_opening_ends_the_worker(worker: Process, request_: bytes) -> None:
    worker.open(PARAMS)
    worker.send(request_)
    answer = worker.answer()
    assert answer["type"] == "failed"
    assert "id" not in answer
    assert worker.popen.wait(PATIENCE_S) == 1
