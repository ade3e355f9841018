"""Options that commands share, and the way from them to the controller."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from hostler.cli.completing import complete_config, complete_job
from hostler.cli.declarations import Argument, Option
from hostler.cli.server import STATE_DIR, chosen as chosen_controller
from hostler.model.errors import UsageError
from hostler.settings.where import state_dir

if TYPE_CHECKING:
    from hostler.client import Client

StateDir = Annotated[Path | None, STATE_DIR]
OwnStateDir = Annotated[
    Path | None,
    Option(
        "--state-dir",
        metavar="DIR",
        envvar="HOSTLER_STATE_DIR",
        help="The state directory on this machine; by default hostler in $XDG_STATE_HOME or ~/.local/state.",
    ),
]
"""Of commands that work in the directory itself, and so not by an address."""
Json = Annotated[bool, Option("--json", help="Print everything as one JSON document.")]


def directory(chosen: Path | None) -> Path:
    """The state directory: the one chosen, or else the usual one."""
    if chosen is None:
        return state_dir(os.environ)
    chosen = expanded(chosen)
    try:
        return chosen.absolute()
    except FileNotFoundError as error:
        raise UsageError(
            f"{chosen} is below the current folder, which is not there any more; give a whole path"
        ) from error


def expanded(path: Path) -> Path:
    """A path with the home of its user for `~`. Raises `UsageError` where there is no such user."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"{path}: there is no user {path.parts[0][1:]!r} on this machine; write the path in full"
        ) from error


def client(chosen: Path | None, **options: float) -> Client:
    """The controller that `--server` names, `--state-dir`, `$HOSTLER_URL`, or else the usual state directory."""
    from hostler.client import Client

    server = chosen_controller().server
    if server is not None:
        return Client.from_environment({**os.environ, "HOSTLER_URL": server}, **options)
    if not is_here(chosen):
        return Client.from_environment(os.environ, **options)
    return Client.from_state_dir(directory(chosen), **options)


def is_here(chosen: Path | None) -> bool:
    """Whether the controller is found by its state directory, and so on this machine."""
    if chosen_controller().server is not None:
        return False
    return not os.environ.get("HOSTLER_URL") or (chosen is not None and chosen_controller().has_state_dir)


def local_results(chosen: Path | None) -> Path | None:
    """The folder of files that jobs left, if this machine has it; `None`: the controller is on another one."""
    if not is_here(chosen):
        return None
    folder = directory(chosen) / "results"
    return folder if folder.is_dir() else None


def user() -> str | None:
    """Who asks, for the journal; `None` for a user without a name."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


JobName = Annotated[str, Argument(metavar="ID", help="Id, key or unique name of a job.", complete=complete_job)]
JobNames = Annotated[
    list[str], Argument(metavar="ID", help="Ids, keys or unique names of jobs.", complete=complete_job)
]
ConfigName = Annotated[str, Argument(metavar="CONFIG", help="A training config.", complete=complete_config)]
