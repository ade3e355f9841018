"""Artifacts: what there is, what it was made from, where copies lie; filled from what the journal has told so far."""

import sqlalchemy as sa
from alembic import op

from hostler.model.codec import load_event
from hostler.model.events import Entry
from hostler.store import catalogue

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

PAGE = 10_000
TELLING = ("config.segments", "config.judged", "config.dataset", "config.model")
PROMOTING = ("model.promoted", "model.rejected", "model.rolled_back")


def upgrade() -> None:
    op.create_table(
        "artifacts",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("config", sa.Text, nullable=True),
        sa.Column("job", sa.String, nullable=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("made_at", sa.Double, nullable=False),
        sa.Column("standing", sa.String, nullable=False),
        sa.Column("games", sa.BigInteger, nullable=True),
        sa.Column("exported", sa.Boolean, nullable=False),
        # Of 0004: what is filled in below is written as it is by now.
        sa.Column("settled_on", sa.Double, nullable=True),
    )
    op.create_index("artifacts_by_seq", "artifacts", ["seq"])
    op.create_index("artifacts_by_config", "artifacts", ["config", "kind", "seq"])
    op.create_table(
        "lineage",
        sa.Column("child", sa.String(64), primary_key=True),
        sa.Column("parent", sa.String(64), primary_key=True),
    )
    op.create_index("lineage_by_parent", "lineage", ["parent", "child"])
    op.create_table(
        "copies",
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("place", sa.Text, primary_key=True),
        sa.Column("verified_at", sa.Double, nullable=True),
        sa.Column("damaged", sa.Boolean, nullable=False),
    )
    op.create_index("copies_by_age", "copies", ["place", "verified_at"])
    _fill(op.get_bind())


def downgrade() -> None:
    for table in ("copies", "lineage", "artifacts"):
        op.drop_table(table)


def _fill(connection: sa.Connection) -> None:
    """Nobody has read these copies back since they came, so that is when they were verified."""
    kinds = [f'%"kind":"{kind}"%' for kind in (*TELLING, *PROMOTING)]
    told = sa.or_(*(sa.column("data").like(kind) for kind in kinds))
    table = sa.table("journal", sa.column("seq"), sa.column("at"), sa.column("data"))
    query = sa.select(table).where(told).order_by(table.c.seq)
    after = 0
    while rows := connection.execute(query.where(table.c.seq > after).limit(PAGE)).all():
        catalogue.note(connection, (Entry(seq=row.seq, at=row.at, event=load_event(row.data)) for row in rows))
        after = rows[-1].seq
