"""Options that commands share, and the way from them to the controller."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.settings.where import state_dir

if TYPE_CHECKING:
    from hostler.client import Client

COMPLETION_TIMEOUT_S = 1.0
COMPLETED = 200

StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        metavar="DIR",
        envvar="HOSTLER_STATE_DIR",
        help="Where the controller keeps its state; by default hostler in $XDG_STATE_HOME or ~/.local/state.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print everything as one JSON document.")]


def directory(chosen: Path | None) -> Path:
    """The state directory: the one chosen, or else the usual one."""
    return state_dir(os.environ) if chosen is None else Path.cwd() / chosen.expanduser()


def client(chosen: Path | None) -> Client:
    """The controller of a state directory."""
    from hostler.client import Client

    return Client.from_state_dir(directory(chosen))


def complete_job(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of the newest jobs that begin so; silent when there is no controller to ask."""
    from hostler.client import Client
    from hostler.model.errors import HostlerError

    asked = Client.from_state_dir(directory(context.params.get("state_dir")), timeout_s=COMPLETION_TIMEOUT_S)
    try:
        known = sum(asked.status()["jobs"].values())
        newest = asked.jobs(after=max(0, known - COMPLETED), limit=COMPLETED)["items"]
    except HostlerError:
        return []
    return [job["id"] for job in newest if job["id"].startswith(incomplete)]


def complete_config(context: typer.Context, incomplete: str) -> list[str]:
    """Names of training configs that begin so; silent when there is no controller to ask."""
    from hostler.client import Client
    from hostler.model.errors import HostlerError

    asked = Client.from_state_dir(directory(context.params.get("state_dir")), timeout_s=COMPLETION_TIMEOUT_S)
    try:
        return [config["name"] for config in asked.configs() if config["name"].startswith(incomplete)]
    except HostlerError:
        return []


JobName = Annotated[str, typer.Argument(metavar="ID", help="Id or key of a job.", autocompletion=complete_job)]
JobNames = Annotated[list[str], typer.Argument(metavar="ID", help="Ids or keys of jobs.", autocompletion=complete_job)]
ConfigName = Annotated[str, typer.Argument(metavar="CONFIG", help="A training config.", autocompletion=complete_config)]
