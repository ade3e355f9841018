"""One controller leads, and every entry of the journal says which one wrote it."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("journal", sa.Column("epoch", sa.BigInteger, nullable=True))
    op.create_table(
        "leader",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("controller", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("url", sa.Text, nullable=True),
        sa.Column("identity", sa.Text, nullable=True),
        sa.Column("moved_to", sa.Text, nullable=True),
    )


def downgrade() -> None:
    op.drop_table("leader")
    with op.batch_alter_table("journal") as journal:
        journal.drop_column("epoch")
