"""Jobs that have left the controller's state have a row each."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


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


def downgrade() -> None:
    op.drop_table("past")
