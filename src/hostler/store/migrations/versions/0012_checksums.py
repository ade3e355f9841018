"""Rows of the journal have a checksum; tables for what a repair sets aside, and for the state that it keeps."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("journal", sa.Column("checksum", sa.BigInteger, nullable=True))
    op.create_table(
        "set_aside",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=True),
    )
    op.create_table(
        "bases",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("bases")
    op.drop_table("set_aside")
    op.drop_column("journal", "checksum")
