"""The last words of a process: bounded, readable, whatever it wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from hostler.agent import logs
from hostler.agent.evidence import LIMIT_BYTES, cleaned, last_words

from .harness import PATIENCE_S, Agent
from .test_attempts import attempt, shell


@given(st.binary(max_size=5000) | st.text(max_size=3000).map(str.encode))
def test_any_bytes_become_short_plain_text(data: bytes) -> None:
    text = cleaned(data)
    assert len(json.dumps(text)) - 2 <= LIMIT_BYTES
    assert all(char in "\n\t" or char.isprintable() or ord(char) >= 0xA0 for char in text)
    assert text == text.rstrip()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"one\ntwo\n\n", "one\ntwo"),
        ("żółw".encode()[1:], "ółw"),
        (b"ok \xff\xfe", "ok \ufffd\ufffd"),
        (b"\x1b[31mValueError\x1b[0m: no\r\n", "ValueError: no"),
        (b" 10%|#\r 20%|##\r 30%|###\nKilled\n", " 30%|###\nKilled"),
        (b"100%\r\n", "100%"),
        (b"a\x00b\x07c\td", "abc\td"),
    ],
)
def test_what_a_terminal_would_show(data: bytes, text: str) -> None:
    assert cleaned(data) == text


def test_the_end_counts() -> None:
    assert cleaned(b"x" * 9000 + b"\nMemoryError").endswith("x\nMemoryError")
    assert len(cleaned(b"x" * 9000)) == LIMIT_BYTES
    wide = cleaned("語".encode() * 3000)
    assert LIMIT_BYTES - 12 <= len(json.dumps(wide)) - 2 <= LIMIT_BYTES


def test_it_goes_on_from_what_was_rotated_away(tmp_path: Path) -> None:
    path = tmp_path / "err"
    path.write_bytes(b"MemoryError\n")
    assert logs.rotate(str(path), 12)
    with path.open("ab") as target:
        target.write(b"bye\n")
    assert last_words(str(path)) == "Error\nbye"
    assert last_words(str(tmp_path / "none")) is None


def test_a_failure_brings_its_last_words(agent: Agent) -> None:
    client = agent.client()
    client.launch(shell("j1.1", "echo out; echo 'ModuleNotFoundError: x' >&2; exit 1"))
    client.launch(shell("j2.1", "echo warned >&2"), shell("j3.1", "exit 2"), attempt("j4.1", "/no/such"))
    assert client.ended("j1.1")["evidence"] == "ModuleNotFoundError: x"
    for name in ("j2.1", "j3.1", "j4.1"):
        assert "evidence" not in client.ended(name)


def test_a_failure_by_walltime_brings_its_last_words(agent: Agent) -> None:
    client = agent.client()
    for walltime_s in (0.5, 5.0, PATIENCE_S / 2):  # on a busy machine the shell may not get as far as its echo
        name = f"walltime{walltime_s:g}.1"
        client.launch(shell(name, "echo slow >&2; sleep 3600", walltime_s=walltime_s, grace_s=0.1))
        ended = client.ended(name)
        assert ended["reason"] == "walltime"
        if "evidence" in ended:
            break
    assert ended["evidence"] == "slow"


def test_what_was_asked_to_end_needs_no_evidence(agent: Agent) -> None:
    client = agent.client()
    client.launch(shell("j1.1", "echo busy >&2; sleep 60", grace_s=0.1))
    client.fact("started", attempt="j1.1")
    client.send(type="stop", attempts=["j1.1"], reason="cancelled")
    assert "evidence" not in client.ended("j1.1")


def test_an_agent_that_is_killed_tells_them_all_the_same(agent: Agent) -> None:
    client = agent.client()
    client.launch(shell("j1.1", "echo 'CUDA error: x' >&2; sleep 1; exit 3"))
    client.fact("started", attempt="j1.1")
    agent.kill_supervisor()
    ended = agent.client().ended("j1.1")
    assert (ended["exit_code"], ended["evidence"]) == (3, "CUDA error: x")
