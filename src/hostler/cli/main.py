"""`hostler`: every command, and what becomes of errors.

Exit status: 0 done, 1 failed, 2 asked for what cannot be, 3 no controller is running, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command_name

from hostler import __version__
from hostler.cli import (
    access,
    agent,
    alerts,
    artifacts,
    backup,
    devices,
    disk,
    exporting,
    fetching,
    fleet,
    health,
    initial,
    jobs,
    kuberay,
    logs,
    looping,
    models,
    nodes,
    output,
    planning,
    results,
    running,
    service,
    sieve,
    simulating,
    slurm,
    steering,
    store,
    submitting,
    sweeps,
    top,
    training,
    usage,
    waiting,
)
from hostler.cli.common import StateDir
from hostler.cli.errors import INTERRUPTED, MISUSED, print_error, status_of
from hostler.cli.server import add_server_option
from hostler.model.errors import HostlerError

PATIENCE_S = 5.0
"""For threads that are still at something when all is done."""

GROUPS = (
    initial,
    running,
    service,
    planning,
    simulating,
    fleet,
    health,
    top,
    nodes,
    devices,
    slurm,
    kuberay,
    agent,
    steering,
    usage,
    alerts,
    submitting,
    sweeps,
    sieve,
    jobs,
    logs,
    output,
    waiting,
    results,
    fetching,
    training,
    looping,
    models,
    artifacts,
    disk,
    access,
    backup,
    exporting,
    store,
)


def main() -> None:
    """The entry point of the program."""
    status = run(sys.argv[1:])
    _leave_what_hangs(status)
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Carry out one command line; returns the exit status."""
    try:
        status: int | None = _app_for(arguments)(
            list(arguments) or ["--help"], prog_name="hostler", standalone_mode=False
        )
    except HostlerError as error:
        print_error(str(error))
        return status_of(error)
    except typer.TyperException as error:
        print_error(_with_help(error))
        return MISUSED
    except typer.Abort:
        return INTERRUPTED
    return status or 0


def _leave_what_hangs(status: int) -> None:
    """End here where a thread does not: Python waits for all of them, and a mount whose server is gone answers none."""
    ends_at = time.monotonic() + PATIENCE_S
    others = [each for each in threading.enumerate() if not each.daemon and each is not threading.current_thread()]
    for each in others:
        each.join(max(0.0, ends_at - time.monotonic()))
    hanging = [each.name for each in others if each.is_alive()]
    if hanging:
        print(f"hostler: left behind, since nothing answers them: threads {', '.join(hanging)}", file=sys.stderr)
        sys.stdout.flush()
        os._exit(status)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keep a motley fleet of GPUs busy with the most valuable work, and never lose a result.

    \b
    Start a controller, give it work, look at it:
      hostler up examples/laptop.yaml
      hostler submit -- python train.py --epochs 3
      hostler status --watch
    """


def _app_of(groups: Iterable[Any]) -> typer.Typer:
    # Help is read by people and in pipes; rich would cost every call of it and wrap the examples.
    made = typer.Typer(
        name="hostler",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    made.callback()(about)
    for group in groups:
        add_server_option(group.commands, StateDir)
        made.add_typer(group.commands)
    return made


def app() -> typer.Typer:
    """All commands."""
    return _app_of(GROUPS)


def _app_for(arguments: Sequence[str]) -> typer.Typer:
    """As much of it as knows the command that is asked for: to make all commands takes a tenth of a second."""
    knowing = [group for group in GROUPS if arguments and arguments[0] in _names(group.commands)]
    return _app_of(knowing or GROUPS)


def _names(commands: typer.Typer) -> set[str]:
    """What can be asked for first."""
    own = {
        each.name or get_command_name(each.callback.__name__) for each in commands.registered_commands if each.callback
    }
    return own | {str(each.name) for each in commands.registered_groups}


def _with_help(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    path = "hostler" if context is None else context.command_path
    return f"{error.format_message()}; `{path} --help` shows how"
