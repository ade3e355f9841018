"""`fetch`: files that a job left, copied to a folder here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hostler.cli.common import JobName, Json, StateDir, client
from hostler.cli.show import Column, clean, file_size, plural, say, say_json, table
from hostler.model.errors import UsageError

commands = typer.Typer()

COLUMNS = (Column("BYTES", right=True), Column("SHA-256"), Column("FILE"))
SHOWN = 12
"""Of a SHA-256."""

Directory = Annotated[
    Path | None, typer.Argument(metavar="DIR", help="Where to; by default a folder here with the job's id as its name.")
]


@commands.command()
def fetch(
    name: JobName,
    directory: Directory = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there with other content.")] = False,
    only_list: Annotated[bool, typer.Option("--list", help="List the files and their sizes; copy nothing.")] = False,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Copy the files that a job left to a folder here.

    These are the outputs of its accepted attempt. Each file appears whole and with the right hash, or not at all. A
    file that is there with the same content is not copied again, and one with other content is an error before
    anything is copied. A download that was cut is taken up where it broke. It works from any machine: $HOSTLER_URL and
    $HOSTLER_TOKEN name the controller.

    \b
    Example:
      hostler fetch j17
      hostler fetch train runs/best --force
      hostler fetch j17 --list
    """
    if only_list and (directory is not None or force):
        raise UsageError("--list copies nothing; leave out DIR and --force")
    if only_list:
        _list(name, as_json, state_dir)
        return
    rows = client(state_dir).fetch(name, directory, force=force, told=None if as_json else _say)
    if as_json:
        say_json(rows)
        return
    copied = [row for row in rows if row["copied"]]
    same = f", {plural(len(rows) - len(copied), 'file')} there already" if len(copied) < len(rows) else ""
    print(f"{plural(len(copied), 'file')} copied, {file_size(sum(row['size'] for row in copied))}{same}")


def _list(name: str, as_json: bool, state_dir: Path | None) -> None:
    from hostler.client.downloads import checked, nothing_left

    asked = client(state_dir)
    files = asked.files(name)
    if as_json:
        say_json(files)
        return
    if not files:
        raise nothing_left(asked.job(name))
    say(table(COLUMNS, [(each.size, each.sha256[:SHOWN], each.path) for each in checked(files)]))


def _say(row: Mapping[str, Any]) -> None:
    print(clean(row["file"]) + ("" if row["copied"] else " (there already)"), flush=True)
