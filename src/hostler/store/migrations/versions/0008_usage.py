"""How devices were used has rows by the hour, for a year."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

WRITTEN = {
    # Rows are added when an hour is over, never changed, and dropped a year later, an hour at a time: what went makes
    # room for as much. A fifth of nine million rows would be far too late for that.
    "autovacuum_vacuum_scale_factor": 0,
    "autovacuum_vacuum_threshold": 50000,
    "autovacuum_vacuum_insert_scale_factor": 0,
    "autovacuum_vacuum_insert_threshold": 500000,
    "autovacuum_analyze_scale_factor": 0.02,
}


def upgrade() -> None:
    op.create_table(
        "usage_of",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("device", sa.Text, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("model", sa.Text, nullable=True),
        sa.Column("pool", sa.Text, nullable=True),
        sa.Column("provider", sa.Text, nullable=True),
        sa.Column("price_per_h", sa.Double, nullable=True),
        sa.Column("work", sa.String, nullable=False),
    )
    op.create_index("usage_of_by_device", "usage_of", ["device"])
    for name, key in (("usage_hours", "hour"), ("usage_days", "day")):
        op.create_table(
            name,
            sa.Column(key, sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("of", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("device_ms", sa.Integer, nullable=False),
            sa.Column("up_ms", sa.Integer, nullable=False),
            sa.Column("measured_ms", sa.Integer, nullable=False),
            sa.Column("busy_ms", sa.Integer, nullable=False),
            sa.Column("done", sa.Integer, nullable=False),
            sa.Column("failed", sa.Integer, nullable=False),
            sqlite_with_rowid=False,
        )
        if op.get_bind().dialect.name == "postgresql":
            op.execute(f"alter table {name} set ({', '.join(f'{each} = {value}' for each, value in WRITTEN.items())})")


def downgrade() -> None:
    op.drop_table("usage_days")
    op.drop_table("usage_hours")
    op.drop_table("usage_of")
