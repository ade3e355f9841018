"""The journal, its snapshots, and the projections of jobs and hits."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "journal",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("job", sa.String),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_index("journal_by_job", "journal", ["job", "seq"])
    op.create_table(
        "snapshots",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("work", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("submitted_at", sa.Double, nullable=False),
        sa.Column("started_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("why", sa.Text),
    )
    op.create_table(
        "hits",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("job", sa.String, nullable=False),
        sa.Column("item", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_index("hits_by_job", "hits", ["job", "seq", "place"])
    op.create_table(
        "controllers",
        sa.Column("epoch", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("started_at", sa.Double, nullable=False),
        sa.Column("version", sa.String, nullable=False),
    )


def downgrade() -> None:
    for table in ("controllers", "hits", "jobs", "snapshots", "journal"):
        op.drop_table(table)
