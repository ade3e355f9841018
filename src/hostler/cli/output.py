"""`events`: what happens, from the journal."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from hostler.cli.common import StateDir, client
from hostler.cli.entries import entry_line
from hostler.cli.show import terminal_width

commands = typer.Typer()

SHOWN = 50


@commands.command()
def events(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens from now on.")] = False,
    after: Annotated[
        int | None, typer.Option(min=0, help=f"Begin after this entry; by default {SHOWN} before the newest.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document a line.")] = False,
    state_dir: StateDir = None,
) -> None:
    """Print the journal: what happened, entry by entry.

    A broken connection is taken up where it broke, without gap or doublet.

    \b
    Example:
      hostler events -f
      hostler events --after 0 --json > journal.jsonl
    """
    asked = client(state_dir)
    newest = asked.status()["seq"]
    begin = max(0, newest - SHOWN) if after is None else after
    if begin >= newest and not follow:
        return
    for entry in asked.events(begin):
        print(json.dumps(entry) if as_json else entry_line(entry, terminal_width()), flush=follow)
        if entry["seq"] >= newest and not follow:
            return
