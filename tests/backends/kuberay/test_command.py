"""Commands on their way through two shells and what lies between them: the real shells, and what Ray's CLI does. With a
real Ray: tests/integration/test_ray_check.py."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from hostler.backends.kuberay.command import entrypoint

SHOWS = [sys.executable, "-c", "import sys; sys.stdout.buffer.write('\\0'.join(sys.argv[1:]).encode())"]
JOINS = {
    "2.55.1": [sys.executable, "-c", "import subprocess, sys; print(end=subprocess.list2cmdline(sys.argv[1:]))"],
    "2.56.0": [sys.executable, "-c", "import shlex, sys; print(end=shlex.join(sys.argv[1:]))"],
}
"""By the version of Ray."""
HOSTILE = [
    "http://host/?a=1&b=2", "$HOME", "`id`", "$(id)", "a;b", "a b;c $d", "*.py", "{a,b}", "it's", '{"a": [1, "x"]}',
    '{"a":1}', "a\\", "a \\", '\\"', 'a \\\\"', "a\nb", "a b\nc", "", " ", "\t", "~", "#x", "!x", "-x", "--", "é ü",
    "[a]", "<in", ">out", "a|b", "x=$y", "\\$x", "a \\$x",
]  # fmt: skip


def arrived(words: Sequence[str], mode: str, version: str) -> list[str]:
    """What a program gets that is to get these words."""
    text = entrypoint([*SHOWS, *words], mode, version)
    if mode != "HTTPMode":
        text = subprocess.run(
            ["bash", "-ce", f"{shlex.join(JOINS[version])} {text} ; true"], capture_output=True, text=True, check=True
        ).stdout
    ran = subprocess.run(["sh", "-c", text], capture_output=True, check=True)
    return ran.stdout.decode().split("\0")


@pytest.mark.parametrize("version", JOINS)
@pytest.mark.parametrize("mode", ["K8sJobMode", "SidecarMode", "HTTPMode"])
def test_hostile_words_arrive_as_they_were_sent(mode: str, version: str) -> None:
    assert arrived(HOSTILE, mode, version) == HOSTILE


@settings(max_examples=10, deadline=None)
@given(st.lists(st.text(st.sampled_from(" \t\n\\\"'$`a&;*"), max_size=8), min_size=20, max_size=40))
def test_all_others_do_so_too(words: list[str]) -> None:
    assert arrived(words, "K8sJobMode", "2.55.1") == words


def test_usual_words_stay_as_they_are() -> None:
    usual = ["python", "-m", "hostler.workloads.gameboy", "train", "/etc/hostler/files/training.yaml", "--steps=1_000"]
    assert {entrypoint(usual, mode, version) for mode in ("K8sJobMode", "HTTPMode") for version in JOINS} == {
        " ".join(usual)
    }
