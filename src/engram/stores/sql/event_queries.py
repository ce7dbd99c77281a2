"""Events in SQL tables, in the order of recording."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from engram.clock import from_micros
from engram.ports import Event, MemoryChange, Scope
from engram.stores.rows import to_event
from engram.stores.schema import agents, events, memories, tombstones

Read = Callable[[Mapping[Any, Any]], Event]


def take_turn(conn: sa.Connection, scope: Scope) -> None:
    """Wait until no other transaction adds events to this scope, so that their numbers rise with their commits."""
    conn.execute(sa.select(agents.c.agent).where(agents.c.agent == scope.agent).with_for_update(key_share=True))


def known(conn: sa.Connection, scope: Scope, chosen: sa.ColumnElement[bool]) -> set[str]:
    """The ids of the chosen events that are there."""
    return set(conn.scalars(sa.select(events.c.id).where(events.c.agent == scope.agent, chosen)))


def events_after(conn: sa.Connection, scope: Scope, after: int, limit: int, read: Read = to_event) -> list[Event]:
    """The events numbered higher than `after`, the oldest of them first."""
    e = events.c
    rows = sa.select(events).where(e.agent == scope.agent, e.seq > after).order_by(e.seq).limit(limit)
    return [read(row) for row in conn.execute(rows).mappings()]


def events_by_topic(conn: sa.Connection, scope: Scope, topic: str, limit: int, read: Read = to_event) -> list[Event]:
    """The newest events of a topic, the oldest of them first."""
    e = events.c
    rows = sa.select(events).where(e.agent == scope.agent, e.topic == topic).order_by(e.seq.desc()).limit(limit)
    return [read(row) for row in reversed(conn.execute(rows).mappings().all())]


def chosen(conn: sa.Connection, scope: Scope, these: sa.ColumnElement[bool], read: Read = to_event) -> list[Event]:
    """The chosen events, the oldest first; sorted here, since a database would rather read all in order."""
    rows = sa.select(events).where(events.c.agent == scope.agent, these)
    return sorted((read(row) for row in conn.execute(rows).mappings()), key=lambda event: event.seq)


def changes(conn: sa.Connection, scope: Scope, after: int, limit: int) -> list[MemoryChange]:
    """The memories that came and went after a number, the oldest first."""
    m, t = memories.c, tombstones.c
    came = sa.select(m.seq, m.id, m.created_at).where(m.agent == scope.agent, m.seq > after)
    went = sa.select(t.seq, t.memory_id, t.at).where(t.agent == scope.agent, t.seq > after)
    found = [
        MemoryChange(seq, "stored", id, from_micros(at))
        for seq, id, at in conn.execute(came.order_by(m.seq).limit(limit))
    ]
    gone = conn.execute(went.order_by(t.seq).limit(limit))
    found += [MemoryChange(seq, "forgotten", id, from_micros(at)) for seq, id, at in gone]
    return sorted(found)[:limit]


def newest(conn: sa.Connection, scope: Scope) -> int:
    """The number of the newest write of a scope that can be seen."""
    tables = (memories, tombstones, events)
    return max(conn.scalar(sa.select(sa.func.max(t.c.seq)).where(t.c.agent == scope.agent)) or 0 for t in tables)
