"""Recalls in SQL tables: their results and outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

import sqlalchemy as sa

from engram.clock import micros
from engram.ports import Credit, LoggedRecall, Scope, unstorable
from engram.stores import audit_entries
from engram.stores.rows import PENDING, to_credit, to_logged_recall, to_recall
from engram.stores.schema import recall_events
from engram.stores.sql.tables import COUNT, Tables

_CREDIT = sa.text(
    "INSERT INTO recall_events (agent, id, at, detail) "
    "SELECT agent, :id, :at, :detail FROM agents WHERE agent = :agent "
    "ON CONFLICT (agent, id) DO UPDATE SET at = excluded.at, detail = excluded.detail "
    "WHERE recall_events.detail LIKE :pending"
)


class SqlRecalls:
    """Count, log and credit recalls (`ports.CountsAccess`, `LogsRecalls`, `CreditsRecalls`)."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def touch(self, scope: Scope, ids: Sequence[str], at: datetime) -> None:
        """Count that these memories were recalled; written with the next commit, or when many are pending."""
        self._tables.guard()
        moment = micros(at)
        self._tables.pending.count({(scope.agent, id): (number, moment) for id, number in Counter(ids).items()})
        self._tables.flush_if_many()

    def credit(self, scope: Scope, credit: Credit) -> bool:
        """Store the outcome of a recall and count it for each memory; return `False` if its id is known."""

        def work(conn: sa.Connection) -> bool:
            fresh = self._credit(conn, scope, credit)
            self._tables.note(conn, audit_entries.credited(scope, credit, fresh))
            return fresh

        return self._tables.transact(scope, work)

    def _credit(self, conn: sa.Connection, scope: Scope, credit: Credit) -> bool:
        row = self._tables.codec.encrypt_row(conn, recall_events, to_recall(scope, credit))
        if not conn.execute(_CREDIT, row | {"pending": PENDING}).rowcount:
            return False
        if counts := credit.counts:  # always in the same order, to avoid deadlocks
            rows = [{"id": id, "helped": good, "hindered": bad} for id, (good, bad) in sorted(counts.items())]
            conn.execute(COUNT, [{"agent": scope.agent} | row for row in rows])
        return True

    def credits(self, scope: Scope, limit: int) -> list[Credit]:
        """Return the newest credits, the oldest of them first."""
        e = recall_events.c
        chosen = (e.agent == scope.agent, e.detail.not_like(PENDING))
        newest = sa.select(recall_events).where(*chosen).order_by(e.at.desc(), e.id.desc()).limit(limit)

        def look(conn: sa.Connection) -> list[Credit]:
            rows = conn.execute(newest).mappings().all()
            return [to_credit(self._tables.codec.decrypt_row(conn, recall_events, row)) for row in reversed(rows)]

        return self._tables.look(scope, look)

    def log_recall(self, scope: Scope, shown: LoggedRecall) -> None:
        """Log a recall; written with the next commit, or when many are pending."""
        self._tables.guard()
        with self._tables.pending.lock:
            self._tables.pending.recalls[scope.agent, shown.id] = shown
        self._tables.flush_if_many()

    def get_recall(self, scope: Scope, id: str) -> LoggedRecall | None:
        """Return a logged recall, also if its outcome is known; `None` if there is none, or it is too old."""
        self._tables.guard()
        if (pending := self._tables.pending.get_recall(scope, id)) is not None:
            return pending
        if unstorable(id):
            return None
        e = recall_events.c
        kept = sa.select(recall_events).where(e.agent == scope.agent, e.id == id)

        def look(conn: sa.Connection) -> LoggedRecall | None:
            row = conn.execute(kept).mappings().one_or_none()
            return None if row is None else to_logged_recall(self._tables.codec.decrypt_row(conn, recall_events, row))

        return self._tables.look(scope, look)

    def delete_recalls(self, scope: Scope, chosen: Callable[[LoggedRecall], bool]) -> int:
        """Delete the chosen logged recalls whose outcome is not known; how many there were."""
        e = recall_events.c
        pending = sa.select(recall_events).where(e.agent == scope.agent, e.detail.like(PENDING))

        def work(conn: sa.Connection) -> int:
            rows = conn.execute(pending).mappings()
            found = [to_logged_recall(self._tables.codec.decrypt_row(conn, recall_events, row)) for row in rows]
            ids = [shown.id for shown in found if chosen(shown)]
            if ids:
                conn.execute(recall_events.delete().where(e.agent == scope.agent, self._tables.one_of(e.id, ids)))
            return len(ids)

        waiting = self._tables.pending.drop_recalls(scope, chosen)
        seen = self._tables.look(scope, lambda conn: conn.execute(pending.limit(1)).first())
        return waiting + (0 if seen is None else self._tables.transact(scope, work))
