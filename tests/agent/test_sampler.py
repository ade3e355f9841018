"""How busy devices are: parsed strictly, asked rarely, never two at a time, unknown where nobody answers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from hostler.agent import sampler
from hostler.agent.sampler import Source, amd_query, amd_samples, nvidia_samples

from .harness import Agent, alive, until


def cuda(index: int, busy: float | None, used: int | None, celsius: float | None) -> dict[str, Any]:
    used_bytes = None if used is None else used << 20
    return {
        "index": index, "kind": "cuda", "utilization": busy, "vram_used_bytes": used_bytes, "temperature_c": celsius,
    }  # fmt: skip


def test_nvidia_rows() -> None:
    assert nvidia_samples("0, 93, 1024, 61\n1, 0, 3, 30\n") == [cuda(0, 0.93, 1024, 61.0), cuda(1, 0.0, 3, 30.0)]
    assert nvidia_samples("") == []


def test_what_is_no_number_is_unknown_and_never_nothing() -> None:
    told = "0, [N/A], [Not Supported], ERR!\n1, 101, -1, 1e9\n2, [Unknown Error], 5, 40"
    assert nvidia_samples(told) == [cuda(0, None, None, None), cuda(1, None, None, None), cuda(2, None, 5, 40.0)]


def test_one_lost_device_does_not_hide_the_others() -> None:
    told = "0, 50, 10, 40\nUnable to determine the device handle for GPU1: 0000:02:00.0: GPU is lost."
    assert nvidia_samples(told) == [cuda(0, 0.5, 10, 40.0)]
    assert nvidia_samples("NVIDIA-SMI has failed because it couldn't communicate with the driver") is None
    assert nvidia_samples("No devices were found") is None


@given(st.text(max_size=200))
def test_any_answer_is_read(text: str) -> None:
    for device in nvidia_samples(text) or []:
        assert device["utilization"] is None or 0 <= device["utilization"] <= 1


def amd_tree(root: Path) -> Path:
    for card, address in (("card1", "0000:05"), ("card0", "0000:09")):
        device = root / "devices" / address
        (device / "hwmon" / "hwmon3").mkdir(parents=True)
        (device / "vendor").write_text("0x1002\n")
        (device / "mem_info_vram_total").write_text("8573157376")
        (root / "drm" / card).mkdir(parents=True)
        (root / "drm" / card / "device").symlink_to(device)
    return root / "drm"


def test_amd_devices_are_read_by_another_program(tmp_path: Path) -> None:
    drm = str(amd_tree(tmp_path))
    first = tmp_path / "devices" / "0000:05"
    (first / "gpu_busy_percent").write_text("37\n")
    (first / "mem_info_vram_used").write_text("1073741824\n")
    (first / "hwmon" / "hwmon3" / "temp1_input").write_text("54000\n")
    argv = amd_query(drm)
    assert argv is not None
    answer = subprocess.run(argv, capture_output=True, text=True, timeout=30).stdout
    assert amd_samples(answer, drm) == [
        {"index": 0, "kind": "rocm", "utilization": 0.37, "vram_used_bytes": 1 << 30, "temperature_c": 54.0},
        {"index": 1, "kind": "rocm", "utilization": None, "vram_used_bytes": None, "temperature_c": None},
    ]
    assert amd_query(str(tmp_path / "none")) is None


class Asked:
    """A query that answers when it is told to."""

    def __init__(self, _node: object, _argv: object, _patience_s: float, on_answer: Any) -> None:
        self.answer, self.hangs, self.is_asked = on_answer, False, False

    def start(self) -> None:
        self.is_asked = True

    def is_running(self) -> bool:
        return self.hangs


class Clock:
    """A source with a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        loop = SimpleNamespace(monotonic=lambda: self.now, wall=lambda: self.now)
        monkeypatch.setattr(sampler, "Query", Asked)
        node: Any = SimpleNamespace(loop=loop)
        self.source = Source(node, lambda: ["tool"], nvidia_samples)

    def ask(self) -> Any:
        """The query that is open after a refresh; None if none was begun."""
        before = self.source._query
        self.source.refresh()
        return None if self.source._query is before else self.source._query


def test_never_two_questions_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    first = clock.ask()
    assert first.is_asked
    clock.now += 3600
    assert clock.ask() is None, "it has not been answered"
    first.hangs = True
    first.answer(None)
    clock.now += 3600
    assert clock.ask() is None, "it was given up, and hangs in the kernel"
    first.hangs = False
    assert clock.ask() is not None


def test_a_slow_answer_is_asked_for_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    query = clock.ask()
    clock.now += 4.0
    query.answer("0, 5, 6, 7")
    clock.now += 39.0
    assert clock.ask() is None
    clock.now += 2.0
    assert clock.ask() is not None


def test_who_fails_is_asked_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, rests = Clock(monkeypatch), []
    for _ in range(8):
        query = clock.ask()
        query.answer("it does not work")
        began = clock.now
        while clock.ask() is None:
            clock.now += 1.0
        rests.append(clock.now - began)
        clock.source._is_open, clock.now = False, clock.now + 1.0
    assert rests == sorted(rests)
    assert rests[0] == 20.0
    assert rests[-1] == 300.0


def test_an_old_answer_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    clock.ask().answer("0, 5, 6, 7")
    clock.now += 59.0
    assert clock.source.devices() == [{**cuda(0, 0.05, 6, 7.0), "at": 1000.0}]
    clock.now += 2.0
    assert clock.source.devices() == []


def tool(folder: Path, script: str) -> str:
    path = folder / "nvidia-smi"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_an_agent_tells_what_nvidia_smi_says(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    agent = Agent(tmp_path / "agent", PATH=tool(tmp_path, f"echo '0, 42, 100, 50'\necho >> {asked}\n"))
    agent.client()
    until(asked.exists, "a question")

    def devices() -> Any:
        return agent.client().message("telemetry")["devices"]

    (device,) = until(devices, "an answer")
    assert (device["utilization"], device["vram_used_bytes"]) == (0.42, 100 << 20)
    assert device["at"] > 0
    assert len(asked.read_text()) == 1, "every hello asks, but not so soon again"
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
