"""Programs that are asked: one question at a time, killed when slow, and spoken of once when they fail."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from hostler.agent import procs
from hostler.agent.queries import Query
from hostler.agent.tools import Question, Talk
from tests.patience import PATIENCE_S

from .harness import alive, until
from .toolbox import NOTES_HANG, Workshop


def digits(text: str) -> str | None:
    return text.strip() if text.strip().isdigit() else None


def talk(*argv: str, times: int = 1) -> Talk:
    answers = []
    for _ in range(times):
        answers.append((yield Question([*argv], digits)))
    return answers


def test_a_talk_gets_the_answers_of_real_programs(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    shop.put("tool", "echo $1\n")
    assert shop.ask(talk("tool", "42", times=2)) == ["42", "42"]
    assert shop.complaints == []


def test_a_program_that_hangs_is_killed_with_all_it_started_and_named_once(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    pids = tmp_path / "pids"
    shop.put("tool", f"sleep 600 &\necho $$ $! > {pids}\n{NOTES_HANG}wait\n")
    assert shop.ask(talk("tool")) == [None]
    until(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()), "their end")
    words = (
        f"tool gave no answer within {PATIENCE_S:g} s and was killed; "
        "what it knows of its devices is unknown until it answers"
    )
    assert shop.complaints == [words]
    shop.ask(talk("tool"))
    assert shop.complaints == [words], "it is the same bout"
    shop.put("tool", "echo 1\n")
    shop.ask(talk("tool", times=2))
    assert shop.complaints == [words, "tool answers again"]
    shop.put("tool", "echo broken; exit 3\n")
    shop.ask(talk("tool"))
    assert shop.complaints[2:] == ["tool failed: broken; what it knows of its devices is unknown until it answers"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 1\n", "tool failed, and did not say why;"),
        ("cat /dev/zero\n", "tool gave more than 1048576 bytes and was killed;"),
        (None, "tool cannot start 'tool': no such program in PATH"),
    ],
)
def test_whatever_it_does_it_is_named(tmp_path: Path, script: str | None, words: str) -> None:
    shop = Workshop(tmp_path)
    if script is not None:
        shop.put("tool", script)
    assert shop.ask(talk("tool")) == [None]
    assert shop.complaints[0].startswith(words)


def test_two_who_ask_the_same_program_wait_for_each_other(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    lock = tmp_path / "lock"
    shop.put("tool", f"mkdir {lock} || exit 1\nsleep 0.2\nrmdir {lock}\necho $1\n")
    ends: list[Any] = []
    for number in ("1", "2", "3"):
        shop.tools.converse(talk("tool", number), ends.append)
    shop.until(lambda: len(ends) == 3)
    assert ends == [["1"], ["2"], ["3"]]


def test_none_is_started_beside_one_that_cannot_be_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill that does nothing stands for a process that hangs in the kernel."""
    shop = Workshop(tmp_path)
    starts = tmp_path / "starts"
    shop.put("tool", f"echo $$ >> {starts}\n{NOTES_HANG}exec sleep 600\n")
    monkeypatch.setattr(Query, "stop", lambda query: None)
    assert shop.ask(talk("tool")) == [None]
    ends: list[Any] = []

    def later() -> list[Any]:
        shop.pass_time(PATIENCE_S)
        return ends

    shop.tools.converse(talk("tool", times=2), ends.append)
    shop.until(later)
    assert ends == [[None, None]]
    (pid,) = starts.read_text().split()
    assert shop.complaints[1:] == [
        "tool was killed and is still there, so it hangs in the kernel; it is not asked again until it is gone"
    ]
    shop.put("tool", "echo 7\n")
    os.kill(int(pid), signal.SIGKILL)
    until(lambda: not procs.is_running(procs.Identity(int(pid), procs.start_time(int(pid)) or 0)), "its end")
    assert shop.ask(talk("tool")) == ["7"]
    assert shop.complaints[2:] == ["tool, which hung in the kernel, is gone", "tool answers again"]


def test_stop_ends_what_is_asked(tmp_path: Path) -> None:
    shop = Workshop(tmp_path)
    pid = tmp_path / "pid"
    shop.put("tool", f"echo $$ > {pid}.new; mv {pid}.new {pid}\nexec sleep 600\n")
    shop.tools.converse(talk("tool"), lambda _: None)
    until(pid.exists, "its start")
    shop.tools.stop()
    until(lambda: not alive(int(pid.read_text())), "its end")


def test_belongs_to_tells_children_of_an_agent(tmp_path: Path) -> None:
    assert procs.belongs_to(os.getpid(), "/nowhere") is True
    assert procs.belongs_to(os.getppid(), "/nowhere") is False
    assert procs.belongs_to(1 << 30, "/nowhere") is None
