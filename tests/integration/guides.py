"""Pages of docs/get-started, executed block by block: files are written, commands run, and what they print compared."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.patience import PATIENCE_S

FOLDER = Path(__file__).resolve().parents[2] / "docs/get-started"
BLOCK = re.compile(r"^```(sh|text|python|yaml)[ ]?(.*?)\n(.*?)^```$", re.M | re.S)


def execute(page: str, folder: Path, environment: Mapping[str, str], given: Mapping[str, str] | None = None) -> None:
    """Execute the blocks of a page in order, in a project that is new, and compare what is printed.

    A block `sh background` is left to the test; `…` in a line of a block `text` stands for anything. Blocks `python`
    without the name of a file are played by one Python process, one after the other. `folder` is the home of the one
    who types; `given` has words that are typed, or written into files, in the place of others.
    """
    project = folder / "project"
    project.mkdir()
    whole = environment_of(folder, environment)
    text = (FOLDER / page).read_text()
    printed, executed = "", 0
    with ExitStack() as stack:
        python = Interpreter(project, whole, stack)
        for kind, what, body in BLOCK.findall(text):
            if kind != "text":
                body = _replaced(body, given or {})
            if kind in ("python", "yaml") and what:
                (project / what).write_text(body)
            elif kind == "python":
                printed = python.play(body)
            elif kind == "sh" and what != "background":
                done = subprocess.run(
                    ["sh", "-c", body], cwd=project, env=whole, timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                )  # fmt: skip
                printed, executed = done.stdout, executed + 1
            elif kind == "text":
                _compare(body, printed)
    assert executed == text.count("```sh\n")


def environment_of(folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of a shell with `hostler` in its PATH, and this folder as home."""
    bin = folder / "bin"
    bin.mkdir()
    (bin / "hostler").write_text(f'#!/bin/sh\nexec {sys.executable} -m hostler "$@"\n')
    (bin / "hostler").chmod(0o755)
    whole = {"HOME": str(folder), "LANG": "C.UTF-8", "PATH": f"{bin}:{os.environ['PATH']}", **environment}
    if "PYTHONPATH" in os.environ:
        whole["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return whole


PLAYER = """
import json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    try:
        exec(compile(json.loads(line), "<block>", "exec"), names)
    except BaseException:
        traceback.print_exc()
    print("\\0", flush=True)
"""
"""Plays the blocks that it reads, each a line of JSON, and ends what each of them prints with a NUL."""


class Interpreter:
    """A Python process that plays one block after the other, as a notebook does."""

    def __init__(self, folder: Path, environment: Mapping[str, str], stack: ExitStack) -> None:
        self._folder, self._environment, self._stack = folder, environment, stack
        self._process: subprocess.Popen[str] | None = None

    def play(self, block: str) -> str:
        """What a block prints, errors included."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", PLAYER], cwd=self._folder, env=self._environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            self._stack.enter_context(self._process)
            self._stack.callback(self._process.kill)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(block) + "\n")
        self._process.stdin.flush()
        printed = ""
        while not printed.endswith("\0\n"):
            line = self._process.stdout.readline()
            assert line, f"the process has ended; it printed:\n{printed}"
            printed += line
        return printed.removesuffix("\0\n")


def _replaced(body: str, given: Mapping[str, str]) -> str:
    for word, instead in given.items():
        body = body.replace(word, instead)
    return body


def _compare(wanted: str, printed: str) -> None:
    rest = printed.splitlines()
    for line in wanted.splitlines():
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        found = next((at for at, said in enumerate(rest) if pattern.fullmatch(said)), None)
        assert found is not None, f"{line!r} is not in what was printed:\n{printed}"
        del rest[found]
