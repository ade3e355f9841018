"""`hostler store`: where the journal is, and taking it to another database."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler import __version__
from hostler.cli.common import Json, StateDir, directory
from hostler.cli.show import Column, say, say_json, table

if TYPE_CHECKING:
    from hostler.store.leading import Leader
    from hostler.store.moving import Moved

commands = typer.Typer()
store = typer.Typer()
commands.add_typer(store, name="store", help="Show where the journal is; take it to another database.")

SQLITE = "sqlite"
TABLES = (Column("TABLE"), Column("ROWS", right=True), Column("SHA-256", yields=True))


@store.command()
def show(as_json: Json = False, state_dir: StateDir = None) -> None:
    """Show which database has the journal, its newest entry, and who leads.

    \b
    Example:
      hostler store show
    """
    from hostler.runtime.statedir import StateDir as Directory
    from hostler.store import named, read_journal

    place = Directory(directory(state_dir)).place
    journal = read_journal(place)
    try:
        leader, newest = journal.leader(), journal.newest_seq()
    finally:
        journal.close()
    told = {
        "store": named(place),
        "newest": newest,
        "epoch": leader.epoch,
        "holder": leader.holder or None,
        "url": leader.url,
        "beat": leader.beat,
    }
    if as_json:
        say_json(told)
        return
    print(f"journal  {told['store']}")
    print(f"entries  {newest}")
    print(f"leader   {_led(leader)}")


def _led(leader: Leader) -> str:
    if not leader.epoch:
        return "no controller has begun yet"
    if not leader.holder:
        return f"nobody leads since controller {leader.epoch} has ended"
    return f"controller {leader.epoch} began last ({leader.holder}{f', {leader.url}' if leader.url else ''})"


@store.command()
def migrate(
    to: Annotated[str, typer.Option("--to", metavar="ADDRESS", help="postgresql+psycopg://USER@HOST/NAME, or sqlite.")],
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Take the journal to an empty database, or back to a file, and prove that all of it is there.

    No controller may run meanwhile: one that does is fenced and ends. What was there stays, set aside.

    \b
    Example:
      hostler store migrate --to postgresql+psycopg://hostler@db/hostler?sslmode=verify-full
      hostler store migrate --to sqlite
    """
    from hostler.runtime.moving import take
    from hostler.runtime.statedir import StateDir as Directory
    from hostler.settings.database import checked_address

    path = directory(state_dir)
    target: Path | str = path if to == SQLITE else checked_address(to)
    moved, aside = take(Directory(path), target, time.time(), __version__)
    if as_json:
        say_json({"rows": moved.rows, "sha256": moved.sha256, "newest": moved.seq, "aside": str(aside)})
        return
    say(table(TABLES, [(name, count, moved.sha256[name]) for name, count in moved.rows.items()]))
    print(f"read back and compared: all the same; {_next(moved, to)}. What was there is in {aside}")


def _next(moved: Moved, to: str) -> str:
    name = "take `store` out of the fleet file" if to == SQLITE else "write `store: ADDRESS` into the fleet file"
    return f"{moved.seq} entries are there; {name}, and start the controller"
