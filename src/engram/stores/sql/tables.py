"""Tables of memories in SQL: how they are reached, written to in one transaction, and sealed.

A dialect adds how writes are numbered, how words are indexed and searched, and how vectors are searched.
"""

from __future__ import annotations

import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
import sqlalchemy as sa

from engram.clock import Sources, micros
from engram.errors import EngramError, StoreBusy, StoreClosed, StoreCorrupt, StoreError
from engram.model import Memory
from engram.ports import (
    AuditAction,
    Cipher,
    Filter,
    LoggedRecall,
    Match,
    Matrix,
    Placed,
    Query,
    RankingInput,
    Scope,
    TermCounts,
    VectorSpace,
    VectorStore,
    units,
    unstorable,
)
from engram.stores import audit_entries, sealing
from engram.stores.rows import Row, seal, seal_event, to_event, to_memory
from engram.stores.rules import memory_terms
from engram.stores.schema import events, memories, memory_index, memory_keys, memory_stats, memory_tags, settings
from engram.stores.sealing import AgentKeys, Sealer
from engram.stores.sql import event_queries

R = TypeVar("R")
_log = logging.getLogger("engram")
WRITE = "engram_write"
LEDGER = "engram_ledger"
LATER = {"engram_later": True}
"""For statements whose answer nobody looks at: a distant server may be told together with the next statement."""
PAGE = 500
HYDRATE = sa.select(memories, memory_stats.c.last_accessed, memory_stats.c.access_count).select_from(
    memories.outerjoin(
        memory_stats,
        sa.and_(memory_stats.c.agent == memories.c.agent, memory_stats.c.memory_id == memories.c.id),
    )
)
ENROL = sa.text("INSERT INTO agents (agent, created_at) VALUES (:agent, :at) ON CONFLICT DO NOTHING")
SET = sa.text(
    "INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
).execution_options(**LATER)
UNSET = sa.text("DELETE FROM settings WHERE name = :name").execution_options(**LATER)
COUNT = sa.text(
    "INSERT INTO memory_stats (agent, memory_id, access_count, helped, hindered) "
    "SELECT agent, id, 0, :helped, :hindered FROM memories WHERE agent = :agent AND id = :id "
    "ON CONFLICT (agent, memory_id) DO UPDATE SET helped = memory_stats.helped + excluded.helped, "
    "hindered = memory_stats.hindered + excluded.hindered"
).execution_options(**LATER)
UNSEEN = {"last_accessed": None, "access_count": 0}


class Mirrored(NamedTuple):
    """A vector of the mirror, readable."""

    memory_id: str
    passage: int
    seq: int
    dim: int
    vector: bytes


class SqlTables(ABC):
    """Transactions on SQL tables whose rows may be sealed; what a dialect must add is abstract."""

    def __init__(
        self,
        engine: sa.Engine,
        sources: Sources,
        remote: VectorStore | None = None,
        *,
        cipher: Cipher | None = None,
    ) -> None:
        self._engine = engine
        self._sources = sources
        self._remote = remote
        self._cipher = cipher
        self._sealer: Sealer | None = None
        self._space = ""
        self._pushed: dict[VectorSpace, set[tuple[str, int]]] = {}
        self._touches: dict[tuple[str, str], tuple[int, int]] = {}
        self._shown: dict[tuple[str, str], LoggedRecall] = {}
        self._showing: dict[tuple[str, str], LoggedRecall] = {}  # on its way to the database, and not there yet
        self._pruned: set[str] = set()
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
    def _around(
        self, conn: sa.Connection, scope: Scope, ids: Sequence[str], reach: int, terms: Sequence[str]
    ) -> list[RankingInput]:
        """These rows and their neighbours in their sessions, each with its length and its counts of the terms."""

    @abstractmethod
    def _spread(self, conn: sa.Connection, scope: Scope, terms: Sequence[str]) -> TermCounts:
        """How many rows a scope has, and how many of them hold each term."""

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
    def _chain(self, conn: sa.Connection, entries: Sequence[audit_entries.Sealing]) -> None:
        """Put entries at the end of the audit trail; nobody else can do that before this transaction ends."""

    def _as_keeper(self, conn: sa.Connection) -> None:
        """Work with the right to remove entries of the audit trail, for the rest of the transaction."""

    @abstractmethod
    def _facts(self, conn: sa.Connection) -> Mapping[str, str | int | float | None]:
        """Where the database is, how large, which schema."""

    @abstractmethod
    def _advance_sequence(self, conn: sa.Connection, last: int) -> None:
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

    @abstractmethod
    def _guard_rows(self, conn: sa.Connection) -> None:
        """Make the database refuse plain rows from now on, whoever writes them."""

    def _scrub(self) -> None:
        """Leave nothing of what rows were before in the database's files, as far as that is in our hands."""

    def _crypt(self, conn: sa.Connection, *, writing: bool = False) -> str | None:
        """What the database says about its encryption."""
        return sealing.crypt_of(conn, writing=writing)

    def _packed(self, vector: bytes) -> bytes:
        """A sealed vector as the database can hold it."""
        return vector

    def _unpacked(self, vector: bytes) -> bytes:
        """The inverse of `_packed`."""
        return vector

    # Settings ------------------------------------------------------------------------------------

    def setting(self, name: str) -> str | None:
        """The value of a setting, or `None`."""
        named = sa.select(settings).where(settings.c.name == name)

        def look(conn: sa.Connection) -> str | None:
            row = conn.execute(named).mappings().one_or_none()
            return None if row is None else str(self._decrypt_row(conn, settings, row)["value"])

        return self._look(None, look)

    def set_setting(self, name: str, value: str) -> None:
        """Keep a value, instead of the one that was there."""

        def work(conn: sa.Connection) -> None:
            conn.execute(SET, self._encrypt_row(conn, settings, {"name": name, "value": value}))
            if audit_entries.administrative(name):
                self._note(conn, AuditAction("setting", target=name))

        self._transact(None, work)

    # What is done --------------------------------------------------------------------------------

    def _note(self, conn: sa.Connection, deed: AuditAction) -> None:
        """Put a deed on record together with what this transaction does."""
        conn.get_execution_options()[LEDGER].deeds.append(deed)

    def _finish(self, conn: sa.Connection) -> Mapping[tuple[str, str], tuple[int, int]]:
        """Write what is pending, and last of all, once, what was done; what was pending, in case it is undone.

        The end of the audit trail is what all writers wait for, so nothing else may be waited for after it.
        """
        ledger: audit_entries.PendingEntries = conn.get_execution_options()[LEDGER]
        if ledger.closed:
            return {}
        pending = self._write_touches(conn)
        if ledger.deeds:
            now = self._sources.now()
            self._chain(conn, [audit_entries.sealing(deed, now) for deed in ledger.deeds])
        ledger.closed = True
        return pending

    @abstractmethod
    def _write_touches(self, conn: sa.Connection) -> Mapping[tuple[str, str], tuple[int, int]]:
        """Write what is pending; what that was, in case it is undone."""

    # Rows ----------------------------------------------------------------------------------------

    def _conditions(self, scope: Scope, query: Query) -> list[sa.ColumnElement[bool]]:
        """The WHERE clause of a search."""
        clauses = conditions(scope, query.where)
        return clauses if query.among is None else [*clauses, self._one_of(memories.c.id, sorted(query.among))]

    def _keyring(self, conn: sa.Connection, scope: Scope) -> AgentKeys:
        if self._sealer is None:
            raise StoreError("this database is not encrypted")
        return self._sealer.keys(conn, scope.agent)

    def _terms(self, conn: sa.Connection, scope: Scope, terms: Sequence[str]) -> list[str]:
        """What stands for words in the index."""
        return list(terms) if self._sealer is None else self._sealer.keys(conn, scope.agent).terms(terms)

    def _words_of(self, conn: sa.Connection, agent: str, terms: list[str]) -> list[str]:
        """What the index holds of a row."""
        return terms if self._sealer is None else self._sealer.keys(conn, agent, make=True).words(terms)

    def _index(self, conn: sa.Connection, rows: Sequence[tuple[str, int, list[str]]]) -> None:
        """Make rows (agent, seq, terms) findable by their terms."""
        self._index_words(conn, [(agent, seq, self._words_of(conn, agent, terms)) for agent, seq, terms in rows])

    def _named(self, conn: sa.Connection, scope: Scope, speakers: list[str]) -> list[str]:
        if self._sealer is None:
            return speakers
        keys = self._sealer.keys(conn, scope.agent)
        return sorted(keys.unmask("memories", "speaker", name) for name in speakers)

    def _insert(self, conn: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
        """Insert plain rows, sealed if need be."""
        insert(conn, table, rows if self._sealer is None else [self._encrypt_row(conn, table, row) for row in rows])

    def _encrypt_row(self, conn: sa.Connection, table: sa.Table, row: Row) -> Row:
        """A plain row as it is stored."""
        if self._sealer is None or not sealing.concerns(table.name, row):
            return row
        shut = self._sealer.keys(conn, row.get("agent", sealing.EVERYBODY), make=True).shut(table.name, row)
        return shut | {"vector": self._packed(shut["vector"])} if table is memory_index else shut

    def _decrypt_row(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> Row:
        """A stored row, readable. Raises `StoreCorrupt` if it is not what was stored."""
        if self._sealer is None or not sealing.concerns(table.name, row):
            return dict(row)
        stored = {**row, "vector": self._unpacked(row["vector"])} if table is memory_index else row
        agent = row.get("agent", sealing.EVERYBODY)
        return self._sealer.of(conn, agent, table.name, stored).open(table.name, stored)

    def _whole(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> Row:
        """A stored row as a database that is not encrypted has it."""
        plain = self._decrypt_row(conn, table, row)
        if self._sealer is not None and table is memories:
            plain["digest"] = seal(plain)
        if self._sealer is not None and table is events:
            plain["digest"] = seal_event(plain)
        return plain

    def _stored_key(self, conn: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The key of a plain row as it is stored."""
        column = {memory_tags.name: "tag", memory_keys.name: "key"}.get(table.name)
        if self._sealer is None or column is None:
            return row
        keys = self._sealer.keys(conn, str(row["agent"]), make=True)
        return {**row, column: keys.mask(table.name, column, str(row[column]))}

    def _labels(self, conn: sa.Connection, memory: Memory) -> list[Row]:
        return [self._encrypt_row(conn, memory_tags, row) for row in tag_rows(memory)]

    def _is_sound(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> bool:
        """Whether a row that has a digest is what was written."""
        if self._sealer is None:
            return bool(row["digest"] == (seal if table is memories else seal_event)(row))
        try:
            self._decrypt_row(conn, table, row)
        except StoreCorrupt:
            return False
        return True

    def _to_memory(self, opened: Mapping[Any, Any]) -> Memory:
        return to_memory(opened, verified=self._sealer is not None)

    def _memory(self, conn: sa.Connection, row: Mapping[Any, Any]) -> Memory:
        """The memory in a stored row."""
        return to_memory(row) if self._sealer is None else self._to_memory(self._decrypt_row(conn, memories, row))

    def _reading(self, conn: sa.Connection) -> event_queries.Read:
        """How a stored event is read."""
        if self._sealer is None:
            return to_event
        return lambda row: to_event(self._decrypt_row(conn, events, row), verified=True)

    def _vector(self, conn: sa.Connection, row: Any) -> bytes:
        """The vector in a row of `memory_index`; what is damaged is none."""
        if self._sealer is None:
            return bytes(row.vector)
        try:
            place = (row.memory_id, row.namespace, row.embedder, str(row.passage))
            return self._sealer.vector(conn, row.agent, place, self._unpacked(row.vector))
        except StoreCorrupt:
            return b""

    def _mirrored(self, conn: sa.Connection, chosen: sa.Select[Any]) -> list[Mirrored]:
        """The vectors in rows of `memory_index`, readable."""
        return [self._readable(conn, row) for row in conn.execute(chosen)]

    def _readable(self, conn: sa.Connection, row: Any) -> Mirrored:
        return Mirrored(row.memory_id, row.passage, row.seq, row.dim, self._vector(conn, row))

    def _reindex(self, conn: sa.Connection, memory: Memory, seq: int) -> None:
        tagged = (memory_tags.c.agent == memory.agent, memory_tags.c.memory_id == memory.id)
        conn.execute(memory_tags.delete().where(*tagged), execution_options=LATER)
        self._insert(conn, memory_tags, tag_rows(memory))
        self._unindex_words(conn, memory.agent, [seq])
        self._index(conn, [(memory.agent, seq, memory_terms(memory))])

    # Connections ---------------------------------------------------------------------------------

    @contextmanager
    def _connection(self) -> Iterator[sa.Connection]:
        """A connection, whose errors are told in our words."""
        try:
            with self._engine.connect() as conn:
                try:
                    yield conn
                finally:
                    if self._closed and not conn.invalidated:  # meanwhile, by another thread: the pool is gone
                        conn.detach()
        except sa.exc.DBAPIError as error:
            raise self._translate(error) from error
        except sa.exc.TimeoutError as error:
            raise StoreBusy(
                f"too many threads use this memory at once ({error.args[0]}); use fewer, or try again"
            ) from error

    @contextmanager
    def _read(self, scope: Scope | None) -> Iterator[sa.Connection]:
        """One consistent view of the database, about one scope, or about all of them."""
        self._guard()
        with self._connection() as conn, conn.begin():
            self._enter(conn, scope)
            if self._sealer is not None:
                self._sealer.begin(conn, self._crypt(conn))
            yield conn

    def _look(self, scope: Scope | None, work: Callable[[sa.Connection], R]) -> R:
        """The result of some reading in one transaction; a store may try it again."""
        with self._read(scope) as conn:
            return work(conn)

    def _transact(self, scope: Scope | None, work: Callable[[sa.Connection], R]) -> R:
        """The result of some work in one transaction; a store may try it again."""
        with self._write(scope) as conn:
            return work(conn)

    @contextmanager
    def _write(self, scope: Scope | None) -> Iterator[sa.Connection]:
        """One durable transaction: committed when the block ends, undone when it raises."""
        self._guard()
        ledger, safely = audit_entries.PendingEntries(), False
        try:
            with self._connection() as conn:
                conn.execution_options(**{WRITE: True, LEDGER: ledger})
                with conn.begin():
                    self._enter(conn, scope)
                    if self._sealer is not None:
                        self._sealer.begin(conn, self._crypt(conn, writing=True))
                    yield conn
                    self._finish(conn)
                safely = True
        finally:
            if ledger.shown:
                self._arrived(ledger.shown, safely=safely)
        self._after_write()

    def _guard(self) -> None:
        if self._closed:
            raise StoreClosed("this memory was closed; open it again with engram.open(...)")
        if self._pid != os.getpid():
            self._after_fork()
            self._pid = os.getpid()

    def _after_fork(self) -> None:
        """Leave the parent's connections, locks and pending counts alone and start with new ones."""
        self._touching, self._touches, self._shown, self._showing = threading.Lock(), {}, {}, {}
        self._engine.dispose(close=False)

    @abstractmethod
    def _arrived(self, shown: Mapping[tuple[str, str], LoggedRecall], *, safely: bool) -> None:
        """What was on its way is in the database, or has to be written again."""

    def close(self) -> None:
        """Write what is pending and release everything; calling it twice is harmless."""
        if self._closed:
            return
        if self._pid != os.getpid():
            self._after_fork()
        try:
            if self._touches or self._shown:
                self._flush()
        except StoreError as error:  # only statistics are lost, and whoever closes cannot mend it
            _log.warning("some access counts were not written: %s", error)
        finally:
            self._closed = True
            self._engine.dispose()
            if self._remote is not None:
                self._remote.close()

    def _flush(self) -> None:
        self._transact(None, lambda conn: None)  # every write carries the pending touches along


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
        conn.execute(table.insert(), rows, execution_options=LATER)


def storable(values: Sequence[str]) -> list[str]:
    """The values that a database can hold at all; no row has any other."""
    return [value for value in values if isinstance(value, str) and unstorable(value) is None]


def sound(dims: Sequence[int], vectors: Sequence[bytes]) -> Iterator[tuple[list[int], Matrix]]:
    """Which of these are vectors of length 1, of as many dimensions as they should be; for each dimension a matrix."""
    for dim in set(dims):
        which = [n for n, vector in enumerate(vectors) if dims[n] == dim and len(vector) == 4 * dim]
        if not which:
            continue
        matrix = np.frombuffer(b"".join([vectors[n] for n in which]), dtype="<f4").reshape(len(which), -1)
        fine = units(matrix)
        if fine.all():
            yield which, matrix
        elif fine.any():
            yield np.array(which)[fine].tolist(), matrix[fine]


def tag_rows(memory: Memory) -> list[Row]:
    """The rows of a memory's tags."""
    return [{"agent": memory.agent, "memory_id": memory.id, "tag": tag} for tag in dict.fromkeys(memory.tags)]
