"""Digests for repeated statements; on PostgreSQL: word index, vectors, write numbers, and row-level security."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

SCOPED = (
    "agents",
    "memories",
    "memory_tags",
    "memory_keys",
    "memory_evidence",
    "memory_stats",
    "memory_index",
    "memory_words",
    "tombstones",
)


def upgrade() -> None:
    op.add_column("memory_evidence", sa.Column("said", sa.Text))
    op.create_index("memory_evidence_by_said", "memory_evidence", ["agent", "said"])
    # Unique only together with the scope, by which a distributed database spreads the rows.
    op.drop_index("memories_by_seq", "memories")
    op.create_index("memories_by_seq", "memories", ["seq"])
    if op.get_bind().dialect.name == "postgresql":
        _postgresql()


def _postgresql() -> None:
    op.execute("CREATE SEQUENCE engram_seq")
    # A B-tree of PostgreSQL takes no value of more than a third of a page.
    op.drop_index("memories_by_context", "memories")
    op.execute("CREATE INDEX memories_by_context ON memories USING hash (context_key)")
    op.drop_index("memories_by_session", "memories")
    op.execute("CREATE INDEX memories_by_session ON memories USING hash (session)")
    op.execute("ALTER TABLE memory_index DROP COLUMN vector")
    op.execute("ALTER TABLE memory_index ADD COLUMN vector vector NOT NULL")
    op.execute(
        "CREATE TABLE memory_words (agent text NOT NULL, seq bigint NOT NULL, words tsvector NOT NULL, "
        "length integer NOT NULL, PRIMARY KEY (agent, seq))"
    )
    op.execute("CREATE INDEX memory_words_by_scope ON memory_words (agent) INCLUDE (length)")
    op.execute("CREATE INDEX memory_words_by_word ON memory_words USING gin (words)")
    for table in SCOPED:
        # Without a scope no row is visible; only maintenance, which is about all agents, sets the exception.
        allowed = (
            "agent = nullif(current_setting('engram.agent', true), '') "
            "OR current_setting('engram.everyone', true) = 'on'"
        )
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY engram_scope ON {table} USING ({allowed}) WITH CHECK ({allowed})")
    # Connections switch to a role that owns nothing, since row-level security does not apply to owners and superusers.
    op.execute(
        "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'engram_app') THEN "
        "CREATE ROLE engram_app NOLOGIN; END IF; EXCEPTION WHEN insufficient_privilege OR unique_violation "
        "OR duplicate_object THEN NULL; END $$"
    )
    schema = op.get_bind().scalar(sa.text("SELECT quote_ident(current_schema())"))
    grants = [
        f"GRANT USAGE ON SCHEMA {schema} TO engram_app",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO engram_app",
        f"GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA {schema} TO engram_app",
    ]
    _if_there("; ".join(f"EXECUTE {_literal(grant)}" for grant in grants))
    _if_there("EXECUTE 'GRANT engram_app TO current_user'")


def _if_there(statements: str) -> None:
    """Run statements about the role if it exists and this login has the right."""
    op.execute(
        "DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'engram_app') THEN "
        f"{statements}; END IF; EXCEPTION WHEN insufficient_privilege THEN NULL; END $$"
    )


def _literal(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
