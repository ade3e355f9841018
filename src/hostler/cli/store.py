"""`hostler journal`: where the journal is, taking it to another database, and repairing it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from hostler import __version__
from hostler.cli.common import Json, OwnStateDir, directory
from hostler.cli.declarations import Option
from hostler.cli.show import Column, clean, paragraph, plural, quantity, say, say_json, table

if TYPE_CHECKING:
    from hostler.store.journal import Sizes
    from hostler.store.leading import Leader
    from hostler.store.moving import Moved


SQLITE = "sqlite"
SHOWN = 20
TABLES = (Column("TABLE"), Column("ROWS", right=True), Column("SHA-256", yields=True))


def show(as_json: Json = False, state_dir: OwnStateDir = None) -> None:
    """Show which database has the journal, its newest entry, what is packed of it, and who leads.

    Example:
      hostler journal show
    """
    from hostler.runtime.statedir import StateDir as Directory
    from hostler.store import named, read_journal

    place = Directory(directory(state_dir)).place
    journal = read_journal(place)
    try:
        leader, newest, sizes = journal.leader(), journal.newest_seq(), journal.sizes()
    finally:
        journal.close()
    told = {
        "store": named(place),
        "newest": newest,
        "epoch": leader.epoch,
        "holder": leader.holder or None,
        "url": leader.url,
        "beat": leader.beat,
        "rows": sizes.rows,
        "rows_bytes": sizes.row_bytes,
        "segments": sizes.packed.segments,
        "segment_entries": sizes.packed.entries,
        "segments_bytes": sizes.packed_disk_bytes,
        "content_bytes": sizes.packed.content_bytes,
        "packed_bytes": sizes.packed.packed_bytes,
    }
    if as_json:
        say_json(told)
        return
    print(f"journal  {told['store']}")
    print(f"entries  {newest}")
    print(f"rows     {_rows(sizes)}")
    print(f"packed   {_segments(sizes)}")
    print(f"leader   {_led(leader)}")


def _rows(sizes: Sizes) -> str:
    return f"{sizes.rows} entries{_taking(sizes.row_bytes)}"


def _segments(sizes: Sizes) -> str:
    packed = sizes.packed
    if not packed.segments:
        return "none; entries go there when they are old, many, and covered by snapshots"
    of = f"{plural(packed.segments, 'segment')} with {packed.entries} entries"
    return f"{of}{_taking(sizes.packed_disk_bytes)}; unpacked {quantity(packed.content_bytes)}B"


def _taking(size: int | None) -> str:
    return "" if size is None else f", {quantity(size)}B on the disk"


def _led(leader: Leader) -> str:
    if not leader.epoch:
        return "no controller has begun yet"
    if not leader.holder:
        return f"nobody leads since controller {leader.epoch} has ended"
    return f"controller {leader.epoch} began last ({leader.holder}{f', {leader.url}' if leader.url else ''})"


def migrate(
    to: Annotated[str, Option("--to", metavar="ADDRESS", help="postgresql+psycopg://USER@HOST/NAME, or sqlite.")],
    as_json: Json = False,
    state_dir: OwnStateDir = None,
) -> None:
    """Take the journal to an empty database, or back to a file, and prove that all of it is there.

    No controller may run meanwhile: one that does is fenced and ends. What was there stays, set aside.

    Example:
      hostler journal migrate --to postgresql+psycopg://hostler@db/hostler?sslmode=verify-full
      hostler journal migrate --to sqlite
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


def repair(as_json: Json = False, state_dir: OwnStateDir = None) -> None:
    """Repair a journal of which entries are damaged, after a copy of it; then `hostler up`.

    Damaged entries are set aside. The state continues from the newest snapshot and all entries after it that can be
    read and fit; what does not is listed. No controller may run meanwhile. A journal without damage stays as it is.

    Example:
      hostler journal repair
    """
    from hostler.runtime.repairing import repair as repair_journal
    from hostler.runtime.statedir import StateDir as Directory

    done = repair_journal(Directory(directory(state_dir)), time.time())
    if as_json:
        lost = [{"entry": fault.seq, "why": fault.what, "kept": fault.seq <= done.base} for fault in done.lost]
        told = {"store": done.store, "copy": None if done.copy is None else str(done.copy), "newest": done.newest}
        say_json({**told, "snapshot": done.base, "set_aside": lost, "jobs_gone": list(done.jobs_gone)})
        return
    if done.copy is None:
        print(f"{clean(done.store)}: no entry is damaged; nothing was changed")
        return
    print(f"copy     {clean(str(done.copy))} (as it was; delete it once it is not needed)")
    print(f"journal  {clean(done.store)}, up to entry {done.newest}")
    print(f"aside    {plural(len(done.lost), 'row')}:")
    for fault in done.lost[:SHOWN]:
        effect = "its effect is in the snapshot" if fault.seq <= done.base else "its effect is lost"
        say(paragraph(f"{fault.seq}  {clean(fault.what)}; {effect}", "  ", "    "))
    if len(done.lost) > SHOWN:
        print(f"  and {len(done.lost) - SHOWN} more (--json has them all)")
    gone = ", ".join(done.jobs_gone[:SHOWN])
    more = f" and {len(done.jobs_gone) - SHOWN} more" if len(done.jobs_gone) > SHOWN else ""
    say(paragraph(f"jobs of which nothing is known any more: {gone}{more}" if gone else "no job is gone"))
    print("now: hostler up")


def _next(moved: Moved, to: str) -> str:
    name = "take `store` out of the fleet file" if to == SQLITE else "write `store: ADDRESS` into the fleet file"
    return f"{moved.seq} entries are there; {name}, and start the controller"
