"""The audit trail, written in the transaction of what it tells."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from engram.errors import Hint, NotFound
from engram.model import AuditEntry, Checkpoint
from engram.ports import AuditAction
from engram.stores import audit_entries, audit_tables
from engram.stores.schema import audit, audit_checkpoints
from engram.stores.sql.tables import SET, UNSET, SqlTables, insert


class SqlTrail(SqlTables):
    """Keeps the audit trail (`ports.KeepsAudit`)."""

    def note(self, deeds: Sequence[AuditAction]) -> None:
        """Put on record what no other call of the store does, in one durable transaction."""
        self._guard()
        audit_entries.refuse_unstorable(deeds)

        def work(conn: sa.Connection) -> None:
            for deed in deeds:
                self._note(conn, deed)

        if deeds:
            self._transact(None, work)

    def head(self) -> AuditEntry | None:
        """The newest entry; `None` only if somebody has removed them all."""
        return self._look(None, audit_tables.head)

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
        """Entries numbered higher than `after`, in order: the first of them, or the last if `newest`."""
        return self._look(None, lambda conn: audit_tables.trail(conn, after, limit, agent, grant, since, newest))

    def checkpoint(self, checkpoint: Checkpoint) -> bool:
        """Keep a checkpoint for good, and note that; `False` if there is one of that entry already."""

        def work(conn: sa.Connection) -> bool:
            there = sa.select(audit_checkpoints.c.seq).where(audit_checkpoints.c.seq == checkpoint.seq)
            if conn.scalar(there) is not None:
                return False
            insert(conn, audit_checkpoints, [audit_entries.to_checkpoint_row(checkpoint)])
            self._note(conn, audit_entries.checked(checkpoint))
            return True

        return self._transact(None, work)

    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints, in order."""
        return self._look(None, audit_tables.checkpoints)

    def prune(self, through: int) -> int:
        """Remove the entries up to a checkpoint, and note that; how many. Raises `NotFound` without a checkpoint."""
        return self._transact(None, lambda conn: self._prune(conn, through))

    def _prune(self, conn: sa.Connection, through: int) -> int:
        found = [known for known in audit_tables.checkpoints(conn) if known.seq == through]
        if not found:
            raise NotFound(f"there is no checkpoint of entry {through}", hint=Hint("audit checkpoint", "makes one"))
        self._as_keeper(conn)
        conn.execute(SET, {"name": audit_entries.PRUNING, "value": str(through)})
        gone = conn.execute(audit.delete().where(audit.c.seq <= through)).rowcount
        conn.execute(UNSET, {"name": audit_entries.PRUNING})
        self._note(conn, audit_entries.pruned(found[0], gone))
        return gone
