"""The SQLite store: memories in one file, FTS5 for words, vectors searched in this process."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import sqlalchemy as sa

from engram.clock import Sources, micros
from engram.errors import (
    Conflict,
    EngramError,
    InvalidInput,
    NewerSchema,
    NotAnEngramDatabase,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
)
from engram.model import ForgetReceipt, Memory
from engram.ports import (
    AuditAction,
    Cipher,
    Filter,
    IntegrityProblem,
    Match,
    Placed,
    Query,
    RankingInput,
    Scope,
    TermCounts,
    VectorSpace,
    VectorStore,
    unstorable,
)
from engram.stores import audit_entries, neighbours, raw, sealing
from engram.stores.drivers import PLAIN, PURPOSE, Driver, whole_file
from engram.stores.fts import VOCABULARY, FtsWords, counter_of, fetch, passing_rows
from engram.stores.rows import scope_term, to_ranking_input
from engram.stores.rules import ENOUGH, nearest, vector_key
from engram.stores.schema import APPLICATION_ID, REVISION, memory_index, tombstones
from engram.stores.sql import HYDRATE, PAGE, WRITE, SqlStore, Tables, sound, storable

R = TypeVar("R")
Span = tuple[int | None, int | None]
"""The validity of a memory: from and until, or `None` for no limit."""
_log = logging.getLogger("engram")

MAGIC = b"SQLite format 3\x00"
OLDEST_SQLITE = (3, 35, 0)
WAL_RESET_FIXED = (3, 51, 3)  # in older versions, a passive checkpoint can race with a writer and corrupt the file
CHECKPOINT_BYTES = 4 * 1024 * 1024
RESERVE_BYTES = 512 * 1024
SAMPLE_BYTES = 24
LEAST_BYTES = 8  # shorter samples may occur in the file by chance
BLOCK_BYTES = 256 * 1024  # searched without releasing the GIL
MOST_TRACES = 1000
MOST_SOUGHT = 32
"""The number of samples above which rewriting the file is faster than searching it."""
MOST_LEVELS = 500
"""The levels at which the word index is rebuilt: SQLite 3.40 adds some at each merge, and fails above 2,000."""
_STRUCTURE = "SELECT block FROM memory_words_data WHERE id = 10"
READERS_SECONDS = 2.0
"""The most seconds that a deletion waits for readers."""
LONGEST_PAUSE = 0.1
OWED = "scrub:owed"
"""The setting that says that the file has not been searched for deleted data yet."""
CACHE_KILOBYTES = 32 * 1024  # per connection

_inherited: list[object] = []  # a forked child must neither use nor close its parent's connections

_counter = sa.table("counter", sa.column("epoch"), sa.column("seq"))
_COUNTER = "SELECT epoch, seq FROM counter"
_SETTING = "SELECT value FROM settings WHERE name = :name"
_SET = sa.text("INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT DO NOTHING")
_UNSET = sa.text("DELETE FROM settings WHERE name = :name")
# With the list first in the join, SQLite reads it in order; in a condition, it would build an index of it.
_SOURCE = "json_each(:listed) j CROSS JOIN memories m"
_SPAN = "CASE WHEN m.valid_from <= m.created_at THEN NULL ELSE m.valid_from END, m.valid_until"
# Read from FTS5's content table, since the FTS5 table itself takes twice as long.
_RANKING_INPUTS = " ".join(
    [
        neighbours.shown(f"w.c1, {_SPAN}"),
        f"FROM {_SOURCE} JOIN memory_words_content w ON w.id = m.seq {neighbours.STATS}",
        "WHERE m.agent = :agent AND m.rowid = j.value",
    ]
)
_BESIDE = (
    "(SELECT group_concat(place) FROM (SELECT n.rowid AS place FROM memories n "
    "WHERE n.agent = m.agent AND n.session = m.session AND n.seq {way} m.seq ORDER BY n.seq {order} LIMIT :reach))"
)
_WINDOWS = " ".join(
    [
        "SELECT CAST(m.rowid AS TEXT),",
        _BESIDE.format(way="<", order="DESC") + ",",
        _BESIDE.format(way=">", order="ASC"),
        f"FROM {_SOURCE} WHERE m.agent = :agent AND m.id = j.value",
    ]
)
_SPEAKERS = neighbours.SPEAKERS.text
_SPANS = f"SELECT m.id, {_SPAN} FROM {_SOURCE} WHERE m.agent = :agent AND m.id = j.value"  # noqa: S608 - our own words
_NUMBERED = f"SELECT m.seq, m.id, {_SPAN} FROM {_SOURCE} WHERE m.agent = :agent AND m.seq = j.value"  # noqa: S608
_MEMORY = [column.name for column in HYDRATE.selected_columns]
_LISTED = "memories.agent = :agent AND memories.id IN (SELECT value FROM json_each(:listed))"
_MEMORIES = f"{HYDRATE} WHERE {_LISTED}"
_EPOCH = sa.text("UPDATE counter SET epoch = :epoch")
_HEAD = "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"
_ENTRY = (
    "INSERT INTO audit (seq, at, actor, principal, action, agent, target, grant_id, count, detail, prev, hash) VALUES "
    "(:seq, :at, :actor, :principal, :action, :agent, :target, :grant_id, :count, :detail, :prev, :hash)"
)
# Reads samples of memories before their deletion: texts, words and vectors.
_GOING = (
    "SELECT m.text, w.c1, (SELECT group_concat(hex(substr(v.vector, 9, 96))) FROM memory_index v "
    "WHERE v.agent = m.agent AND v.memory_id = m.id) FROM json_each(:listed) j CROSS JOIN memories m "
    "LEFT JOIN memory_words_content w ON w.id = m.seq WHERE m.agent = :agent AND m.id = j.value"
)
_PLACES = {
    "memories": "text content context tags metadata session speaker author context_key",
    "memory_evidence": "detail",
    "memory_keys": "key",
    "memory_index": "vector",
    "memory_words_content": "c1",
    "events": "body",
    "recall_events": "detail",
    "settings": "value",
    "audit": "hash target detail",
}
_HAS = "SELECT " + " OR ".join(  # noqa: S608 - our own words
    f"EXISTS (SELECT 1 FROM {table} WHERE instr(CAST({column} AS BLOB), :sample))"  # noqa: S608
    for table, columns in _PLACES.items()
    for column in columns.split()
)
_INDEX_WORDS = sa.text("INSERT INTO memory_words (rowid, scope, words) VALUES (:seq, :scope, :words)")
_UNINDEX_WORDS = sa.text("DELETE FROM memory_words WHERE rowid = :seq")
_NUMBER = sa.text("UPDATE counter SET seq = seq + :count RETURNING seq")


@dataclass(slots=True)
class _Snapshot:
    """Values that a read transaction on a scope has cached; they cannot change before it ends."""

    scope: Scope
    conn: sa.Connection
    counter: tuple[str, int] | None = None
    holders: dict[tuple[str, ...], Mapping[str, int]] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)


class SqliteTables(Tables):
    """The tables in one SQLite file, and the maintenance of that file."""

    def __init__(
        self, path: Path, driver: Driver, vectors: VectorStore, sources: Sources, *, durable: bool, busy_seconds: float
    ) -> None:
        self.path = path
        self.driver = driver
        self.driver_errors = (sa.exc.DBAPIError, sqlite3.Error, driver.module.Error)
        self._vectors = vectors
        self._words = FtsWords()
        self._durable, self._busy_seconds = durable, busy_seconds
        self._checkpoints = driver.version < WAL_RESET_FIXED
        self._log_path = _beside(path, "-wal")
        self._log_limit = CHECKPOINT_BYTES
        self._went: dict[bytes, str] = {}  # samples of deleted data still in the file, and their words
        self._tracing = threading.Lock()
        self._full_log = False  # true if it may still contain deleted data
        self._scrubbing = threading.Lock()
        self._scrubs_asked, self._scrubbed = 0, (0, True)  # number of requests; number done, and true if complete
        self._marks: dict[VectorSpace, tuple[str, int]] = {}
        self._long: dict[VectorSpace, dict[str, int]] = {}  # the last passage of memories with several
        self._syncing = threading.Lock()
        self._turn = threading.RLock()
        self._held = threading.local()
        fresh = _inspect(path, driver)
        self.read_only = not fresh and not _writable(path)
        if fresh:
            _make_private(path)
        super().__init__(self._make_engine(), sources)
        try:
            self._prepare()
        except BaseException:
            self.engine.dispose()
            raise

    # Opening -----------------------------------------------------------------------------------------

    def _make_engine(self) -> sa.Engine:
        pool: dict[str, Any] = {"poolclass": sa.pool.QueuePool, "pool_size": 4, "max_overflow": 124}
        if self.read_only:
            pool = {"poolclass": sa.pool.NullPool}  # each read checks for a writer
        engine = sa.create_engine("sqlite://", creator=self._connect, module=self.driver.module, **pool)
        sa.event.listen(engine, "begin", _begin)
        return engine

    def _connect(self) -> Any:
        conn = self.driver.connect(
            _reading(self.path) if self.read_only else f"file:{_address(self.path)}?mode=rwc",
            uri=True,
            timeout=self._busy_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        conn.execute("PRAGMA foreign_keys = ON")
        conn.execute("PRAGMA secure_delete = ON")
        conn.execute("PRAGMA trusted_schema = OFF")
        conn.execute("PRAGMA cell_size_check = ON")
        conn.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
        if self._checkpoints:
            conn.execute("PRAGMA wal_autocheckpoint = 0")  # done by `after_write` instead
        conn.execute("PRAGMA journal_size_limit = 0")  # a restarted log is truncated
        conn.execute(f"PRAGMA cache_size = -{CACHE_KILOBYTES}")
        conn.execute(VOCABULARY)
        return conn

    def _prepare(self) -> None:
        """Upgrade the file to the newest schema; other processes that open it meanwhile wait."""
        with self.read(None) as conn:
            version = _version(conn)
        if version == REVISION:
            return
        _refuse_newer(self.path, version)
        if self.read_only:
            raise StoreReadOnly(f"{self.path} has the old schema {version} and cannot be written; make it writable")
        if version is None:
            with self._wrapped(), closing(self._connect()) as raw:
                # The order matters in case of a crash: the application id must be in the file before there is a log.
                raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                raw.execute("PRAGMA journal_mode = WAL")
        self._migrate(version)

    def _migrate(self, version: str | None) -> None:
        from engram.stores.migrate import upgrade  # noqa: PLC0415 - Alembic is slow to import and seldom needed

        with self.write(None) as conn:
            if _version(conn) != version:
                return  # another process was faster
            if version is not None:
                self.backup(_beside(self.path, f".schema-{version}.bak"))
            upgrade(conn)

    def _wrapped(self) -> _Wrapped:
        return _Wrapped(self)

    @contextmanager
    def snapshot(self, scope: Scope) -> Iterator[None]:
        """Let all reads of this thread in the scope see the same state."""
        with self.read(scope) as conn:
            self._held.moment = _Snapshot(scope, conn)
            try:
                yield
            finally:
                self._held.moment = None

    def look(self, scope: Scope | None, work: Callable[[sa.Connection], R]) -> R:
        """Run reads in one transaction and return their result; they may be retried."""
        held: _Snapshot | None = getattr(self._held, "moment", None)
        if held is not None and held.scope == scope:
            return work(held.conn)
        with self.read(scope) as conn:
            return work(conn)

    def _moment(self, conn: sa.Connection, scope: Scope) -> _Snapshot:
        """Return the current snapshot of this thread, or a new one."""
        held: _Snapshot | None = getattr(self._held, "moment", None)
        return held if held is not None and held.conn is conn and held.scope == scope else _Snapshot(scope, conn)

    def one_of(self, column: sa.ColumnElement[Any], values: Sequence[str]) -> sa.ColumnElement[bool]:
        """Return the condition that a column has one of the values, which are bound as one parameter."""
        listed = sa.func.json_each(json.dumps(storable(values))).table_valued("value")
        return column.in_(sa.select(listed.c.value))

    # Words -------------------------------------------------------------------------------------------

    def number(self, conn: sa.Connection, count: int) -> list[int]:
        """Return `count` unique write numbers, ascending."""
        last = int(conn.execute(_NUMBER, {"count": count}).scalar_one())
        return list(range(last - count + 1, last + 1))

    def append_audit(self, conn: sa.Connection, entries: Sequence[audit_entries.Sealing]) -> None:
        """Append entries to the audit trail, and lock it until this transaction ends."""
        driver: Any = conn.connection.driver_connection  # straight through the driver: every write waits for it
        last, prev = driver.execute(_HEAD).fetchone() or (0, "")
        for seq, entry in enumerate(entries, last + 1):
            row = entry.at(seq, prev)
            driver.execute(_ENTRY, row)
            prev = row["hash"]

    def index_words(self, conn: sa.Connection, rows: Sequence[tuple[str, int, list[str]]]) -> None:
        """Add rows (agent, seq, terms) to the word index."""
        if rows:
            words = [{"seq": seq, "scope": scope_term(agent), "words": " ".join(terms)} for agent, seq, terms in rows]
            conn.execute(_INDEX_WORDS, words)

    def unindex_words(self, conn: sa.Connection, agent: str, seqs: Sequence[int]) -> None:
        """Remove rows from the word index."""
        if seqs:
            conn.execute(_UNINDEX_WORDS, [{"seq": seq} for seq in seqs])

    def search_words(self, conn: sa.Connection, scope: Scope, terms: list[str], query: Query) -> list[Match]:
        """Return the rows of a scope that hold any of the terms, best first."""
        clauses, now, moment = partial(self.conditions, scope, query), _now(query.where), self._moment(conn, scope)

        def passing(seqs: Sequence[int]) -> dict[int, str]:
            if now is None or query.among is not None:
                return passing_rows(conn, seqs, clauses())
            rows = fetch(conn, _NUMBERED, {"agent": scope.agent, "listed": json.dumps(seqs)})
            moment.spans.update((id, (start, end)) for _, id, start, end in rows)
            return {seq: id for seq, id, start, end in rows if _valid((start, end), now)}

        holders, latest = self._holders(moment, terms), self._counter(moment)[1]
        return self._words.search(conn, scope, terms, query, clauses, passing, holders, latest)

    def neighbours(
        self, conn: sa.Connection, scope: Scope, ids: Sequence[str], reach: int, terms: Sequence[str]
    ) -> list[RankingInput]:
        """Return these rows and their neighbours in their sessions, with their lengths and counts of the terms."""
        rows = fetch(conn, _WINDOWS, {"agent": scope.agent, "listed": json.dumps(ids), "reach": reach})
        places = sorted({int(place) for row in rows for some in row if some for place in some.split(",")})
        seen = fetch(conn, _RANKING_INPUTS, {"agent": scope.agent, "listed": json.dumps(places)})
        self._moment(conn, scope).spans.update((row[0], row[-2:]) for row in seen)
        counts = counter_of(terms)
        return [to_ranking_input(row[:-2], counts) for row in seen]

    def term_counts(self, conn: sa.Connection, scope: Scope, terms: Sequence[str]) -> TermCounts:
        """Count the rows of a scope, and those that hold each term."""
        moment = self._moment(conn, scope)
        return self._words.term_counts(conn, scope, terms, self._holders(moment, terms), self._counter(moment)[1])

    def speakers(self, conn: sa.Connection, scope: Scope) -> list[str]:
        """Read the names of speakers as they are stored."""
        asked = {"agent": scope.agent, "most": neighbours.MOST_SPEAKERS}
        return [name for (name,) in fetch(conn, _SPEAKERS, asked)]

    def fetch_memories(self, conn: sa.Connection, scope: Scope, ids: Sequence[str]) -> Iterator[Memory]:
        """Read the memories of a scope with these ids, in any order."""
        asked = {"agent": scope.agent, "listed": json.dumps(storable(ids))}
        return (self.codec.memory(conn, dict(zip(_MEMORY, row, strict=True))) for row in fetch(conn, _MEMORIES, asked))

    def _holders(self, moment: _Snapshot, terms: Sequence[str]) -> Mapping[str, int]:
        key = tuple(terms)
        if key not in moment.holders:
            moment.holders[key] = self._words.holders(moment.conn, terms)
        return moment.holders[key]

    def _counter(self, moment: _Snapshot) -> tuple[str, int]:
        """Return the epoch, and the number of the last write."""
        if moment.counter is None:
            (moment.counter,) = fetch(moment.conn, _COUNTER, {})
        return moment.counter

    # Vectors -----------------------------------------------------------------------------------------

    def search_vectors(self, conn: sa.Connection, scope: Scope, near: Placed, query: Query) -> list[Match]:
        """Return the rows of a scope nearest to a vector, best first."""
        space = VectorSpace(scope, near.namespace, near.embedder)
        wanted = query.limit + query.offset
        search = partial(self._vectors.search, space, near.vector)
        kept, everything = list[Match](), False
        with self._syncing:
            self._sync(conn, space)
            if query.among is None:
                found, everything = nearest(search, wanted, wanted * ENOUGH)
                for some in (found[:wanted], found[wanted:]):  # usually all pass, and the rest is not needed
                    if len(kept) < wanted:
                        allowed = self.allowed(conn, scope, query, [match.id for match in some])
                        kept += [match for match in some if match.id in allowed]
            if len(kept) < wanted and not everything:
                keys = self._keys(conn, space, query)
                kept, _ = nearest(partial(search, among=keys), wanted, wanted * ENOUGH)
        return kept[query.offset : wanted]

    def _keys(self, conn: sa.Connection, space: VectorSpace, query: Query) -> frozenset[str]:
        """Return the keys of vectors whose memories pass the filter; of few memories, without reading the vectors."""
        if query.among is None or _now(query.where) is None:
            return self.passing_keys(conn, space, query)
        long = self._long.get(space, {})
        allowed = self.allowed(conn, space.scope, query, list(query.among))
        return frozenset(vector_key(id, n) for id in allowed for n in range(1 + long.get(id, 0)))

    def allowed(self, conn: sa.Connection, scope: Scope, query: Query, ids: list[str] | None) -> frozenset[str]:
        """Return the ids that pass the filter: of all, or of these."""
        now = _now(query.where)
        if ids is None or now is None:
            return super().allowed(conn, scope, query, ids)
        known = self._moment(conn, scope).spans
        if unknown := [id for id in ids if id not in known]:
            rows = fetch(conn, _SPANS, {"agent": scope.agent, "listed": json.dumps(storable(unknown))})
            known.update((id, (start, end)) for id, start, end in rows)
        return frozenset(id for id in ids if id in known and _valid(known[id], now))

    def _sync(self, conn: sa.Connection, space: VectorSpace) -> None:
        """Update the index of this process with all writes since its last update."""
        epoch, latest = self._counter(self._moment(conn, space.scope))
        mark = self._marks.get(space, (epoch, 0))
        if mark == (epoch, latest):
            return
        if mark[0] != epoch or mark[1] == 0:
            self._vectors.clear(space)
            self._long.pop(space, None)
            mark = (epoch, 0)
        v, t, agent = memory_index.c, tombstones.c, space.scope.agent
        gone = sa.select(t.memory_id, t.passages).where(t.agent == agent, t.seq > mark[1])
        self._vectors.remove(space, [vector_key(id, n) for id, passages in conn.execute(gone) for n in range(passages)])
        columns = (v.memory_id, v.passage, v.seq, v.dim, v.vector) if not self.codec.encrypted else (memory_index,)
        new = sa.select(*columns).where(
            v.agent == agent, v.namespace == space.namespace, v.embedder == space.embedder, v.seq > mark[1]
        )
        for page in conn.execute(new).partitions(PAGE):
            ids, passages, _, dims, vectors = zip(*(self.mirrored_row(conn, row) for row in page), strict=True)
            for which, matrix in sound(dims, vectors):
                self._vectors.add(space, [vector_key(ids[n], passages[n]) for n in which], matrix)
            long = self._long.setdefault(space, {})
            for id, passage in zip(ids, passages, strict=True):
                if passage:
                    long[id] = max(passage, long.get(id, 0))
        self._marks[space] = (epoch, latest)

    # Maintenance -------------------------------------------------------------------------------------

    def after_write(self) -> None:
        """Checkpoint a long write-ahead log, so that it can be restarted."""
        if self._full_log and self._empty_log(0):
            return
        size = _size(self._log_path)
        if size < CHECKPOINT_BYTES:
            self._log_limit = CHECKPOINT_BYTES
        if not self._checkpoints or size < self._log_limit:
            return
        self._log_limit = size + CHECKPOINT_BYTES // 4  # a reader may block it; do not try at every write
        try:
            self._checkpoint()
        except StoreError as error:  # committed data is safe in the log, and a later write tries again
            _log.warning("the write-ahead log could not be checkpointed: %s", error)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Let threads write in turn, since SQLite's own waiting can starve a thread."""
        if not self._turn.acquire(timeout=self._busy_seconds):
            raise StoreBusy(
                f"other threads have kept {self.path} busy for too long; try again, or raise `busy_seconds`"
            )
        try:
            yield
        finally:
            self._turn.release()

    def _checkpoint(self) -> None:
        """Checkpoint the log, as far as readers allow."""
        with self._wrapped(), self._two_connections() as (lock, conn):
            _carry_over(lock, conn)

    @contextmanager
    def _two_connections(self) -> Iterator[tuple[Any, Any]]:
        """Provide two connections: the one that holds the write lock cannot checkpoint itself."""
        with closing(self.engine.raw_connection()) as one, closing(self.engine.raw_connection()) as other:
            yield one.driver_connection, other.driver_connection

    def scrub(self) -> bool:
        """Overwrite deleted data in the file and its log; return `False` if that has to wait for a reader.

        SQLite overwrites deleted rows in their pages (`secure_delete`), but the word index keeps deleted words until it
        is merged, and the log keeps old pages. SQLite may also leave copies when it moves rows between pages, so the
        file is searched for samples of deleted data, and rewritten if one is found.
        """
        if self.read_only:
            return True
        with self._tracing:
            self._scrubs_asked += 1
            mine = self._scrubs_asked
        with self._scrubbing:
            if self._scrubbed[0] < mine:  # otherwise a run that began after this request has done it
                with self._tracing:
                    asked = self._scrubs_asked
                self._scrubbed = asked, self._scrub_all()
            return self._scrubbed[1]

    def _scrub_all(self) -> bool:
        """Empty the log, then search the file and rewrite it; not before, since that would make the log longer."""
        try:
            with self.write(None) as conn:
                merge_words(conn)
                owed = bool(fetch(conn, _SETTING, {"name": OWED}))
            # Do not wait again for a reader that blocked it before.
            emptied = self._empty_log(0 if self._full_log else READERS_SECONDS)
            if emptied:
                with self._tracing:
                    went, self._went = self._went, {}
                if owed or (went and self._left_of(went)):
                    with self._turn, self._wrapped(), closing(self._connect()) as raw:
                        raw.execute("VACUUM")
                    emptied = self._empty_log(READERS_SECONDS)
            if emptied == owed:
                with self.write(None) as conn:  # for a later run, which has no samples
                    conn.execute(_UNSET if emptied else _SET, {"name": OWED, "value": "1"})
        except (StoreFull, StoreBusy) as error:
            _log.warning("deleted data stays readable in the file until the next run: %s", error)
            return False
        return emptied

    def before_forget(self, conn: sa.Connection, scope: Scope, ids: Sequence[str]) -> None:
        """Keep samples of deleted data, to search the file for them when it is scrubbed."""
        if self.driver.key is None and not self.codec.encrypted and len(self._went) < MOST_TRACES:
            asked = {"agent": scope.agent, "listed": json.dumps(storable(ids)[:PAGE])}
            went = dict(sample for row in fetch(conn, _GOING, asked) for sample in _samples(*row))
            with self._tracing:
                self._went |= went

    def free_reserve(self) -> None:
        """Release the reserved disk space, for a deletion on a full disk."""
        _beside(self.path, "-reserve").unlink(missing_ok=True)

    def renew_reserve(self) -> None:
        """Empty the log after a deletion on a full disk, and reserve space again."""
        self._empty_log(READERS_SECONDS)
        self.keep_reserve()

    def _left_of(self, went: Mapping[bytes, str]) -> bool:
        """Return True if the file may contain deleted content; a large number of samples is not searched for."""
        with self.read(None) as conn:
            known = self._words.holders(conn, sorted({*went.values()}))
        sought = [sample for sample, word in went.items() if word not in known]
        if len(sought) > MOST_SOUGHT:
            return True
        found = _found(self.path, sought) if sought else set()
        with self.read(None) as conn:
            return any(not fetch(conn, _HAS, {"sample": sample})[0][0] for sample in sorted(found))

    def _empty_log(self, seconds: float) -> bool:
        """Checkpoint the whole log and restart it; return False if a reader prevented that.

        Not by SQLite's `TRUNCATE` checkpoint: after a timeout, it continues without the write lock, and versions before
        `WAL_RESET_FIXED` then lose pages if another process restarts the log.
        """
        self._full_log = True
        with suppress(StoreBusy, StoreFull), self._turn, self._wrapped(), self._two_connections() as (lock, conn):
            lock.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")
            try:
                self._full_log = not self._began_anew(lock, conn, seconds)
            finally:
                lock.execute(f"PRAGMA busy_timeout = {round(self._busy_seconds * 1000)}")
        return not self._full_log

    def _began_anew(self, lock: Any, conn: Any, seconds: float) -> bool:
        """Restart the log by a write after a complete checkpoint; return False if readers prevented that in time."""
        log, until, pause = _beside(self.path, "-wal"), time.monotonic() + seconds, 0.0
        before = _log_number(log)
        while before:
            carried = _carry_over(lock, conn)  # readers that begin now do not need the log
            time.sleep(pause)
            if carried:
                _write_nothing(lock)
                if _log_number(log) != before:
                    break
            if time.monotonic() >= until:
                return False
            pause = min(2 * pause + 0.001, LONGEST_PAUSE)
        return True

    def keep_reserve(self) -> None:
        """Reserve disk space, since SQLite needs some even for deletions."""
        reserve = _beside(self.path, "-reserve")
        if self.read_only or _size(reserve) == RESERVE_BYTES:
            return
        try:
            reserve.write_bytes(bytes(RESERVE_BYTES))
        except OSError:
            reserve.unlink(missing_ok=True)  # the disk is full

    def facts(self, conn: sa.Connection) -> Mapping[str, str | int | float | None]:
        """Return facts about the database: its location, size and schema."""
        return {
            "path": str(self.path),
            "bytes": sum(_size(_beside(self.path, suffix)) for suffix in ("", "-wal")),
            "schema": _version(conn),
            "sqlite": self.driver.module.sqlite_version,
            "encryption": "file" if self.driver.key else "fields" if self.codec.encrypted else "none",
            "durable": "yes" if self._durable else "no",
            "read_only": "yes" if self.read_only else "no",
        }

    def check(self, check_rows: Callable[[sa.Connection], list[IntegrityProblem]]) -> list[IntegrityProblem]:
        """Check the file, the rows and the derived indexes; return the problems found."""
        problems = []
        try:
            with self.read(None) as conn:
                if self.driver.key is not None:  # rows that cannot be decrypted cannot be checked further
                    problems = [
                        IntegrityProblem("file", said) for (said,) in fetch(conn, "PRAGMA cipher_integrity_check", {})
                    ]
                if problems:
                    return problems
                for (said,) in conn.execute(sa.text("PRAGMA integrity_check")):
                    if said != "ok":
                        problems.append(IntegrityProblem("file", said))
                for table, row, parent, _ in conn.execute(sa.text("PRAGMA foreign_key_check")):
                    problems.append(IntegrityProblem(table, f"row {row} points to nothing in {parent}"))
                problems += check_rows(conn)
        except StoreCorrupt as error:
            problems.append(IntegrityProblem("file", str(error)))
        return problems + self._check_words()

    def _check_words(self) -> list[IntegrityProblem]:
        """Check the word index against its rows, which SQLite can do only with write access."""
        if self.read_only:
            return []
        try:
            with self.write(None) as conn:
                conn.execute(sa.text("INSERT INTO memory_words (memory_words) VALUES ('integrity-check')"))
        except StoreCorrupt:
            return [IntegrityProblem("memory_words", "the index is damaged; `engram upkeep rebuild` makes it again")]
        return []

    def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """Write a consistent copy while others read and write; an incomplete copy is removed."""
        self.guard()
        _inspect(target, self.driver)
        if _beside(target, "-wal").exists() or target.resolve() == self.path.resolve():
            raise InvalidInput(f"{target} is a database in use; give the backup a name of its own")
        partial = target.with_name(target.name + ".partial")
        partial.unlink(missing_ok=True)
        _make_private(partial)
        try:
            with self._wrapped(), closing(self._connect()) as source, closing(self.driver.connect(partial)) as copy:
                source.execute("BEGIN")  # one snapshot until the end; otherwise each write of others restarts the copy
                source.execute("SELECT * FROM counter").fetchall()
                source.backup(copy, pages=1024, progress=_steps(progress))
                copy.execute("PRAGMA journal_mode = WAL")
            if target.exists():
                partial.chmod(stat.S_IMODE(target.stat().st_mode))
            partial.replace(target)
        finally:
            _remove(partial)

    def empty_words(self, conn: sa.Connection) -> None:
        """Empty the word index, even if it is damaged."""
        make = conn.execute(sa.text("SELECT sql FROM sqlite_master WHERE name = 'memory_words'")).scalar_one()
        conn.exec_driver_sql("DROP TABLE memory_words")  # emptying a damaged index would not repair it
        conn.exec_driver_sql(make)

    def refuse_plain_rows(self, conn: sa.Connection) -> None:
        """Add triggers or constraints to the database that refuse rows that are not encrypted."""
        for guard in sealing.guards():
            conn.exec_driver_sql(guard)

    def scrub_files(self) -> None:
        """Remove old versions of rows from the database's files, as far as possible."""
        # FTS5 keeps deleted words until a merge: rebuild it, and remove free pages by VACUUM.
        with self.write(None) as conn:
            conn.execute(sa.text("INSERT INTO memory_words (memory_words) VALUES ('rebuild')"))
        self.engine.dispose()
        with self._wrapped(), closing(self._connect()) as conn:
            conn.execute("VACUUM")
        if not self._empty_log(READERS_SECONDS):
            raise StoreBusy(f"another process reads {self.path}; close it, and start `engram crypt init` again")

    def crypt_setting(self, conn: sa.Connection, *, writing: bool = False) -> str | None:
        """Read the setting that says how the database is encrypted."""
        found = fetch(conn, _SETTING, {"name": sealing.CRYPT})
        return found[0][0] if found else None

    def word_marks(self, conn: sa.Connection) -> Iterator[tuple[int, object]]:
        """Read the word index: for each row its number and a value that represents its terms, to compare in checks."""
        return self._words.marks(conn)

    def word_mark(self, agent: str, terms: list[str]) -> object:
        """Return the value that `word_marks` should yield for a row."""
        return scope_term(agent), " ".join(terms)

    def epoch(self, conn: sa.Connection) -> str:
        """Return the epoch; it changes when caches cannot be updated by write numbers and must be dropped."""
        return str(conn.scalar(sa.select(_counter.c.epoch)))

    def advance_sequence(self, conn: sa.Connection, last: int) -> None:
        """Make the numbers of new writes higher than `last`."""
        conn.execute(
            sa.text("UPDATE counter SET seq = max(seq, :last), epoch = :epoch"),
            {"last": last, "epoch": self.sources.new_id()},
        )

    def vectors_removed(self, conn: sa.Connection) -> None:
        """Hook: vectors were deleted whose memories still exist."""
        # Deleted vectors leave no numbers, so all caches must be rebuilt.
        conn.execute(_EPOCH, {"epoch": self.sources.new_id()})

    def after_fork(self) -> None:
        """Replace connections, locks and pending counts in a forked process, without touching its parent's."""
        self._syncing, self._turn = threading.Lock(), threading.RLock()
        self._scrubbing, self._tracing = threading.Lock(), threading.Lock()
        _inherited.append(self.engine.pool)
        super().after_fork()

    def translate(self, error: Any) -> EngramError:
        """Return the error of `engram.errors` for one of the driver's."""
        return _translate(self.path, error.orig if isinstance(error, sa.exc.DBAPIError) else error)


class SqliteStore(SqlStore):
    """A `Store` in one file that many threads and processes can use at once."""

    def __init__(
        self,
        path: Path,
        vectors: VectorStore,
        sources: Sources,
        *,
        durable: bool = True,
        busy_seconds: float = 30.0,
        remote: VectorStore | None = None,
        cipher: Cipher | None = None,
        encryption: str = "none",
    ) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old; use a Python with SQLite 3.35 or newer")
        self.path = path
        raw.claim(path)  # from now on, keep handles to the file open until the store is closed
        self._claimed = True
        try:
            driver = driver_for(path, cipher, encryption)
            self._file = SqliteTables(path, driver, vectors, sources, durable=durable, busy_seconds=busy_seconds)
            super().__init__(self._file, remote, cipher)
            try:
                self._encryption.unlock(str(path), encryption, remote=remote is not None)
                self._file.keep_reserve()
            except BaseException:
                self._file.engine.dispose()
                raise
        except BaseException:
            self._release()
            raise
        self.snapshot = self._file.snapshot
        self.scrub = self._file.scrub
        self.backup = self._file.backup

    def touch(self, scope: Scope, ids: Sequence[str], at: datetime) -> None:
        """Count that these memories were recalled; ignored for a read-only file."""
        if not self._file.read_only:
            self._recalls.touch(scope, ids, at)

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Delete memories and all that belongs to them, even on a full disk, with the reserved space."""
        try:
            return self._memories.forget(scope, ids)
        except StoreFull:
            self._file.free_reserve()
            receipts = self._memories.forget(scope, ids)
            self._file.renew_reserve()
            return receipts

    def check(self) -> list[IntegrityProblem]:
        """Check the file, the rows and the derived indexes; return the problems found."""
        return self._file.check(self._checks.check_rows)

    def encryption(self) -> Mapping[str, str | int]:
        """Return how the database is encrypted, and the number of keys."""
        if self._file.driver.key is None or self._encryption.cipher is None:
            return self._encryption.encryption()
        return {"mode": "file", "master": self._encryption.cipher.identity}

    def close(self) -> None:
        """Write pending statistics and release all resources; calling it twice is harmless."""
        try:
            super().close()
        finally:
            self._release()

    def _release(self) -> None:
        if self._claimed:
            self._claimed = False
            raw.release(self.path)


class VectorMemoryStore(SqliteStore):
    """A store whose nearest neighbours come from a vector database; otherwise like `SqliteStore`."""

    def __init__(self, path: Path, remote: VectorStore, mirror: VectorStore, sources: Sources) -> None:
        super().__init__(path, mirror, sources, remote=remote)


class _Wrapped:
    """Translate the driver's errors."""

    def __init__(self, tables: SqliteTables) -> None:
        self._path = tables.path
        self._errors = (sqlite3.Error, tables.driver.module.Error)

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        if isinstance(cause, self._errors):
            raise _translate(self._path, cause) from error


def open_store(location: str, vectors: VectorStore, sources: Sources, options: Mapping[str, Any]) -> SqliteStore:
    """Open the store in a file; `location` is a path, or what follows `sqlite:///`."""
    if not location:
        raise InvalidInput("a SQLite database needs a path, such as sqlite:///team.db")
    return SqliteStore(Path(location).expanduser(), vectors, sources, **options)


def restore(
    backup: Path,
    target: Path,
    sources: Sources,
    progress: Callable[[int, int], None] | None = None,
    cipher: Cipher | None = None,
) -> None:
    """Replace the content of `target` by that of `backup`, atomically for other processes."""
    driver = driver_for(backup, cipher, "none")
    if _inspect(backup, driver):
        raise NotAnEngramDatabase(f"{backup} is empty; give a file that `engram db backup` wrote")
    same = driver_for(target, cipher, "none") == driver or not _size(target)
    if not same:  # only one of them is encrypted as a file, so pages cannot be copied
        raise Conflict(f"{target} is not encrypted like {backup}; move it away, or restore to another file")
    _inspect(target, driver)
    renewed = _beside(target, "-restoring")
    _make_private(renewed)
    try:
        with closing(driver.connect(_reading(backup), uri=True)) as source, closing(driver.connect(renewed)) as new:
            if source.execute("PRAGMA quick_check").fetchone() != ("ok",):
                raise StoreCorrupt(f"{backup} is damaged; use another backup")
            _refuse_newer(backup, source.execute("SELECT version_num FROM alembic_version").fetchone()[0])
            source.backup(new)
            # The new epoch tells other processes to drop their caches.
            new.execute("UPDATE counter SET epoch = ?", (sources.new_id(),))
            if new.execute("SELECT 1 FROM sqlite_master WHERE name = 'audit'").fetchone():
                entry = audit_entries.sealing(AuditAction("restore", target=backup.name), sources.now())
                last, prev = new.execute(_HEAD).fetchone() or (0, "")
                new.execute(_ENTRY, entry.at(last + 1, prev))
            new.commit()
            _make_private(target)
            try:
                with closing(driver.connect(target, timeout=30)) as copy:
                    new.backup(copy, pages=-1, progress=_steps(progress))
                    copy.execute("PRAGMA journal_mode = WAL")
            except driver.module.DatabaseError as error:
                if not isinstance(_translate(target, error), StoreCorrupt):
                    raise
                _replace(new, renewed, target)  # the existing file is too damaged to be written
    except driver.module.Error as error:
        raise _translate(target, error) from error
    finally:
        _remove(renewed)


def _replace(new: Any, renewed: Path, target: Path) -> None:
    new.close()
    renewed.chmod(stat.S_IMODE(target.stat().st_mode))
    _remove(target)
    renewed.replace(target)


def _steps(progress: Callable[[int, int], None] | None) -> Callable[[int, int, int], None] | None:
    """Convert SQLite's progress report (status, remaining, total) to (done, total)."""
    return None if progress is None else lambda _, left, total: progress(total - left, total)


def _now(where: Filter) -> int | None:
    """Return the time of a filter that only has the condition `current`, as in most recalls."""
    if where.current is None or where != Filter(current=where.current):
        return None
    return micros(where.current)


def _valid(span: Span, now: int) -> bool:
    """Apply the filter `current` to a validity span, as `filter_conditions` does."""
    start, end = span
    return (start is None or start <= now) and (end is None or end > now)


def _carry_over(lock: Any, conn: Any) -> bool:
    """Checkpoint the log under the write lock, so that no writer restarts it; return True if it is complete."""
    lock.execute("BEGIN IMMEDIATE")
    try:
        busy, frames, copied = conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    finally:
        lock.execute("ROLLBACK")
    return not busy and frames == copied


def _write_nothing(conn: Any) -> None:
    """Commit a write that changes nothing, by setting a number in the first page to its present value."""
    conn.execute("BEGIN IMMEDIATE")
    try:
        (number,) = conn.execute("PRAGMA user_version").fetchone()
        conn.execute(f"PRAGMA user_version = {number}")
        conn.execute("COMMIT")
    finally:
        if conn.in_transaction:
            conn.execute("ROLLBACK")


def _log_number(log: Path) -> bytes:
    """Read a number that changes when the log is restarted; empty without a log. SQLite does not lock this file."""
    try:
        with log.open("rb") as file:
            return file.read(24)[12:]
    except FileNotFoundError:
        return b""


def _begin(conn: sa.Connection) -> None:
    # Otherwise a transaction that begins with a read fails at its first write if another process wrote in between.
    if conn.get_execution_options().get(WRITE):
        conn.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        conn.connection.driver_connection.execute("BEGIN")  # type: ignore[union-attr]


def driver_for(path: Path, cipher: Cipher | None, encryption: str) -> Driver:
    """Return the driver of a file: its header shows if it is encrypted; a new one follows the setting."""
    try:
        header = raw.head(path, len(MAGIC))
    except (OSError, ValueError):  # `_inspect` raises the error
        header = b""
    if cipher is None or header == MAGIC or (not header and encryption != "file"):
        if encryption == "file" and header == MAGIC:
            raise StoreError(f"{path} is not encrypted as a file; run `engram crypt init --mode file` to encrypt it")
        if encryption == "file" and cipher is None:
            raise StoreError("encryption needs a key; run `engram crypt init --mode file` to create one")
        return PLAIN
    return whole_file(cipher.derive(PURPOSE))


def _samples(text: str, words: str | None, vectors: str | None) -> Iterator[tuple[bytes, str]]:
    """Return samples of a memory to search the file for, by word: of its text, its longest words, and a vector.

    The index compresses common prefixes of words, so the samples are the ends of words.
    """
    data = text.encode()
    if len(data) >= SAMPLE_BYTES:
        yield from ((data[start : start + SAMPLE_BYTES], "") for start in {0, len(data) - SAMPLE_BYTES})
    for word in sorted({*(words or "").split()}, key=lambda word: (-len(word), word))[:2]:
        if len(word) >= LEAST_BYTES:
            yield word.encode()[min(len(word) // 3, len(word) - LEAST_BYTES) :], word
    yield from ((bytes.fromhex(piece), "") for piece in (vectors or "").split(",")[:1] if piece)


def merge_words(conn: sa.Connection) -> None:
    """Merge the word index, so that it contains no deleted words; rebuild it if it has too many levels."""
    how = "rebuild" if _levels(fetch(conn, _STRUCTURE, {})[0][0]) >= MOST_LEVELS else "optimize"
    conn.execute(sa.text("INSERT INTO memory_words (memory_words) VALUES (:how)"), {"how": how})


def _levels(structure: bytes) -> int:
    """Return the number of levels of a word index: the varint after the first four bytes of its structure."""
    number = 0
    for byte in structure[4:13]:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return number


def _found(path: Path, samples: Collection[bytes]) -> set[bytes]:
    """Find the samples that occur in a file."""
    found, before, longest = set[bytes](), b"", max(map(len, samples), default=1)
    for block in raw.blocks(path, BLOCK_BYTES):
        piece = before + block
        found |= {sample for sample in samples if sample not in found and sample in piece}
        before = piece[-longest:]
    return found


def _inspect(path: Path, driver: Driver = PLAIN) -> bool:
    """Return True if the file is new, without changing it. Raises if it belongs to another program."""
    if "\x00" in str(path):
        raise InvalidInput(f"this cannot be the name of a file: {unstorable(str(path))}")
    try:
        if path.is_dir():
            raise InvalidInput(f"{path} is a folder; name a file in it, such as {path / 'engram.db'}")
        if not path.parent.is_dir():
            raise InvalidInput(f"the folder {path.parent} does not exist; create it first")
        header = raw.head(path, 100)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}; check its permissions") from error
    if not header:
        return True
    if driver.key is not None:
        _try_key(path, driver)
        return False
    foreign = NotAnEngramDatabase(f"{path} is not an Engram database; it was not touched. Name another file")
    if not header.startswith(MAGIC):
        raise NotAnEngramDatabase(
            f"{path} is not an Engram database; it was not touched. Name another file, or, if it is encrypted, "
            "give its key by the setting `key_file`"
        )
    if int.from_bytes(header[68:72], "big") == APPLICATION_ID:
        return False
    if _has_tables(path):
        raise foreign
    return True


def _try_key(path: Path, driver: Driver) -> None:
    """Check the key of an encrypted file. Raises `NotAnEngramDatabase` if it is wrong."""
    try:
        with closing(driver.connect(_reading(path), uri=True)) as conn:
            mark = conn.execute("PRAGMA application_id").fetchone()
            conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except driver.module.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_NOTADB:
            raise _translate(path, error) from error
        raise NotAnEngramDatabase(
            f"{path} is encrypted with another key, or is not an Engram database; it was not touched. "
            "Check the setting `key_file`"
        ) from error
    if mark != (APPLICATION_ID,):
        raise NotAnEngramDatabase(f"{path} is not an Engram database; it was not touched. Name another file")


def _address(path: Path) -> str:
    """Return the path for an SQLite URI; two slashes at the start would denote a host."""
    quoted = quote(os.fsencode(path))
    return "/" + quoted.lstrip("/") if quoted.startswith("/") else quoted


def _reading(path: Path) -> str:
    """Return the URI for reading a file; without a log, as immutable, so that no other file is created."""
    return f"file:{_address(path)}?mode=ro" + ("" if _beside(path, "-wal").exists() else "&immutable=1")


def _has_tables(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(_reading(path), uri=True)) as conn:
            return bool(conn.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    except sqlite3.Error:
        return True  # not a database of Engram


def _version(conn: sa.Connection) -> str | None:
    if not sa.inspect(conn).has_table("alembic_version"):
        return None
    return conn.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _refuse_newer(path: Path, version: str | None) -> None:
    if version is not None and version > REVISION:
        raise NewerSchema(
            f"{path} was written by a newer Engram (schema {version}, this one knows {REVISION}); "
            "upgrade with `pip install -U engram-learning`"
        )


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _make_private(path: Path) -> None:
    """Create a new file that only its owner can read; SQLite gives its log the same mode.

    An existing file is not changed; if the file cannot be created, SQLite reports the error later.
    """
    with suppress(OSError):
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        _beside(path, suffix).unlink(missing_ok=True)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


_TAKEN = {
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
    sqlite3.SQLITE_CONSTRAINT_ROWID,
    sqlite3.SQLITE_CONSTRAINT_UNIQUE,
}
"""Error codes for rows that exist already; other violated constraints are bugs."""


def _translate(path: Path, error: BaseException | None) -> EngramError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_BUSY:
        return StoreBusy(f"another process has kept {path} locked for too long; try again, or raise `busy_seconds`")
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"the disk that holds {path} is full; free some space and try again. Nothing was lost")
    if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN}:
        return StoreReadOnly(f"{path} cannot be written ({error}); check the permissions of the file and its folder")
    if code == sqlite3.SQLITE_CONSTRAINT and sealing.GUARDED in str(error):
        return StoreError(f"{path} was encrypted meanwhile; open it again with its key")
    if code == sqlite3.SQLITE_CONSTRAINT and getattr(error, "sqlite_errorcode", 0) in _TAKEN:
        return Conflict("what was to be stored is there already; nothing of it was stored")
    if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return StoreCorrupt(f"{path} is damaged ({error}); `engram db restore` brings back a backup")
    return StoreError(f"{path} could not be used: {error}; `engram doctor` looks into it")
