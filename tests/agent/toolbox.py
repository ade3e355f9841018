"""Real programs that stand in for vendors' tools, and tools that ask them in this process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hostler.agent import procs
from hostler.agent.loop import Loop
from hostler.agent.tools import Question, Talk, Tools
from tests.patience import PATIENCE_S


def put(folder: Path, name: str, script: str) -> Path:
    """A program of that name that runs `script` in a shell. It takes the place of an older one at once."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f".{name}"
    fresh.write_text("#!/bin/sh\n" + script)
    fresh.chmod(0o755)
    return fresh.rename(folder / name)


def saying(text: str) -> str:
    """A script that prints this."""
    return f"cat <<'END'\n{text}\nEND\n"


NOTES_HANG = ': > "$HANGING"\n'
"""Script line before a program hangs. `Workshop` then advances its clock past the timeout."""


class Workshop:
    """Tools whose programs lie in a folder, before those of the system.

    Each program has PATIENCE_S to answer, by a clock that the test can advance. A short timeout in real time would also
    apply to the start of the program, which takes long on a busy machine.
    """

    def __init__(self, root: Path) -> None:
        self.bin = root / "bin"
        self.bin.mkdir(parents=True)
        self.complaints: list[str] = []
        self.loop = Loop()
        self.loop.monotonic = lambda: time.monotonic() + self._ahead_s
        self._ahead_s = 0.0
        self._hanging = root / "hanging"
        node: Any = SimpleNamespace(
            loop=self.loop,
            environ={"PATH": f"{self.bin}:/usr/bin:/bin", "HANGING": str(self._hanging)},
            null=os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC),
            programs=procs.Programs(),
            complain=self.complaints.append,
            directory=str(root / "agent"),
        )
        self.tools = Tools(node, PATIENCE_S)

    def put(self, name: str, script: str) -> None:
        put(self.bin, name, script)

    def ask(self, talk: Talk) -> Any:
        """What a talk ends with."""
        ends: list[Any] = []
        self.tools.converse(talk, ends.append)
        self.until(lambda: ends)
        return ends[0]

    def until(self, question: Callable[[], Any]) -> None:
        """Turn the loop until the answer is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not question():
            assert time.monotonic() < deadline, "it did not come true"
            if self._hanging.exists():
                self._hanging.unlink()
                self.pass_time(PATIENCE_S)
            self.loop.turn(0.05)

    def pass_time(self, seconds: float) -> None:
        """Advance the clock of the loop."""
        self._ahead_s += seconds


def answered(talk: Talk, answer: Callable[[list[str]], str | None]) -> Any:
    """What a talk ends with, if programs say this; None: it does not answer."""
    told: Any = None
    while True:
        try:
            question: Question = talk.send(told)
        except StopIteration as end:
            return end.value
        text = answer(question.argv)
        told = None if text is None else question.read(text)
