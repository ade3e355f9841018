"""How busy devices are: asked rarely, never two at a time, told of when nobody answers, unknown then."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hostler.agent.sampler import Source

from .harness import PATIENT_WITH_TOOLS, Agent, alive, until
from .test_attempts import shell
from .toolbox import put


class Clock:
    """A source with a clock of its own, and with tools that answer when they are told to."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.answers: list[Any] = []
        node = SimpleNamespace(loop=SimpleNamespace(monotonic=lambda: self.now, wall=lambda: self.now))
        tools: Any = SimpleNamespace(node=node, converse=lambda talk, on_end: self.answers.append(on_end))
        make: Any = SimpleNamespace(is_there=lambda: True, samples=lambda: None)
        self.source = Source(tools, make)

    def ask(self) -> Any:
        """How to answer the question that a refresh has begun; None if it has begun none."""
        self.source.refresh()
        return self.answers.pop() if self.answers else None


def test_never_two_questions_at_a_time() -> None:
    clock = Clock()
    answer = clock.ask()
    clock.now += 3600
    assert clock.ask() is None, "it has not been answered"
    answer(None)
    clock.now += 3600
    assert clock.ask() is not None


@pytest.mark.parametrize(("took_s", "rest_s"), [(0.01, 5.0), (4.0, 40.0)])
def test_a_slow_answer_is_asked_for_less_often_and_none_every_5_s(took_s: float, rest_s: float) -> None:
    clock = Clock()
    answer = clock.ask()
    clock.now += took_s
    answer([])
    clock.now += rest_s - 0.1
    assert clock.ask() is None
    clock.now += 0.2
    assert clock.ask() is not None


def test_sampler_backs_off_after_failures() -> None:
    clock, rests = Clock(), []
    answer = clock.ask()
    for _ in range(8):
        answer(None)
        began = clock.now
        while (answer := clock.ask()) is None:
            clock.now += 1.0
        rests.append(clock.now - began)
    assert rests == sorted(rests)
    assert rests[0] == 20.0
    assert rests[-1] == 300.0


def test_an_old_answer_is_unknown() -> None:
    clock = Clock()
    clock.ask()([{"index": 0, "kind": "cuda"}])
    clock.now += 59.0
    assert clock.source.devices() == [{"index": 0, "kind": "cuda", "at": 1000.0, "age_s": 59.0}]
    clock.now += 2.0
    assert clock.source.devices() == []


def tool(folder: Path, script: str, name: str = "nvidia-smi") -> str:
    put(folder / "bin", name, script)
    return f"{folder / 'bin'}:{os.environ['PATH']}"


def sampled(agent: Agent) -> Any:
    """The first devices it tells of; every hello asks, but not so soon again."""
    return until(lambda: agent.client().message("telemetry")["devices"], "an answer")


def test_an_agent_tells_what_nvidia_smi_says(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    script = f'echo "$1" >> {asked}\ncase "$1" in *gpu=*) echo \'0, 42, 100, 50, GPU-1, T4, [N/A]\' ;; esac\n'
    agent = Agent(tmp_path / "agent", PATIENT_WITH_TOOLS, PATH=tool(tmp_path, script))
    (device,) = sampled(agent)
    assert (device["utilization"], device["vram_used_bytes"], device["processes"]) == (0.42, 100 << 20, [])
    assert device["at"] > 0
    facts, users = (asked.read_text().count(word) for word in ("--query-gpu=", "--query-compute-apps="))
    assert facts - users in (0, 1), "it asks who uses the devices after each look at them"
    assert agent.stop() == 0


def test_an_agent_knows_its_own_processes_on_a_device_also_after_it_died(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    script = (
        'case "$1" in\n'
        "*gpu=*) echo '0, 42, 100, 50, GPU-1, T4, [N/A]' ;;\n"
        f"*) while [ ! -e {mine} ]; do sleep 0.05; done; echo \"GPU-1, $(cat {mine}), 90\"; echo 'GPU-1, 1, 10' ;;\n"
        "esac\n"
    )
    agent = Agent(tmp_path / "agent", PATIENT_WITH_TOOLS, PATH=tool(tmp_path, script))
    agent.client().launch(shell("a1", f"echo $$ > {mine}.new; mv {mine}.new {mine}; sleep 600", grace_s=0.1))
    until(mine.exists, "the attempt")
    name = Path("/proc/1/comm").read_text().strip()
    listed = [
        {
            "pid": int(mine.read_text()), "vram_bytes": 90 << 20, "ours": True,
            "name": "sh", "user": getpass.getuser(), "attempt": "a1",
        },
        {"pid": 1, "vram_bytes": 10 << 20, "ours": False, "name": name, "user": "root", "attempt": None},
    ]  # fmt: skip
    assert sampled(agent)[0]["processes"] == listed
    agent.kill_supervisor()
    assert sampled(agent)[0]["processes"] == listed
    assert agent.stop() == 0


def test_an_agent_tells_of_a_tool_that_fails_and_of_all_devices_when_asked(tmp_path: Path) -> None:
    script = 'echo \'{"card0": {"PCI Bus": "0000:05:00.0", "Card Series": "RX 6800"}}\'\n'
    tool(tmp_path, script, "rocm-smi")
    dead = "echo 'the driver is dead'; exit 9\n"
    agent = Agent(tmp_path / "agent", PATIENT_WITH_TOOLS, PATH=tool(tmp_path, dead))
    client = agent.client()
    words = client.message("error")["error"]
    assert words == "nvidia-smi failed: the driver is dead; what it knows of its devices is unknown until it answers"
    client.send(type="probe", id=1)
    assert client.message("probe")["facts"]["devices"] is None
    # The next sample is due after 20 s, before the end of a slow test, and must not fail.
    sample = "*=index,util*) echo '0, 42, 100, 50, GPU-1, T4, [N/A]'"
    tool(tmp_path, f"case \"$1\" in *=index,name,*) echo '0, T4, 16384, GPU-1' ;; {sample} ;; esac\n")
    client.send(type="probe", id=2)
    devices = client.message("probe")["facts"]["devices"]
    assert [(each["kind"], each["model"]) for each in devices] == [("cuda", "T4"), ("rocm", "RX 6800")]
    if not any(each["type"] == "error" for each in client.messages[-2:]):
        client.message("error")
    errors = [each["error"] for each in client.messages if each["type"] == "error"]
    assert errors == [words, "nvidia-smi answers again"]
    assert agent.stop() == 0


@pytest.mark.parametrize("script", ["exec sleep 600", "cat /dev/zero", "exit 3"], ids=["hangs", "floods", "fails"])
def test_an_agent_goes_on_whatever_nvidia_smi_does(tmp_path: Path, script: str) -> None:
    pid = tmp_path / "pid"
    agent = Agent(tmp_path / "agent", PATH=tool(tmp_path, f"echo $$ > {pid}.new; mv {pid}.new {pid}\n{script}\n"))
    client = agent.client()
    until(pid.exists, "a question")
    assert client.message("telemetry")["devices"] == []
    client.sync()
    assert agent.client().message("telemetry")["devices"] == []
    assert agent.stop() == 0
    until(lambda: not alive(int(pid.read_text())), "the end of what was asked")
