"""The live screen on a real terminal (a pseudo one): it draws, follows, says what is lost, and ends cleanly."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.model.inputs import Submit
from tests.core.builders import script
from tests.patience import PATIENCE_S
from tests.test_client import announce
from tests.web.core_desk import CoreDesk, Window, window

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """`hostler` on a terminal of 80 columns."""

    def __init__(self, state: Path, *words: str, rows: int = 30) -> None:
        self.main, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
        env = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
        env |= {"HOSTLER_STATE_DIR": str(state), "TERM": "xterm-256color"}
        command = [sys.executable, "-m", "hostler", *words]
        self.process = subprocess.Popen(
            command, stdin=inner, stdout=inner, stderr=inner, env=env, start_new_session=True
        )
        os.close(inner)
        self.said = ""

    def until(self, *words: str) -> list[str]:
        """The lines of the newest screen, once all of these are in it."""
        deadline = time.monotonic() + PATIENCE_S
        while not all(word in self.screen for word in words):
            assert time.monotonic() < deadline, f"{words} did not come:\n{self.screen}\n{self.said[-500:]!r}"
            self._read()
        return self.screen.splitlines()

    @property
    def screen(self) -> str:
        """The newest screen that was drawn to its end."""
        frames = self.said.split("\x1b[H")
        return ESCAPE.sub("", frames[-2] if len(frames) > 2 else "").replace("\r", "")

    def interrupt(self) -> int:
        """Ctrl-C; the exit status."""
        self.process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + PATIENCE_S
        while (status := self.process.poll()) is None:
            assert time.monotonic() < deadline, f"it does not end:\n{self.screen}\n{self.said[-500:]!r}"
            self._read()
        while self._read():
            pass
        return status

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.main)

    def _read(self) -> bool:
        """Whether there was more, or there may be."""
        if not select.select([self.main], [], [], 0.1)[0]:
            return self.process.poll() is None
        with contextlib.suppress(OSError):  # the other side is closed
            self.said += os.read(self.main, 1 << 16).decode(errors="replace")
            return True
        return False


@pytest.fixture
def desk() -> CoreDesk:
    return CoreDesk()


@pytest.fixture
def served(tmp_path: Path, desk: CoreDesk) -> Iterator[Window]:
    with window(desk) as made:
        announce(tmp_path, made.port)
        yield made


@contextlib.contextmanager
def terminal(state: Path, *words: str, rows: int = 30) -> Iterator[Terminal]:
    made = Terminal(state, *words, rows=rows)
    try:
        yield made
    finally:
        made.close()


def test_it_follows_what_happens_and_ends_at_an_interrupt(served: Window, tmp_path: Path) -> None:
    with terminal(tmp_path, "status", "--watch", "--every", "1000") as seen:
        lines = seen.until("nothing waits")
        assert all(len(line) <= 80 for line in lines)
        served.tell(Submit(specs=(script("one"), script("two"), script("three"))))
        seen.until("2 of 2 busy", "1 waiting", "job.submitted", "three")
        assert seen.interrupt() == 130
        assert "Traceback" not in seen.said
        assert seen.said.rstrip("\r\n").endswith("\x1b[?1049l"), "the terminal is as it was"


@pytest.mark.long
def test_a_controller_that_is_away_is_waited_for(desk: CoreDesk, tmp_path: Path) -> None:
    with contextlib.ExitStack() as first:
        served = first.enter_context(window(desk))
        announce(tmp_path, served.port)
        with terminal(tmp_path, "status", "--watch") as seen:
            seen.until("nothing waits")
            first.close()
            seen.until("LOST     since ", "what follows was so at", "0 of 2 busy")
            with window(desk) as again:
                announce(tmp_path, again.port)
                again.tell(Submit(specs=(script("one"),)))
                lines = seen.until("1 of 2 busy")
                assert not any("LOST" in line for line in lines)
            assert seen.interrupt() == 130


def test_a_low_screen_is_never_overrun(served: Window, tmp_path: Path) -> None:
    served.tell(Submit(specs=tuple(script(f"n{n}") for n in range(50))))
    with terminal(tmp_path, "status", "--watch", rows=8) as seen:
        assert len(seen.until("48 waiting")) <= 8
        assert seen.interrupt() == 130


def test_top_follows_too(served: Window, tmp_path: Path) -> None:
    with terminal(tmp_path, "top", "--watch", "--every", "1000") as seen:
        seen.until("n/cpu0", "idle")
        served.tell(Submit(specs=(script("one"),)))
        seen.until("j1.1 script one")
        assert seen.interrupt() == 130
