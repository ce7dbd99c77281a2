"""What is learned from, in SQL tables: events, kept in the order in which they were committed."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from engram.clock import micros
from engram.ports import Event, MemoryChange, Scope
from engram.stores import audit_entries
from engram.stores.rows import to_event_row
from engram.stores.rules import forgotten
from engram.stores.schema import events
from engram.stores.sql import event_queries
from engram.stores.sql.tables import ENROL, SqlTables, storable


class SqlEvents(SqlTables):
    """Keeps events (`ports.KeepsEvents`, `ports.DeletesEvents`)."""

    def append(self, scope: Scope, events: Sequence[Event]) -> list[bool]:
        """Keep events in one durable transaction; for each, in order, `False` if there is one with its id already."""
        self._guard()

        def work(conn: sa.Connection) -> list[bool]:
            fresh = self._append(conn, scope, events)
            self._note(conn, audit_entries.recorded(scope, events, fresh))
            return fresh

        return self._transact(scope, work) if events else []

    def _append(self, conn: sa.Connection, scope: Scope, given: Sequence[Event]) -> list[bool]:
        """Number events only when nobody else can commit a higher number before them."""
        conn.execute(ENROL, {"agent": scope.agent, "at": micros(self._sources.now())})
        event_queries.take_turn(conn, scope)
        known = event_queries.known(conn, scope, self._one_of(events.c.id, [event.id for event in given]))
        numbers = iter(self._number(conn, len(given)))
        rows, fresh = [], []
        for event in given:
            fresh.append(event.id not in known)
            if fresh[-1]:
                known.add(event.id)
                rows.append(to_event_row(scope, event, next(numbers)))
        self._insert(conn, events, rows)
        return fresh

    def delete_events(self, scope: Scope, ids: Sequence[str]) -> int:
        """Remove events by id in one transaction, and say so to whoever has learned from them; how many there were."""
        chosen = self._one_of(events.c.id, storable(ids))

        def work(conn: sa.Connection) -> int:
            gone = event_queries.chosen(conn, scope, chosen, self._reading(conn))
            if not gone:
                return 0
            conn.execute(events.delete().where(events.c.agent == scope.agent, chosen))
            numbers, now = self._number(conn, len(gone)), self._sources.now()
            told = [forgotten(event.id, seq, now) for event, seq in zip(gone, numbers, strict=True)]
            self._append(conn, scope, told)
            self._note(conn, audit_entries.unrecorded(scope, gone))
            return len(gone)

        return self._transact(scope, work) if ids else 0

    def events_after(self, scope: Scope, after: int, limit: int) -> list[Event]:
        """The events numbered higher than `after`, the oldest of them first."""
        return self._look(
            scope, lambda conn: event_queries.events_after(conn, scope, after, limit, self._reading(conn))
        )

    def events_by_topic(self, scope: Scope, topic: str, limit: int) -> list[Event]:
        """The newest events of a topic, the oldest of them first."""

        def look(conn: sa.Connection) -> list[Event]:
            named = topic
            if self._sealer is not None and topic:
                named = self._keyring(conn, scope).mask("events", "topic", topic)
            return event_queries.events_by_topic(conn, scope, named, limit, self._reading(conn))

        return self._look(scope, look)

    def events_of(self, scope: Scope, subjects: Sequence[str]) -> list[Event]:
        """All events about these subjects, the oldest first."""
        chosen = self._one_of(events.c.subject, storable(subjects))
        if not subjects:
            return []
        return self._look(scope, lambda conn: event_queries.chosen(conn, scope, chosen, self._reading(conn)))

    def changes(self, scope: Scope, after: int, limit: int) -> list[MemoryChange]:
        """What came and went after a number, the oldest of it first."""
        return self._look(scope, lambda conn: event_queries.changes(conn, scope, after, limit))

    def newest(self, scope: Scope) -> int:
        """The number of the newest write, of an event, too; 0 if there is none."""
        return self._look(scope, lambda conn: event_queries.newest(conn, scope))

    def lag(self) -> int:
        """How far below a higher one a number may be that shows up after it."""
        return self._overlap
