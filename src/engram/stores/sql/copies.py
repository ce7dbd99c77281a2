"""Copy a database to another, table by table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from engram.errors import Conflict
from engram.model.audit import GENESIS
from engram.ports import Cells, TableChecksum
from engram.stores.rows import Row, to_memory
from engram.stores.rules import memory_terms, tally
from engram.stores.schema import (
    agent_keys,
    agents,
    api_keys,
    audit,
    audit_checkpoints,
    events,
    memories,
    memory_evidence,
    memory_index,
    memory_keys,
    memory_stats,
    memory_tags,
    recall_events,
    settings,
    tombstones,
)
from engram.stores.sealing import CRYPT
from engram.stores.sql.mirror import PUSHED
from engram.stores.sql.remote_vectors import SPACE
from engram.stores.sql.tables import PAGE, SET, UNSEEN, Tables

COPYING = "copying"
COPIED = {
    table.name: table
    for table in (
        settings,
        agents,
        memories,
        memory_tags,
        memory_keys,
        memory_evidence,
        memory_stats,
        memory_index,
        tombstones,
        recall_events,
        events,
        audit,
        audit_checkpoints,
        agent_keys,
        api_keys,
    )
}
_USED = sa.select(audit.c.seq).where(audit.c.action != GENESIS).limit(1)


class SqlCopying:
    """Read and fill whole tables (`ports.Copies`)."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def tables(self) -> list[str]:
        """Return the tables to copy, in an order in which they can be filled."""
        return list(COPIED)

    def page(self, table: str, after: Cells | None, limit: int) -> list[Cells]:
        """Return the next rows of a table in the order of its key, after a row or from the start."""
        columns = COPIED[table].primary_key.columns
        rows = sa.select(COPIED[table]).order_by(*columns).limit(limit)
        if table == settings.name:
            rows = rows.where(settings.c.name.not_in([COPYING, SPACE, CRYPT]), ~settings.c.name.startswith(PUSHED))

        def look(conn: sa.Connection) -> list[Cells]:
            chosen = rows
            if after is not None:
                last = self._tables.codec.stored_key(conn, COPIED[table], after)
                chosen = rows.where(sa.tuple_(*columns) > sa.tuple_(*(last[column.name] for column in columns)))
            return [self._tables.codec.plain_row(conn, COPIED[table], row) for row in conn.execute(chosen).mappings()]

        return [] if table == agent_keys.name else self._tables.look(None, look)  # a copy gets new keys

    def begin_copy(self, source: str) -> None:
        """Begin or continue a copy of `source`. Raises `Conflict` if the target has other data."""
        self._tables.transact(None, lambda conn: self._begin_copy(conn, source))

    def _begin_copy(self, conn: sa.Connection, source: str) -> None:
        begun = conn.scalar(sa.select(settings.c.value).where(settings.c.name == COPYING))
        used = conn.scalar(sa.select(agents.c.agent).limit(1)) or conn.scalar(_USED)
        if begun != source and used is not None:
            raise Conflict("the target is not empty; name a new database, or continue the copy that was begun there")
        conn.execute(SET, {"name": COPYING, "value": source})

    def take(self, table: str, rows: Sequence[Cells]) -> None:
        """Insert the rows that are missing, in one transaction."""
        self._tables.transact(None, lambda conn: self._take(conn, table, rows))

    def _take(self, conn: sa.Connection, table: str, rows: Sequence[Cells]) -> None:
        columns = COPIED[table].primary_key.columns
        stored = [self._tables.codec.stored_key(conn, COPIED[table], row) for row in rows]
        keys = [tuple(row[column.name] for column in columns) for row in stored]
        there = sa.select(*columns).where(sa.tuple_(*columns).in_(keys))
        known = {tuple(row) for row in conn.execute(there)}
        fresh: list[Row] = [dict(row) for key, row in zip(keys, rows, strict=True) if key not in known]
        self._tables.insert(conn, COPIED[table], fresh)
        if table == memories.name:
            found = [to_memory({**row, **UNSEEN}) for row in fresh]
            numbered = zip((row["seq"] for row in fresh), found, strict=True)
            self._tables.index_memories(conn, [(m.agent, seq, memory_terms(m)) for seq, m in numbered])
        if table == memory_index.name:
            self._tables.vectors_added(fresh)

    def end_copy(self) -> None:
        """Finish a copy: number new writes after those of the copied database."""
        numbered = (memories, memory_evidence, memory_index, tombstones, events)
        highest = [sa.select(sa.func.max(table.c.seq)) for table in numbered]
        self._tables.transact(None, lambda conn: self._end_copy(conn, max(conn.scalar(last) or 0 for last in highest)))

    def _end_copy(self, conn: sa.Connection, last: int) -> None:
        self._tables.advance_sequence(conn, last)
        conn.execute(settings.delete().where(settings.c.name == COPYING))

    def tally(self, table: str) -> TableChecksum:
        """Return the number of rows of a table and their checksum."""
        return tally(self._all_rows(table))

    def _all_rows(self, table: str) -> Iterator[Cells]:
        last = None
        while rows := self.page(table, last, PAGE):
            yield from rows
            last = rows[-1]
