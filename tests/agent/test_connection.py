"""The stream: bad lines, hostile requests, long paths, a controller that does not read."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.connection import connect

from .harness import PATIENCE_S, PATIENT_WITH_TOOLS, Agent, Client, Json, fresh_name, patched, until
from .test_attempts import attempt, shell


@pytest.mark.parametrize(
    "line",
    [
        b"this is no JSON",
        b"[1,2]",
        b"\xff\xfe",
        b'{"type":"launch","attempts":NaN}',
        b"[" * 100_000,
        b'{"type":"what"}',
        b'{"type":["launch"]}',
        b'{"no":"type"}',
        b'{"type":"launch"}',
        b'{"type":"launch","attempts":[1]}',
        b'{"type":"launch","attempts":[{"id":"../../etc"}]}',
        b'{"type":"launch","attempts":[{"id":"a/b"}]}',
        b'{"type":"launch","attempts":[{"id":".."}]}',
        b'{"type":"stop","attempts":["a","../b"]}',
        b'{"type":"discard","attempts":[".."]}',
        b'{"type":"discard","attempts":"j1.1"}',
        b'{"type":"open","worker":{"id":"../w"}}',
        b'{"type":"open","worker":7}',
        b'{"type":%s1%s}' % (b"[" * 600, b"]" * 600),
        b'{"type":"read","id":%s1%s,"attempt":"x","stream":"out","offset":0,"limit":1}' % (b"[" * 600, b"]" * 600),
        b'{"type":"chunks","worker":"w","chunks":[["c",2,1]]}',
        b'{"type":"chunks","worker":"w","chunks":[["c",0.5,1]]}',
        b'{"type":"recall","chunks":[null]}',
        b'{"type":"ack","seq":true}',
        b'{"type":"read","id":1,"attempt":"../x","stream":"out","offset":0,"limit":1}',
        b'{"type":"read","id":1,"attempt":"x","stream":"../../journal.jsonl","offset":0,"limit":1}',
        b'{"type":"shutdown"}',
    ],
)
def test_a_bad_line_is_an_error_and_nothing_more(shared_agent: Agent, line: bytes) -> None:
    client = shared_agent.client()
    client.send_raw(line + b"\n")
    error = client.message("error")
    assert error["error"]
    assert "it failed" not in error["error"]
    name = fresh_name()
    client.launch(attempt(name, "true"))
    assert client.ended(name)["exit_code"] == 0


@pytest.mark.parametrize(
    "agent", [pytest.param(patched(f"connection._REST_WITHIN_S = {PATIENCE_S}"), id="patient")], indirect=True
)
def test_a_line_without_end_is_hung_up_on(agent: Agent) -> None:
    client = agent.client()
    piece = b"x" * (1 << 20)
    for _ in range(70):
        client.send_raw(piece)
    client.send_raw(b"\n")
    assert f"longer than {64 << 20} bytes" in client.message("error")["error"]
    assert client.receive() == {}
    agent.client().sync()


def deep(levels: int) -> Any:
    return [] if levels == 1 else [deep(levels - 1)]


def test_a_result_that_is_accepted_can_be_sent_back_and_a_deeper_request_is_answered(agent: Agent) -> None:
    client = agent.client()
    result = deep(64)
    client.launch(shell("j1.1", f"echo '{json.dumps(result)}' > $HOSTLER_RESULT"))
    client.launch(shell("j2.1", f"echo '{json.dumps([result])}' > $HOSTLER_RESULT"))
    assert client.ended("j1.1")["result"] == result
    assert "deeper than 64 levels" in client.ended("j2.1")["result_error"]
    client.launch(shell("j3.1", "cp $HOSTLER_INPUTS $HOSTLER_RESULT", inputs={"j1": [result]}))
    assert "deeper than 64 levels" in client.ended("j3.1")["result_error"]
    client.launch(attempt("j4.1", "true", inputs=deep(300)), shell("j5.1", "exit 5", inputs=deep(197)))
    assert (client.ended("j4.1")["reason"], client.ended("j5.1")["exit_code"]) == ("refused", 5)


def test_what_can_be_read_of_a_bad_request_is_carried_out_or_answered(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "3600"), {"id": "../j2.1"}, {"id": "j3.1"})
    assert "must be a list of objects" in client.message("error")["error"]
    assert client.ended("j3.1")["reason"] == "refused"
    client.send(type="stop", attempts=["j1.1", "../j2.1"], reason="cancelled")
    assert client.ended("j1.1")["reason"] == "stopped"
    client.send(type="recall", chunks=["c.1", None], reason="enough")
    assert client.fact("returned", chunk="c.1")["reason"] == "recalled"
    client.send(type="chunks", worker="w1", chunks=[["c.2", 2, 1], ["c.3", 1, 2], "c.4"])
    assert client.fact("returned", chunk="c.2")["reason"] == "failed"
    assert client.fact("returned", chunk="c.3")["reason"] == "closed"


@pytest.mark.parametrize(
    "hello",
    [
        {"type": "launch", "attempts": []},
        {"type": "hello", "protocol": 2, "controller": "x", "epoch": 1, "ack": 0},
        {"type": "hello", "protocol": 1, "controller": "x", "epoch": "1", "ack": 0},
    ],
)
def test_a_bad_hello(shared_agent: Agent, hello: Json) -> None:
    peer = connect(str(shared_agent.directory), PATIENCE_S)
    peer.sendall(json.dumps(hello).encode() + b"\n")
    with peer.makefile("rb") as heard:
        answer = json.loads(heard.readline())
    assert answer["type"] in ("refused", "error")
    peer.close()
    shared_agent.client().sync()


def test_a_controller_that_does_not_read_blocks_nothing(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    fat = """(printf '{"x":"'; head -c 900000 /dev/zero | tr '\\0' y; printf '"}') > $HOSTLER_RESULT"""
    client.launch(*[shell(f"j{n}.1", fat) for n in range(12)])
    client.launch(shell("last.1", f"touch {tmp_path}/done"))
    until((tmp_path / "done").exists, "the last attempt")
    assert len(client.ended("j11.1")["result"]["x"]) == 900_000
    client.ended("last.1")
    assert [fact["seq"] for fact in client.facts] == list(range(1, 27))


def test_private_files(agent: Agent) -> None:
    assert stat.S_IMODE(os.stat(agent.directory).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(agent.directory / "agent.sock").st_mode) == 0o600
    assert stat.S_IMODE(os.stat(agent.directory / "journal.jsonl").st_mode) == 0o600


def test_a_folder_with_a_very_long_name(tmp_path: Path) -> None:
    agent = Agent(tmp_path / ("long" * 30) / ("name" * 30))
    client = agent.client()
    client.launch(shell("j1.1", "pwd"))
    assert client.ended("j1.1")["exit_code"] == 0
    assert agent.stop() == 0


def test_bridge(agent: Agent) -> None:
    hello = b'{"type":"hello","protocol":1,"controller":"x","epoch":1,"ack":0}\n'
    command = agent.command("connect")
    with subprocess.Popen(command, env=agent._env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as bridge:
        assert bridge.stdin is not None
        assert bridge.stdout is not None
        launch = {"type": "launch", "attempts": [attempt("j1.1", "true")]}
        bridge.stdin.write(hello + json.dumps(launch).encode() + b"\n")
        bridge.stdin.flush()
        answers: list[Any] = []
        while "ended" not in str(answers):
            answers.append(json.loads(bridge.stdout.readline()))
        bridge.stdin.close()
        assert bridge.wait(PATIENCE_S) == 0
    assert answers[0]["type"] == "hello"


def test_bridge_to_nothing(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    command = [*agent.command("connect")[:-1], str(tmp_path / "empty")]
    failed = subprocess.run(command, env=agent._env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert failed.returncode == 4
    assert "no agent listens" in failed.stderr


def test_files_are_served_by_a_guest_while_its_controller_is_the_newest(agent: Agent) -> None:
    def guest(epoch: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-S", "-m", "hostler.agent.files", "guest", str(agent.directory)]
        process = subprocess.Popen(command, env=agent._env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        say(process, {"type": "files", "protocol": 1, "epoch": epoch, "guest": True})
        return process

    def say(process: subprocess.Popen[bytes], message: Json) -> Json:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        answers.append(json.loads(process.stdout.readline()))
        return answers[-1]

    answers: list[Json] = []
    agent.client(epoch=1)
    with guest(1) as first:
        assert answers == [{"type": "hello", "protocol": 1}]
        assert say(first, {"op": "find", "sha256": []}) == {"found": {}}
        agent.client(epoch=2)
        assert first.wait(PATIENCE_S) == 1
    with guest(1) as late:
        assert answers[-1]["type"] == "refused"
        assert late.wait(PATIENCE_S) == 1
    with guest(2) as second:
        assert answers[-1]["type"] == "hello"
        assert second.stdin is not None
        second.stdin.close()
        assert second.wait(PATIENCE_S) == 0


def test_a_guest_of_nobody_says_so(agent: Agent, tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-m", "hostler.agent.files", "guest", str(tmp_path)]
    failed = subprocess.run(command, env=agent._env, input="{}\n", capture_output=True, text=True, timeout=PATIENCE_S)
    assert failed.returncode == 1
    assert "No such file" in failed.stderr


def test_probe(agent: Agent) -> None:
    client = agent.client()
    client.send(type="probe", id=6)
    facts = client.message("probe")["facts"]
    assert facts["host"] == socket.gethostname()
    assert facts["cpus"] >= 1
    assert facts["memory_bytes"] > 0
    assert facts["boot"] == client.hello["boot"]
    assert {"os", "arch", "python", "disk_free_bytes", "devices"} <= set(facts)


def test_probe_asks_nvidia_smi(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '0, NVIDIA H200, 143771, GPU-1'\necho '1, NVIDIA H200, [N/A], GPU-2'\n")
    tool.chmod(0o755)
    agent = Agent(tmp_path / "agent", PATIENT_WITH_TOOLS, PATH=f"{tmp_path}:{os.environ['PATH']}")
    client = agent.client()
    client.send(type="probe", id=7)
    devices = client.message("probe")["facts"]["devices"]
    assert devices[0] == {
        "index": 0,
        "kind": "cuda",
        "model": "NVIDIA H200",
        "vram_bytes": 143771 << 20,
        "uuid": "GPU-1",
    }
    assert devices[1]["vram_bytes"] is None
    assert agent.stop() == 0


def test_telemetry_comes_by_itself(agent: Agent) -> None:
    client = Client(agent.directory)
    telemetry = client.receive()
    assert telemetry["type"] == "telemetry"
    assert telemetry["load"] >= 0
    assert telemetry["cores"] >= 1
    assert 0 < telemetry["disk_free_bytes"] < telemetry["disk_bytes"]
    assert 0 < telemetry["memory_free_bytes"] < telemetry["memory_bytes"]
    assert telemetry["backlog_s"] == 0.0
    client.close()


@pytest.mark.long
def test_telemetry_comes_again_and_again(agent: Agent) -> None:
    client = Client(agent.directory)
    telemetry = client.receive()
    assert client.message("telemetry")["at"] > telemetry["at"]
    client.close()


def helpers(agent: Agent) -> list[int]:
    """The processes that serve files of an agent's folder."""
    mark = os.fsencode(agent.directory)
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_helper(pid, mark)]


def is_helper(pid: int, mark: bytes) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"hostler.agent.files" in words and mark in words


def test_who_serves_files_dies_with_the_supervisor_however_that_ends(agent: Agent) -> None:
    """The next one does not know of it, and a slow one may lay out a folder in which somebody works by then."""
    agent.client()
    with connect(str(agent.directory), PATIENCE_S) as peer, peer.makefile("rb") as heard:
        for request in ({"type": "files", "protocol": 1, "epoch": 1}, {"op": "find", "sha256": []}):
            peer.sendall(json.dumps(request).encode() + b"\n")
            assert "error" not in json.loads(heard.readline())
        [helper] = helpers(agent)
        os.kill(agent.supervisor, signal.SIGKILL)
        until(lambda: helper not in helpers(agent), "the helper's end")
        assert heard.readline() == b""
    until(agent._is_up, "the next supervisor")


def test_who_serves_files_of_a_supervisor_that_is_gone_never_begins(tmp_path: Path, agent: Agent) -> None:
    command = [sys.executable, "-S", "-m", "hostler.agent.files", "of", "1", str(tmp_path)]
    assert subprocess.run(command, env=agent._env, input=b"", timeout=PATIENCE_S).returncode == -signal.SIGKILL
