"""Events in SQL tables, in the order of recording."""

from __future__ import annotations

import sqlalchemy as sa

from engram.ports import Event, Scope
from engram.stores.rows import to_event
from engram.stores.schema import agents, events


def take_turn(conn: sa.Connection, scope: Scope) -> None:
    """Wait until no other transaction adds events to this scope, so that their numbers rise with their commits."""
    conn.execute(sa.select(agents.c.agent).where(agents.c.agent == scope.agent).with_for_update(key_share=True))


def known(conn: sa.Connection, scope: Scope, chosen: sa.ColumnElement[bool]) -> set[str]:
    """The ids of the chosen events that are there."""
    return set(conn.scalars(sa.select(events.c.id).where(events.c.agent == scope.agent, chosen)))


def feed(conn: sa.Connection, scope: Scope, after: int, limit: int) -> list[Event]:
    """The events numbered higher than `after`, the oldest of them first."""
    e = events.c
    rows = sa.select(events).where(e.agent == scope.agent, e.seq > after).order_by(e.seq).limit(limit)
    return [to_event(row) for row in conn.execute(rows).mappings()]


def about(conn: sa.Connection, scope: Scope, topic: str, limit: int) -> list[Event]:
    """The newest events of a topic, the oldest of them first."""
    e = events.c
    rows = sa.select(events).where(e.agent == scope.agent, e.topic == topic).order_by(e.seq.desc()).limit(limit)
    return [to_event(row) for row in reversed(conn.execute(rows).mappings().all())]


def chosen(conn: sa.Connection, scope: Scope, these: sa.ColumnElement[bool]) -> list[Event]:
    """The chosen events, the oldest first; sorted here, since a database would rather read all in order."""
    rows = sa.select(events).where(events.c.agent == scope.agent, these)
    return sorted((to_event(row) for row in conn.execute(rows).mappings()), key=lambda event: event.seq)
