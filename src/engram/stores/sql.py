"""Memories in SQL tables: everything that SQLite and PostgreSQL do in the same way.

A dialect adds how writes are numbered, how words are indexed and searched, and how vectors are searched.
"""

from __future__ import annotations

import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa

from engram.errors import Conflict, EngramError, InvalidInput, NotFound, StoreBusy, StoreClosed, StoreError
from engram.ids import Sources, micros
from engram.model import ForgetReceipt, Memory, MemoryIndex, Receipt
from engram.ports import Changes, Entry, Filter, Match, Placed, Query, Scope
from engram.stores.rows import Row, to_json, to_memory, to_row
from engram.stores.rules import MERGED, fingerprint, key_receipt, memory_terms, merged, refuse_foreign
from engram.stores.schema import (
    agents,
    memories,
    memory_evidence,
    memory_index,
    memory_keys,
    memory_stats,
    memory_tags,
    settings,
)
from engram.words import query_terms

_log = logging.getLogger("engram")

MAX_PENDING_TOUCHES = 1000
WRITE = "engram_write"

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
_PLACE = sa.text(
    "INSERT INTO memory_index (agent, memory_id, namespace, embedder, seq, dim, vector) "
    "SELECT agent, id, :namespace, :embedder, :seq, :dim, :vector FROM memories "
    "WHERE agent = :agent AND id = :memory_id "
    "ON CONFLICT (agent, memory_id, namespace, embedder) "
    "DO UPDATE SET seq = excluded.seq, dim = excluded.dim, vector = excluded.vector"
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


class SqlStore(ABC):
    """A `MemoryStore` on SQL tables, with all the abilities of `engram.ports`."""

    def __init__(self, engine: sa.Engine, sources: Sources) -> None:
        self._engine = engine
        self._sources = sources
        self._touches: dict[tuple[str, str], tuple[int, int]] = {}
        self._touching = threading.Lock()
        self._pid = os.getpid()
        self._closed = False

    @abstractmethod
    def _number(self, conn: sa.Connection, count: int) -> int:
        """Reserve `count` write numbers; the first of them."""

    @abstractmethod
    def _one_of(self, column: sa.ColumnElement[Any], values: Sequence[str]) -> sa.ColumnElement[bool]:
        """Whether a column has one of the values, however many there are, in one parameter."""

    @abstractmethod
    def _index_words(self, conn: sa.Connection, rows: Sequence[tuple[str, int, list[str]]]) -> None:
        """Make rows (agent, seq, terms) findable by their terms."""

    @abstractmethod
    def _unindex_words(self, conn: sa.Connection, seqs: Sequence[int]) -> None:
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

    def _vectors_went(self, conn: sa.Connection) -> None:
        """Called when vectors are taken from memories that stay."""

    def _after_write(self) -> None:
        """Called after each commit."""

    # Reading -----------------------------------------------------------------------------------------

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        """One answer per id, in order; `None` for an id that is not in this scope."""
        with self._read() as conn:
            found = {memory.id: memory for memory in self._fetch(conn, scope, ids)}
        return [found.get(id) for id in ids]

    def search(self, scope: Scope, query: Query) -> list[Match]:
        """Best first, or newest first without words and vector; filtered before the limit is applied."""
        with self._read() as conn:
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
        with self._read() as conn:
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
        with self._write() as conn:
            conn.execute(_ENROL, {"agent": scope.agent, "at": micros(self._sources.now())})
            seq = self._number(conn, len(entries))
            keys = self._known_keys(conn, scope, entries)
            twins = self._known_twins(conn, scope, entries)
            plan = _Plan()
            receipts = [self._decide(scope, entry, seq + i, keys, twins, plan) for i, entry in enumerate(entries)]
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
        if entry.merge_key is not None and entry.merge_key in twins:
            known_seq, known = twins[entry.merge_key]
            memory = merged(known, memory)
            target = plan.fresh if known.id in plan.fresh else plan.changed
            target[known.id] = (known_seq, memory, entry.merge_key)
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
        fresh = plan.fresh.values()
        insert(conn, memories, [to_row(memory, seq, merge_key) for seq, memory, merge_key in fresh])
        insert(conn, memory_tags, [row for _, memory, _ in fresh for row in _tags(memory)])
        self._index_words(conn, [(scope.agent, seq, memory_terms(memory)) for seq, memory, _ in fresh])
        for seq, memory, merge_key in plan.changed.values():
            self._rewrite(conn, memory, seq, merge_key)
        insert(conn, memory_keys, plan.keys)
        insert(conn, memory_evidence, plan.evidence)
        if plan.vectors:
            self._refuse_other_lengths(conn, plan.vectors)
            first = self._number(conn, len(plan.vectors))
            insert(conn, memory_index, [row | {"seq": first + i} for i, row in enumerate(plan.vectors)])

    def _rewrite(self, conn: sa.Connection, memory: Memory, seq: int, merge_key: str | None) -> None:
        """Replace what surrounds a memory: its row, its tags, its terms."""
        row = to_row(memory, seq, merge_key)
        own = (memories.c.agent == memory.agent, memories.c.id == memory.id)
        conn.execute(memories.update().where(*own).values(row))
        conn.execute(
            memory_tags.delete().where(memory_tags.c.agent == memory.agent, memory_tags.c.memory_id == memory.id)
        )
        insert(conn, memory_tags, _tags(memory))
        self._unindex_words(conn, [seq])
        self._index_words(conn, [(memory.agent, seq, memory_terms(memory))])

    def annotate(self, scope: Scope, id: str, changes: Changes, expected_version: int | None) -> Memory:
        """The changed memory, one version on. Raises `NotFound`, or `Conflict` if the version differs."""
        with self._write() as conn:
            found = HYDRATE.where(memories.c.agent == scope.agent, memories.c.id == id)
            row = conn.execute(found).mappings().one_or_none()
            if row is None:
                raise NotFound(f"there is no memory {id}; `engram memory list` shows what there is")
            known = to_memory(row)
            if expected_version is not None and expected_version != known.version:
                raise Conflict(f"memory {id} is at version {known.version}, not {expected_version}; read it again")
            update = {name: getattr(changes, name) for name in changes.__slots__}
            update = {name: value for name, value in update.items() if value is not None}
            memory = known.model_copy(update=update | {"version": known.version + 1})
            self._rewrite(conn, memory, row["seq"], row["merge_key"])
        return memory

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Remove memories and all that belongs to them, in one transaction; unknown ids say so."""
        with self._write() as conn:
            own = (memories.c.agent == scope.agent, self._one_of(memories.c.id, ids))
            rows = conn.execute(sa.select(memories.c.id, memories.c.seq).where(*own))
            seqs = {row.id: row.seq for row in rows}
            removed = self._count_belongings(conn, scope, list(seqs))
            self._unindex_words(conn, list(seqs.values()))
            if seqs:
                conn.execute(memories.delete().where(*own))
                first, at = self._number(conn, len(seqs)), micros(self._sources.now())
                conn.execute(
                    _BURY,
                    [{"agent": scope.agent, "id": id, "seq": first + i, "at": at} for i, id in enumerate(seqs)],
                )
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
            self._flush()

    def _flush(self) -> None:
        with self._write():
            pass  # every write transaction carries the pending touches along

    def _write_touches(self, conn: sa.Connection) -> None:
        with self._touching:
            pending, self._touches = self._touches, {}
        if pending:
            conn.execute(
                _TOUCH,
                [{"agent": a, "id": id, "n": n, "at": at} for (a, id), (n, at) in pending.items()],
            )

    # The mirrored vectors ----------------------------------------------------------------------------

    def embedder(self) -> str | None:
        """The identity of the embedder this store was last embedded with, if any."""
        with self._read() as conn:
            return conn.scalar(sa.select(settings.c.value).where(settings.c.name == "embedder"))

    def set_embedder(self, identity: str) -> None:
        """Remember the embedder in use."""
        with self._write() as conn:
            conn.execute(_SET, {"name": "embedder", "value": identity})

    def unembedded(self, namespace: str, embedder: str, limit: int) -> list[Memory]:
        """Memories of any agent without a vector of this embedder, oldest first."""
        with self._read() as conn:
            missing = HYDRATE.where(_without_vector(namespace, embedder)).order_by(memories.c.seq).limit(limit)
            return [to_memory(row) for row in conn.execute(missing).mappings()]

    def count_unembedded(self, namespace: str, embedder: str) -> int:
        """How many memories have no vector of this embedder."""
        missing = sa.select(sa.func.count()).select_from(memories).where(_without_vector(namespace, embedder))
        with self._read() as conn:
            return conn.scalar(missing) or 0

    def place(self, vectors: Sequence[tuple[Scope, str, Placed]]) -> int:
        """Add vectors to memories that still exist, in one transaction; how many were added."""
        if not vectors:
            return 0
        with self._write() as conn:
            first = self._number(conn, len(vectors))
            rows = [
                {"agent": scope.agent, "seq": first + i} | _vector(id, placed)
                for i, (scope, id, placed) in enumerate(vectors)
            ]
            self._refuse_other_lengths(conn, rows)
            return sum(conn.execute(_PLACE, row).rowcount for row in rows)

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
        with self._write() as conn:
            self._vectors_went(conn)
            return conn.execute(stale).rowcount

    def indexes(self, scope: Scope, id: str) -> list[MemoryIndex]:
        """Every vector of a memory, by namespace and embedder; none if it is not in this scope."""
        v = memory_index.c
        places = sa.select(v.namespace, v.embedder, v.dim).where(v.agent == scope.agent, v.memory_id == id)
        with self._read() as conn:
            rows = conn.execute(places.order_by(v.namespace, v.embedder)).all()
        return [MemoryIndex(memory_id=id, namespace=ns, embedder=embedder, dim=dim) for ns, embedder, dim in rows]

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
    def _read(self) -> Iterator[sa.Connection]:
        """One consistent view of the database."""
        self._guard()
        try:
            with self._connection() as conn, conn.begin():
                yield conn
        except sa.exc.DBAPIError as error:
            raise self._translate(error) from error
        except sa.exc.TimeoutError as error:
            raise StoreBusy(f"too many threads use this memory at once ({error}); use fewer, or try again") from error

    @contextmanager
    def _write(self) -> Iterator[sa.Connection]:
        """One durable transaction: committed when the block ends, undone when it raises."""
        self._guard()
        try:
            with self._connection() as conn:
                conn.execution_options(**{WRITE: True})
                with conn.begin():
                    yield conn
                    self._write_touches(conn)
        except sa.exc.DBAPIError as error:
            raise self._translate(error) from error
        except sa.exc.TimeoutError as error:
            raise StoreBusy(f"too many threads use this memory at once ({error}); use fewer, or try again") from error
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
        try:
            if self._touches:
                self._flush()
        except StoreError as error:  # only statistics are lost, and whoever closes cannot mend it
            _log.warning("some access counts were not written: %s", error)
        finally:
            self._closed = True
            self._engine.dispose()


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
    return clauses


def insert(conn: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Insert rows, if there are any."""
    if rows:
        conn.execute(table.insert(), rows)


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
        "happened_at": micros(memory.happened_at),
        "detail": to_json(said),
    }
