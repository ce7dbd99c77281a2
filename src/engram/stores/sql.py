"""Memories in SQL tables: everything that SQLite and PostgreSQL do in the same way.

A dialect adds how writes are numbered, how words are indexed and searched, and how vectors are searched.
"""

from __future__ import annotations

import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa

from engram.errors import Conflict, EngramError, InvalidInput, NotFound, StoreBusy, StoreClosed, StoreError, Unsupported
from engram.ids import Sources, micros
from engram.model import ForgetReceipt, Memory, MemoryIndex, Receipt
from engram.ports import (
    Cells,
    Changes,
    Entry,
    Filter,
    Match,
    MirrorMatch,
    Placed,
    Problem,
    Query,
    Scope,
    Shelf,
    Tally,
    VectorStore,
    is_unit,
    unstorable,
)
from engram.stores.rows import Row, seal, to_json, to_memory, to_row
from engram.stores.rules import (
    MERGED,
    annotated,
    fingerprint,
    key_receipt,
    memory_terms,
    merged,
    refuse_foreign,
    superseded,
)
from engram.stores.schema import (
    agents,
    memories,
    memory_evidence,
    memory_index,
    memory_keys,
    memory_stats,
    memory_tags,
    settings,
    tombstones,
)
from engram.words import digest, query_terms

R = TypeVar("R")
_log = logging.getLogger("engram")

MAX_PENDING_TOUCHES = 1000
WRITE = "engram_write"
COPYING = "copying"
PUSHED = "pushed:"
ENOUGH = 4  # how many times the wanted number of neighbours is looked at before filters are applied exactly
PAGE = 500
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
    )
}

HYDRATE = sa.select(memories, memory_stats.c.last_accessed, memory_stats.c.access_count).select_from(
    memories.outerjoin(
        memory_stats,
        sa.and_(memory_stats.c.agent == memories.c.agent, memory_stats.c.memory_id == memories.c.id),
    )
)
_ENROL = sa.text("INSERT INTO agents (agent, created_at) VALUES (:agent, :at) ON CONFLICT DO NOTHING")
_BURY = sa.text(
    "INSERT INTO tombstones (agent, memory_id, seq, at) VALUES (:agent, :id, :seq, :at) "
    "ON CONFLICT (agent, memory_id) DO UPDATE SET seq = excluded.seq, at = excluded.at"
)
_TOUCH = sa.text(
    "INSERT INTO memory_stats (agent, memory_id, last_accessed, access_count) "
    "SELECT agent, id, :at, :n FROM memories WHERE agent = :agent AND id = :id "
    "ON CONFLICT (agent, memory_id) DO UPDATE SET last_accessed = CASE "
    "WHEN memory_stats.last_accessed > excluded.last_accessed THEN memory_stats.last_accessed "
    "ELSE excluded.last_accessed END, "
    "access_count = memory_stats.access_count + excluded.access_count"
)
_SET = sa.text(
    "INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)


@dataclass(slots=True)
class _Plan:
    """What a batch will write, worked out before the first row is inserted."""

    fresh: dict[str, tuple[int, Memory, str | None]] = field(default_factory=dict)
    changed: dict[str, tuple[int, Memory, str | None]] = field(default_factory=dict)
    keys: list[Row] = field(default_factory=list)
    evidence: list[Row] = field(default_factory=list)
    vectors: list[Row] = field(default_factory=list)

    def of(self, id: str) -> dict[str, tuple[int, Memory, str | None]]:
        """Where a known memory is planned: among those of this batch, or those that are there already."""
        return self.fresh if id in self.fresh else self.changed


class SqlStore(ABC):
    """A `MemoryStore` on SQL tables, with all the abilities of `engram.ports`."""

    def __init__(self, engine: sa.Engine, sources: Sources, remote: VectorStore | None = None) -> None:
        self._engine = engine
        self._sources = sources
        self._remote = remote
        self._pushed: dict[Shelf, set[tuple[str, int]]] = {}
        self._touches: dict[tuple[str, str], tuple[int, int]] = {}
        self._touching = threading.Lock()
        self._pid = os.getpid()
        self._closed = False

    @abstractmethod
    def _number(self, conn: sa.Connection, count: int) -> list[int]:
        """So many write numbers that nobody else has, rising."""

    @abstractmethod
    def _one_of(self, column: sa.ColumnElement[Any], values: Sequence[str]) -> sa.ColumnElement[bool]:
        """Whether a column has one of the values, however many there are, in one parameter."""

    @abstractmethod
    def _index_words(self, conn: sa.Connection, rows: Sequence[tuple[str, int, list[str]]]) -> None:
        """Make rows (agent, seq, terms) findable by their terms."""

    @abstractmethod
    def _unindex_words(self, conn: sa.Connection, agent: str, seqs: Sequence[int]) -> None:
        """Make rows unfindable."""

    @abstractmethod
    def _by_words(self, conn: sa.Connection, scope: Scope, terms: list[str], query: Query) -> list[Match]:
        """The rows of a scope that hold any of the terms, best first."""

    @abstractmethod
    def _by_vector(self, conn: sa.Connection, scope: Scope, near: Placed, query: Query) -> list[Match]:
        """The rows of a scope nearest to a vector, best first."""

    @abstractmethod
    def _translate(self, error: sa.exc.DBAPIError) -> EngramError:
        """The driver's error in our words."""

    def _enter(self, conn: sa.Connection, scope: Scope | None) -> None:
        """Called when a transaction begins: it is about this scope, or about all of them."""

    @abstractmethod
    def _empty_words(self, conn: sa.Connection) -> None:
        """Make every row unfindable, also when the index is damaged."""

    @abstractmethod
    def _word_marks(self, conn: sa.Connection) -> Iterator[tuple[int, object]]:
        """What the index has of each row: its number, and a mark of its terms."""

    @abstractmethod
    def _word_mark(self, agent: str, terms: list[str]) -> object:
        """The mark that the index should have for a row."""

    @abstractmethod
    def _facts(self, conn: sa.Connection) -> Mapping[str, str | int | float | None]:
        """Where the database is, how large, which schema."""

    @abstractmethod
    def _go_on_from(self, conn: sa.Connection, last: int) -> None:
        """Number the next writes higher than `last`."""

    _overlap = 0
    """How far write numbers may lag behind others that were committed before them."""

    def _epoch(self, conn: sa.Connection) -> str:
        """Changes when write numbers no longer tell what is new."""
        return ""

    def _vectors_came(self, rows: Sequence[Row]) -> None:
        """Called when vectors were added to the mirror."""

    def _vectors_went(self, conn: sa.Connection) -> None:
        """Called when vectors are taken from memories that stay."""

    def _after_write(self) -> None:
        """Called after each commit."""

    # Reading -----------------------------------------------------------------------------------------

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        """One answer per id, in order; `None` for an id that is not in this scope."""
        with self._read(scope) as conn:
            found = {memory.id: memory for memory in self._fetch(conn, scope, ids)}
        return [found.get(id) for id in ids]

    def search(self, scope: Scope, query: Query) -> list[Match]:
        """Best first, or newest first without words and vector; filtered before the limit is applied."""
        if query.words is None and query.near is not None and self._remote is not None:
            return self._by_remote(self._remote, scope, query.near, query)
        with self._read(scope) as conn:
            if query.words is not None:
                terms = query_terms(query.words)
                return self._by_words(conn, scope, terms, query) if terms else []
            if query.near is not None:
                return self._by_vector(conn, scope, query.near, query)
            newest = (
                sa.select(memories.c.id)
                .where(*conditions(scope, query.where))
                .order_by(memories.c.happened_at.desc(), memories.c.seq.desc())
                .limit(query.limit)
                .offset(query.offset)
            )
            return [Match(id, 0.0) for id in conn.scalars(newest)]

    def agents(self) -> list[str]:
        """Every agent that ever stored something, by name."""
        with self._read(None) as conn:
            return sorted(conn.scalars(sa.select(agents.c.agent)))

    def _fetch(self, conn: sa.Connection, scope: Scope, ids: Sequence[str]) -> Iterator[Memory]:
        found = HYDRATE.where(memories.c.agent == scope.agent, self._one_of(memories.c.id, ids))
        for row in conn.execute(found).mappings():
            yield to_memory(row)

    # Writing -----------------------------------------------------------------------------------------

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Store all entries in one durable transaction; one receipt per entry, in order."""
        self._guard()
        if not entries:
            return []
        refuse_foreign(scope, entries)
        return self._transact(scope, lambda conn: self._add(conn, scope, entries))

    def _add(self, conn: sa.Connection, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        conn.execute(_ENROL, {"agent": scope.agent, "at": micros(self._sources.now())})
        seqs = self._number(conn, len(entries))
        keys = self._known_keys(conn, scope, entries)
        twins = self._known_twins(conn, scope, entries)
        plan = _Plan()
        receipts = [
            self._decide(scope, entry, seq, keys, twins, plan) for seq, entry in zip(seqs, entries, strict=True)
        ]
        self._carry_out(conn, scope, plan)
        return receipts

    def _known_keys(self, conn: sa.Connection, scope: Scope, entries: Sequence[Entry]) -> dict[str, tuple[str, str]]:
        table, keys = memory_keys.c, [entry.key for entry in entries if entry.key is not None]
        if not keys:
            return {}
        rows = sa.select(table.key, table.memory_id, table.fingerprint).where(
            table.agent == scope.agent, self._one_of(table.key, keys)
        )
        return {key: (id, print_) for key, id, print_ in conn.execute(rows)}

    def _known_twins(
        self, conn: sa.Connection, scope: Scope, entries: Sequence[Entry]
    ) -> dict[str, tuple[int, Memory]]:
        keys = [entry.merge_key for entry in entries if entry.merge_key is not None]
        if not keys:
            return {}
        rows = HYDRATE.where(memories.c.agent == scope.agent, self._one_of(memories.c.merge_key, keys))
        rows = rows.with_for_update(of=memories)
        return {row["merge_key"]: (row["seq"], to_memory(row)) for row in conn.execute(rows).mappings()}

    def _decide(
        self,
        scope: Scope,
        entry: Entry,
        seq: int,
        keys: dict[str, tuple[str, str]],
        twins: dict[str, tuple[int, Memory]],
        plan: _Plan,
    ) -> Receipt:
        memory, place = entry.memory, {"agent": scope.agent}
        if entry.key is not None and entry.key in keys:
            return key_receipt(entry, *keys[entry.key])
        if entry.merge_key is not None and entry.merge_key in twins and superseded(twins[entry.merge_key][1], memory):
            known_seq, known = twins.pop(entry.merge_key)
            plan.of(known.id)[known.id] = (known_seq, known, None)
        if entry.merge_key is not None and entry.merge_key in twins:
            known_seq, known = twins[entry.merge_key]
            memory = merged(known, memory)
            plan.of(known.id)[known.id] = (known_seq, memory, entry.merge_key)
            twins[entry.merge_key] = (known_seq, memory)
            plan.evidence.append(place | _evidence(known.id, seq, entry.memory))
            receipt = Receipt(id=known.id, status="merged", reason=MERGED)
        else:
            if memory.id in plan.fresh:
                raise Conflict(f"the id {memory.id} is given twice; nothing was stored. Use a new id")
            plan.fresh[memory.id] = (seq, memory, entry.merge_key)
            plan.vectors += [place | _vector(memory.id, placed) for placed in entry.vectors]
            if entry.merge_key is not None:
                twins[entry.merge_key] = (seq, memory)
            receipt = Receipt(id=memory.id, status="stored")
        if entry.key is not None:
            keys[entry.key] = (memory.id, fingerprint(entry))
            key = {"key": entry.key, "memory_id": memory.id, "fingerprint": keys[entry.key][1]}
            plan.keys.append(place | key)
        return receipt

    def _carry_out(self, conn: sa.Connection, scope: Scope, plan: _Plan) -> None:
        for seq, memory, merge_key in plan.changed.values():
            self._rewrite(conn, memory, seq, merge_key)
        fresh = plan.fresh.values()
        insert(conn, memories, [to_row(memory, seq, merge_key) for seq, memory, merge_key in fresh])
        insert(conn, memory_tags, [row for _, memory, _ in fresh for row in _tags(memory)])
        self._index_words(conn, [(scope.agent, seq, memory_terms(memory)) for seq, memory, _ in fresh])
        insert(conn, memory_keys, plan.keys)
        insert(conn, memory_evidence, plan.evidence)
        if plan.vectors:
            self._refuse_other_lengths(conn, plan.vectors)
            seqs = self._number(conn, len(plan.vectors))
            insert(conn, memory_index, [row | {"seq": seq} for seq, row in zip(seqs, plan.vectors, strict=True)])
            self._vectors_came(plan.vectors)

    def _rewrite(self, conn: sa.Connection, memory: Memory, seq: int, merge_key: str | None) -> None:
        """Replace what surrounds a memory: its row, its tags, its terms."""
        row = to_row(memory, seq, merge_key)
        own = (memories.c.agent == memory.agent, memories.c.id == memory.id)
        conn.execute(memories.update().where(*own).values(row))
        conn.execute(
            memory_tags.delete().where(memory_tags.c.agent == memory.agent, memory_tags.c.memory_id == memory.id)
        )
        insert(conn, memory_tags, _tags(memory))
        self._unindex_words(conn, memory.agent, [seq])
        self._index_words(conn, [(memory.agent, seq, memory_terms(memory))])

    def annotate(self, scope: Scope, id: str, changes: Changes, expected_version: int | None) -> Memory:
        """The changed memory, one version on. Raises `NotFound`, or `Conflict` if the version differs."""
        return self._transact(scope, lambda conn: self._annotate(conn, scope, id, changes, expected_version))

    def _annotate(
        self, conn: sa.Connection, scope: Scope, id: str, changes: Changes, expected_version: int | None
    ) -> Memory:
        found = HYDRATE.where(memories.c.agent == scope.agent, memories.c.id == id).with_for_update(of=memories)
        row = conn.execute(found).mappings().one_or_none()
        if row is None:
            raise NotFound(f"there is no memory {id}; `engram memory list` shows what there is")
        known = to_memory(row)
        if expected_version is not None and expected_version != known.version:
            raise Conflict(f"memory {id} is at version {known.version}, not {expected_version}; read it again")
        update = {name: getattr(changes, name) for name in changes.__slots__}
        update = {name: value for name, value in update.items() if value is not None}
        memory = annotated(known, update)
        self._rewrite(conn, memory, row["seq"], row["merge_key"])
        return memory

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Remove memories and all that belongs to them, in one transaction; unknown ids say so."""
        receipts = self._transact(scope, lambda conn: self._forget(conn, scope, ids))
        self._forget_remotely(scope)
        return receipts

    def _forget(self, conn: sa.Connection, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        own = (memories.c.agent == scope.agent, self._one_of(memories.c.id, ids))
        rows = conn.execute(sa.select(memories.c.id, memories.c.seq).where(*own).with_for_update())
        seqs = {row.id: row.seq for row in rows}
        removed = self._count_belongings(conn, scope, list(seqs))
        self._unindex_words(conn, scope.agent, list(seqs.values()))
        if seqs:
            conn.execute(memories.delete().where(*own))
            at = micros(self._sources.now())
            numbered = zip(seqs, self._number(conn, len(seqs)), strict=True)
            conn.execute(_BURY, [{"agent": scope.agent, "id": id, "seq": seq, "at": at} for id, seq in numbered])
        return [ForgetReceipt(id=id, forgotten=id in removed, removed=removed.pop(id, {})) for id in ids]

    def _count_belongings(self, conn: sa.Connection, scope: Scope, ids: Sequence[str]) -> dict[str, dict[str, int]]:
        counts = {id: {"memories": 1, "evidence": 0, "keys": 0, "vectors": 0, "words": 1} for id in ids}
        tables = {"evidence": memory_evidence, "keys": memory_keys, "vectors": memory_index}
        for name, table in tables.items():
            count = (
                sa.select(table.c.memory_id, sa.func.count())
                .where(table.c.agent == scope.agent, self._one_of(table.c.memory_id, ids))
                .group_by(table.c.memory_id)
            )
            for id, number in conn.execute(count):
                counts[id][name] = number
        return counts

    def touch(self, scope: Scope, ids: Sequence[str], at: datetime) -> None:
        """Note that these memories were recalled; written with the next commit, or when it is much."""
        self._guard()
        moment = micros(at)
        with self._touching:
            for id in ids:
                count, last = self._touches.get((scope.agent, id), (0, moment))
                self._touches[scope.agent, id] = (count + 1, max(last, moment))
            many = len(self._touches) > MAX_PENDING_TOUCHES
        if many:
            try:
                self._flush()
            except StoreError as error:  # a statistic must not cost anybody the memories that were found
                _log.warning("some access counts were not written: %s", error)

    def _flush(self) -> None:
        with self._write(None):
            pass  # every write transaction carries the pending touches along

    def _write_touches(self, conn: sa.Connection) -> None:
        with self._touching:
            pending, self._touches = self._touches, {}
        if pending:
            self._enter(conn, None)  # they may be about anybody
            conn.execute(
                _TOUCH,
                [{"agent": a, "id": id, "n": n, "at": at} for (a, id), (n, at) in sorted(pending.items())],
            )

    # The mirrored vectors ----------------------------------------------------------------------------

    def embedder(self) -> str | None:
        """The identity of the embedder this store was last embedded with, if any."""
        with self._read(None) as conn:
            return conn.scalar(sa.select(settings.c.value).where(settings.c.name == "embedder"))

    def set_embedder(self, identity: str) -> None:
        """Remember the embedder in use."""
        with self._write(None) as conn:
            conn.execute(_SET, {"name": "embedder", "value": identity})

    def unembedded(self, namespace: str, embedder: str, limit: int) -> list[Memory]:
        """Memories of any agent without a vector of this embedder, oldest first."""
        with self._read(None) as conn:
            missing = HYDRATE.where(_without_vector(namespace, embedder)).order_by(memories.c.seq).limit(limit)
            return [to_memory(row) for row in conn.execute(missing).mappings()]

    def count_unembedded(self, namespace: str, embedder: str) -> int:
        """How many memories have no vector of this embedder."""
        missing = sa.select(sa.func.count()).select_from(memories).where(_without_vector(namespace, embedder))
        with self._read(None) as conn:
            return conn.scalar(missing) or 0

    def place(self, vectors: Sequence[tuple[Scope, str, Placed]]) -> int:
        """Add vectors to memories that still exist, in one transaction; how many were added."""
        if not vectors:
            return 0
        return self._transact(None, lambda conn: self._place(conn, vectors))

    def _place(self, conn: sa.Connection, vectors: Sequence[tuple[Scope, str, Placed]]) -> int:
        shelves: dict[tuple[str, str, str], dict[str, Row]] = {}
        for scope, id, placed in vectors:
            shelf = (scope.agent, placed.namespace, placed.embedder)
            shelves.setdefault(shelf, {})[id] = {"agent": scope.agent} | _vector(id, placed)
        added = 0
        for shelf, rows in shelves.items():
            (agent, namespace, embedder), m, v, ids = shelf, memories.c, memory_index.c, list(rows)
            known = conn.scalars(sa.select(m.id).where(m.agent == agent, self._one_of(m.id, ids)).with_for_update())
            fresh = [rows[id] for id in known]
            self._refuse_other_lengths(conn, fresh)
            here = (v.agent == agent, v.namespace == namespace, v.embedder == embedder)
            conn.execute(memory_index.delete().where(*here, self._one_of(v.memory_id, ids)))
            seqs = self._number(conn, len(fresh))
            insert(conn, memory_index, [row | {"seq": seq} for seq, row in zip(seqs, fresh, strict=True)])
            self._vectors_came(fresh)
            living = {row["memory_id"] for row in fresh}
            added += sum(id in living and (scope.agent, p.namespace, p.embedder) == shelf for scope, id, p in vectors)
        return added

    def _refuse_other_lengths(self, conn: sa.Connection, rows: Sequence[Row]) -> None:
        """Raise `InvalidInput` if a vector is not as long as those it would be compared with."""
        v, known = memory_index.c, {}
        for row in rows:
            shelf = (row["agent"], row["namespace"], row["embedder"])
            if shelf not in known:
                there = sa.select(v.dim).where(v.agent == shelf[0], v.namespace == shelf[1], v.embedder == shelf[2])
                known[shelf] = conn.scalar(there.limit(1)) or row["dim"]
            if row["dim"] != known[shelf]:
                raise InvalidInput(f"vectors of {row['dim']} dimensions cannot join a shelf of {known[shelf]}")

    def discard_vectors(self, namespace: str, keep: str) -> int:
        """Drop the vectors of every other embedder; how many went."""
        stale = memory_index.delete().where(memory_index.c.namespace == namespace, memory_index.c.embedder != keep)
        with self._write(None) as conn:
            self._vectors_went(conn)
            return conn.execute(stale).rowcount

    def indexes(self, scope: Scope, id: str) -> list[MemoryIndex]:
        """Every vector of a memory, by namespace and embedder; none if it is not in this scope."""
        v = memory_index.c
        places = sa.select(v.namespace, v.embedder, v.dim).where(v.agent == scope.agent, v.memory_id == id)
        with self._read(scope) as conn:
            rows = conn.execute(places.order_by(v.namespace, v.embedder)).all()
        return [MemoryIndex(memory_id=id, namespace=ns, embedder=embedder, dim=dim) for ns, embedder, dim in rows]

    # An outside vector database ----------------------------------------------------------------------

    def _by_remote(self, remote: VectorStore, scope: Scope, near: Placed, query: Query) -> list[Match]:
        """Ask the vector database; when it is away, the mirror answers and says so."""
        shelf, wanted = Shelf(scope, near.namespace, near.embedder), query.limit + query.offset
        try:
            self._push(remote, shelf)
            found = remote.search(shelf, near.vector, wanted * ENOUGH)
        except StoreError as error:
            _log.warning("the vector database is away, the local mirror answers: %s", error)
            return [MirrorMatch(*match) for match in self._by_mirror(scope, near, query)]
        with self._read(scope) as conn:
            allowed = self._allowed(conn, scope, query, [match.id for match in found])
        kept = [match for match in found if match.id in allowed]
        if len(kept) < wanted and len(found) == wanted * ENOUGH:  # a filter that few pass: look at everything
            return self._by_mirror(scope, near, query)
        return kept[query.offset : wanted]

    def _by_mirror(self, scope: Scope, near: Placed, query: Query) -> list[Match]:
        with self._read(scope) as conn:
            return self._by_vector(conn, scope, near, query)

    def _allowed(self, conn: sa.Connection, scope: Scope, query: Query, ids: list[str] | None) -> frozenset[str]:
        """The ids that pass the filter: of all, or of these."""
        passing = sa.select(memories.c.id).where(*conditions(scope, query.where))
        if ids is not None:
            passing = passing.where(self._one_of(memories.c.id, ids))
        return frozenset(conn.scalars(passing))

    def _push(self, remote: VectorStore, shelf: Shelf, *, anew: bool = False) -> int:
        """Hand over what came and went since the last time; how many vectors."""
        name = PUSHED + digest(shelf.scope.agent, shelf.namespace, shelf.embedder)
        v, t, agent = memory_index.c, tombstones.c, shelf.scope.agent
        here = (v.agent == agent, v.namespace == shelf.namespace, v.embedder == shelf.embedder)
        with self._read(shelf.scope) as conn:
            epoch = self._epoch(conn)
            said = conn.scalar(sa.select(settings.c.value).where(settings.c.name == name)) or ""
            anew = anew or said.partition(":")[0] != epoch
            last = 0 if anew else int(said.partition(":")[2])
            done = set() if anew else self._pushed.setdefault(shelf, set())
            since = last - self._overlap
            came = conn.execute(sa.select(v.memory_id, v.seq, v.dim, v.vector).where(*here, v.seq > since)).all()
            went = conn.execute(sa.select(t.memory_id, t.seq).where(t.agent == agent, t.seq > since)).all()
        came = [row for row in came if (row.memory_id, row.seq) not in done and sound(row.vector, row.dim)]
        gone = {(row.memory_id, row.seq) for row in went} - done
        if not came and not gone and not anew:
            return 0
        if anew:
            remote.clear(shelf)
        remote.remove(shelf, sorted(id for id, _ in gone))
        for first in range(0, len(came), PAGE):
            some = came[first : first + PAGE]
            matrix = np.frombuffer(b"".join(row.vector for row in some), dtype="<f4").reshape(len(some), -1)
            remote.add(shelf, [row.memory_id for row in some], matrix)
        news = {(row.memory_id, row.seq) for row in came} | gone
        newest = max([last, *(seq for _, seq in news)])
        self._pushed[shelf] = {(id, seq) for id, seq in done | news if seq > newest - self._overlap}
        with self._write(None) as conn:
            conn.execute(_SET, {"name": name, "value": f"{epoch}:{newest}"})
        return len(came)

    def sync(self, *, anew: bool = False, progress: Callable[[int, int], None] | None = None) -> int:
        """Hand over what the vector database lacks, or everything `anew`; how many vectors."""
        if self._remote is None:
            raise Unsupported("there is no vector database to fill; the setting `vectors` names one")
        v = memory_index.c
        with self._read(None) as conn:
            shelves = conn.execute(sa.select(v.agent, v.namespace, v.embedder).distinct()).all()
        total = 0
        for number, (agent, namespace, embedder) in enumerate(shelves, start=1):
            total += self._push(self._remote, Shelf(Scope(agent), namespace, embedder), anew=anew)
            if progress is not None:
                progress(number, len(shelves))
        return total

    def _forget_remotely(self, scope: Scope) -> None:
        """Take what was forgotten out of the vector database now; if it is away, at the next chance."""
        if self._remote is None:
            return
        v = memory_index.c
        with self._read(scope) as conn:
            places = sa.select(v.namespace, v.embedder).where(v.agent == scope.agent).distinct()
            shelves = [Shelf(scope, namespace, embedder) for namespace, embedder in conn.execute(places)]
        for shelf in shelves:
            try:
                self._push(self._remote, shelf)
            except StoreError as error:
                _log.warning("the vector database still has what was forgotten, until `engram upkeep sync`: %s", error)

    # Keeping the database well -----------------------------------------------------------------------

    def info(self) -> Mapping[str, str | int | float | None]:
        """Facts about the database: where, how large, which schema, how many rows."""
        tables = (agents, memories, memory_evidence, memory_index, tombstones)
        with self._read(None) as conn:
            facts = dict(self._facts(conn))
            counts = {t.name: conn.scalar(sa.select(sa.func.count()).select_from(t)) for t in tables}
        return {**facts, "embedder": self.embedder(), **counts}

    def check(self) -> list[Problem]:
        """Everything wrong with the rows and the derived indexes; empty when all is well."""
        with self._read(None) as conn:
            return self._check_rows(conn)

    def _check_rows(self, conn: sa.Connection) -> list[Problem]:
        problems: list[Problem] = []
        words: dict[int, object] = {}
        tags: set[tuple[str, str, str]] = set()
        for row in conn.execute(HYDRATE).mappings():
            if row["digest"] != seal(row):
                problems.append(Problem("memories", f"memory {row['id']} of {row['agent']} is damaged"))
                words[row["seq"]] = None
            else:
                memory = to_memory(row)
                words[row["seq"]] = self._word_mark(memory.agent, memory_terms(memory))
                tags |= {(memory.agent, memory.id, tag) for tag in memory.tags}
        for seq, mark in self._word_marks(conn):
            if seq not in words:
                problems.append(Problem("memory_words", f"row {seq} is indexed, but there is no such memory"))
            elif words.pop(seq) not in (None, mark):
                problems.append(Problem("memory_words", f"row {seq} is indexed with other words than it has"))
        problems += [Problem("memory_words", f"row {seq} is not indexed") for seq in words]
        t, v = memory_tags.c, memory_index.c
        lost = tags - {(agent, id, tag) for agent, id, tag in conn.execute(sa.select(t.agent, t.memory_id, t.tag))}
        problems += [
            Problem("memory_tags", f"memory {id} is not found by its tag {tag}") for _, id, tag in sorted(lost)
        ]
        for id, dim, vector in conn.execute(sa.select(v.memory_id, v.dim, v.vector)):
            if not sound(vector, dim):
                problems.append(Problem("memory_index", f"the vector of memory {id} is damaged"))
        return problems

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> Mapping[str, int]:
        """Make the word and tag indexes again from the canonical rows; how many rows went into each.

        Damaged vectors go, so that they count as missing.
        """
        tell = progress or (lambda done, total: None)
        with self._write(None) as conn:
            total = conn.scalar(sa.select(sa.func.count()).select_from(memories)) or 0
            self._empty_words(conn)
            conn.execute(memory_tags.delete())
            self._drop_damaged_vectors(conn)
            done, tags, last = 0, 0, 0
            pages = HYDRATE.order_by(memories.c.seq).limit(1000)
            while rows := conn.execute(pages.where(memories.c.seq > last)).mappings().all():
                found = [(row["seq"], to_memory(row)) for row in rows]
                self._index_words(conn, [(memory.agent, seq, memory_terms(memory)) for seq, memory in found])
                labels = [label for _, memory in found for label in _tags(memory)]
                insert(conn, memory_tags, labels)
                done, tags, last = done + len(rows), tags + len(labels), rows[-1]["seq"]
                tell(done, total)
        return {"words": done, "tags": tags}

    def _drop_damaged_vectors(self, conn: sa.Connection) -> None:
        v = memory_index.c
        for row in conn.execute(sa.select(memory_index)).all():
            if not sound(row.vector, row.dim):
                where = (v.agent == row.agent, v.memory_id == row.memory_id)
                place = (v.namespace == row.namespace, v.embedder == row.embedder)
                conn.execute(memory_index.delete().where(*where, *place))
        self._vectors_went(conn)

    # Copying -----------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """The tables to copy, in an order in which they can be filled."""
        return list(COPIED)

    def page(self, table: str, after: Cells | None, limit: int) -> list[Cells]:
        """The next rows of a table in the order of its key, after a row or from the start."""
        columns = COPIED[table].primary_key.columns
        rows = sa.select(COPIED[table]).order_by(*columns).limit(limit)
        if table == settings.name:
            rows = rows.where(settings.c.name != COPYING, ~settings.c.name.startswith(PUSHED))
        if after is not None:
            rows = rows.where(sa.tuple_(*columns) > sa.tuple_(*(after[column.name] for column in columns)))
        with self._read(None) as conn:
            return [dict(row) for row in conn.execute(rows).mappings()]

    def begin_copy(self, source: str) -> None:
        """Get ready for a copy of `source`. Raises `Conflict` if anything else is here."""
        with self._write(None) as conn:
            begun = conn.scalar(sa.select(settings.c.value).where(settings.c.name == COPYING))
            if begun != source and conn.scalar(sa.select(agents.c.agent).limit(1)) is not None:
                raise Conflict("the target is not empty; name a new database, or go on with the copy begun there")
            conn.execute(_SET, {"name": COPYING, "value": source})

    def take(self, table: str, rows: Sequence[Cells]) -> None:
        """Insert the rows that are not there yet, in one transaction."""
        columns = COPIED[table].primary_key.columns
        keys = [tuple(row[column.name] for column in columns) for row in rows]
        there = sa.select(*columns).where(sa.tuple_(*columns).in_(keys))
        with self._write(None) as conn:
            known = {tuple(row) for row in conn.execute(there)}
            fresh: list[Row] = [dict(row) for key, row in zip(keys, rows, strict=True) if key not in known]
            insert(conn, COPIED[table], fresh)
            if table == memories.name:
                found = [to_memory({**row, "last_accessed": None, "access_count": 0}) for row in fresh]
                numbered = zip((row["seq"] for row in fresh), found, strict=True)
                self._index_words(conn, [(m.agent, seq, memory_terms(m)) for seq, m in numbered])
            if table == memory_index.name:
                self._vectors_came(fresh)

    def end_copy(self) -> None:
        """Go on from where the copied database was."""
        numbered = (memories, memory_evidence, memory_index, tombstones)
        with self._write(None) as conn:
            last = max(conn.scalar(sa.select(sa.func.max(table.c.seq))) or 0 for table in numbered)
            self._go_on_from(conn, last)
            conn.execute(settings.delete().where(settings.c.name == COPYING))

    def tally(self, table: str) -> Tally:
        """Count and sum up a table."""
        count, total, last = 0, 0, None
        while rows := self.page(table, last, PAGE):
            count, last = count + len(rows), rows[-1]
            total += sum(int(digest(*(f"{name}={row[name]!r}" for name in sorted(row))), 16) for row in rows)
        return Tally(count, f"{total % 2**128:032x}")

    # Connections -------------------------------------------------------------------------------------

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        with self._engine.connect() as conn:
            try:
                yield conn
            finally:
                if self._closed and not conn.invalidated:  # meanwhile, by another thread: the pool is gone
                    conn.detach()

    @contextmanager
    def _read(self, scope: Scope | None) -> Iterator[sa.Connection]:
        """One consistent view of the database, about one scope, or about all of them."""
        self._guard()
        try:
            with self._connection() as conn, conn.begin():
                self._enter(conn, scope)
                yield conn
        except sa.exc.DBAPIError as error:
            raise self._translate(error) from error
        except sa.exc.TimeoutError as error:
            raise StoreBusy(
                f"too many threads use this memory at once ({error.args[0]}); use fewer, or try again"
            ) from error

    def _transact(self, scope: Scope | None, work: Callable[[sa.Connection], R]) -> R:
        """The result of some work in one transaction; a store may try it again."""
        with self._write(scope) as conn:
            return work(conn)

    @contextmanager
    def _write(self, scope: Scope | None) -> Iterator[sa.Connection]:
        """One durable transaction: committed when the block ends, undone when it raises."""
        self._guard()
        try:
            with self._connection() as conn:
                conn.execution_options(**{WRITE: True})
                with conn.begin():
                    self._enter(conn, scope)
                    yield conn
                    self._write_touches(conn)
        except sa.exc.DBAPIError as error:
            raise self._translate(error) from error
        except sa.exc.TimeoutError as error:
            raise StoreBusy(
                f"too many threads use this memory at once ({error.args[0]}); use fewer, or try again"
            ) from error
        self._after_write()

    def _guard(self) -> None:
        if self._closed:
            raise StoreClosed("this memory was closed; open it again with engram.open(...)")
        if self._pid != os.getpid():
            self._after_fork()
            self._pid = os.getpid()

    def _after_fork(self) -> None:
        """Leave the parent's connections, locks and pending counts alone and start with new ones."""
        self._touching, self._touches = threading.Lock(), {}
        self._engine.dispose(close=False)

    def close(self) -> None:
        """Write what is pending and release everything; calling it twice is harmless."""
        if self._closed:
            return
        if self._pid != os.getpid():
            self._after_fork()
        try:
            if self._touches:
                self._flush()
        except StoreError as error:  # only statistics are lost, and whoever closes cannot mend it
            _log.warning("some access counts were not written: %s", error)
        finally:
            self._closed = True
            self._engine.dispose()
            if callable(let_go := getattr(self._remote, "close", None)):
                let_go()


def conditions(scope: Scope, where: Filter) -> list[sa.ColumnElement[bool]]:
    """The WHERE clause of a filter; the scope always leads it."""
    m = memories.c
    clauses: list[sa.ColumnElement[bool]] = [m.agent == scope.agent]
    if where.kinds:
        clauses.append(m.kind.in_(sorted(where.kinds)))
    for tag in sorted(where.tags):
        t = memory_tags.c
        clauses.append(sa.exists().where(t.agent == scope.agent, t.memory_id == m.id, t.tag == tag))
    if where.since is not None:
        clauses.append(m.happened_at >= micros(where.since))
    if where.until is not None:
        clauses.append(m.happened_at < micros(where.until))
    if where.session is not None:
        clauses.append(m.session == where.session)
    if where.context_key is not None:
        clauses.append(m.context_key == where.context_key)
    if where.as_of is not None:
        moment = micros(where.as_of)
        clauses += [m.valid_from <= moment, sa.or_(m.valid_until.is_(None), m.valid_until > moment)]
    if where.current is not None:
        moment = micros(where.current)
        clauses.append(sa.or_(m.valid_from <= moment, m.valid_from <= m.created_at))
        clauses.append(sa.or_(m.valid_until.is_(None), m.valid_until > moment))
    return clauses


def insert(conn: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Insert rows, if there are any."""
    if rows:
        conn.execute(table.insert(), rows)


def storable(values: Sequence[str]) -> list[str]:
    """The values that a database can hold at all; no row has any other."""
    return [value for value in values if isinstance(value, str) and unstorable(value) is None]


def sound(vector: bytes, dim: int) -> bool:
    """Whether the bytes are a vector of this many dimensions and of length 1."""
    if len(vector) != 4 * dim:
        return False
    return is_unit(np.frombuffer(vector, dtype="<f4")[None, :])


def _without_vector(namespace: str, embedder: str) -> sa.ColumnElement[bool]:
    v = memory_index.c
    return ~sa.exists().where(
        v.agent == memories.c.agent,
        v.memory_id == memories.c.id,
        v.namespace == namespace,
        v.embedder == embedder,
    )


def _tags(memory: Memory) -> list[Row]:
    return [{"agent": memory.agent, "memory_id": memory.id, "tag": tag} for tag in dict.fromkeys(memory.tags)]


def _vector(id: str, placed: Placed) -> Row:
    vector = np.asarray(placed.vector, dtype="<f4")
    return {
        "memory_id": id,
        "namespace": placed.namespace,
        "embedder": placed.embedder,
        "dim": len(vector),
        "vector": vector.tobytes(),
    }


def _evidence(id: str, seq: int, memory: Memory) -> Row:
    said = memory.model_dump(mode="json", include={"text", "tags", "metadata", "provenance", "importance"})
    return {
        "memory_id": id,
        "seq": seq,
        "said": memory.id,
        "happened_at": micros(memory.happened_at),
        "detail": to_json(said),
    }
