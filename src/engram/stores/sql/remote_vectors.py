"""Keep an external vector database in sync with the SQL tables, which are searched when it is unavailable."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa

from engram.errors import StoreError
from engram.ports import Match, MirrorMatch, Placed, Query, Scope, VectorSpace, VectorStore
from engram.stores.rules import ENOUGH, nearest, vector_key
from engram.stores.schema import memory_index, settings, tombstones
from engram.stores.sql.mirror import pushed_name
from engram.stores.sql.tables import PAGE, Tables, sound
from engram.system import batched

_log = logging.getLogger("engram")
OWED = "pushed:owed"
"""The setting with the spaces in which deletions could not be sent to the vector database."""
SPACE = "vector_space"
SET_ONCE = sa.text("INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT DO NOTHING")


class VectorSync:
    """Search an external vector database and keep it in sync with the SQL tables (`ports.SyncsVectors`)."""

    def __init__(self, tables: Tables, remote: VectorStore) -> None:
        self._tables = tables
        self._remote = remote
        self._space = ""
        self._pushed: dict[VectorSpace, set[tuple[str, int]]] = {}

    def search(self, scope: Scope, near: Placed, query: Query) -> list[Match]:
        """Search the vector database or, if it is unavailable, the SQL tables, which return `MirrorMatch`."""
        if query.among is not None:  # a few memories, quicker to compare here
            return self._by_mirror(scope, near, query)
        space, wanted = VectorSpace(scope, near.namespace, near.embedder), query.limit + query.offset
        try:
            self._push(space)
            search = partial(self._remote.search, self._place_of(space), near.vector)
            found, everything = nearest(search, wanted, wanted * ENOUGH)
        except StoreError as error:
            _log.warning("the vector database is away, the local mirror answers: %s", error)
            return [MirrorMatch(*match) for match in self._by_mirror(scope, near, query)]
        if not found and (mirrored := self._by_mirror(scope, near, query)):
            _log.warning("the vector database lost what it had, the local mirror answers; run `engram upkeep sync`")
            return [MirrorMatch(*match) for match in mirrored]
        allowed = self._tables.look(
            scope, lambda conn: self._tables.allowed(conn, scope, query, [match.id for match in found])
        )
        kept = [match for match in found if match.id in allowed]
        if len(kept) < wanted and not everything:  # few pass the filter: search all that do
            return self._by_mirror(scope, near, query)
        return kept[query.offset : wanted]

    def _by_mirror(self, scope: Scope, near: Placed, query: Query) -> list[Match]:
        return self._tables.look(scope, lambda conn: self._tables.search_vectors(conn, scope, near, query))

    def _push(self, space: VectorSpace, *, anew: bool = False) -> int:
        """Send added and deleted vectors since the last time; return how many."""
        name = pushed_name(space)
        v, t, agent = memory_index.c, tombstones.c, space.scope.agent
        here = (v.agent == agent, v.namespace == space.namespace, v.embedder == space.embedder)

        def look(conn: sa.Connection) -> tuple[str, bool, int, Sequence[Any], Sequence[Any]]:
            epoch = self._tables.epoch(conn)
            said = conn.scalar(sa.select(settings.c.value).where(settings.c.name == name))
            all_of_it = anew or said is None or said.partition(":")[0] != epoch
            last = 0 if all_of_it else int(str(said).partition(":")[2])
            since = last - self._tables.overlap
            came = self._tables.mirrored(conn, sa.select(memory_index).where(*here, v.seq > since))
            graves = sa.select(t.memory_id, t.seq, t.passages).where(t.agent == agent, t.seq > since)
            went = conn.execute(graves).all()
            return epoch, all_of_it, last, came, went

        epoch, anew, last, came, went = self._tables.look(space.scope, look)
        done = set() if anew else self._pushed.setdefault(space, set())
        came = [row for row in came if (row.memory_id, row.seq) not in done]
        went = [row for row in went if (row.memory_id, row.seq) not in done]
        if not came and not went and not anew:
            return 0
        place = self._place_of(space)
        if anew:
            self._remote.clear(place)
        self._remote.remove(place, [vector_key(row.memory_id, n) for row in went for n in range(row.passages)])
        number = 0
        for some in batched(came, PAGE):
            for which, matrix in sound([row.dim for row in some], [row.vector for row in some]):
                self._remote.add(place, [vector_key(some[n].memory_id, some[n].passage) for n in which], matrix)
                number += len(which)
        news = {(row.memory_id, row.seq) for row in (*came, *went)}
        newest = max([last, *(seq for _, seq in news)])
        self._pushed[space] = {(id, seq) for id, seq in done | news if seq > newest - self._tables.overlap}
        self._tables.set_setting(name, f"{epoch}:{newest}")
        return number

    def _is_there(self, space: VectorSpace) -> bool:
        """Return True if the vector database still finds the oldest vector."""
        v = memory_index.c
        here = (v.agent == space.scope.agent, v.namespace == space.namespace, v.embedder == space.embedder)
        oldest = sa.select(memory_index).where(*here).order_by(v.seq).limit(1)
        rows = self._tables.look(space.scope, lambda conn: self._tables.mirrored(conn, oldest))
        if not rows or not (whole := list(sound([rows[0].dim], [rows[0].vector]))):
            return True
        return any(match.score > 0.99 for match in self._remote.search(self._place_of(space), whole[0][1][0], 1))

    def _place_of(self, space: VectorSpace) -> VectorSpace:
        """Return the name of a space in the vector database, distinct from those of other databases."""

        def agree(conn: sa.Connection) -> str:
            conn.execute(SET_ONCE, {"name": SPACE, "value": self._tables.sources.new_id()})
            return conn.scalar(sa.select(settings.c.value).where(settings.c.name == SPACE)) or ""

        if not self._space:
            self._space = self._tables.transact(None, agree)
        return VectorSpace(space.scope, f"{self._space}/{space.namespace}", space.embedder)

    def clear(self, spaces: Sequence[VectorSpace]) -> None:
        """Delete whole spaces from the vector database."""
        for space in spaces:
            self._remote.clear(self._place_of(space))

    def close(self) -> None:
        """Close the vector database."""
        self._remote.close()

    def sync(self, *, anew: bool = False, progress: Callable[[int, int], None] | None = None) -> int:
        """Send missing vectors to the vector database, or all if `anew`; return how many."""
        v = memory_index.c
        everywhere = sa.select(v.agent, v.namespace, v.embedder).distinct()
        owed = [tuple(each) for each in json.loads(self._tables.setting(OWED) or "[]")]
        found = [tuple(row) for row in self._tables.look(None, lambda conn: conn.execute(everywhere).all())]
        spaces = list(dict.fromkeys([*found, *owed]))
        total = 0
        for number, (agent, namespace, embedder) in enumerate(spaces, start=1):
            space = VectorSpace(Scope(agent), namespace, embedder)
            handed_over = self._push(space, anew=anew)
            if not anew and not self._is_there(space):  # it was emptied, lost or replaced
                handed_over = self._push(space, anew=True)
            total += handed_over
            if progress is not None:
                progress(number, len(spaces))
        if owed:
            self._tables.set_setting(OWED, "[]")
        return total

    def forget(self, spaces: Sequence[VectorSpace]) -> None:
        """Delete vectors of deleted memories from the vector database; if it is unavailable, at the next `sync`."""
        owed = []
        for space in spaces:
            try:
                self._push(space)
            except StoreError as error:
                owed.append([space.scope.agent, space.namespace, space.embedder])
                _log.warning("the vector database still has what was forgotten, until `engram upkeep sync`: %s", error)
        if owed:
            known = json.loads(self._tables.setting(OWED) or "[]")
            self._tables.set_setting(OWED, json.dumps([*known, *(each for each in owed if each not in known)]))
