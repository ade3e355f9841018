"""The options `--state-dir` and `--server`: the controller that a command asks, whatever machine it is on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

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


class Chosen(NamedTuple):
    """How the command that runs names its controller: by `--server`, by `--state-dir`, or by neither."""

    server: str | None = None
    has_state_dir: bool = False


_chosen: list[Chosen] = []


def chosen() -> Chosen:
    """How the command that runs names its controller."""
    return _chosen[-1] if _chosen else Chosen()


@contextmanager
def asking(values: dict[str, Any], typed: frozenset[str]) -> Iterator[None]:
    """While the command with these values runs, `chosen` is how it names its controller.

    `--server` is taken out of the values; `typed` has the names of those that were typed.
    """
    server = values.pop("server", None)
    has_state_dir = "state_dir" in typed
    if server is not None and has_state_dir:
        raise UsageError("--server and --state-dir both name a controller; leave one of them out")
    _chosen.append(Chosen(server, has_state_dir))
    try:
        yield
    finally:
        _chosen.pop()
