"""Whether the journal has lost what nodes may know of stands in the leader's row, for whoever leads next."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("leader", sa.Column("lost", sa.Boolean, nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("leader", "lost")
