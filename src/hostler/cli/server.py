"""The options `--state-dir` and `--server`: the controller that a command asks, whatever machine it is on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from hostler.cli.declarations import Option
from hostler.model.errors import UsageError

STATE_DIR = Option(
    "--state-dir",
    metavar="DIR",
    envvar="HOSTLER_STATE_DIR",
    help="Where the controller keeps its state; by default hostler in $XDG_STATE_HOME or ~/.local/state.",
)
"""Commands that have it ask a controller, and have `--server`, too."""
Server = Annotated[
    str | None,
    Option(
        "--server",
        metavar="URL",
        help="Ask the controller at this address, as $HOSTLER_URL does; $HOSTLER_TOKEN has the token.",
    ),
]

_named: list[str | None] = []


def named_server() -> str | None:
    """The address that `--server` gives to the command that runs; `None` without one."""
    return _named[-1] if _named else None


@contextmanager
def asking(values: dict[str, Any]) -> Iterator[None]:
    """While the command with these values runs, `named_server` is its `--server`, which is taken out of them."""
    server = values.pop("server", None)
    if server is not None and _is_on_command_line(values.get("state_dir")):
        raise UsageError("--server and --state-dir both name a controller; leave one of them out")
    _named.append(server)
    try:
        yield
    finally:
        _named.pop()


def _is_on_command_line(state_dir: object) -> bool:
    """Whether `--state-dir` was given, and not its variable alone."""
    return state_dir is not None and str(state_dir) != os.environ.get("HOSTLER_STATE_DIR")
