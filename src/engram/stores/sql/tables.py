"""Transactions on SQL tables; methods that differ between SQLite and PostgreSQL are abstract.

Statistics wait in `pending` for the next commit; audit entries are written last in each transaction.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import numpy as np
import sqlalchemy as sa

from engram.clock import Sources, micros
from engram.errors import EngramError, InvalidInput, StoreBusy, StoreClosed, StoreError
from engram.model import Memory
from engram.ports import (
    AuditAction,
    Event,
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
    units,
)
from engram.stores import audit_entries, neighbours, sealing
from engram.stores.rows import PENDING, Row, seal, seal_event, tag_rows, to_event, to_logged_recall_row, to_memory
from engram.stores.rules import memory_terms, vector_key
from engram.stores.schema import memories, memory_index, memory_stats, memory_tags, recall_events, settings

R = TypeVar("R")
ReadTerms = Callable[[Sequence[str]], R]
"""A function that reads by terms as the word index has them."""
_log = logging.getLogger("engram")
WRITE = "engram_write"
PENDING_ENTRIES = "engram_pending_entries"
LATER = {"engram_later": True}
"""Execution option for statements without a needed result: they may be sent together with the next one."""
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
MAX_PENDING = 1000
SHOWN_FOR = timedelta(days=7)
"""The time for which the outcome of a recall can be reported by its id."""
_TOUCH = sa.text(
    "INSERT INTO memory_stats (agent, memory_id, last_accessed, access_count) "
    "SELECT agent, id, :at, :n FROM memories WHERE agent = :agent AND id = :id "
    "ON CONFLICT (agent, memory_id) DO UPDATE SET last_accessed = CASE "
    "WHEN memory_stats.last_accessed > excluded.last_accessed THEN memory_stats.last_accessed "
    "ELSE excluded.last_accessed END, "
    "access_count = memory_stats.access_count + excluded.access_count"
).execution_options(**LATER)
_LOG_RECALL = sa.text(
    "INSERT INTO recall_events (agent, id, at, detail) "
    "SELECT agent, :id, :at, :detail FROM agents WHERE agent = :agent ON CONFLICT DO NOTHING"
).execution_options(**LATER)
_DELETE_OLD = sa.text(
    "DELETE FROM recall_events WHERE agent = :agent AND at < :before AND detail LIKE :pending"
).execution_options(**LATER)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
"""The characters that `unstorable` refuses."""
UNSEEN = {"last_accessed": None, "access_count": 0}


class Mirrored(NamedTuple):
    """A decrypted vector in the SQL tables."""

    memory_id: str
    passage: int
    seq: int
    dim: int
    vector: bytes


Touches = dict[tuple[str, str], tuple[int, int]]
"""Counts and last times of recalls, by memory (agent, id)."""


@dataclass(slots=True)
class Statistics:
    """Access counts and logged recalls that wait for the next commit."""

    touches: Touches = field(default_factory=dict)
    recalls: dict[tuple[str, str], LoggedRecall] = field(default_factory=dict)
    writing: dict[tuple[str, str], LoggedRecall] = field(default_factory=dict)
    """Recalls that a running transaction writes."""
    pruned: set[str] = field(default_factory=set)
    """The agents whose old recalls were deleted by this process."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, touches: Mapping[tuple[str, str], tuple[int, int]]) -> None:
        """Add counts to the pending ones."""
        with self.lock:
            for memory, (number, moment) in touches.items():
                count, last = self.touches.get(memory, (0, moment))
                self.touches[memory] = (count + number, max(last, moment))

    def get_recall(self, scope: Scope, id: str) -> LoggedRecall | None:
        """Return a recall that is pending or being written."""
        with self.lock:
            return self.recalls.get((scope.agent, id)) or self.writing.get((scope.agent, id))

    def drop_recalls(self, scope: Scope, chosen: Callable[[LoggedRecall], bool]) -> int:
        """Drop chosen pending recalls of a scope; return how many."""
        with self.lock:
            waiting = [key for key, shown in self.recalls.items() if key[0] == scope.agent and chosen(shown)]
            for key in waiting:
                del self.recalls[key]
        return len(waiting)

    def drop_scope(self, scope: Scope) -> None:
        """Drop everything pending of a scope."""
        with self.lock:
            self.touches = {key: value for key, value in self.touches.items() if key[0] != scope.agent}
            self.recalls = {key: value for key, value in self.recalls.items() if key[0] != scope.agent}

    def begin_recalls(self) -> dict[tuple[str, str], LoggedRecall]:
        """Take the pending recalls, to write them."""
        with self.lock:
            taken, self.recalls = self.recalls, {}
            self.writing |= taken
        return taken

    def end_recalls(self, taken: Mapping[tuple[str, str], LoggedRecall], *, committed: bool) -> None:
        """Drop the recalls that were committed, or make them pending again."""
        with self.lock:
            for key in taken:
                self.writing.pop(key, None)
            if not committed:
                self.recalls = {**taken, **self.recalls}

    def take_touches(self) -> Touches:
        """Take the pending counts, to write them."""
        with self.lock:
            taken, self.touches = self.touches, {}
        return taken


class RowCodec:
    """The row format of a database that is not encrypted; `EncryptedRows` overrides all methods."""

    encrypted = False

    def begin(self, conn: sa.Connection, setting: Callable[[], str | None]) -> None:
        """Notice changed keys when a transaction begins; `setting` reads how the database is encrypted."""

    def announce(self, conn: sa.Connection) -> None:
        """Notify all processes that have the database open that keys change in this transaction."""

    def encrypt_row(self, conn: sa.Connection, table: sa.Table, row: Row) -> Row:
        """Encrypt a row."""
        return row

    def encrypt_rows(self, conn: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> Sequence[Row]:
        """Encrypt rows."""
        return rows

    def decrypt_row(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> Row:
        """Decrypt a row. Raises `StoreCorrupt` if it was changed."""
        return dict(row)

    def plain_row(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> Row:
        """Return a stored row in the form of a database that is not encrypted."""
        return dict(row)

    def stored_key(self, conn: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the primary key of a plain row as it is stored."""
        return row

    def is_sound(self, conn: sa.Connection, table: sa.Table, row: Mapping[Any, Any]) -> bool:
        """Return True if the digest of a row matches, or the row has none."""
        return bool(row["digest"] == (seal if table is memories else seal_event)(row))

    def memory(self, conn: sa.Connection, row: Mapping[Any, Any]) -> Memory:
        """Return the memory in a stored row."""
        return to_memory(row)

    def to_memory(self, row: Mapping[Any, Any]) -> Memory:
        """Return the memory in a decrypted row."""
        return to_memory(row)

    def event(self, conn: sa.Connection, row: Mapping[Any, Any]) -> Event:
        """Return the event in a stored row."""
        return to_event(row)

    def vector(self, conn: sa.Connection, row: Any) -> bytes:
        """Return the vector in a row of `memory_index`; empty if it is damaged."""
        return bytes(row.vector)

    def query(self, conn: sa.Connection, scope: Scope, query: Query) -> Query:
        """Return a search whose filters fit the stored rows."""
        return query

    def mask(self, conn: sa.Connection, scope: Scope, table: sa.Table, column: str, value: str) -> str:
        """Return the stored form of a value that is searched for."""
        return value

    def terms(self, conn: sa.Connection, scope: Scope, terms: Sequence[str]) -> list[str]:
        """Return the terms as the word index has them, in the same order."""
        return list(terms)

    def words(self, conn: sa.Connection, agent: str, terms: list[str]) -> list[str]:
        """Return the entry of the word index for a row with these terms."""
        return terms

    def speakers(self, conn: sa.Connection, scope: Scope, names: list[str]) -> list[str]:
        """Decrypt names of speakers."""
        return names

    def ranking_inputs(
        self,
        conn: sa.Connection,
        scope: Scope,
        terms: Sequence[str],
        read: Callable[[Sequence[str]], list[RankingInput]],
    ) -> list[RankingInput]:
        """Read ranking inputs; `read` takes the terms as the word index has them."""
        return read(terms)

    def term_counts(
        self, conn: sa.Connection, scope: Scope, terms: Sequence[str], count: ReadTerms[TermCounts]
    ) -> TermCounts:
        """Read term counts by the plain terms; `count` takes the terms as the word index has them."""
        return count(terms)


class Tables(ABC):
    """The tables of one database, and its transactions; subclasses add what differs by database."""

    driver_errors: tuple[type[Exception], ...] = (sa.exc.DBAPIError,)
    """Errors of the driver, wrapped by SQLAlchemy or raised by direct statements."""
    overlap = 0
    """The number by which a write may be below others that were committed before it."""

    def __init__(self, engine: sa.Engine, sources: Sources) -> None:
        self.engine = engine
        self.sources = sources
        self.codec = RowCodec()
        self.pending = Statistics()
        self._pid = os.getpid()
        self._closed = False

    @abstractmethod
    def number(self, conn: sa.Connection, count: int) -> list[int]:
        """Return `count` unique write numbers, ascending."""

    @abstractmethod
    def one_of(self, column: sa.ColumnElement[Any], values: Sequence[str]) -> sa.ColumnElement[bool]:
        """Return the condition that a column has one of the values, which are bound as one parameter."""

    @abstractmethod
    def index_words(self, conn: sa.Connection, rows: Sequence[tuple[str, int, list[str]]]) -> None:
        """Add rows (agent, seq, terms) to the word index."""

    @abstractmethod
    def unindex_words(self, conn: sa.Connection, agent: str, seqs: Sequence[int]) -> None:
        """Remove rows from the word index."""

    @abstractmethod
    def search_words(self, conn: sa.Connection, scope: Scope, terms: list[str], query: Query) -> list[Match]:
        """Return the rows of a scope that hold any of the terms, best first."""

    @abstractmethod
    def search_vectors(self, conn: sa.Connection, scope: Scope, near: Placed, query: Query) -> list[Match]:
        """Return the rows of a scope nearest to a vector, best first."""

    @abstractmethod
    def neighbours(
        self, conn: sa.Connection, scope: Scope, ids: Sequence[str], reach: int, terms: Sequence[str]
    ) -> list[RankingInput]:
        """Return these rows and their neighbours in their sessions, with their lengths and counts of the terms."""

    @abstractmethod
    def term_counts(self, conn: sa.Connection, scope: Scope, terms: Sequence[str]) -> TermCounts:
        """Count the rows of a scope, and those that hold each term."""

    @abstractmethod
    def translate(self, error: Any) -> EngramError:
        """Return the error of `engram.errors` for one of the driver."""

    def enter(self, conn: sa.Connection, scope: Scope | None) -> None:
        """Restrict a new transaction to a scope, or allow all."""

    @abstractmethod
    def empty_words(self, conn: sa.Connection) -> None:
        """Empty the word index, even if it is damaged."""

    @abstractmethod
    def word_marks(self, conn: sa.Connection) -> Iterator[tuple[int, object]]:
        """Read the word index: for each row its number and a value that represents its terms, to compare in checks."""

    @abstractmethod
    def word_mark(self, agent: str, terms: list[str]) -> object:
        """Return the value that `word_marks` should yield for a row."""

    @abstractmethod
    def append_audit(self, conn: sa.Connection, entries: Sequence[audit_entries.Sealing]) -> None:
        """Append entries to the audit trail, and lock it until this transaction ends."""

    def as_owner(self, conn: sa.Connection) -> None:
        """Acquire the right to delete entries of the audit trail, for the rest of the transaction."""

    @abstractmethod
    def facts(self, conn: sa.Connection) -> Mapping[str, str | int | float | None]:
        """Return facts about the database: its location, size and schema."""

    @abstractmethod
    def advance_sequence(self, conn: sa.Connection, last: int) -> None:
        """Make the numbers of new writes higher than `last`."""

    def epoch(self, conn: sa.Connection) -> str:
        """Return the epoch; it changes when caches cannot be updated by write numbers and must be dropped."""
        return ""

    def vectors_added(self, rows: Sequence[Row]) -> None:
        """Hook: vectors were added."""

    def vectors_removed(self, conn: sa.Connection) -> None:
        """Hook: vectors were deleted whose memories still exist."""

    def after_write(self) -> None:
        """Hook: a transaction was committed."""

    @abstractmethod
    def refuse_plain_rows(self, conn: sa.Connection) -> None:
        """Add triggers or constraints to the database that refuse rows that are not encrypted."""

    def scrub_files(self) -> None:
        """Remove old versions of rows from the database's files, as far as possible."""

    def crypt_setting(self, conn: sa.Connection, *, writing: bool = False) -> str | None:
        """Read the setting that says how the database is encrypted."""
        return sealing.crypt_of(conn, writing=writing)

    def pack_vector(self, vector: bytes) -> bytes:
        """Pack an encrypted vector in the form that the database can hold."""
        return vector

    def unpack_vector(self, vector: bytes) -> bytes:
        """Unpack an encrypted vector."""
        return vector

    # Hooks with a default ------------------------------------------------------------------------

    def enrol(self, conn: sa.Connection, scope: Scope, count: int) -> list[int]:
        """Add the agent if it is new, and return `count` write numbers."""
        conn.execute(ENROL, {"agent": scope.agent, "at": micros(self.sources.now())})
        return self.number(conn, count)

    def fetch_memories(self, conn: sa.Connection, scope: Scope, ids: Sequence[str]) -> Iterator[Memory]:
        """Read the memories of a scope with these ids, in any order."""
        found = HYDRATE.where(memories.c.agent == scope.agent, self.one_of(memories.c.id, ids))
        for row in conn.execute(found).mappings():
            yield self.codec.memory(conn, row)

    def speakers(self, conn: sa.Connection, scope: Scope) -> list[str]:
        """Read the names of speakers as they are stored."""
        return neighbours.speakers(conn, scope)

    def allowed(self, conn: sa.Connection, scope: Scope, query: Query, ids: list[str] | None) -> frozenset[str]:
        """Return the ids that pass the filter, of all or of these."""
        passing = sa.select(memories.c.id).where(*self.conditions(scope, query))
        if ids is not None:
            passing = passing.where(self.one_of(memories.c.id, ids))
        return frozenset(conn.scalars(passing))

    def passing_keys(self, conn: sa.Connection, space: VectorSpace, query: Query) -> frozenset[str]:
        """Return the names of all vectors of a space whose memories pass the filter."""
        v = memory_index.c
        passing = (
            sa.select(v.memory_id, v.passage)
            .join_from(memories, memory_index, sa.and_(v.agent == memories.c.agent, v.memory_id == memories.c.id))
            .where(v.namespace == space.namespace, v.embedder == space.embedder)
            .where(*self.conditions(space.scope, query))
        )
        return frozenset(vector_key(id, passage) for id, passage in conn.execute(passing))

    def before_forget(self, conn: sa.Connection, scope: Scope, ids: Sequence[str]) -> None:
        """Hook: memories are about to be deleted."""

    # Rows ----------------------------------------------------------------------------------------

    def conditions(self, scope: Scope, query: Query) -> list[sa.ColumnElement[bool]]:
        """Return the WHERE clause of a search."""
        clauses = filter_conditions(scope, query.where)
        return clauses if query.among is None else [*clauses, self.one_of(memories.c.id, sorted(query.among))]

    def insert(self, conn: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
        """Insert plain rows, if there are any."""
        if rows:
            conn.execute(table.insert(), self.codec.encrypt_rows(conn, table, rows), execution_options=LATER)

    def refuse_other_dimensions(self, conn: sa.Connection, rows: Sequence[Row]) -> None:
        """Raise `InvalidInput` if a vector has another length than those in its space."""
        v, known = memory_index.c, {}
        for row in rows:
            space = (row["agent"], row["namespace"], row["embedder"])
            if space not in known:
                there = sa.select(v.dim).where(v.agent == space[0], v.namespace == space[1], v.embedder == space[2])
                known[space] = conn.scalar(there.limit(1)) or row["dim"]
            if row["dim"] != known[space]:
                raise InvalidInput(
                    f"vectors of {row['dim']} dimensions do not fit those already stored, which have {known[space]}"
                )

    def index_memories(self, conn: sa.Connection, rows: Sequence[tuple[str, int, list[str]]]) -> None:
        """Add rows (agent, seq, terms) to the word index."""
        self.index_words(conn, [(agent, seq, self.codec.words(conn, agent, terms)) for agent, seq, terms in rows])

    def reindex(self, conn: sa.Connection, memory: Memory, seq: int) -> None:
        """Replace the tags and the words of a memory in their indexes."""
        tagged = (memory_tags.c.agent == memory.agent, memory_tags.c.memory_id == memory.id)
        conn.execute(memory_tags.delete().where(*tagged), execution_options=LATER)
        self.insert(conn, memory_tags, tag_rows(memory))
        self.unindex_words(conn, memory.agent, [seq])
        self.index_memories(conn, [(memory.agent, seq, memory_terms(memory))])

    def mirrored(self, conn: sa.Connection, chosen: sa.Select[Any]) -> list[Mirrored]:
        """Yield the decrypted vectors in rows of `memory_index`."""
        return [self.mirrored_row(conn, row) for row in conn.execute(chosen)]

    def mirrored_row(self, conn: sa.Connection, row: Any) -> Mirrored:
        """Return the decrypted vector in one row of `memory_index`."""
        return Mirrored(row.memory_id, row.passage, row.seq, row.dim, self.codec.vector(conn, row))

    # Settings ------------------------------------------------------------------------------------

    def setting(self, name: str) -> str | None:
        """Return the value of a setting, or `None`."""
        named = sa.select(settings).where(settings.c.name == name)

        def look(conn: sa.Connection) -> str | None:
            row = conn.execute(named).mappings().one_or_none()
            return None if row is None else str(self.codec.decrypt_row(conn, settings, row)["value"])

        return self.look(None, look)

    def set_setting(self, name: str, value: str) -> None:
        """Set the value of a setting."""

        def work(conn: sa.Connection) -> None:
            conn.execute(SET, self.codec.encrypt_row(conn, settings, {"name": name, "value": value}))
            if audit_entries.administrative(name):
                self.note(conn, AuditAction("setting", target=name))

        self.transact(None, work)

    # Transactions --------------------------------------------------------------------------------

    def note(self, conn: sa.Connection, action: AuditAction) -> None:
        """Add an audit entry to this transaction."""
        conn.get_execution_options()[PENDING_ENTRIES].actions.append(action)

    @contextmanager
    def connection(self) -> Iterator[sa.Connection]:
        """A connection that raises errors of `engram.errors`."""
        try:
            with self.engine.connect() as conn:
                try:
                    yield conn
                finally:
                    if self._closed and not conn.invalidated:  # closed by another thread meanwhile
                        conn.detach()
        except self.driver_errors as error:
            raise self.translate(error) from error
        except sa.exc.TimeoutError as error:
            raise StoreBusy(
                f"too many threads use this memory at once ({error.args[0]}); use fewer, or try again"
            ) from error

    def turn(self) -> AbstractContextManager[None]:
        """Wait for the turn of this thread to write."""
        return nullcontext()

    @contextmanager
    def read(self, scope: Scope | None) -> Iterator[sa.Connection]:
        """Open a read transaction with a consistent view, on one scope or all."""
        self.guard()
        with self.connection() as conn, conn.begin():
            self.enter(conn, scope)
            self.codec.begin(conn, lambda: self.crypt_setting(conn))
            yield conn

    def look(self, scope: Scope | None, work: Callable[[sa.Connection], R]) -> R:
        """Run reads in one transaction and return their result; they may be retried."""
        with self.read(scope) as conn:
            return work(conn)

    def transact(self, scope: Scope | None, work: Callable[[sa.Connection], R]) -> R:
        """Run work in one write transaction and return its result; it may be retried."""
        with self.write(scope) as conn:
            return work(conn)

    @contextmanager
    def write(self, scope: Scope | None) -> Iterator[sa.Connection]:
        """Open a durable transaction: committed when the block ends, rolled back when it raises."""
        self.guard()
        entries, committed = audit_entries.PendingEntries(), False
        with self.turn():
            try:
                with self.connection() as conn:
                    conn.execution_options(**{WRITE: True, PENDING_ENTRIES: entries})
                    with conn.begin():
                        self.enter(conn, scope)
                        self.codec.begin(conn, lambda: self.crypt_setting(conn, writing=True))
                        yield conn
                        self.finish(conn)
                    committed = True
            finally:
                if entries.recalls:
                    self.pending.end_recalls(entries.recalls, committed=committed)
            self.after_write()

    def finish(self, conn: sa.Connection) -> Touches:
        """Write pending statistics and, last, the audit entries; return the counts, in case of a rollback.

        Appending to the audit trail blocks all other writers, so it must come last.
        """
        entries: audit_entries.PendingEntries = conn.get_execution_options()[PENDING_ENTRIES]
        if entries.closed:
            return {}
        touches = self._write_statistics(conn) if self.pending.recalls or self.pending.touches else {}
        if entries.actions:
            now = self.sources.now()
            self.append_audit(conn, [audit_entries.sealing(action, now) for action in entries.actions])
        entries.closed = True
        return touches

    def _write_statistics(self, conn: sa.Connection) -> Touches:
        """Write pending statistics of all agents; return the counts, in case of a rollback."""
        if recalls := self.pending.begin_recalls():
            self._write_recalls(conn, recalls)
        touches = self.pending.take_touches()
        if touches:
            self.enter(conn, None)  # they belong to any agent
            rows = [{"agent": a, "id": id, "n": n, "at": at} for (a, id), (n, at) in sorted(touches.items())]
            conn.execute(_TOUCH, rows)
        return touches

    def _write_recalls(self, conn: sa.Connection, recalls: Mapping[tuple[str, str], LoggedRecall]) -> None:
        """Write recalls, and delete old ones of the same agents, once per process."""
        conn.get_execution_options()[PENDING_ENTRIES].recalls = recalls
        self.enter(conn, None)
        rows = [to_logged_recall_row(Scope(agent), shown) for (agent, _), shown in sorted(recalls.items())]
        conn.execute(_LOG_RECALL, self.codec.encrypt_rows(conn, recall_events, rows))
        fresh = sorted({row["agent"] for row in rows} - self.pending.pruned)
        if fresh:
            before = micros(self.sources.now() - SHOWN_FOR)
            conn.execute(_DELETE_OLD, [{"agent": agent, "before": before, "pending": PENDING} for agent in fresh])
            self.pending.pruned |= set(fresh)

    def flush(self) -> None:
        """Write pending statistics in a transaction of their own."""
        self.transact(None, lambda conn: None)

    def flush_if_many(self) -> None:
        """Write pending statistics if there are many; a failure is only logged."""
        if max(len(self.pending.touches), len(self.pending.recalls)) > MAX_PENDING:
            self._try_flush()

    def _try_flush(self) -> None:
        try:
            self.flush()
        except StoreError as error:  # a recall must not fail because of statistics
            _log.warning("some access counts were not written: %s", error)

    def guard(self) -> None:
        """Raise `StoreClosed` after `close`; start with new connections and locks after a fork."""
        if self._closed:
            raise StoreClosed("this memory was closed; open it again with engram.open(...)")
        if self._pid != os.getpid():
            self.after_fork()
            self._pid = os.getpid()

    def after_fork(self) -> None:
        """Replace connections, locks and pending counts in a forked process, without touching its parent's."""
        self.pending = Statistics(pruned=self.pending.pruned)
        self.engine.dispose(close=False)

    def close(self) -> None:
        """Write pending statistics and release all connections; calling it twice is harmless."""
        if self._closed:
            return
        if self._pid != os.getpid():
            self.after_fork()
        try:
            if self.pending.touches or self.pending.recalls:
                self._try_flush()
        finally:
            self._closed = True
            self.engine.dispose()


def filter_conditions(scope: Scope, where: Filter) -> list[sa.ColumnElement[bool]]:
    """Return the WHERE clause of a filter, which begins with the scope."""
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


def storable(values: Sequence[str]) -> list[str]:
    """Return the values that a database can store; no row has any of the others."""
    return [value for value in values if isinstance(value, str) and _UNSTORABLE.search(value) is None]


def sound(dims: Sequence[int], vectors: Sequence[bytes]) -> Iterator[tuple[list[int], Matrix]]:
    """Select the valid vectors: length 1 and the expected dimensions; yield one matrix per dimension."""
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
