"""The tables, for every SQL database. The scope (`agent`) leads every key.

`seq` numbers writes in commit order: it breaks ties between equal times, and identifies new rows.
Times are microseconds since 1970, UTC. A tombstone has the highest number of `passages` with vectors in one space,
from which follow the keys to delete from a vector database.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sqlalchemy as sa

REVISION = "0005"
"""The newest revision under `migrations/versions`, the schema this code reads and writes."""

APPLICATION_ID = 0x454E4752  # "ENGR" in the header of the file


class PgVector(sa.types.UserDefinedType[bytes]):
    """The column type of pgvector; Python values are bytes, as for all other databases."""

    cache_ok = True

    def get_col_spec(self, **options: Any) -> str:
        """Return the name of the type."""
        return "vector"

    def bind_processor(self, dialect: sa.Dialect) -> Callable[[bytes | None], str]:
        """Convert little-endian floats to pgvector's text."""
        return lambda data: "[" + ",".join(map(repr, np.frombuffer(data or b"", dtype="<f4").tolist())) + "]"

    def bind_expression(self, bindvalue: sa.BindParameter[Any]) -> sa.ColumnElement[Any]:
        """Cast the text to a vector."""
        return sa.cast(bindvalue, self)

    def result_processor(self, dialect: sa.Dialect, coltype: object) -> Callable[[str], bytes]:
        """Convert pgvector's text to little-endian floats."""
        return lambda text: np.array(text.strip("[]").split(","), dtype="<f4").tobytes()


metadata = sa.MetaData()

_Name = sa.Text
_Json = sa.Text
_Time = sa.BigInteger

settings = sa.Table(
    "settings",
    metadata,
    sa.Column("name", _Name, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

agents = sa.Table(
    "agents",
    metadata,
    sa.Column("agent", _Name, primary_key=True),
    sa.Column("created_at", _Time, nullable=False),
)

memories = sa.Table(
    "memories",
    metadata,
    sa.Column("agent", _Name, sa.ForeignKey("agents.agent"), primary_key=True),
    sa.Column("id", _Name, primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("kind", _Name, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("content", _Json, nullable=False),
    sa.Column("context", sa.Text, nullable=False),
    sa.Column("context_key", _Name, nullable=False),
    sa.Column("tags", _Json, nullable=False),
    sa.Column("metadata", _Json, nullable=False),
    sa.Column("author", sa.Text, nullable=False),
    sa.Column("session", sa.Text),
    sa.Column("role", sa.Text),
    sa.Column("speaker", sa.Text),
    sa.Column("sources", _Json, nullable=False),
    sa.Column("origin", _Name, nullable=False),
    sa.Column("importance", sa.Float, nullable=False),
    sa.Column("confidence", sa.Float, nullable=False),
    sa.Column("trust", sa.Float, nullable=False),
    sa.Column("created_at", _Time, nullable=False),
    sa.Column("happened_at", _Time, nullable=False),
    sa.Column("valid_from", _Time, nullable=False),
    sa.Column("valid_until", _Time),
    sa.Column("evidence", sa.Integer, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("merge_key", _Name),
    sa.Column("digest", _Name, nullable=False),
    sa.Index("memories_by_seq", "agent", "seq"),
    sa.Index("memories_by_time", "agent", "happened_at", "seq"),
    sa.Index("memories_by_context", "agent", "kind", "context_key"),
    sa.Index("memories_by_session", "agent", "session", "seq"),
    sa.Index("memories_by_merge_key", "agent", "merge_key", unique=True),
    sa.Index("memories_by_speaker", "agent", "speaker"),
)


def _belongs_to_memory() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["agent", "memory_id"], ["memories.agent", "memories.id"], ondelete="CASCADE")


memory_tags = sa.Table(
    "memory_tags",
    metadata,
    sa.Column("agent", _Name, primary_key=True),
    sa.Column("memory_id", _Name, primary_key=True),
    sa.Column("tag", sa.Text, primary_key=True),
    _belongs_to_memory(),
    sa.Index("memory_tags_by_tag", "agent", "tag", "memory_id"),
)

memory_keys = sa.Table(
    "memory_keys",
    metadata,
    sa.Column("agent", _Name, primary_key=True),
    sa.Column("key", _Name, primary_key=True),
    sa.Column("memory_id", _Name, nullable=False),
    sa.Column("fingerprint", _Name, nullable=False),
    _belongs_to_memory(),
    sa.Index("memory_keys_by_memory", "agent", "memory_id"),
)

memory_evidence = sa.Table(
    "memory_evidence",
    metadata,
    sa.Column("agent", _Name, primary_key=True),
    sa.Column("memory_id", _Name, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True),
    sa.Column("happened_at", _Time, nullable=False),
    sa.Column("said", _Name),
    sa.Column("detail", _Json, nullable=False),
    _belongs_to_memory(),
    sa.Index("memory_evidence_by_said", "agent", "said"),
)

memory_stats = sa.Table(
    "memory_stats",
    metadata,
    sa.Column("agent", _Name, primary_key=True),
    sa.Column("memory_id", _Name, primary_key=True),
    sa.Column("last_accessed", _Time),
    sa.Column("access_count", sa.Integer, nullable=False),
    sa.Column("helped", sa.Float, nullable=False, server_default=sa.text("0")),
    sa.Column("hindered", sa.Float, nullable=False, server_default=sa.text("0")),
    _belongs_to_memory(),
)

memory_index = sa.Table(
    "memory_index",
    metadata,
    sa.Column("agent", _Name, primary_key=True),
    sa.Column("memory_id", _Name, primary_key=True),
    sa.Column("namespace", _Name, primary_key=True),
    sa.Column("embedder", _Name, primary_key=True),
    sa.Column("passage", sa.Integer, primary_key=True, server_default=sa.text("0")),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("dim", sa.Integer, nullable=False),
    sa.Column("vector", sa.LargeBinary().with_variant(PgVector(), "postgresql"), nullable=False),
    _belongs_to_memory(),
    sa.Index("memory_index_by_shelf", "agent", "namespace", "embedder", "seq"),
)

tombstones = sa.Table(
    "tombstones",
    metadata,
    sa.Column("agent", _Name, primary_key=True),
    sa.Column("memory_id", _Name, primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("at", _Time, nullable=False),
    sa.Column("passages", sa.Integer, nullable=False, server_default=sa.text("1")),
    sa.Index("tombstones_by_seq", "agent", "seq"),
)

recall_events = sa.Table(
    "recall_events",
    metadata,
    sa.Column("agent", _Name, sa.ForeignKey("agents.agent"), primary_key=True),
    sa.Column("id", _Name, primary_key=True),
    sa.Column("at", _Time, nullable=False),
    sa.Column("detail", _Json, nullable=False),
    sa.Index("recall_events_by_time", "agent", "at"),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("agent", _Name, sa.ForeignKey("agents.agent"), primary_key=True),
    sa.Column("id", _Name, primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("kind", _Name, nullable=False),
    sa.Column("at", _Time, nullable=False),
    sa.Column("subject", _Name, nullable=False),
    sa.Column("topic", _Name, nullable=False),
    sa.Column("body", _Json, nullable=False),
    sa.Column("digest", _Name, nullable=False),
    sa.Index("events_by_seq", "agent", "seq", unique=True),
    sa.Index("events_by_topic", "agent", "topic", "seq"),
    sa.Index("events_by_subject", "agent", "subject"),
)

audit = sa.Table(
    "audit",
    metadata,
    # In SQLite, an INTEGER key is the rowid and needs no index of its own.
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("at", _Time, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("principal", sa.Text, nullable=False),
    sa.Column("action", _Name, nullable=False),
    sa.Column("agent", _Name, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("grant_id", _Name, nullable=False),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("detail", _Json, nullable=False),
    sa.Column("prev", _Name, nullable=False),
    sa.Column("hash", _Name, nullable=False),
    sa.Index("audit_by_agent", "agent", "seq"),
    sa.Index(
        "audit_by_grant",
        "grant_id",
        "seq",
        sqlite_where=sa.text("grant_id <> ''"),
        postgresql_where=sa.text("grant_id <> ''"),
    ),
)

audit_checkpoints = sa.Table(
    "audit_checkpoints",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", _Time, nullable=False),
    sa.Column("hash", _Name, nullable=False),
    sa.Column("key_id", _Name, nullable=False),
    sa.Column("signature", sa.Text, nullable=False),
)

agent_keys = sa.Table(
    "agent_keys",
    metadata,
    sa.Column("agent", _Name, primary_key=True),
    sa.Column("key_id", _Name, primary_key=True),
    sa.Column("wrapped", sa.Text, nullable=False),
    sa.Column("created_at", _Time, nullable=False),
    sa.Column("retired_at", _Time),
)

api_keys = sa.Table(
    "api_keys",
    metadata,
    sa.Column("id", _Name, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("hash", _Name, nullable=False),
    sa.Column("agents", _Json, nullable=False),
    sa.Column("rights", _Json, nullable=False),
    sa.Column("created_at", _Time, nullable=False),
    sa.Column("expires_at", _Time),
    sa.Column("revoked_at", _Time),
    sa.Column("last_used", _Time),
)

CANONICAL = (
    "settings",
    "agents",
    "memories",
    "memory_keys",
    "memory_evidence",
    "tombstones",
    "recall_events",
    "events",
    "audit",
    "audit_checkpoints",
    "agent_keys",
    "api_keys",
)
DERIVED = ("memory_tags", "memory_stats", "memory_index", "memory_words")
