"""The audit trail in SQL tables; entries are written in the transaction of the action."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from engram.clock import micros
from engram.errors import Hint, NotFound
from engram.model import AuditEntry, Checkpoint
from engram.ports import AuditAction
from engram.stores import audit_entries
from engram.stores.audit_entries import to_checkpoint, to_entry
from engram.stores.schema import audit, audit_checkpoints
from engram.stores.sql.tables import SET, UNSET, Tables


class SqlAuditTrail:
    """Append to, read and prune the audit trail (`ports.KeepsAudit`)."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def note(self, actions: Sequence[AuditAction]) -> None:
        """Add entries for actions that are not calls of the store, in one durable transaction."""
        self._tables.guard()
        audit_entries.refuse_unstorable(actions)

        def work(conn: sa.Connection) -> None:
            for action in actions:
                self._tables.note(conn, action)

        if actions:
            self._tables.transact(None, work)

    def head(self) -> AuditEntry | None:
        """Return the newest entry; `None` only if all were removed."""
        return self._tables.look(None, _head)

    def trail(
        self,
        after: int = 0,
        limit: int = 1000,
        *,
        agent: str | None = None,
        grant: str | None = None,
        since: datetime | None = None,
        newest: bool = False,
    ) -> list[AuditEntry]:
        """Return entries numbered higher than `after`, in order: the first of them, or the last if `newest`."""
        return self._tables.look(None, lambda conn: _trail(conn, after, limit, agent, grant, since, newest))

    def checkpoint(self, checkpoint: Checkpoint) -> bool:
        """Store a checkpoint and record that; return `False` if there is one of that entry already."""

        def work(conn: sa.Connection) -> bool:
            there = sa.select(audit_checkpoints.c.seq).where(audit_checkpoints.c.seq == checkpoint.seq)
            if conn.scalar(there) is not None:
                return False
            self._tables.insert(conn, audit_checkpoints, [audit_entries.to_checkpoint_row(checkpoint)])
            self._tables.note(conn, audit_entries.checked(checkpoint))
            return True

        return self._tables.transact(None, work)

    def checkpoints(self) -> list[Checkpoint]:
        """Return all checkpoints, in order."""
        return self._tables.look(None, _checkpoints)

    def prune(self, through: int) -> int:
        """Delete entries up to a checkpoint and record that; return how many. Raises `NotFound` if there is none."""
        return self._tables.transact(None, lambda conn: self._prune(conn, through))

    def _prune(self, conn: sa.Connection, through: int) -> int:
        found = [known for known in _checkpoints(conn) if known.seq == through]
        if not found:
            raise NotFound(f"there is no checkpoint of entry {through}", hint=Hint("audit checkpoint", "makes one"))
        self._tables.as_owner(conn)
        conn.execute(SET, {"name": audit_entries.PRUNING, "value": str(through)})
        gone = conn.execute(audit.delete().where(audit.c.seq <= through)).rowcount
        conn.execute(UNSET, {"name": audit_entries.PRUNING})
        self._tables.note(conn, audit_entries.pruned(found[0], gone))
        return gone


def _head(conn: sa.Connection) -> AuditEntry | None:
    """The newest entry."""
    row = conn.execute(sa.select(audit).order_by(audit.c.seq.desc()).limit(1)).mappings().first()
    return None if row is None else to_entry(row)


def _trail(
    conn: sa.Connection,
    after: int,
    limit: int,
    agent: str | None,
    grant: str | None,
    since: datetime | None,
    newest: bool,
) -> list[AuditEntry]:
    """Return entries numbered higher than `after`, in order: the first of them, or the last if `newest`."""
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


def _checkpoints(conn: sa.Connection) -> list[Checkpoint]:
    """Return all checkpoints, in order."""
    rows = conn.execute(sa.select(audit_checkpoints).order_by(audit_checkpoints.c.seq)).mappings()
    return [to_checkpoint(row) for row in rows]
