"""The entry point of the program: from its first import on, an interrupt ends it with status 130 and without a word."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

INTERRUPTED = 130


def main() -> NoReturn:
    """Carry out the command line of this process."""
    leave_at_interrupt()
    from hostler.cli.main import main as carry_out  # imports take most of the time of a short command

    carry_out()


def leave_at_interrupt() -> None:
    """Let an interrupt end the process at once. Where interrupts are ignored, as behind `nohup`, they stay so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def raise_at_interrupt() -> None:
    """Let an interrupt be an exception again: a command may have to clean up, or to print what continues."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(*_: object) -> None:
    os._exit(INTERRUPTED)
