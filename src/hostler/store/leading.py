"""The one row that says which controller may write, and what may be done with it inside a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, insert, select, text, update

from hostler.model.errors import Conflict, SchemaMismatch, StoreBusy, StoreError, StoreFenced, StoreForked
from hostler.store import tables
from hostler.store.dialect import ignore_known

LEADING = 0x686F7375
"""The first number of the advisory locks of leaders; the second one is the epoch."""
LEADER = 1
"""The only row of its table."""


class Leader(NamedTuple):
    """The controller that may write: its epoch, how often it has shown that it lives, who and where it is."""

    epoch: int = 0
    beat: int = 0
    controller: str = ""
    """The id of its state directory."""
    holder: str = ""
    """Its machine and process; empty where it has given up."""
    url: str | None = None
    identity: str | None = None
    """Of the journal."""
    moved_to: str | None = None
    """Where the journal was taken; nobody leads it here any more."""
    lost: bool = False
    """Whether the journal has lost entries, and nobody has begun yet to leave out the numbers that were in them."""

    @property
    def shown(self) -> str:
        """Where or who it is, for people."""
        return self.url or self.holder or f"controller {self.epoch}"


class Fence(NamedTuple):
    """What has to hold while something is written."""

    epoch: int
    """This is the newest epoch,"""
    controller: str
    """this controller has begun it,"""
    after: int | None = None
    """and this is the newest entry; `None`: whichever is."""


class Claim(NamedTuple):
    """Who wants to lead."""

    version: str
    controller: str = ""
    holder: str = ""
    moved_to: str | None = None
    """Where the journal is being taken: afterwards nobody leads it here."""


def leader(connection: Connection) -> Leader:
    """Who may write; epoch 0 where nobody has begun yet."""
    columns = [tables.leader.c[name] for name in Leader._fields]
    row = connection.execute(select(*columns)).one_or_none()
    return Leader() if row is None else Leader(*row)


def take(connection: Connection, claim: Claim, at: float, skipping: int, seen: Leader | None) -> int:
    """Begin the next epoch, whoever leads; or, where `seen` is given, only if nothing was heard of that one since.

    Raises `StoreBusy` where something was, `Conflict` where the journal was taken elsewhere, `SchemaMismatch` where its
    tables are not of this version.
    """
    table = tables.leader
    _expect_own_schema(connection)
    connection.execute(ignore_known(connection, table), {"id": LEADER, **Leader()._asdict()})
    # First of all: whoever writes holds this row until its commit, and what it has written counts then.
    held = update(table).where(_as_seen(seen)).values(**_of(claim), beat=0)
    if connection.execute(held).rowcount != 1:
        raise StoreBusy("another controller leads, or shows that it lives")
    _expect_here(connection, claim)
    newest = connection.execute(select(func.max(tables.controllers.c.epoch))).scalar()
    epoch: int = (newest or 0) + skipping + 1
    row = {"epoch": epoch, "started_at": at, "version": claim.version}
    connection.execute(insert(tables.controllers), row)
    connection.execute(update(table).values(epoch=epoch))
    return epoch


def hold(connection: Connection, epoch: int) -> None:
    """Show by a lock of this connection's session that the controller of this epoch is connected: a hint, no more.

    The lock is the session's, and gone with it. Only PostgreSQL has such.
    """
    connection.execute(text("select pg_advisory_lock(:number, :epoch)"), {"number": LEADING, "epoch": epoch})


def is_held(connection: Connection, epoch: int) -> bool:
    """Whether somebody holds that."""
    asked = text("select pg_try_advisory_xact_lock(:number, :epoch)")
    return not connection.execute(asked, {"number": LEADING, "epoch": epoch}).scalar_one()


def hold_row(connection: Connection, fence: Fence) -> None:
    """Hold the row until the end of this transaction, and show that we live.

    Raises `StoreFenced` where it is another's, or the journal has lost entries; `StoreBusy` where there are later ones.
    """
    # An update, not a look: whoever takes over waits for what is being written, or this waits and is refused.
    statement = _HOLD if fence.after is None else _HOLD_AFTER
    if connection.execute(statement, {f"own_{name}": each for name, each in fence._asdict().items()}).rowcount != 1:
        raise refusal(connection, fence)


def in_sql(fence: Fence | None) -> tuple[str, Sequence[int | str]]:
    """The same for PostgreSQL, as a part of a statement that has a row where the row is held, and its parameters.

    Without a fence it always has one.
    """
    if fence is None:
        return "select 1", ()
    if fence.after is None:
        return f"{_PLAIN_HOLD} returning 1", (fence.epoch, fence.controller, LEADER)
    return f"{_PLAIN_HOLD}{_PLAIN_AFTER} returning 1", (fence.epoch, fence.controller, LEADER, fence.after)


def refusal(connection: Connection, fence: Fence) -> StoreError:
    """Why the row could not be held: `StoreFenced`, or `StoreBusy` where it may be tried again."""
    newest = connection.execute(select(tables.leader.c.epoch, tables.leader.c.controller)).one_or_none()
    if newest is None or tuple(newest) != (fence.epoch, fence.controller):
        return _refused(fence.epoch, None if newest is None else newest.epoch)
    assert fence.after is not None, "nothing stood in the way"
    last = _last(connection)
    if last < fence.after:
        return _lost(last, fence.after)
    # It can only be our own: the database went on with what it had been sent by a connection that is gone.
    return StoreBusy(f"the journal ends at entry {last} by now: an append whose answer was lost came late")


def _refused(epoch: int, newest: int | None) -> StoreFenced:
    by = "another" if newest in (None, epoch) else newest
    return StoreFenced(f"controller {epoch} leads no more: {by} has taken over. What it had not written is not done")


def _last(connection: Connection) -> int:
    """The newest entry."""
    newest: int = connection.execute(select(_NEWEST)).scalar_one()
    return newest


def _lost(last: int, after: int) -> StoreForked:
    """A fail-over to a replica that lagged behind does that, and so does a backup put in place of the database."""
    return StoreForked(
        f"the journal ends at entry {last}, and this controller has written up to {after}: the database has lost what "
        "it had confirmed. Whoever leads next goes on from what there is; let its replicas be synchronous"
    )


_NEWEST = func.coalesce(
    select(func.max(tables.journal.c.seq)).scalar_subquery(),
    select(func.max(tables.segments.c.last)).scalar_subquery(),
    0,
)
_HOLD = (
    update(tables.leader)
    .where(
        tables.leader.c.id == LEADER,
        tables.leader.c.epoch == bindparam("own_epoch"),
        tables.leader.c.controller == bindparam("own_controller"),
    )
    .values(beat=tables.leader.c.beat + 1)
)
"""Made once: it is part of every write."""
_HOLD_AFTER = _HOLD.where(bindparam("own_after") == _NEWEST)
_PLAIN_HOLD = "update leader set beat = beat + 1 where epoch = %s and controller = %s and id = %s"
_PLAIN_AFTER = " and coalesce((select max(seq) from journal), (select max(last) from segments), 0) = %s"
"""The same in PostgreSQL's words."""


def answer_at(connection: Connection, epoch: int, url: str) -> None:
    """Say where the leader answers. Nothing where it leads no more."""
    connection.execute(update(tables.leader).where(_own(epoch)).values(url=url))


def give_up(connection: Connection, epoch: int) -> None:
    """Let others take over at once. Nothing where they have already."""
    connection.execute(update(tables.leader).where(_own(epoch)).values(holder="", url=None))


def note_lost(connection: Connection) -> None:
    """The journal has lost entries; whoever knows of it may say so."""
    connection.execute(update(tables.leader).values(lost=True))


def left_out(connection: Connection, epoch: int) -> None:
    """What had been given out in these is given no more. Nothing where it leads no more."""
    connection.execute(update(tables.leader).where(_own(epoch)).values(lost=False))


def take_away(connection: Connection) -> None:
    """Whoever leads may write no more: tables were changed under it."""
    table = tables.leader
    connection.execute(update(table).values(epoch=table.c.epoch + 1, holder="", url=None))


def arrive(connection: Connection, identity: str | None) -> None:
    """The journal may be led here; with `identity`, that is what it is called."""
    told = {} if identity is None else {"identity": identity}
    connection.execute(update(tables.leader).values(moved_to=None, holder="", url=None, **told))


def identity(connection: Connection, own: str) -> str:
    """What tells this journal from others; `own` where nothing was noted yet."""
    table = tables.leader
    connection.execute(ignore_known(connection, table), {"id": LEADER, **Leader()._asdict()})
    connection.execute(update(table).where(table.c.identity.is_(None)).values(identity=own))
    kept: str = connection.execute(select(table.c.identity)).scalar_one()
    return kept


def _own(epoch: int) -> ColumnElement[bool]:
    return and_(tables.leader.c.id == LEADER, tables.leader.c.epoch == epoch)


def _as_seen(seen: Leader | None) -> ColumnElement[bool]:
    table = tables.leader
    if seen is None:
        return table.c.id == LEADER
    return and_(_own(seen.epoch), table.c.beat == seen.beat)


def _of(claim: Claim) -> dict[str, Any]:
    told = {"controller": claim.controller, "holder": claim.holder, "url": None}
    return told if claim.moved_to is None else {**told, "moved_to": claim.moved_to}


def _expect_own_schema(connection: Connection) -> None:
    """Whoever brought the tables up to date since they were opened may have changed what we write."""
    found = connection.execute(text("select version_num from alembic_version")).scalar()
    if found != tables.SCHEMA:
        raise SchemaMismatch(
            f"the journal has schema {found!r} by now, and this version of Hostler leads with {tables.SCHEMA!r}; "
            "upgrade this controller"
        )


def _expect_here(connection: Connection, claim: Claim) -> None:
    moved_to = connection.execute(select(tables.leader.c.moved_to)).scalar()
    if moved_to is not None and claim.moved_to is None:
        raise Conflict(
            f"this journal was taken to {moved_to}, or that was cut off: name that one as `store`, or run "
            "`hostler journal migrate` again"
        )
