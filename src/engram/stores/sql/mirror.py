"""The vectors of memories in SQL tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from engram.model import Memory, MemoryIndex
from engram.ports import Placed, Scope, VectorSpace
from engram.stores import audit_entries
from engram.stores.rows import vector_rows
from engram.stores.schema import memories, memory_index, settings
from engram.stores.sql.tables import HYDRATE, LATER, Tables
from engram.text.terms import digest

PUSHED = "pushed:"


class VectorMirror:
    """Store the vectors of memories by namespace and embedder (`ports.MirrorsVectors`)."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def embedder(self) -> str | None:
        """Return the identity of the embedder this store was last embedded with, if any."""
        return self._tables.setting("embedder")

    def set_embedder(self, identity: str) -> None:
        """Store the identity of the embedder in use."""
        self._tables.set_setting("embedder", identity)

    def unembedded(self, namespace: str, embedder: str, limit: int) -> list[Memory]:
        """Return memories of any agent without a vector of this embedder, oldest first."""
        missing = HYDRATE.where(_without_vector(namespace, embedder)).order_by(memories.c.seq).limit(limit)
        return self._tables.look(
            None, lambda conn: [self._tables.codec.memory(conn, row) for row in conn.execute(missing).mappings().all()]
        )

    def count_unembedded(self, namespace: str, embedder: str) -> int:
        """Count the memories without a vector of this embedder."""
        missing = sa.select(sa.func.count()).select_from(memories).where(_without_vector(namespace, embedder))
        return self._tables.look(None, lambda conn: conn.scalar(missing)) or 0

    def place(self, vectors: Sequence[tuple[Scope, str, Placed]]) -> int:
        """Give vectors to memories that still exist, instead of those they had there; how many were added."""
        if not vectors:
            return 0
        return self._tables.transact(None, lambda conn: self._place(conn, vectors))

    def _place(self, conn: sa.Connection, vectors: Sequence[tuple[Scope, str, Placed]]) -> int:
        spaces: dict[VectorSpace, dict[str, list[Placed]]] = {}
        for scope, id, placed in vectors:
            space = VectorSpace(scope, placed.namespace, placed.embedder)
            spaces.setdefault(space, {}).setdefault(id, []).append(placed)
        added = sum(self._fill(conn, space, given) for space, given in spaces.items())
        self._tables.note(conn, audit_entries.embedded(vectors, added))
        return added

    def _fill(self, conn: sa.Connection, space: VectorSpace, given: Mapping[str, Sequence[Placed]]) -> int:
        m, v, agent, ids = memories.c, memory_index.c, space.scope.agent, list(given)
        here = (v.namespace == space.namespace, v.embedder == space.embedder)
        theirs = (v.agent == agent, *here, self._tables.one_of(v.memory_id, ids))
        known = list(
            conn.scalars(
                sa.select(m.id).where(m.agent == agent, self._tables.one_of(m.id, ids)).with_for_update(key_share=True)
            )
        )
        fresh = [{"agent": agent} | row for id in known for row in vector_rows(id, given[id])]
        self._tables.refuse_other_dimensions(conn, fresh)
        before = self.passages(conn, space.scope, known, *here)
        conn.execute(memory_index.delete().where(*theirs), execution_options=LATER)
        seqs = self._tables.number(conn, len(fresh))
        self._tables.insert(conn, memory_index, [row | {"seq": seq} for seq, row in zip(seqs, fresh, strict=True)])
        self._tables.vectors_added(fresh)
        if any(number > 1 + max(placed.passage for placed in given[id]) for id, number in before.items()):
            # Deleted passages leave no numbers, so all caches of this space must be rebuilt.
            self._tables.vectors_removed(conn)
            conn.execute(settings.delete().where(settings.c.name == pushed_name(space)), execution_options=LATER)
        return sum(len(given[id]) for id in known)

    def discard_vectors(self, namespace: str, keep: str) -> int:
        """Delete the vectors of all other embedders; return how many."""
        stale = memory_index.delete().where(memory_index.c.namespace == namespace, memory_index.c.embedder != keep)

        def discard(conn: sa.Connection) -> int:
            self._tables.vectors_removed(conn)
            gone = conn.execute(stale).rowcount
            self._tables.note(conn, audit_entries.unembedded(keep, gone))
            return gone

        return self._tables.transact(None, discard)

    def indexes(self, scope: Scope, id: str) -> list[MemoryIndex]:
        """List the vectors of a memory by namespace and embedder; none if it is not in this scope."""
        v = memory_index.c
        places = (
            sa.select(v.namespace, v.embedder, sa.func.max(v.dim).label("dim"), sa.func.count().label("passages"))
            .where(v.agent == scope.agent, v.memory_id == id)
            .group_by(v.namespace, v.embedder)
            .order_by(v.namespace, v.embedder)
        )
        rows = self._tables.look(scope, lambda conn: conn.execute(places).mappings().all())
        return [MemoryIndex(memory_id=id, **row) for row in rows]

    def passages(
        self, conn: sa.Connection, scope: Scope, ids: Sequence[str], *where: sa.ColumnElement[bool]
    ) -> dict[str, int]:
        """Count the passages with vectors, per memory; memories with one are left out."""
        v = memory_index.c
        several = (
            sa.select(v.memory_id, (sa.func.max(v.passage) + 1).label("passages"))
            .where(v.agent == scope.agent, self._tables.one_of(v.memory_id, ids), v.passage > 0, *where)
            .group_by(v.memory_id)
        )
        return {row.memory_id: row.passages for row in conn.execute(several)}

    def vector_spaces(self, scope: Scope) -> list[VectorSpace]:
        """List the vector spaces of a scope."""
        v = memory_index.c
        places = sa.select(v.namespace, v.embedder).where(v.agent == scope.agent).distinct()
        found = self._tables.look(scope, lambda conn: conn.execute(places).all())
        return [VectorSpace(scope, namespace, embedder) for namespace, embedder in found]


def _without_vector(namespace: str, embedder: str) -> sa.ColumnElement[bool]:
    v = memory_index.c
    return ~sa.exists().where(
        v.agent == memories.c.agent,
        v.memory_id == memories.c.id,
        v.namespace == namespace,
        v.embedder == embedder,
    )


def pushed_name(space: VectorSpace) -> str:
    """Return the name of the setting that says how far a space was sent to the vector database."""
    return PUSHED + digest(space.scope.agent, space.namespace, space.embedder)
