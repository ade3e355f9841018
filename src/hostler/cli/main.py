"""`hostler`: from words to the function of a command, and from errors to an exit status.

Exit status: 0 done, 1 failed, 2 asked for what cannot be, 3 no controller is running, 130 interrupted, 141 the reader
of the output has left.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NoReturn

from hostler import __version__
from hostler.cli.commands import COMMANDS, PANELS, Command, Function, Group, imported
from hostler.cli.entry import INTERRUPTED, leave_at_interrupt, raise_at_interrupt
from hostler.cli.errors import FAILED, UNREAD, Interrupted, print_error, status_of
from hostler.cli.parameters import signature
from hostler.cli.parsing import HELP_FLAGS, HelpWanted, parsed, similar
from hostler.cli.server import asking
from hostler.model.errors import HostlerError, UsageError

PATIENCE_S = 5.0
"""For threads that still run when the command is done."""
GARBAGE = 50_000, 20, 20
"""Thresholds of garbage collection: what a command imports and makes is hardly ever garbage."""
COMPLETING = "_ARGCOMPLETE"
"""The environment variable by which a shell asks for completions."""


def main() -> NoReturn:
    """The entry point of the program."""
    try:
        raise_at_interrupt()
        gc.set_threshold(*GARBAGE)
        _prepare_streams()
        if COMPLETING in os.environ and "COMP_LINE" in os.environ:
            from hostler.cli.completion import complete

            complete()
        status = run(sys.argv[1:])
        leave_at_interrupt()
    except KeyboardInterrupt:  # while an error was printed, or after a first interrupt
        status = INTERRUPTED
    _leave(status)


def _prepare_streams() -> None:
    """Open the standard streams that are closed, as /dev/null: a later file must not take their numbers.

    A character that the terminal's encoding lacks is written as an escape sequence.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
            setattr(sys, name, open(number, "w" if number else "r", errors="backslashreplace", closefd=False))  # noqa: SIM115
        elif number:
            stream.reconfigure(errors="backslashreplace")


def run(words: Sequence[str]) -> int:
    """Carry out one command line; returns the exit status."""
    try:
        status = _run(list(words))
        sys.stdout.flush()
        return status
    except HostlerError as error:
        print_error(str(error))
        return status_of(error)
    except (Interrupted, KeyboardInterrupt):
        return INTERRUPTED
    except ModuleNotFoundError as error:
        from hostler.cli.extras import missing_package

        message = missing_package(error)
        if message is None:
            raise
        print_error(message)
        return FAILED
    except BrokenPipeError:
        # The reader of our output has left; what is still buffered has no reader either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except OSError as error:
        print_error(f"{error.filename or 'the output'} cannot be read or written: {error.strerror or error}")
        return FAILED


def _run(words: list[str]) -> int:
    first = words[0] if words else HELP_FLAGS[0]
    if first in HELP_FLAGS:
        return _show(_program_help())
    if first == "--version":
        return _show([__version__])
    if first == "--show-completion":
        from hostler.cli.completion import script

        return _show([script(words[1:], os.environ)])
    command = COMMANDS.get(first)
    if command is None:
        kind = "option" if first.startswith("-") else "command"
        raise UsageError(f"no such {kind}: {first}{similar(first, COMMANDS)}; `hostler --help` lists all commands")
    if isinstance(command, Command):
        return _carry_out(first, command.function, words[1:])
    return _run_in_group(first, command, words[1:])


def _run_in_group(name: str, group: Group, words: list[str]) -> int:
    if not words or words[0] in HELP_FLAGS:
        return _show(_group_help(name, group))
    function = group.commands.get(words[0])
    if function is not None:
        return _carry_out(f"{name} {words[0]}", function, words[1:])
    if group.otherwise is not None:
        imported(group.otherwise)(words)
    raise UsageError(
        f"no such command: {name} {words[0]}{similar(words[0], group.commands)}; `hostler {name} --help` lists all"
    )


def _carry_out(path: str, function: Function, words: list[str]) -> int:
    carried_out_by = imported(function)
    command = signature(carried_out_by)
    try:
        values, typed = parsed(command, words)
    except HelpWanted:
        from hostler.cli.help import command_help
        from hostler.cli.show import terminal_width

        return _show(command_help(path, command, carried_out_by.__doc__ or "", terminal_width()))
    except UsageError as error:
        raise UsageError(f"{error}; `hostler {path} --help` shows how") from error
    with asking(values, typed):
        status: int | None = carried_out_by(**values)
    return status or 0


def _show(lines: Iterable[str]) -> int:
    for line in lines:
        print(line)
    return 0


def _program_help() -> Iterable[str]:
    from hostler.cli.help import program_help
    from hostler.cli.show import terminal_width

    panels = {title: {name: each.about for name, each in panel.items()} for title, panel in PANELS.items()}
    return program_help(panels, terminal_width())


def _group_help(name: str, group: Group) -> Iterable[str]:
    from hostler.cli.help import group_help, summary
    from hostler.cli.show import terminal_width

    abouts = {word: summary(imported(each).__doc__ or "") for word, each in group.commands.items()}
    return group_help(name, group.doc, abouts, terminal_width())


def _leave(status: int) -> NoReturn:
    """End the process without the interpreter's own end: unloading its modules needs 10 ms of CPU time.

    Threads that do not end within `PATIENCE_S` are left behind: a mount whose server is gone answers none.
    """
    hanging = _hanging_threads() if "threading" in sys.modules else []
    if hanging:
        print(f"hostler: left behind, since nothing answers them: threads {', '.join(hanging)}", file=sys.stderr)
    else:
        atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _hanging_threads() -> list[str]:
    """Names of the threads that Python would wait for, and that do not end."""
    import threading
    import time

    ends_at = time.monotonic() + PATIENCE_S
    others = [each for each in threading.enumerate() if not each.daemon and each is not threading.current_thread()]
    for each in others:
        each.join(max(0.0, ends_at - time.monotonic()))
    return [each.name for each in others if each.is_alive()]
