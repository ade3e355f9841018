"""The journal's old entries go into segments; PostgreSQL is told that its rows go, many at a time."""

import sqlalchemy as sa
from alembic import op

from hostler.store.segments import Row, all_rows

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

# Rows go in ranges, and what they leave is to be used again before the table grows: vacuumed by number, some ten steps
# at a time, and not by a share of a table that may be large. Inserts are frozen as before, and soon gone.
WRITTEN = {"autovacuum_vacuum_scale_factor": 0, "autovacuum_vacuum_threshold": 20000}
ADDED = {"autovacuum_vacuum_insert_scale_factor": 0, "autovacuum_vacuum_insert_threshold": 10000}


def upgrade() -> None:
    op.create_table(
        "segments",
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("entries", sa.BigInteger, nullable=False),
        sa.Column("first_at", sa.Double, nullable=False),
        sa.Column("last_at", sa.Double, nullable=False),
        sa.Column("first_epoch", sa.BigInteger, nullable=True),
        sa.Column("last_epoch", sa.BigInteger, nullable=True),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("content_bytes", sa.BigInteger, nullable=False),
        sa.Column("packed_bytes", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "segment_jobs",
        sa.Column("block", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("members", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    if op.get_bind().dialect.name == "postgresql":
        _set("journal", WRITTEN)
        _set("segments", ADDED)
        _set("segment_jobs", ADDED)
        # What is deflated already is not tried to be made smaller again.
        op.execute("alter table segments alter column data set storage external")


def downgrade() -> None:
    """Every entry is a row again."""
    connection, journal = op.get_bind(), sa.table("journal", *map(sa.column, Row._fields))
    for rows in all_rows(connection):
        connection.execute(sa.insert(journal), [row._asdict() for row in rows])
    if connection.dialect.name == "postgresql":
        op.execute(f"alter table journal reset ({', '.join(WRITTEN)})")
    op.drop_table("segment_jobs")
    op.drop_table("segments")


def _set(table: str, options: dict[str, int]) -> None:
    op.execute(f"alter table {table} set ({', '.join(f'{name} = {value}' for name, value in options.items())})")
