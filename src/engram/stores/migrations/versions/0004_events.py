"""Events: decisions, outcomes and failures in the order of recording. Existing ones become events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

from engram.text.terms import digest

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

SEALED = "agent id seq kind at subject topic body".split()


def upgrade() -> None:
    events = op.create_table(
        "events",
        sa.Column("agent", sa.Text, sa.ForeignKey("agents.agent"), primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
    )
    op.create_index("events_by_seq", "events", ["agent", "seq"], unique=True)
    op.create_index("events_by_topic", "events", ["agent", "topic", "seq"])
    op.create_index("events_by_subject", "events", ["agent", "subject"])
    conn = op.get_bind()
    if conn.dialect.name == "postgresql":
        _wall_in()
        conn.execute(sa.text("SELECT set_config('engram.everyone', 'on', true)"))
    found = sa.text(
        "SELECT agent, id, seq, kind, text, content, context, context_key, happened_at FROM memories "
        "WHERE kind IN ('decision', 'failure') AND (agent, seq) > (:agent, :seq) ORDER BY agent, seq LIMIT 1000"
    )
    agent, seq = "", 0
    while rows := conn.execute(found, {"agent": agent, "seq": seq}).mappings().all():
        conn.execute(events.insert(), [_event(row) for row in rows])
        agent, seq = rows[-1]["agent"], rows[-1]["seq"]


def _event(row: Mapping[Any, Any]) -> dict[str, object]:
    content = json.loads(row["content"])
    if row["kind"] == "decision":
        body = {
            "action": content.get("chosen_action", ""),
            "context": content.get("decision_context") or row["context"],
            "quality": content.get("outcome_quality"),
        }
    else:
        body = {"error": content.get("error_signature") or row["text"], "solution": content.get("solution_applied", "")}
    event = {
        "agent": row["agent"],
        "id": row["id"],
        "seq": row["seq"],
        "kind": row["kind"],
        "at": row["happened_at"],
        "subject": row["id"],
        "topic": digest(row["context_key"]),
        "body": json.dumps(body, ensure_ascii=False, separators=(",", ":")),
    }
    return event | {"digest": digest(*(repr(event[name]) for name in SEALED))}


def _wall_in() -> None:
    allowed = (
        "agent = nullif(current_setting('engram.agent', true), '') OR current_setting('engram.everyone', true) = 'on'"
    )
    op.execute("ALTER TABLE events ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE events FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY engram_scope ON events USING ({allowed}) WITH CHECK ({allowed})")
    op.execute(
        "DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'engram_app') THEN "
        "GRANT SELECT, INSERT, UPDATE, DELETE ON events TO engram_app; END IF; "
        "EXCEPTION WHEN insufficient_privilege THEN NULL; END $$"
    )
