"""An agent proves devices: one after the other, in their own environment, and none can hold up the others for long."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.agent.build import build_zipapp
from hostler.agent.canary import planted
from hostler.agent.protocol import VERSION

from .fakegpus import build, needs_compiler
from .harness import PATIENCE_S, Agent, Client, Json, alive, until


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "agent"


@pytest.fixture(scope="module")
def agent(shared_agent: Agent) -> Agent:
    return shared_agent


@pytest.fixture
def own_agent(folder: Path) -> Iterator[Agent]:
    agent = Agent(folder)
    yield agent
    agent.stop()


def own(device: str = "cpu0", kind: str = "cpu", **env: str) -> tuple[Json, int]:
    """A device for the agent's own program, and the right answer."""
    task, answer = planted(kind, random.Random(device))
    argv = ["{canary}", "--kind", kind, "--task", ",".join(map(str, task))]
    return {"device": device, "argv": argv, "env": env}, answer


def shell(device: str, script: str, **env: str) -> Json:
    return {"device": device, "argv": ["sh", "-c", script], "env": env}


def prove(client: Client, *devices: Json, patience_s: float = PATIENCE_S, number: int = 7) -> list[Json]:
    """Have devices proved; returns what is told of each, in order."""
    client.send(type="prove", id=number, devices=list(devices), patience_s=patience_s)
    return [client.message("proved") for _ in devices]


def test_a_sound_device_finds_what_was_planted(agent: Agent) -> None:
    device, answer = own()
    (told,) = prove(agent.client(), device)
    assert (told["id"], told["device"], told["ok"], told["why"]) == (7, "cpu0", True, None)
    found = json.loads(told["answer"])
    assert (found["hit"], found["version"]) == (answer, VERSION)
    assert told["seconds"] > 0


def test_the_zipapp_brings_its_program_along(tmp_path: Path) -> None:
    build_zipapp(tmp_path / "agent.pyz")
    agent = Agent(tmp_path / "here", [sys.executable, "-I", "-S", str(tmp_path / "agent.pyz")], PYTHONPATH="")
    try:
        device, answer = own(PYTHONSTARTUP="/nowhere", PYTHONHOME="/nowhere")
        (told,) = prove(agent.client(), device)
        assert json.loads(told["answer"])["hit"] == answer
    finally:
        agent.stop()


def test_a_command_sees_its_device_and_its_last_line_is_its_answer(agent: Agent) -> None:
    script = 'echo noise; echo noise >&2; echo "$HOSTLER_CANARY on $CUDA_VISIBLE_DEVICES"'
    first = shell("cuda0", script, HOSTLER_CANARY="w1", CUDA_VISIBLE_DEVICES="0")
    second = shell("cuda1", script, HOSTLER_CANARY="w2", CUDA_VISIBLE_DEVICES="1")
    told = prove(agent.client(), first, second)
    assert [(each["device"], each["ok"], each["answer"]) for each in told] == [
        ("cuda0", True, "w1 on 0"),
        ("cuda1", True, "w2 on 1"),
    ]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo fine; echo the card is broken >&2; exit 3", "the card is broken"),
        ("echo fine; exit 3", "it ended with status 3 and said nothing"),
        ("kill -SEGV $$", "it was ended by signal 11 and said nothing"),
    ],
)
def test_one_that_fails_is_told_with_its_last_words(agent: Agent, script: str, why: str) -> None:
    (told,) = prove(agent.client(), shell("cpu0", script))
    assert (told["ok"], told["why"]) == (False, why)


def test_one_that_cannot_be_started_is_told(agent: Agent) -> None:
    told = prove(agent.client(), {"device": "cpu0", "argv": ["/no/such"]}, shell("cpu1", "echo well"))
    assert [each["ok"] for each in told] == [False, True]
    assert "cannot start '/no/such'" in told[0]["why"]


def test_one_that_hangs_is_killed_with_all_it_started(agent: Agent, tmp_path: Path) -> None:
    pid_file, client = tmp_path / "pid", agent.client()
    script = f"sleep 1000 & echo $! > {pid_file}.new; mv {pid_file}.new {pid_file}; echo half; wait"
    for patience_s in (1.0, 10.0, PATIENCE_S / 2):  # on a busy machine the script may not get as far as its pid file
        hanging, sound = shell(f"hangs{patience_s:g}", script), shell("cuda1", "echo well")
        client.send(type="prove", id=7, devices=[hanging], patience_s=patience_s)
        client.send(type="prove", id=8, devices=[sound], patience_s=PATIENCE_S)
        first, second = (client.message("proved") for _ in range(2))
        assert [(each["id"], each["ok"]) for each in (first, second)] == [(7, False), (8, True)]
        assert first["why"] == f"it did not end within {patience_s:g} s, and was killed: the device hangs"
        if pid_file.exists():
            break
    pid = int(pid_file.read_text())
    until(lambda: not alive(pid), "the end of what it started")


def test_one_that_leaves_something_behind_does_not_hang(agent: Agent) -> None:
    (told,) = prove(agent.client(), shell("cpu0", "sleep 1000 & echo well"))
    assert (told["ok"], told["answer"]) == (True, "well"), "whoever waited for its output would call it hanging"


def test_canaries_run_one_at_a_time(agent: Agent, tmp_path: Path) -> None:
    script = f"mkdir {tmp_path}/alone && sleep 0.1 && rmdir {tmp_path}/alone && echo well"
    told = prove(agent.client(), *(shell(f"cuda{at}", script) for at in range(4)))
    assert [each["ok"] for each in told] == [True] * 4


def test_who_talks_much_is_heard_to_the_end(agent: Agent) -> None:
    script = "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo well"
    (told,) = prove(agent.client(), shell("cpu0", script))
    assert (told["ok"], told["answer"]) == (True, "well")
    (told,) = prove(agent.client(), shell("cpu0", "true"))
    assert (told["ok"], told["answer"]) == (True, None)


def test_a_new_controller_is_not_told_what_another_one_waited_for(own_agent: Agent, tmp_path: Path) -> None:
    first = own_agent.client()
    wait = f"touch {tmp_path}/begun; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; echo old"
    listed = [shell("cuda0", wait), shell("cuda1", f"touch {tmp_path}/never; echo old")]
    first.send(type="prove", id=7, devices=listed, patience_s=PATIENCE_S)
    until(lambda: (tmp_path / "begun").exists(), "the first canary")
    second = own_agent.client(epoch=2)
    (tmp_path / "go").touch()
    second.send(type="prove", id=8, devices=[shell("cuda1", "echo new")], patience_s=PATIENCE_S)
    told = [second.message("proved") for _ in range(2)]
    assert [(each["id"], each["answer"]) for each in told] == [(7, "old"), (8, "new")]
    assert not (tmp_path / "never").exists(), "what was queued for the first one is forgotten"


@pytest.mark.parametrize(
    "request_",
    [
        {"devices": "cuda0", "patience_s": 1},
        {"devices": [{"device": "cuda0"}], "patience_s": 1},
        {"devices": [shell("cuda0", "echo"), {"device": "", "argv": ["true"]}], "patience_s": 1},
        {"devices": [shell("cuda0", "echo")]},
        {"devices": [shell("cuda0", "echo")], "patience_s": 10**4000},
        {"devices": [shell("cuda0", "echo")], "patience_s": -1},
    ],
)
def test_a_request_that_cannot_be_understood_proves_nothing(agent: Agent, request_: Any) -> None:
    client = agent.client()
    client.send(type="prove", id=9, **request_)
    error = client.message("error")
    assert error["request"]["id"] == 9
    client.sync()
    assert not [each for each in client.messages if each["type"] == "proved"]


def test_an_agent_that_is_ended_takes_its_canary_along(folder: Path, tmp_path: Path) -> None:
    agent = Agent(folder)
    client = agent.client()
    script = f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; sleep 1000"
    client.send(type="prove", id=1, devices=[shell("cuda0", script)], patience_s=PATIENCE_S)
    until(lambda: (tmp_path / "pid").exists(), "the canary")
    assert agent.stop() == 0
    until(lambda: not alive(int((tmp_path / "pid").read_text())), "its end")


@pytest.mark.long
@needs_compiler
def test_gpus_are_asked_through_their_driver(agent: Agent, tmp_path: Path) -> None:
    drivers = str(build(tmp_path / "drivers"))
    sound, answer = own("cuda0", "cuda", LD_LIBRARY_PATH=drivers, CUDA_VISIBLE_DEVICES="0")
    dead, _ = own("cuda1", "cuda", LD_LIBRARY_PATH=drivers, CUDA_VISIBLE_DEVICES="1", FAULT="unknown")
    crash, _ = own("cuda2", "cuda", LD_LIBRARY_PATH=drivers, CUDA_VISIBLE_DEVICES="2", FAULT="crash")
    lying, planted_there = own("cuda3", "cuda", LD_LIBRARY_PATH=drivers, CUDA_VISIBLE_DEVICES="3", FAULT="wrong")
    hanging, _ = own("cuda4", "cuda", LD_LIBRARY_PATH=drivers, CUDA_VISIBLE_DEVICES="4", FAULT="hang")
    client = agent.client()
    told = prove(client, sound, dead, crash, lying) + prove(client, hanging, patience_s=3.0)
    assert [each["ok"] for each in told] == [True, False, False, True, False]
    assert json.loads(told[0]["answer"])["hit"] == answer
    assert "cuInit failed with 999 (unknown error)" in told[1]["why"]
    assert told[2]["why"] == "it was ended by signal 6 and said nothing"
    assert json.loads(told[3]["answer"])["hit"] == planted_there + 1, "the agent does not know; the controller does"
    assert "did not end within 3 s" in told[4]["why"]
