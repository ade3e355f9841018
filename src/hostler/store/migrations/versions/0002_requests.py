"""Who asked for what: which entries of the journal are accepted requests."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("requests", sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False))


def downgrade() -> None:
    op.drop_table("requests")
