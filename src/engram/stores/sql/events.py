"""Events in SQL tables, numbered in the order of commits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import sqlalchemy as sa

from engram.clock import from_micros, micros
from engram.ports import Event, MemoryChange, Scope
from engram.stores import audit_entries
from engram.stores.rows import to_event_row
from engram.stores.rules import forgotten
from engram.stores.schema import agents, events, memories, tombstones
from engram.stores.sql.tables import ENROL, Tables, storable


class SqlEvents:
    """Store, read and delete events (`ports.KeepsEvents`, `DeletesEvents`, `ListsChanges`)."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def append(self, scope: Scope, events: Sequence[Event]) -> list[bool]:
        """Store events in one durable transaction; return for each, in order, `False` if its id is known already."""
        self._tables.guard()

        def work(conn: sa.Connection) -> list[bool]:
            fresh = self.insert(conn, scope, events)
            self._tables.note(conn, audit_entries.recorded(scope, events, fresh))
            return fresh

        return self._tables.transact(scope, work) if events else []

    def insert(self, conn: sa.Connection, scope: Scope, given: Sequence[Event]) -> list[bool]:
        """Number and insert events in a transaction; other transactions that add events to the scope wait.

        So numbers rise in the order of commits.
        """
        conn.execute(ENROL, {"agent": scope.agent, "at": micros(self._tables.sources.now())})
        conn.execute(sa.select(agents.c.agent).where(agents.c.agent == scope.agent).with_for_update(key_share=True))
        there = self._tables.one_of(events.c.id, [event.id for event in given])
        known = set(conn.scalars(sa.select(events.c.id).where(events.c.agent == scope.agent, there)))
        numbers = iter(self._tables.number(conn, len(given)))
        rows, fresh = [], []
        for event in given:
            fresh.append(event.id not in known)
            if fresh[-1]:
                known.add(event.id)
                rows.append(to_event_row(scope, event, next(numbers)))
        self._tables.insert(conn, events, rows)
        return fresh

    def delete_events(self, scope: Scope, ids: Sequence[str]) -> int:
        """Delete events by id in one transaction, and record an event about it; return how many."""
        chosen = self._tables.one_of(events.c.id, storable(ids))

        def work(conn: sa.Connection) -> int:
            gone = self._chosen(conn, scope, chosen)
            if not gone:
                return 0
            conn.execute(events.delete().where(events.c.agent == scope.agent, chosen))
            numbers, now = self._tables.number(conn, len(gone)), self._tables.sources.now()
            self.insert(conn, scope, [forgotten(event.id, seq, now) for event, seq in zip(gone, numbers, strict=True)])
            self._tables.note(conn, audit_entries.unrecorded(scope, gone))
            return len(gone)

        return self._tables.transact(scope, work) if ids else 0

    def events_after(self, scope: Scope, after: int, limit: int) -> list[Event]:
        """Return the events numbered higher than `after`, the oldest first."""
        e = events.c
        chosen = sa.select(events).where(e.agent == scope.agent, e.seq > after).order_by(e.seq).limit(limit)
        return self._tables.look(scope, lambda conn: self._read(conn, chosen))

    def events_by_topic(self, scope: Scope, topic: str, limit: int) -> list[Event]:
        """Return the newest events of a topic, the oldest of them first."""
        e = events.c

        def look(conn: sa.Connection) -> list[Event]:
            masked = self._tables.codec.mask(conn, scope, events, "topic", topic) if topic else topic
            chosen = sa.select(events).where(e.agent == scope.agent, e.topic == masked)
            return self._read(conn, chosen.order_by(e.seq.desc()).limit(limit))[::-1]

        return self._tables.look(scope, look)

    def events_of(self, scope: Scope, subjects: Sequence[str]) -> list[Event]:
        """Return all events about these subjects, the oldest first."""
        chosen = self._tables.one_of(events.c.subject, storable(subjects))
        return self._tables.look(scope, partial(self._chosen, scope=scope, chosen=chosen)) if subjects else []

    def _chosen(self, conn: sa.Connection, scope: Scope, chosen: sa.ColumnElement[bool]) -> list[Event]:
        """Read the chosen events and sort them here, since an ORDER BY can make the database scan all of them."""
        found = self._read(conn, sa.select(events).where(events.c.agent == scope.agent, chosen))
        return sorted(found, key=lambda event: event.seq)

    def _read(self, conn: sa.Connection, chosen: sa.Select[tuple[object, ...]]) -> list[Event]:
        return [self._tables.codec.event(conn, row) for row in conn.execute(chosen).mappings()]

    def changes(self, scope: Scope, after: int, limit: int) -> list[MemoryChange]:
        """Return the memories stored and deleted after a number, the oldest first."""
        m, t = memories.c, tombstones.c
        stored = sa.select(m.seq, m.id, m.created_at).where(m.agent == scope.agent, m.seq > after)
        deleted = sa.select(t.seq, t.memory_id, t.at).where(t.agent == scope.agent, t.seq > after)

        def look(conn: sa.Connection) -> list[MemoryChange]:
            came = conn.execute(stored.order_by(m.seq).limit(limit)).all()
            went = conn.execute(deleted.order_by(t.seq).limit(limit)).all()
            found = [MemoryChange(seq, "stored", id, from_micros(at)) for seq, id, at in came]
            found += [MemoryChange(seq, "forgotten", id, from_micros(at)) for seq, id, at in went]
            return sorted(found)[:limit]

        return self._tables.look(scope, look)

    def newest(self, scope: Scope) -> int:
        """Return the number of the newest write of a memory or an event; 0 if there is none."""
        highest = [
            sa.select(sa.func.max(t.c.seq)).where(t.c.agent == scope.agent) for t in (memories, tombstones, events)
        ]
        return self._tables.look(scope, lambda conn: max(conn.scalar(one) or 0 for one in highest))

    def lag(self) -> int:
        """Return by how much the number of a write that becomes visible late may be below those already visible."""
        return self._tables.overlap
