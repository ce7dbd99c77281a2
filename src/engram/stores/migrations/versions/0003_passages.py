"""Vectors for each passage of a long text, counts of helpful recalls, a log of recalls, an index by speaker."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

KEY = ("agent", "memory_id", "namespace", "embedder", "passage")


def upgrade() -> None:
    dialect = op.get_bind().dialect.name
    if dialect == "sqlite":
        _rebuild_memory_index()
    else:
        _extend_key_of_memory_index()
    op.add_column("tombstones", sa.Column("passages", sa.Integer, nullable=False, server_default=sa.text("1")))
    for name in ("helped", "hindered"):
        op.add_column("memory_stats", sa.Column(name, sa.Float, nullable=False, server_default=sa.text("0")))
    op.create_table(
        "recall_events",
        sa.Column("agent", sa.Text, sa.ForeignKey("agents.agent"), primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_index("recall_events_by_time", "recall_events", ["agent", "at"])
    op.drop_index("memories_by_seq", "memories")
    op.create_index("memories_by_seq", "memories", ["agent", "seq"])
    op.create_index("memories_by_speaker", "memories", ["agent", "speaker"])
    if dialect == "postgresql":
        _wall_in_recall_events()


def _rebuild_memory_index() -> None:
    """Copy the table into a new one, since SQLite cannot change a primary key."""
    op.create_table(
        "memory_index_with_passages",
        sa.Column("agent", sa.Text, primary_key=True),
        sa.Column("memory_id", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, primary_key=True),
        sa.Column("embedder", sa.Text, primary_key=True),
        sa.Column("passage", sa.Integer, primary_key=True, server_default=sa.text("0")),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("dim", sa.Integer, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(["agent", "memory_id"], ["memories.agent", "memories.id"], ondelete="CASCADE"),
    )
    op.execute(
        "INSERT INTO memory_index_with_passages SELECT agent, memory_id, namespace, embedder, 0, seq, dim, vector "
        "FROM memory_index ORDER BY rowid"
    )
    op.drop_table("memory_index")
    op.rename_table("memory_index_with_passages", "memory_index")
    op.create_index("memory_index_by_shelf", "memory_index", ["agent", "namespace", "embedder", "seq"])


def _extend_key_of_memory_index() -> None:
    op.add_column("memory_index", sa.Column("passage", sa.Integer, nullable=False, server_default=sa.text("0")))
    # By its name in the catalogue, as it has another name on a table that was partitioned by hand.
    key = op.get_bind().scalar(
        sa.text(
            "SELECT quote_ident(conname) FROM pg_constraint WHERE conrelid = 'memory_index'::regclass AND contype = 'p'"
        )
    )
    op.execute(f"ALTER TABLE memory_index DROP CONSTRAINT {key}, ADD PRIMARY KEY ({', '.join(KEY)})")


def _wall_in_recall_events() -> None:
    allowed = (
        "agent = nullif(current_setting('engram.agent', true), '') OR current_setting('engram.everyone', true) = 'on'"
    )
    op.execute("ALTER TABLE recall_events ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE recall_events FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY engram_scope ON recall_events USING ({allowed}) WITH CHECK ({allowed})")
    op.execute(
        "DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'engram_app') THEN "
        "GRANT SELECT, INSERT, UPDATE, DELETE ON recall_events TO engram_app; END IF; "
        "EXCEPTION WHEN insufficient_privilege THEN NULL; END $$"
    )
