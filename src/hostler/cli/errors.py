"""Errors of a command: one message on standard error, and the exit status that belongs to it."""

from __future__ import annotations

import sys
from contextlib import suppress

from hostler.model.errors import Conflict, ControllerAbsent, HostlerError, UsageError

FAILED, MISUSED, ABSENT = 1, 2, 3
UNREAD = 141
"""The reader of the output has left, as `head` does: the status of a tool that SIGPIPE ends."""


class Interrupted(Exception):
    """The command was interrupted, or an answer to its question refused it."""


def status_of(error: HostlerError) -> int:
    """The exit status of a command that ends with this error."""
    if isinstance(error, ControllerAbsent):
        return ABSENT
    return MISUSED if isinstance(error, UsageError | Conflict) else FAILED


def print_error(message: str) -> None:
    """Print a message as an error."""
    from hostler.cli.show import clean

    shown = "\n".join(clean(line) for line in message.splitlines())
    with suppress(OSError):  # standard error may be on a full disk; the exit status counts
        print(f"hostler: error: {shown}", file=sys.stderr, flush=True)
