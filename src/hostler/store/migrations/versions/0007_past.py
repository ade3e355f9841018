"""Jobs that have left the controller's state have a row each; PostgreSQL is told how tables are used."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

WRITTEN: dict[str, dict[str, float]] = {
    # One row, updated by each commit: with room in its page the new version lies beside the old one, which the next
    # update clears away by itself. What is left over is vacuumed by number, not by a share of one row.
    "leader": {
        "fillfactor": 10,
        "autovacuum_vacuum_scale_factor": 0,
        "autovacuum_vacuum_threshold": 5000,
    },
    # Rows are updated a few times while they are young, and never again. No column that changes has an index, so that
    # a free part of the page is all that an update needs. A fifth of ten million rows would be far too late a vacuum.
    "jobs": {
        "fillfactor": 80,
        "autovacuum_vacuum_scale_factor": 0,
        "autovacuum_vacuum_threshold": 50000,
        "autovacuum_analyze_scale_factor": 0.02,
    },
    # Rows are only added: they are frozen in good time, some at a time, and not all at once years later.
    "journal": {"autovacuum_vacuum_insert_scale_factor": 0, "autovacuum_vacuum_insert_threshold": 1000000},
    "past": {"autovacuum_vacuum_insert_scale_factor": 0, "autovacuum_vacuum_insert_threshold": 500000},
    # A few rows of some MB, replaced now and then: what was there is free again before the next one comes.
    "snapshots": {
        "autovacuum_vacuum_scale_factor": 0,
        "autovacuum_vacuum_threshold": 1,
        "toast.autovacuum_vacuum_scale_factor": 0,
        "toast.autovacuum_vacuum_threshold": 500,
    },
}


def upgrade() -> None:
    op.create_table(
        "past",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Text, nullable=True),
        sa.Column("work", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_index(
        "past_by_key",
        "past",
        ["key"],
        sqlite_where=sa.text("key is not null"),
        postgresql_where=sa.text("key is not null"),
    )
    # Those that are looked for among many: nearly all are done, and are walked along the key of the table.
    rare = "state <> 'done'"
    op.create_index(
        "past_by_state", "past", ["state", "number"], sqlite_where=sa.text(rare), postgresql_where=sa.text(rare)
    )
    rare = "work <> 'script'"
    op.create_index(
        "past_by_work", "past", ["work", "number"], sqlite_where=sa.text(rare), postgresql_where=sa.text(rare)
    )
    for table, options in WRITTEN.items():
        if op.get_bind().dialect.name == "postgresql":
            op.execute(f"alter table {table} set ({', '.join(f'{name} = {value}' for name, value in options.items())})")


def downgrade() -> None:
    for table, options in WRITTEN.items():
        if op.get_bind().dialect.name == "postgresql" and table != "past":
            op.execute(f"alter table {table} reset ({', '.join(options)})")
    op.drop_table("past")
