"""The option `--server`: the address of the controller that a command asks, whatever machine it is on."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any

import typer

from hostler.model.errors import UsageError

Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="Ask the controller at this address, as $HOSTLER_URL does; $HOSTLER_TOKEN has the token.",
    ),
]

_named: ContextVar[str | None] = ContextVar("server", default=None)


def named_server() -> str | None:
    """The address that `--server` gives to the command that runs; `None` without one."""
    return _named.get()


def add_server_option(commands: typer.Typer, state_dir: object) -> None:
    """Give `--server` to each command, of groups below too, that has a parameter `state_dir` annotated so."""
    for command in commands.registered_commands:
        if command.callback is not None:
            command.callback = _with_server(command.callback, state_dir)
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            add_server_option(group.typer_instance, state_dir)


def _with_server(callback: Callable[..., Any], state_dir: object) -> Callable[..., Any]:
    signature = inspect.signature(callback, eval_str=True)
    own = signature.parameters.get("state_dir")
    if own is None or own.annotation != state_dir or "server" in signature.parameters:
        return callback

    @functools.wraps(callback)
    def asking(*arguments: Any, server: str | None = None, **options: Any) -> Any:
        if server is not None and _is_on_command_line(options):
            raise UsageError("--server and --state-dir both name a controller; leave one of them out")
        with _naming(server):
            return callback(*arguments, **options)

    option = inspect.Parameter("server", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Server)
    parameters = [*signature.parameters.values(), option]
    asking.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return asking


def _is_on_command_line(options: dict[str, Any]) -> bool:
    """Whether `--state-dir` was given, and not its variable alone."""
    chosen = options.get("state_dir")
    return chosen is not None and str(chosen) != os.environ.get("HOSTLER_STATE_DIR")


@contextmanager
def _naming(server: str | None) -> Iterator[None]:
    token = _named.set(server)
    try:
        yield
    finally:
        _named.reset(token)
