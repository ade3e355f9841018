"""How far people have been told of alerts stands beside the journal: whoever leads next goes on from there."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "told",
        sa.Column("target", sa.Text, primary_key=True),
        sa.Column("through", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("told")
