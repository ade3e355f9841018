"""Artifacts are listed by kind, newest first; games of evaluations know the models that played them."""

import sqlalchemy as sa
from alembic import op

from hostler.model.codec import load_event
from hostler.model.events import Entry
from hostler.store import catalogue

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

PAGE = 10_000


def upgrade() -> None:
    op.create_index("artifacts_by_kind", "artifacts", ["kind", "seq"])
    _fill(op.get_bind())


def downgrade() -> None:
    op.drop_index("artifacts_by_kind", "artifacts")


def _fill(connection: sa.Connection) -> None:
    table = sa.table("journal", sa.column("seq"), sa.column("at"), sa.column("data"))
    query = sa.select(table).where(table.c.data.like('%"kind":"config.played"%')).order_by(table.c.seq)
    after = 0
    while rows := connection.execute(query.where(table.c.seq > after).limit(PAGE)).all():
        catalogue.note(connection, (Entry(seq=row.seq, at=row.at, event=load_event(row.data)) for row in rows))
        after = rows[-1].seq
