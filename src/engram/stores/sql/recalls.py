"""What recalls have shown and what became of them, in SQL tables; what is only counted waits for the next commit."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from engram.clock import micros
from engram.errors import StoreError
from engram.ports import Credit, LoggedRecall, Scope, unstorable
from engram.stores import audit_entries
from engram.stores.rows import PENDING, to_credit, to_recall, to_shown, to_shown_row
from engram.stores.schema import recall_events
from engram.stores.sql.tables import COUNT, LATER, LEDGER, SqlTables

_log = logging.getLogger("engram")
MAX_PENDING_TOUCHES = 1000
SHOWN_FOR = timedelta(days=7)
"""For so long the outcome of a recall can be told by its id."""
_TOUCH = sa.text(
    "INSERT INTO memory_stats (agent, memory_id, last_accessed, access_count) "
    "SELECT agent, id, :at, :n FROM memories WHERE agent = :agent AND id = :id "
    "ON CONFLICT (agent, memory_id) DO UPDATE SET last_accessed = CASE "
    "WHEN memory_stats.last_accessed > excluded.last_accessed THEN memory_stats.last_accessed "
    "ELSE excluded.last_accessed END, "
    "access_count = memory_stats.access_count + excluded.access_count"
).execution_options(**LATER)
_CREDIT = sa.text(
    "INSERT INTO recall_events (agent, id, at, detail) "
    "SELECT agent, :id, :at, :detail FROM agents WHERE agent = :agent "
    "ON CONFLICT (agent, id) DO UPDATE SET at = excluded.at, detail = excluded.detail "
    "WHERE recall_events.detail LIKE :pending"
)
_SHOW = sa.text(
    "INSERT INTO recall_events (agent, id, at, detail) "
    "SELECT agent, :id, :at, :detail FROM agents WHERE agent = :agent ON CONFLICT DO NOTHING"
).execution_options(**LATER)
_UNSHOW = sa.text(
    "DELETE FROM recall_events WHERE agent = :agent AND at < :before AND detail LIKE :pending"
).execution_options(**LATER)


class SqlRecalls(SqlTables):
    """Keeps what was recalled, shown and credited (`ports.CountsAccess`, `LogsRecalls`, `CreditsRecalls`)."""

    def touch(self, scope: Scope, ids: Sequence[str], at: datetime) -> None:
        """Note that these memories were recalled; written with the next commit, or when it is much."""
        self._guard()
        moment = micros(at)
        self._count({(scope.agent, id): (number, moment) for id, number in Counter(ids).items()})
        if len(self._touches) > MAX_PENDING_TOUCHES:
            self._flush_statistics()

    def _flush_statistics(self) -> None:
        try:
            self._flush()
        except StoreError as error:  # a statistic must not cost anybody the memories that were found
            _log.warning("some access counts were not written: %s", error)

    def _count(self, touches: Mapping[tuple[str, str], tuple[int, int]]) -> None:
        with self._touching:
            for memory, (number, moment) in touches.items():
                count, last = self._touches.get(memory, (0, moment))
                self._touches[memory] = (count + number, max(last, moment))

    def _write_touches(self, conn: sa.Connection) -> Mapping[tuple[str, str], tuple[int, int]]:
        """Write what is pending; what that was, in case it is undone."""
        self._write_shown(conn)
        with self._touching:
            pending, self._touches = self._touches, {}
        if pending:
            self._enter(conn, None)  # they may be about anybody
            conn.execute(
                _TOUCH,
                [{"agent": a, "id": id, "n": n, "at": at} for (a, id), (n, at) in sorted(pending.items())],
            )
        return pending

    def credit(self, scope: Scope, credit: Credit) -> bool:
        """Keep what became of a recall and count it for each memory; `False` if that was done before."""

        def work(conn: sa.Connection) -> bool:
            fresh = self._credit(conn, scope, credit)
            self._note(conn, audit_entries.credited(scope, credit, fresh))
            return fresh

        return self._transact(scope, work)

    def _credit(self, conn: sa.Connection, scope: Scope, credit: Credit) -> bool:
        told = self._encrypt_row(conn, recall_events, to_recall(scope, credit))
        if not conn.execute(_CREDIT, told | {"pending": PENDING}).rowcount:
            return False
        if counts := credit.counts:  # in one order for all, so that nobody waits in a circle
            rows = [{"id": id, "helped": good, "hindered": bad} for id, (good, bad) in sorted(counts.items())]
            conn.execute(COUNT, [{"agent": scope.agent} | row for row in rows])
        return True

    def credits(self, scope: Scope, limit: int) -> list[Credit]:
        """The newest credits, the oldest of them first."""
        e = recall_events.c
        told = (e.agent == scope.agent, e.detail.not_like(PENDING))
        newest = sa.select(recall_events).where(*told).order_by(e.at.desc(), e.id.desc()).limit(limit)

        def look(conn: sa.Connection) -> list[Credit]:
            rows = conn.execute(newest).mappings().all()
            return [to_credit(self._decrypt_row(conn, recall_events, row)) for row in reversed(rows)]

        return self._look(scope, look)

    def log_recall(self, scope: Scope, shown: LoggedRecall) -> None:
        """Note what was shown; written with the next commit, or when it is much."""
        self._guard()
        with self._touching:
            self._shown[scope.agent, shown.id] = shown
        if len(self._shown) > MAX_PENDING_TOUCHES:
            self._flush_statistics()

    def get_recall(self, scope: Scope, id: str) -> LoggedRecall | None:
        """What was shown under an id, also if its outcome was told; `None` if it was not, or too long ago."""
        self._guard()
        with self._touching:
            key = (scope.agent, id)
            if (pending := self._shown.get(key) or self._showing.get(key)) is not None:
                return pending
        if unstorable(id):
            return None
        e = recall_events.c
        kept = sa.select(recall_events).where(e.agent == scope.agent, e.id == id)

        def look(conn: sa.Connection) -> LoggedRecall | None:
            row = conn.execute(kept).mappings().one_or_none()
            return None if row is None else to_shown(self._decrypt_row(conn, recall_events, row))

        return self._look(scope, look)

    def delete_recalls(self, scope: Scope, chosen: Callable[[LoggedRecall], bool]) -> int:
        """Remove what was shown and whose outcome nobody has told, if it is chosen; how many there were."""
        e = recall_events.c
        pending = sa.select(recall_events).where(e.agent == scope.agent, e.detail.like(PENDING))

        def work(conn: sa.Connection) -> int:
            found = [to_shown(self._decrypt_row(conn, recall_events, row)) for row in conn.execute(pending).mappings()]
            ids = [shown.id for shown in found if chosen(shown)]
            if ids:
                conn.execute(recall_events.delete().where(e.agent == scope.agent, self._one_of(e.id, ids)))
            return len(ids)

        with self._touching:
            waiting = [key for key, shown in self._shown.items() if key[0] == scope.agent and chosen(shown)]
            for key in waiting:
                del self._shown[key]
        seen = self._look(scope, lambda conn: conn.execute(pending.limit(1)).first())
        return len(waiting) + (0 if seen is None else self._transact(scope, work))

    def _write_shown(self, conn: sa.Connection) -> None:
        """Write what was shown, and drop what was shown long ago to the same agents, once per process."""
        with self._touching:
            pending, self._shown = self._shown, {}
            self._showing |= pending
        if not pending:
            return
        conn.get_execution_options()[LEDGER].shown = pending
        self._enter(conn, None)  # it may be anybody's
        rows = [to_shown_row(Scope(agent), shown) for (agent, _), shown in sorted(pending.items())]
        rows = [self._encrypt_row(conn, recall_events, row) for row in rows]
        conn.execute(_SHOW, rows)
        fresh = sorted({row["agent"] for row in rows} - self._pruned)
        if fresh:
            before = micros(self._sources.now() - SHOWN_FOR)
            conn.execute(_UNSHOW, [{"agent": agent, "before": before, "pending": PENDING} for agent in fresh])
            self._pruned |= set(fresh)

    def _arrived(self, shown: Mapping[tuple[str, str], LoggedRecall], *, safely: bool) -> None:
        """What was on its way is in the database, or has to be written again."""
        with self._touching:
            for key in shown:
                self._showing.pop(key, None)
            if not safely:
                self._shown = {**shown, **self._shown}
