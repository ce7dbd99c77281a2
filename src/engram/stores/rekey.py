"""Encrypt the rows of a database: plain rows for the first time, encrypted ones with a new key.

It works page by page, each in its own transaction, so that others can read and write in between. The rows themselves
show which are done, so that it can be interrupted and started again at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from engram.stores import sealing
from engram.stores.rows import Row
from engram.stores.schema import (
    agent_keys,
    agents,
    events,
    memories,
    memory_evidence,
    memory_index,
    memory_keys,
    recall_events,
    settings,
    tombstones,
)
from engram.stores.sealing import AgentKeys
from engram.text.terms import digest

Renew = Callable[[sa.Connection, sa.Table, Mapping[Any, Any]], Row | None]
"""Convert a stored row to its new form; `None` if it has that form already."""

PAGE = 200
TABLES = (memories, memory_keys, memory_evidence, memory_index, recall_events, events)


def renewed(
    conn: sa.Connection, agent: str, table: sa.Table, renew: Renew, after: Row | None
) -> tuple[int, Row | None]:
    """Convert a page of rows after one; return how many were read, and the last of them, `None` at the end."""
    key = list(table.primary_key.columns)
    rows = sa.select(table).where(table.c.agent == agent).order_by(*key).with_for_update()
    if table is not memory_keys:  # in one page, since conversion may change the keys they are sorted by
        rows = rows.limit(PAGE)
    if after is not None:
        rows = rows.where(sa.tuple_(*key) > sa.tuple_(*(after[column.name] for column in key)))
    page = conn.execute(rows).mappings().all()
    for row in page:
        new = renew(conn, table, row)
        if new is not None:
            own = [column == row[column.name] for column in key]
            changed = {name: value for name, value in new.items() if value != row[name]}
            conn.execute(table.update().where(*own).values(changed))
    return len(page), dict(page[-1]) if len(page) == PAGE and table is not memory_keys else None


def renew_all(transact: Any, agent: str, renew: Renew) -> Iterator[int]:
    """Convert every row of an agent, page by page; yield the number of rows of each page."""
    for table in TABLES:
        last: Row | None = None
        while True:
            count, last = transact(lambda conn, table=table, last=last: renewed(conn, agent, table, renew, last))
            yield count
            if last is None:
                break


def everybody(conn: sa.Connection) -> list[str]:
    """Return the names of all agents."""
    return sorted(conn.scalars(sa.select(agents.c.agent)))


def total(conn: sa.Connection) -> int:
    """Count the rows to be encrypted."""
    return sum(conn.scalar(sa.select(sa.func.count()).select_from(table)) or 0 for table in TABLES)


def key_ids(conn: sa.Connection) -> dict[str, list[str]]:
    """Return the names of all keys, by agent."""
    found: dict[str, list[str]] = {}
    k = agent_keys.c
    for agent, id in conn.execute(sa.select(k.agent, k.key_id).order_by(k.agent, k.key_id)):
        found.setdefault(agent, []).append(id)
    return found


def drop_keys(conn: sa.Connection, agent: str, ids: Sequence[str]) -> None:
    """Delete keys; data that is encrypted with them is lost."""
    k = agent_keys.c
    conn.execute(agent_keys.delete().where(k.agent == agent, k.key_id.in_(ids)))


def renew_settings(conn: sa.Connection, renew: Renew) -> None:
    """Convert all settings that may contain content of memories."""
    for row in conn.execute(sa.select(settings)).mappings().all():
        if sealing.sealed_setting(row["name"]) and (new := renew(conn, settings, row)) is not None:
            conn.execute(settings.update().where(settings.c.name == row["name"]).values(new))


def rewrap(conn: sa.Connection, renew: Callable[[str, str, str], str]) -> int:
    """Encrypt all data keys again; return how many."""
    k = agent_keys.c
    rows = conn.execute(sa.select(k.agent, k.key_id, k.wrapped).with_for_update()).all()
    for agent, id, wrapped in rows:
        own = (k.agent == agent, k.key_id == id)
        conn.execute(agent_keys.update().where(*own).values(wrapped=renew(agent, id, wrapped)))
    return len(rows)


def destroy(conn: sa.Connection, agent: str) -> dict[str, int]:
    """Delete the keys of an agent, and then all its rows; return how many of each table."""
    gone: dict[str, int] = {}
    for table in (agent_keys, events, recall_events, memories, tombstones, agents):
        gone[table.name] = conn.execute(table.delete().where(table.c.agent == agent)).rowcount
    conn.execute(settings.delete().where(settings.c.name.endswith(":" + digest(agent), autoescape=True)))
    return gone


def is_plain(table: sa.Table, row: Mapping[Any, Any]) -> bool:
    """Return True if a row is not encrypted."""
    if table is memory_index:
        return bool(len(row["vector"]) == 4 * row["dim"])
    return not sealing.sealed_with(table.name, row)


def outdated(keys: AgentKeys) -> list[str]:
    """Return the data keys that are not used any more once all rows are encrypted with the current one."""
    return [id for id in keys.data if id != keys.current]
