"""The audit trail in SQL tables."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from engram.clock import micros
from engram.model import AuditEntry, Checkpoint
from engram.stores.audit_entries import to_checkpoint, to_entry
from engram.stores.schema import audit, audit_checkpoints


def head(conn: sa.Connection) -> AuditEntry | None:
    """The newest entry."""
    row = conn.execute(sa.select(audit).order_by(audit.c.seq.desc()).limit(1)).mappings().first()
    return None if row is None else to_entry(row)


def trail(
    conn: sa.Connection,
    after: int,
    limit: int,
    agent: str | None,
    grant: str | None,
    since: datetime | None,
    newest: bool,
) -> list[AuditEntry]:
    """Entries numbered higher than `after`, in order: the first of them, or the last if `newest`."""
    a = audit.c
    rows = sa.select(audit).where(a.seq > after).order_by(a.seq.desc() if newest else a.seq).limit(limit)
    if agent is not None:
        rows = rows.where(a.agent == agent)
    if grant is not None:
        rows = rows.where(a.grant_id == grant)
    if since is not None:
        rows = rows.where(a.at >= micros(since))
    found = [to_entry(row) for row in conn.execute(rows).mappings()]
    return found[::-1] if newest else found


def checkpoints(conn: sa.Connection) -> list[Checkpoint]:
    """All checkpoints, in order."""
    rows = conn.execute(sa.select(audit_checkpoints).order_by(audit_checkpoints.c.seq)).mappings()
    return [to_checkpoint(row) for row in rows]
