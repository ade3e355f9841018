"""The stream: bad lines, hostile requests, long paths, a controller that does not read."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.connection import connect

from .harness import Agent, Client, Json, until
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
        b'{"type":"open","worker":{"id":"w"}}',
        b'{"type":"chunks","worker":"w","chunks":[["c",2,1]]}',
        b'{"type":"chunks","worker":"w","chunks":[["c",0.5,1]]}',
        b'{"type":"recall","chunks":[null]}',
        b'{"type":"ack","seq":true}',
        b'{"type":"read","id":1,"attempt":"../x","stream":"out","offset":0,"limit":1}',
        b'{"type":"read","id":1,"attempt":"x","stream":"../../journal.jsonl","offset":0,"limit":1}',
        b'{"type":"shutdown"}',
    ],
)
def test_a_bad_line_is_an_error_and_nothing_more(agent: Agent, line: bytes) -> None:
    client = agent.client()
    client.send_raw(line + b"\n")
    error = client.message("error")
    assert error["error"]
    assert "it failed" not in error["error"]
    client.launch(attempt("j1.1", "true"))
    assert client.ended("j1.1")["exit_code"] == 0


def test_a_line_without_end_is_hung_up_on(agent: Agent) -> None:
    client = agent.client()
    piece = b"x" * (1 << 20)
    try:
        for _ in range(100):
            client.send_raw(piece)
    except OSError:
        pass  # the agent hung up in the middle: as it should
    assert client.receive().get("type", "error") == "error"
    agent.client().sync()


@pytest.mark.parametrize(
    "hello",
    [
        {"type": "launch", "attempts": []},
        {"type": "hello", "protocol": 2, "controller": "x", "epoch": 1, "ack": 0},
        {"type": "hello", "protocol": 1, "controller": "x", "epoch": "1", "ack": 0},
    ],
)
def test_a_bad_hello(agent: Agent, hello: Json) -> None:
    peer = connect(str(agent.directory), 30.0)
    peer.sendall(json.dumps(hello).encode() + b"\n")
    answer = json.loads(peer.makefile("rb").readline())
    assert answer["type"] in ("refused", "error")
    peer.close()
    agent.client().sync()


def test_a_controller_that_does_not_read_blocks_nothing(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    fat = "print('{\"x\":\"' + 'y' * 900000 + '\"}', file=open(__import__('os').environ['HOSTLER_RESULT'], 'w'))"
    client.launch(*[attempt(f"j{n}.1", "python3", "-c", fat) for n in range(12)])
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
        assert bridge.wait(30) == 0
    assert answers[0]["type"] == "hello"


def test_bridge_to_nothing(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    command = [*agent.command("connect")[:-1], str(tmp_path / "empty")]
    failed = subprocess.run(command, env=agent._env, capture_output=True, text=True, timeout=30)
    assert failed.returncode == 4
    assert "no agent listens" in failed.stderr


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
    agent = Agent(tmp_path / "agent", PATH=f"{tmp_path}:{os.environ['PATH']}")
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
    telemetry = client.message("telemetry")
    assert telemetry["load"] >= 0
    assert telemetry["disk_free_bytes"] > 0
    client.close()
