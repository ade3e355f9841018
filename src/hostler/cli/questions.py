"""Questions to the person at the terminal. They stand on standard error: standard output belongs to the answer."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hostler.cli.errors import Interrupted


def answer(question: str) -> str:
    """What is typed after a question, without spaces around it. Raises `Interrupted` at the end of the input."""
    with _interruptible():
        print(question, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
    if not line:
        print(file=sys.stderr)
        raise Interrupted
    return line.strip()


def confirmed(question: str) -> bool:
    """Whether a question is answered by yes. Raises `Interrupted` at the end of the input."""
    while True:
        typed = answer(f"{question} [y/N]: ").lower()
        if typed in ("", "n", "no"):
            return False
        if typed in ("y", "yes"):
            return True
        print("Type y or n.", file=sys.stderr)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the question within `asyncio.run`, too: there it cancels a task that waits for the answer."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
