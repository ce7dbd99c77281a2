"""Integrity checks of the rows, and rebuilding of derived data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from engram.ports import AuditAction, IntegrityProblem
from engram.stores.rows import PENDING, tag_rows, to_credit
from engram.stores.rules import memory_terms
from engram.stores.schema import (
    agents,
    events,
    memories,
    memory_evidence,
    memory_index,
    memory_stats,
    memory_tags,
    recall_events,
    tombstones,
)
from engram.stores.sql.tables import COUNT, HYDRATE, PAGE, Tables, sound

_VECTOR_KEY = (memory_index.c.agent, memory_index.c.memory_id, memory_index.c.namespace, memory_index.c.embedder)
_INCOMPLETE = (
    sa.select(*_VECTOR_KEY).group_by(*_VECTOR_KEY).having(sa.func.count() <= sa.func.max(memory_index.c.passage))
)


class SqlChecks:
    """Describe, check and rebuild the database (`ports.Maintains`)."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def info(self) -> Mapping[str, str | int | float | None]:
        """Return facts about the database: its location, size, schema and numbers of rows."""
        tables = (agents, memories, memory_evidence, memory_index, tombstones, events)

        def count(conn: sa.Connection) -> dict[str, int | None]:
            return {t.name: conn.scalar(sa.select(sa.func.count()).select_from(t)) for t in tables}

        facts, counts = self._tables.look(None, lambda conn: (self._tables.facts(conn), count(conn)))
        return {**facts, "embedder": self._tables.setting("embedder"), **counts}

    def check(self) -> list[IntegrityProblem]:
        """Check the rows and the derived indexes; return the problems found."""
        return self._tables.look(None, self.check_rows)

    def check_rows(self, conn: sa.Connection) -> list[IntegrityProblem]:
        """Check the rows and the derived indexes within a transaction."""
        problems: list[IntegrityProblem] = []
        words: dict[int, object] = {}
        tags: set[tuple[str, str, str]] = set()
        for row in conn.execute(HYDRATE).mappings():
            if not self._tables.codec.is_sound(conn, memories, row):
                problems.append(IntegrityProblem("memories", f"memory {row['id']} of {row['agent']} is damaged"))
                words[row["seq"]] = None
            else:
                memory = self._tables.codec.memory(conn, row)
                words[row["seq"]] = self._tables.word_mark(
                    memory.agent, self._tables.codec.words(conn, memory.agent, memory_terms(memory))
                )
                tags |= {
                    (row["agent"], row["memory_id"], row["tag"])
                    for row in self._tables.codec.encrypt_rows(conn, memory_tags, tag_rows(memory))
                }
        for seq, mark in self._tables.word_marks(conn):
            if seq not in words:
                problems.append(IntegrityProblem("memory_words", f"row {seq} is indexed, but there is no such memory"))
            elif words.pop(seq) not in (None, mark):
                problems.append(IntegrityProblem("memory_words", f"row {seq} is indexed with other words than it has"))
        problems += [IntegrityProblem("memory_words", f"row {seq} is not indexed") for seq in words]
        t = memory_tags.c
        lost = tags - {(agent, id, tag) for agent, id, tag in conn.execute(sa.select(t.agent, t.memory_id, t.tag))}
        problems += [
            IntegrityProblem("memory_tags", f"memory {id} is not found by its tag {tag}") for _, id, tag in sorted(lost)
        ]
        for damaged in self._unsound(conn):
            which = f" (passage {damaged.passage})" if damaged.passage else ""
            problems.append(
                IntegrityProblem("memory_index", f"the vector of memory {damaged.memory_id} is damaged{which}")
            )
        for event in conn.execute(sa.select(events)).mappings():
            if not self._tables.codec.is_sound(conn, events, event):
                problems.append(IntegrityProblem("events", f"event {event['id']} of {event['agent']} is damaged"))
        for lacking in conn.execute(_INCOMPLETE):
            problems.append(
                IntegrityProblem("memory_index", f"memory {lacking.memory_id} lacks the vector of a passage")
            )
        return problems

    def _unsound(self, conn: sa.Connection) -> Iterator[sa.Row[Any]]:
        """Yield the rows of any agent with invalid vectors."""
        for page in conn.execute(sa.select(memory_index)).partitions(PAGE):
            vectors = [self._tables.codec.vector(conn, row) for row in page]
            good = {n for which, _ in sound([row.dim for row in page], vectors) for n in which}
            yield from (row for n, row in enumerate(page) if n not in good)

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> Mapping[str, int]:
        """Rebuild the word and tag indexes from the canonical rows; return the number of rows in each.

        Damaged vectors are deleted, so that they count as missing.
        """
        return self._tables.transact(None, lambda conn: self._rebuild(conn, progress or (lambda done, total: None)))

    def _rebuild(self, conn: sa.Connection, tell: Callable[[int, int], None]) -> Mapping[str, int]:
        total = conn.scalar(sa.select(sa.func.count()).select_from(memories)) or 0
        self._tables.empty_words(conn)
        conn.execute(memory_tags.delete())
        self._drop_damaged_vectors(conn)
        self._recount(conn)
        done, tags, last = 0, 0, 0
        pages = HYDRATE.order_by(memories.c.seq).limit(1000)
        while rows := conn.execute(pages.where(memories.c.seq > last)).mappings().all():
            found = [(row["seq"], self._tables.codec.memory(conn, row)) for row in rows]
            self._tables.index_memories(conn, [(memory.agent, seq, memory_terms(memory)) for seq, memory in found])
            labels = [label for _, memory in found for label in tag_rows(memory)]
            self._tables.insert(conn, memory_tags, labels)
            done, tags, last = done + len(rows), tags + len(labels), rows[-1]["seq"]
            tell(done, total)
        self._tables.note(conn, AuditAction("rebuild", count=done))
        return {"words": done, "tags": tags}

    def _recount(self, conn: sa.Connection) -> None:
        """Recompute how often memories helped, from the log of recalls."""
        conn.execute(memory_stats.update().values(helped=0, hindered=0))
        counts: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        told = sa.select(recall_events).where(recall_events.c.detail.not_like(PENDING))
        for row in conn.execute(told.order_by(recall_events.c.agent, recall_events.c.id)).mappings():
            for id, (helped, hindered) in to_credit(
                self._tables.codec.decrypt_row(conn, recall_events, row)
            ).counts.items():
                counts[row["agent"], id][0] += helped
                counts[row["agent"], id][1] += hindered
        if counts:
            rows = [{"agent": a, "id": id, "helped": g, "hindered": b} for (a, id), (g, b) in sorted(counts.items())]
            conn.execute(COUNT, rows)

    def _drop_damaged_vectors(self, conn: sa.Connection) -> None:
        v = memory_index.c
        for row in [*self._unsound(conn), *conn.execute(_INCOMPLETE)]:
            where = (v.agent == row.agent, v.memory_id == row.memory_id)
            place = (v.namespace == row.namespace, v.embedder == row.embedder)
            conn.execute(memory_index.delete().where(*where, *place))  # all its passages, so that it counts as missing
        self._tables.vectors_removed(conn)
