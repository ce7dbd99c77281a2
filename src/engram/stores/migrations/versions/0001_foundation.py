"""Memories with their tags, keys, evidence, statistics and vectors; agents; tombstones; settings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "settings",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "agents",
        sa.Column("agent", sa.Text, primary_key=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
    )
    _memories()
    _belongings()
    op.create_table(
        "tombstones",
        sa.Column("agent", sa.Text, primary_key=True),
        sa.Column("memory_id", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_index("tombstones_by_seq", "tombstones", ["agent", "seq"])
    if op.get_bind().dialect.name == "sqlite":
        # Terms come analysed, so the tokenizer only has to split at spaces.
        op.execute("CREATE VIRTUAL TABLE memory_words USING fts5(scope, words, tokenize='ascii')")
        # The last number given to a write; a restored backup starts a new epoch.
        op.create_table(
            "counter",
            sa.Column("epoch", sa.Text, primary_key=True),
            sa.Column("seq", sa.BigInteger, nullable=False),
        )
        op.execute("INSERT INTO counter VALUES (lower(hex(randomblob(8))), 0)")


def _memories() -> None:
    op.create_table(
        "memories",
        sa.Column("agent", sa.Text, sa.ForeignKey("agents.agent"), primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("context", sa.Text, nullable=False),
        sa.Column("context_key", sa.Text, nullable=False),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("session", sa.Text),
        sa.Column("role", sa.Text),
        sa.Column("speaker", sa.Text),
        sa.Column("sources", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("importance", sa.Float, nullable=False),
        sa.Column("confidence", sa.Float, nullable=False),
        sa.Column("trust", sa.Float, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("happened_at", sa.BigInteger, nullable=False),
        sa.Column("valid_from", sa.BigInteger, nullable=False),
        sa.Column("valid_until", sa.BigInteger),
        sa.Column("evidence", sa.Integer, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("merge_key", sa.Text),
        sa.Column("digest", sa.Text, nullable=False),
    )
    op.create_index("memories_by_seq", "memories", ["seq"], unique=True)
    op.create_index("memories_by_time", "memories", ["agent", "happened_at", "seq"])
    op.create_index("memories_by_context", "memories", ["agent", "kind", "context_key"])
    op.create_index("memories_by_session", "memories", ["agent", "session", "seq"])
    op.create_index("memories_by_merge_key", "memories", ["agent", "merge_key"], unique=True)


def _belongs_to_memory() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["agent", "memory_id"], ["memories.agent", "memories.id"], ondelete="CASCADE")


def _belongings() -> None:
    op.create_table(
        "memory_tags",
        sa.Column("agent", sa.Text, primary_key=True),
        sa.Column("memory_id", sa.Text, primary_key=True),
        sa.Column("tag", sa.Text, primary_key=True),
        _belongs_to_memory(),
    )
    op.create_index("memory_tags_by_tag", "memory_tags", ["agent", "tag", "memory_id"])
    op.create_table(
        "memory_keys",
        sa.Column("agent", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("memory_id", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        _belongs_to_memory(),
    )
    op.create_index("memory_keys_by_memory", "memory_keys", ["agent", "memory_id"])
    op.create_table(
        "memory_evidence",
        sa.Column("agent", sa.Text, primary_key=True),
        sa.Column("memory_id", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True),
        sa.Column("happened_at", sa.BigInteger, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        _belongs_to_memory(),
    )
    op.create_table(
        "memory_stats",
        sa.Column("agent", sa.Text, primary_key=True),
        sa.Column("memory_id", sa.Text, primary_key=True),
        sa.Column("last_accessed", sa.BigInteger),
        sa.Column("access_count", sa.Integer, nullable=False),
        _belongs_to_memory(),
    )
    op.create_table(
        "memory_index",
        sa.Column("agent", sa.Text, primary_key=True),
        sa.Column("memory_id", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, primary_key=True),
        sa.Column("embedder", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("dim", sa.Integer, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        _belongs_to_memory(),
    )
    op.create_index("memory_index_by_shelf", "memory_index", ["agent", "namespace", "embedder", "seq"])
