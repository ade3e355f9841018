"""Marks of artifacts that have all copies that are wanted, so that nobody walks through a million to find none."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    columns = {each["name"] for each in sa.inspect(op.get_bind()).get_columns("artifacts")}
    if "settled_on" not in columns:  # 0003 makes it by now: what it fills the table with needs it
        op.add_column("artifacts", sa.Column("settled_on", sa.Double, nullable=True))
    op.create_index("artifacts_settled", "artifacts", ["settled_on"])
    # A page of all kinds: artifacts_by_config has them apart.
    op.create_index("artifacts_of_config", "artifacts", ["config", "seq"])
    op.create_index(
        "artifacts_open",
        "artifacts",
        ["standing", "seq", "sha256"],
        sqlite_where=sa.text("settled_on is null"),
        postgresql_where=sa.text("settled_on is null"),
    )
    op.create_table(
        "settling",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("rules", sa.Text, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("settling")
    op.drop_index("artifacts_open", "artifacts")
    op.drop_index("artifacts_of_config", "artifacts")
    op.drop_index("artifacts_settled", "artifacts")
    op.drop_column("artifacts", "settled_on")
