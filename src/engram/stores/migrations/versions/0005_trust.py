"""The audit trail with its signed checkpoints, encryption keys of agents, and API keys."""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


GENESIS = (
    '{"action":"genesis","actor":"","agent":"","at":0,"count":0,"detail":{},"grant":"","prev":"","principal":"",'
    '"seq":1,"target":""}'
)
"""The hashed text of the first entry; the same in every database, so that a trail can be copied into a new one."""


def upgrade() -> None:
    audit = op.create_table(
        "audit",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("grant_id", sa.Text, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("prev", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.create_index("audit_by_agent", "audit", ["agent", "seq"])
    op.create_index(
        "audit_by_grant",
        "audit",
        ["grant_id", "seq"],
        sqlite_where=sa.text("grant_id <> ''"),
        postgresql_where=sa.text("grant_id <> ''"),
    )
    empty = dict.fromkeys(("actor", "principal", "agent", "target", "grant_id", "prev"), "")
    genesis = {"seq": 1, "at": 0, "action": "genesis", "count": 0, "detail": "{}"}
    op.bulk_insert(audit, [empty | genesis | {"hash": hashlib.sha256(GENESIS.encode()).hexdigest()}])
    op.create_table(
        "audit_checkpoints",
        sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("signature", sa.Text, nullable=False),
    )
    op.create_table(
        "agent_keys",
        sa.Column("agent", sa.Text, primary_key=True),
        sa.Column("key_id", sa.Text, primary_key=True),
        sa.Column("wrapped", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("retired_at", sa.BigInteger),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("agents", sa.Text, nullable=False),
        sa.Column("rights", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
        sa.Column("last_used", sa.BigInteger),
    )
    _refuse_changes(op.get_bind().dialect.name)
    if op.get_bind().dialect.name == "postgresql":
        for table in ("audit", "agent_keys"):
            _wall_in(table)
        for tables, rights in {
            "audit, audit_checkpoints": "SELECT, INSERT",
            "agent_keys, api_keys": "SELECT, INSERT, UPDATE, DELETE",
        }.items():
            op.execute(
                "DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'engram_app') THEN "
                f"GRANT {rights} ON {tables} TO engram_app; END IF; "
                "EXCEPTION WHEN insufficient_privilege THEN NULL; END $$"
            )


def _refuse_changes(dialect: str) -> None:
    """Add triggers that refuse changes of audit entries, and deletions beyond `audit_pruning`, to prevent mistakes.

    An administrator can remove the triggers; the hash chain and its checkpoints detect what is changed then.
    """
    said = "the audit trail is never changed"
    going = "OLD.seq > coalesce((SELECT CAST(value AS BIGINT) FROM settings WHERE name = 'audit_pruning'), 0)"
    if dialect == "postgresql":
        op.execute(
            "CREATE FUNCTION engram_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF TG_OP = 'DELETE' AND TG_TABLE_NAME = 'audit' AND NOT {going} THEN RETURN OLD; END IF; "
            f"RAISE EXCEPTION '{said}' USING ERRCODE = 'insufficient_privilege'; END $$"
        )
        for table in ("audit", "audit_checkpoints"):
            op.execute(
                f"CREATE TRIGGER {table}_stays BEFORE UPDATE OR DELETE ON {table} "
                "FOR EACH ROW EXECUTE FUNCTION engram_refuse()"
            )
        return
    for table in ("audit", "audit_checkpoints"):
        for change in ("UPDATE", "DELETE"):
            when = f"WHEN {going} " if (table, change) == ("audit", "DELETE") else ""
            op.execute(
                f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} {when}"
                f"BEGIN SELECT RAISE(ABORT, '{said}'); END"
            )


def _wall_in(table: str) -> None:
    allowed = (
        "agent = nullif(current_setting('engram.agent', true), '') OR current_setting('engram.everyone', true) = 'on'"
    )
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY engram_scope ON {table} USING ({allowed}) WITH CHECK ({allowed})")
