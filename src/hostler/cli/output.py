"""`events`: what happens, from the journal."""

from __future__ import annotations

import json
from typing import Annotated

from hostler.cli.common import StateDir, client
from hostler.cli.declarations import Option
from hostler.cli.entries import entry_lines

SHOWN = 50


def events(
    follow: Annotated[bool, Option("--follow", "-f", help="Go on with what happens from now on.")] = False,
    after: Annotated[
        int | None, Option(min=0, help=f"Begin after this entry; by default {SHOWN} before the newest.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="One JSON document a line.")] = False,
    state_dir: StateDir = None,
) -> None:
    """Print the journal: what happened, entry by entry.

    A broken connection is taken up where it broke, without gap or doublet.

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
        print(json.dumps(entry) if as_json else "\n".join(entry_lines(entry)), flush=follow)
        if entry["seq"] >= newest and not follow:
            return
