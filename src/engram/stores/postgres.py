"""The PostgreSQL store: tsvector for words, pgvector for vectors, row-level security between agents."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa

from engram.clock import Sources, micros
from engram.errors import (
    Conflict,
    EngramError,
    InvalidInput,
    MissingExtra,
    NewerSchema,
    StoreAway,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    Unsupported,
)
from engram.ports import Cipher, Match, Placed, Query, RankingInput, Scope, TermCounts, VectorSpace, VectorStore
from engram.stores import audit_entries, neighbours
from engram.stores.migrate import upgrade
from engram.stores.rows import Row, to_ranking_input
from engram.stores.rules import ENOUGH, MOST_SCORED, nearest, telling, vector_key
from engram.stores.schema import REVISION, PgVector, memories, memory_index, settings, tombstones
from engram.stores.sql import LATER, PUSHED, WRITE, SqlStore, Tables, Touches, sound, storable
from engram.text.terms import K1, B, digest

R = TypeVar("R")
_log = logging.getLogger("engram")

MAX_TSVECTOR_BYTES = 900_000  # PostgreSQL refuses a tsvector of a megabyte
MAX_COUNTED = 255  # and stores no more positions of a term
MAX_INDEXED_DIM = 2000
EXACT_BELOW = 20_000  # vectors in a scope up to which an exact scan is fast enough
PAUSES = (0.02, 0.04, 0.08, 0.16, 0.32)  # seconds before retries
MAX_DIM = 16_000
LOCK = 0x454E4752
AUDIT_LOCK = LOCK + 1
OLDEST_PGVECTOR = (0, 8)  # the index scan continues until enough rows pass the filter
OUTBOX = "engram_outbox"
MOMENT = "engram_moment"
FEW = 1_000
"""The number of rows below which the counts of a scope are not cached."""
NEWS = 0.05
"""The share of new rows after which the cached counts of a larger scope expire."""
COMMON = 200
"""The number of rows below which the count of a term is not cached, as the index finds them quickly."""
MOST_SCOPES = 1_000
"""The number of scopes with cached counts."""
VECTORS_EPOCH = PUSHED + "epoch"
GUARDS = {
    "memories": "left(content, 3) = 'v1.'",
    "memory_evidence": "left(detail, 3) = 'v1.'",
    "recall_events": "left(replace(detail, '\"helped\":null ', ''), 3) = 'v1.'",
    "events": "left(body, 3) = 'v1.'",
}
"""SQL conditions that encrypted rows fulfil; constraints refuse others."""
_NEAR_INDEXES = sa.text(
    "SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND tablename = 'memory_index' "
    "AND starts_with(indexname, 'near_')"
)
_CONSTRAINT = sa.text("SELECT 1 FROM pg_constraint WHERE conname = :name AND conrelid = to_regclass(:table)")
_SET = sa.text(
    "INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
).execution_options(**LATER)

_NUMBER = sa.text("SELECT nextval('engram_seq') FROM generate_series(1, :count)")
_ENROL = sa.text(
    "WITH enrolled AS (INSERT INTO agents (agent, created_at) VALUES (:agent, :at) ON CONFLICT DO NOTHING) "
    "SELECT nextval('engram_seq') FROM generate_series(1, :count)"
)
_BEGIN = sa.text("BEGIN").execution_options(**LATER)
_BEGIN_MOMENT = sa.text("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").execution_options(**LATER)
_ENTER = sa.text(
    "SELECT set_config('engram.agent', :agent, true), set_config('engram.everyone', :everyone, true)"
).execution_options(**LATER)
_THIS = sa.text("SELECT pg_current_xact_id()")
_FATE = sa.text("SELECT pg_xact_status(CAST(:transaction AS xid8))")
_INDEX = sa.text(
    "INSERT INTO memory_words (agent, seq, words, length) VALUES (:agent, :seq, CAST(:words AS tsvector), :length)"
).execution_options(**LATER)
_UNINDEX = sa.text("DELETE FROM memory_words WHERE agent = :agent AND seq = ANY(:seqs)").execution_options(**LATER)
_REACH = sa.text(
    "SELECT set_config('enable_indexscan', :index, true), set_config('hnsw.ef_search', :reach, true), "
    "set_config('hnsw.iterative_scan', 'relaxed_order', true)"
).execution_options(**LATER)
_REACH_BACK = sa.text("SET LOCAL enable_indexscan = on").execution_options(**LATER)
_TAKEN_ID = sa.text(
    "SELECT 1 FROM pg_constraint WHERE contype = 'p' AND conname = :name "
    "AND conrelid = to_regclass(quote_ident(:schema) || '.' || quote_ident(:table)) "
    "AND coalesce(pg_partition_root(conrelid), conrelid) = to_regclass('memories')"
)

_TAKE_TURN = sa.text("SELECT pg_advisory_xact_lock(:lock)").execution_options(**LATER)
# Hashed by the server, to hold the lock on the trail as briefly as possible. A separate statement after
# the lock, since it sees what was committed when it begins.
_CHAIN = sa.text(
    """
INSERT INTO audit (seq, at, actor, principal, action, agent, target, grant_id, count, detail, prev, hash)
SELECT place.seq, :at, :actor, :principal, :action, :agent, :target, :grant_id, :count, :detail, place.prev,
       encode(sha256(convert_to(concat(CAST(:before AS text), place.prev, CAST(:middle AS text), place.seq,
                                       CAST(:after AS text)), 'UTF8')), 'hex')
FROM (SELECT coalesce(max(seq), 0) + 1 AS seq,
             coalesce((SELECT hash FROM audit ORDER BY seq DESC LIMIT 1), '') AS prev FROM audit) AS place
"""
).execution_options(**LATER)

# Row-level security is checked before an index of words can be used: so all rows of a scope are scanned,
# but only once. Every row that holds a term of which it is not known how rare it is in this scope is among the hits, so
# that it can be counted there. Filters come after: they do not change how rare a word is.
_SCORED = sa.text(
    """
WITH whole AS MATERIALIZED (
  SELECT coalesce(CAST(:rows AS bigint), (SELECT count(*) FROM memory_words WHERE agent = :agent)) AS rows,
         greatest(1, coalesce(CAST(:mean AS float8), (SELECT avg(length) FROM memory_words WHERE agent = :agent)))
         AS mean
), hits AS MATERIALIZED (
  SELECT w.seq, w.length, t.lexeme, CAST(cardinality(t.positions) AS float8) AS times
  FROM memory_words AS w CROSS JOIN LATERAL unnest(w.words) AS t
  WHERE w.agent = :agent AND w.words @@ CAST(:query AS tsquery) AND t.lexeme = ANY(:terms)
), rarity AS MATERIALIZED (
  SELECT lexeme, count(*) AS holders FROM hits WHERE lexeme = ANY(:unknown) GROUP BY lexeme
), told AS MATERIALIZED (
  SELECT array_agg(lexeme) AS lexemes, array_agg(holders) AS holders, array_agg(
    greatest(1e-6, ln((greatest(whole.rows - holders, 0) + 0.5) / (holders + 0.5)))) AS weights
  FROM (SELECT lexeme, holders FROM rarity UNION ALL
        SELECT * FROM unnest(CAST(:known AS text[]), CAST(:holders AS bigint[])) AS k(lexeme, holders)) AS every, whole
), best AS MATERIALIZED (
  SELECT hits.seq, sum(told.weights[array_position(told.lexemes, hits.lexeme)] * hits.times * (bm.k1 + 1)
                       / (hits.times + bm.k1 * (1 - bm.b + bm.b * hits.length / whole.mean))) AS score
  FROM hits, told, whole, (SELECT CAST(:k1 AS float8) AS k1, CAST(:b AS float8) AS b) AS bm
  GROUP BY hits.seq ORDER BY score DESC, hits.seq DESC LIMIT CAST(:most AS bigint)
)
SELECT best.seq, best.score, whole.rows, whole.mean, told.lexemes, told.holders, written.last_value AS written
FROM whole CROSS JOIN told CROSS JOIN engram_seq AS written LEFT JOIN best ON true
"""
).columns(*(sa.column(name) for name in ("seq", "score", "rows", "mean", "lexemes", "holders", "written")))
_NEWEST = sa.text(
    "SELECT seq, CAST(0 AS float8) AS score FROM memory_words "
    "WHERE agent = :agent AND words @@ CAST(:query AS tsquery) ORDER BY seq DESC LIMIT :most"
).columns(sa.column("seq", sa.BigInteger), sa.column("score", sa.Float))
_HOLDERS = sa.text(
    "SELECT (SELECT count(*) FROM memory_words WHERE agent = :agent) AS rows, term, "
    "(SELECT count(*) FROM memory_words WHERE agent = :agent AND words @@ CAST(query AS tsquery)) AS holders "
    "FROM unnest(CAST(:terms AS text[]), CAST(:queries AS text[])) AS asked(term, query)"
)
_RANKING_INPUTS = neighbours.ranking_query(
    "= ANY(:listed)",
    "w.length, held.terms, held.times",
    "JOIN memory_words w ON w.agent = m.agent AND w.seq = m.seq CROSS JOIN LATERAL ("
    "SELECT array_agg(t.lexeme) AS terms, array_agg(cardinality(t.positions)) AS times FROM unnest(w.words) AS t "
    "WHERE t.lexeme = ANY(:terms)) AS held",
)


@dataclass(slots=True)
class _TermStatistics:
    """The number of rows of a scope, their mean length, and the number that hold each of some terms."""

    seq: int
    """The number of the last write before these were counted."""
    rows: int
    mean: float
    holders: dict[str, int]


@dataclass(slots=True)
class _Snapshot:
    """Values that a read transaction on a scope has cached; they cannot change before it ends."""

    scope: Scope
    conn: sa.Connection
    counts: _TermStatistics | None = None
    spaces: dict[tuple[str, str], tuple[int | None, int]] = field(default_factory=dict)


class PostgresTables(Tables):
    """The tables in one PostgreSQL database."""

    overlap = 1000  # numbers are assigned at a write, and visible at the commit

    def __init__(
        self,
        url: sa.URL,
        sources: Sources,
        *,
        durable: bool,
        busy_seconds: float,
        pool_size: int,
        max_overflow: int,
        opened: VectorStore | None,
    ) -> None:
        self.url = url
        self._busy_seconds = busy_seconds
        self._indexed: set[tuple[str, str, int]] = set()
        self._wanted: set[tuple[str, str, int]] = set()
        self._opened_vectors = opened
        self._marks: dict[VectorSpace, tuple[str, int, set[tuple[str, int]]]] = {}
        self._syncing = threading.Lock()
        self._held = threading.local()
        self.known: dict[Scope, _TermStatistics] = {}
        """Cached counts of large scopes and frequent terms."""
        self._counting = threading.Lock()
        super().__init__(self._make_engine(durable, busy_seconds, pool_size, max_overflow), sources)
        try:
            self._prepare()
        except BaseException:
            self.engine.dispose()
            raise

    # Opening -----------------------------------------------------------------------------------------

    def _make_engine(self, durable: bool, busy_seconds: float, pool_size: int, max_overflow: int) -> sa.Engine:
        wait, limit = max(1, round(busy_seconds)), max(1, round(busy_seconds * 1000))
        options = f"-c statement_timeout={limit} -c lock_timeout={limit} -c standard_conforming_strings=on"
        options += "" if durable else " -c synchronous_commit=off"
        own = {"connect_timeout": wait, "keepalives_idle": wait, "tcp_user_timeout": limit}
        given = self.url.query
        try:
            engine = sa.create_engine(
                self.url,
                pool_size=pool_size,
                max_overflow=max_overflow,
                pool_timeout=busy_seconds,
                use_native_hstore=False,
                connect_args={
                    **{name: value for name, value in own.items() if name not in given},
                    "options": f"{options} {given.get('options', '')}",
                    "autocommit": True,  # the driver would wait for the response to its BEGIN; `_begin` does not
                },
            )
        except ImportError as error:
            raise MissingExtra('PostgreSQL needs psycopg: pip install "engram-learning[postgres]"') from error
        sa.event.listen(engine, "connect", _take_on_role)
        sa.event.listen(engine, "begin", _begin)
        sa.event.listen(engine, "do_execute", _send)
        sa.event.listen(engine, "do_executemany", _send_many)
        sa.event.listen(engine, "commit", _send_the_rest)
        return engine

    def _prepare(self) -> None:
        """Upgrade the database to the newest schema; other processes that open it meanwhile wait."""
        with self.read(None) as conn:
            version = _version(conn)
        if version == REVISION:
            return
        if version is not None and version > REVISION:
            raise NewerSchema(
                f"{self.name} was written by a newer Engram (schema {version}, this one knows {REVISION}); "
                "upgrade with `pip install -U engram-learning`"
            )
        with self.write(None) as conn:
            _as_owner(conn)
            if _version(conn) != REVISION:
                _require_pgvector(conn, self.name)
                upgrade(conn)
        self.engine.dispose()  # new connections switch to the role that the migration created

    @property
    def name(self) -> str:
        """The URL without its password and options."""
        return self.url.set(drivername="postgresql", query={}).render_as_string(hide_password=True)

    def enter(self, conn: sa.Connection, scope: Scope | None) -> None:
        """Set the agent whose rows row-level security lets this transaction see."""
        everybody = {"agent": "", "everyone": "on"}
        conn.execute(_ENTER, everybody if scope is None else {"agent": scope.agent, "everyone": ""})

    @contextmanager
    def connection(self) -> Iterator[sa.Connection]:
        """A connection that raises errors of `engram.errors`."""
        with super().connection() as conn:
            yield conn.execution_options(**{OUTBOX: [], MOMENT: getattr(self._held, "begins", False)})

    @contextmanager
    def snapshot(self, scope: Scope) -> Iterator[None]:
        """Let all reads of this thread in the scope see the same state, unless the connection is lost."""
        stack, conn = self._patiently(lambda: self._begun(scope))
        with stack:
            self._held.moment = _Snapshot(scope, conn)
            try:
                yield
            finally:
                self._held.moment = None

    def _begun(self, scope: Scope) -> tuple[ExitStack, sa.Connection]:
        stack = ExitStack()
        self._held.begins = True
        try:
            return stack, stack.enter_context(self.read(scope))
        finally:
            self._held.begins = False

    def look(self, scope: Scope | None, work: Callable[[sa.Connection], R]) -> R:
        """Run reads in one transaction and return their result; they may be retried."""
        held: _Snapshot | None = getattr(self._held, "moment", None)
        if held is not None and held.scope == scope:
            try:
                return work(held.conn)
            except sa.exc.DBAPIError as error:
                if not isinstance(self.translate(error), _TryAgain | _Lost):
                    raise
                self._give_up(held)
        return self._patiently(lambda: super(PostgresTables, self).look(scope, work))

    def _give_up(self, held: _Snapshot) -> None:
        """End the snapshot; further reads use their own transactions."""
        self._held.moment = None
        if (transaction := held.conn.get_transaction()) is not None:
            transaction.rollback()

    def _moment(self, conn: sa.Connection, scope: Scope) -> _Snapshot:
        """Return the current snapshot of this thread, or a new one."""
        held: _Snapshot | None = getattr(self._held, "moment", None)
        return held if held is not None and held.conn is conn and held.scope == scope else _Snapshot(scope, conn)

    def transact(self, scope: Scope | None, work: Callable[[sa.Connection], R]) -> R:
        """Run a write, and retry if it failed; after a lost connection, ask the server if it was committed."""
        done: list[tuple[str, R]] = []

        def attempt() -> R:
            counts: Touches = {}
            try:
                with self.write(scope) as conn:
                    if done and _went_through(conn, done[-1][0]):
                        return done[-1][1]
                    done.clear()
                    result = work(conn)
                    counts = self.finish(conn)
                    done.append((str(conn.scalar(_THIS)), result))
            except (Conflict, _TryAgain):  # it was rolled back
                self.pending.count(counts)
                raise
            return result

        return self._patiently(attempt)

    def _patiently(self, attempt: Callable[[], R]) -> R:
        """Retry for a while after conflicts with other clients or lost connections."""
        patience = time.monotonic() + self._busy_seconds
        for pause in PAUSES:
            try:
                return attempt()
            except (_TryAgain, _Lost):
                if time.monotonic() > patience:
                    raise
                time.sleep(pause * (0.5 + self.sources.random.random()))
        return attempt()

    # Words -------------------------------------------------------------------------------------------

    def number(self, conn: sa.Connection, count: int) -> list[int]:
        """Return `count` unique write numbers, ascending."""
        return sorted(conn.scalars(_NUMBER, {"count": count}))

    def enrol(self, conn: sa.Connection, scope: Scope, count: int) -> list[int]:
        """Add the agent if it is new, and return `count` write numbers."""
        at = micros(self.sources.now())
        return sorted(conn.scalars(_ENROL, {"agent": scope.agent, "at": at, "count": count}))

    def append_audit(self, conn: sa.Connection, entries: Sequence[audit_entries.Sealing]) -> None:
        """Append entries to the audit trail, and lock it until this transaction ends."""
        self.enter(conn, None)  # the previous entry may belong to any agent
        conn.execute(_TAKE_TURN, {"lock": AUDIT_LOCK})
        for entry in entries:
            conn.execute(_CHAIN, entry.row | {"before": entry.before, "middle": entry.middle, "after": entry.after})

    def as_owner(self, conn: sa.Connection) -> None:
        """Acquire the right to delete entries of the audit trail, for the rest of the transaction."""
        _as_owner(conn)

    def flush(self) -> None:
        """Write pending statistics in a transaction of their own."""
        self.transact(None, lambda conn: conn.scalar(_THIS))  # a round trip first: counts stay pending if it fails

    def one_of(self, column: sa.ColumnElement[Any], values: Sequence[str]) -> sa.ColumnElement[bool]:
        """Return the condition that a column has one of the values, which are bound as one parameter."""
        return column == sa.any_(sa.bindparam(None, storable(values), type_=sa.ARRAY(sa.Text)))

    def index_words(self, conn: sa.Connection, rows: Sequence[tuple[str, int, list[str]]]) -> None:
        """Add rows (agent, seq, terms) to the word index."""
        if rows:
            conn.execute(
                _INDEX,
                [
                    {"agent": agent, "seq": seq, "words": _tsvector(terms), "length": len(terms)}
                    for agent, seq, terms in rows
                ],
            )

    def unindex_words(self, conn: sa.Connection, agent: str, seqs: Sequence[int]) -> None:
        """Remove rows from the word index."""
        if seqs:
            conn.execute(_UNINDEX, {"agent": agent, "seqs": list(seqs)})

    def empty_words(self, conn: sa.Connection) -> None:
        """Empty the word index, even if it is damaged."""
        # Lock it, since others would add entries that the rebuild does not know.
        conn.execute(sa.text("SET LOCAL statement_timeout = 0"))
        conn.execute(sa.text("LOCK TABLE memories IN SHARE ROW EXCLUSIVE MODE"))
        conn.execute(sa.text("DELETE FROM memory_words"))

    def word_marks(self, conn: sa.Connection) -> Iterator[tuple[int, object]]:
        """Read the word index: for each row its number and a value that represents its terms, to compare in checks."""
        rows = conn.execute(sa.text("SELECT seq, agent, length, tsvector_to_array(words) AS terms FROM memory_words"))
        return ((row.seq, (row.agent, row.length, frozenset(row.terms))) for row in rows)

    def word_mark(self, agent: str, terms: list[str]) -> object:
        """Return the value that `word_marks` should yield for a row."""
        return agent, len(terms), frozenset(_counted(terms))

    def search_words(self, conn: sa.Connection, scope: Scope, terms: list[str], query: Query) -> list[Match]:
        """Score the rows with the rarest words; if too few, append the newest with frequent words."""
        known = self.known.get(scope)
        found, counts = self._scored(conn, scope, terms, query, known)
        if known is not None and abs(counts.seq - known.seq) > known.rows * NEWS:
            known = None
            found, counts = self._scored(conn, scope, terms, query, None)
        self._keep(scope, counts, counts.seq if known is None else known.seq)
        self._moment(conn, scope).counts = counts
        held = [term for term in terms if counts.holders[term]]
        if known is not None and found is not None and len(found) < query.limit + query.offset and held:
            found = self._filled(conn, scope, query, held, found)
        if found is None:
            found = self._thorough(conn, scope, query, held, counts)
        return found[query.offset : query.limit + query.offset]

    def _scored(
        self, conn: sa.Connection, scope: Scope, terms: list[str], query: Query, known: _TermStatistics | None
    ) -> tuple[list[Match] | None, _TermStatistics]:
        """Return the best of the rows with rare words, and the counts made meanwhile.

        The rows are `None` if better ones may have been cut off before the filter.
        """
        holders = {term: known.holders[term] for term in terms if term in known.holders} if known is not None else {}
        unknown = [term for term in terms if term not in holders]
        few = telling(list(holders), holders)
        if unknown and sum(holders[term] for term in few) > MOST_SCORED:
            few = []
        wanted = query.limit + query.offset
        hits = _SCORED.subquery("hits")
        passing = sa.and_(memories.c.seq == hits.c.seq, *self.conditions(scope, query))
        found = sa.select(hits, memories.c.id).select_from(hits.outerjoin(memories, passing)).order_by(*_best(hits))
        asked = _asked(scope, [*unknown, *few], terms, holders, known, wanted * ENOUGH)
        rows = conn.execute(found, asked).all()
        one = rows[0]
        counted = dict.fromkeys(terms, 0) | dict(zip(one.lexemes or (), one.holders or (), strict=True))
        matches = [Match(row.id, row.score) for row in rows if row.id is not None]
        full = len(rows) < wanted * ENOUGH or len(matches) >= wanted
        return matches if full else None, _TermStatistics(one.written, one.rows, one.mean, counted)

    def _filled(
        self, conn: sa.Connection, scope: Scope, query: Query, terms: list[str], found: list[Match]
    ) -> list[Match] | None:
        """Append the newest rows with frequent words, which have no score, to those with rare words."""
        wanted = query.limit + query.offset
        hits = _NEWEST.subquery("hits")
        passing = sa.and_(memories.c.seq == hits.c.seq, *self.conditions(scope, query))
        newest = sa.select(memories.c.id).select_from(hits.outerjoin(memories, passing)).order_by(hits.c.seq.desc())
        asked = {"agent": scope.agent, "query": _any_of(terms), "most": wanted * ENOUGH}
        ids, known = list(conn.scalars(newest, asked)), {match.id for match in found}
        more = [Match(id, 0.0) for id in ids if id is not None and id not in known]
        full = len(ids) < wanted * ENOUGH or len(found) + len(more) >= wanted
        return [*found, *more] if full else None

    def _thorough(
        self, conn: sa.Connection, scope: Scope, query: Query, terms: list[str], counts: _TermStatistics
    ) -> list[Match]:
        """Filter every row that the index finds, then rank."""
        hits = _SCORED.subquery("hits")
        found = (
            sa.select(memories.c.id, hits.c.score)
            .select_from(sa.join(hits, memories, memories.c.seq == hits.c.seq))
            .where(*self.conditions(scope, query))
            .order_by(*_best(hits))
            .limit(query.limit + query.offset)
        )
        asked = _asked(scope, terms, terms, counts.holders, counts, None)
        return [Match(id, score) for id, score in conn.execute(found, asked)]

    def _keep(self, scope: Scope, counts: _TermStatistics, seq: int) -> None:
        """Cache the counts of a large scope, with the number of the last write."""
        with self._counting:
            known = self.known.pop(scope, None)
            if counts.rows >= FEW:
                holders = {term: number for term, number in counts.holders.items() if number >= COMMON}
                if known is not None and known.seq == seq:
                    holders |= known.holders
                self.known[scope] = _TermStatistics(seq, counts.rows, counts.mean, holders)
            while len(self.known) > MOST_SCOPES:
                del self.known[next(iter(self.known))]

    def neighbours(
        self, conn: sa.Connection, scope: Scope, ids: Sequence[str], reach: int, terms: Sequence[str]
    ) -> list[RankingInput]:
        """Return these rows and their neighbours in their sessions, with their lengths and counts of the terms."""
        rows = conn.execute(neighbours.neighbours("= ANY(:listed)", reach), {"agent": scope.agent, "listed": list(ids)})
        seqs = sorted({seq for row in rows for seq in row if seq is not None})
        place = {term: column for column, term in enumerate(terms)}

        def counts(held: tuple[int, list[str] | None, list[int] | None]) -> tuple[int, list[int]]:
            length, found, times = held
            counted = [0] * len(place)
            for term, count in zip(found or (), times or (), strict=True):
                counted[place[term]] = count
            return length, counted

        seen = conn.execute(_RANKING_INPUTS, {"agent": scope.agent, "listed": seqs, "terms": list(terms)})
        return [to_ranking_input((*row[:-3], row[-3:]), counts) for row in seen]

    def term_counts(self, conn: sa.Connection, scope: Scope, terms: Sequence[str]) -> TermCounts:
        """Count the rows of a scope, and those that hold each term."""
        counts = self._moment(conn, scope).counts
        if counts is not None and counts.holders.keys() >= {*terms}:
            return TermCounts(counts.rows, {term: counts.holders[term] for term in terms})
        asked = {"agent": scope.agent, "terms": list(terms), "queries": [_quoted(term) for term in terms]}
        rows = conn.execute(_HOLDERS, asked).all()
        return TermCounts(rows[0].rows if rows else 0, {row.term: row.holders for row in rows})

    # Vectors -----------------------------------------------------------------------------------------

    def search_vectors(self, conn: sa.Connection, scope: Scope, near: Placed, query: Query) -> list[Match]:
        """Return the rows of a scope nearest to a vector, best first."""
        if self.codec.encrypted:
            return self._by_opened_vector(conn, scope, near, query)
        dim, count = self._vector_space(conn, scope, near)
        if dim is not None and dim != len(near.vector):
            raise InvalidInput(f"vectors of {len(near.vector)} dimensions cannot be compared with those of {dim}")
        search, wanted = partial(self._nearest, conn, scope, near, query), query.limit + query.offset
        found = list[Match]()
        if count > EXACT_BELOW and query.among is None:  # each further row of an index scan is expensive
            found, _ = nearest(partial(search, exactly=False), wanted, wanted)
        if len(found) < wanted:  # or the index scan ended before enough rows passed the filter
            found, _ = nearest(partial(search, exactly=True), wanted, wanted * ENOUGH)
        return found[query.offset : wanted]

    def _vector_space(self, conn: sa.Connection, scope: Scope, near: Placed) -> tuple[int | None, int]:
        """Return the dimensions of the vectors that are searched, and their number, up to a limit."""
        spaces = self._moment(conn, scope).spaces
        name = (near.namespace, near.embedder)
        if name not in spaces:
            v = memory_index.c
            here = (v.agent == scope.agent, v.namespace == near.namespace, v.embedder == near.embedder)
            some = sa.select(v.memory_id).where(*here).limit(EXACT_BELOW + 1).subquery()
            found = sa.select(
                sa.select(v.dim).where(*here).limit(1).scalar_subquery(),
                sa.select(sa.func.count()).select_from(some).scalar_subquery(),
            )
            dim, count = conn.execute(found).one()
            spaces[name] = (dim, count)
        return spaces[name]

    def _nearest(
        self, conn: sa.Connection, scope: Scope, near: Placed, query: Query, count: int, *, exactly: bool
    ) -> list[Match]:
        """Return `count` vectors of memories that pass the filter, best first."""
        v, dim = memory_index.c, len(near.vector)
        stored: sa.ColumnElement[Any] = sa.cast(v.vector, _Sized(dim))
        asked = sa.bindparam("asked", np.asarray(near.vector, dtype="<f4").tobytes(), type_=PgVector())
        distance = stored.op("<=>", return_type=sa.Float())(asked)
        reach = min(1000, max(100, count))
        conn.execute(_REACH, {"index": "off" if exactly else "on", "reach": str(reach)})
        found = (
            sa.select(v.memory_id, v.passage, distance.label("distance"))
            # Two texts, so that the server does not use the cached plan of one for the other.
            .prefix_with("/* exactly */" if exactly else "/* by the index */")
            .select_from(
                sa.join(memory_index, memories, sa.and_(memories.c.agent == v.agent, memories.c.id == v.memory_id))
            )
            # As literals, so that the planner can use the partial index.
            .where(v.namespace == sa.literal_column(_literal(near.namespace)))
            .where(v.embedder == sa.literal_column(_literal(near.embedder)))
            .where(v.dim == sa.literal_column(str(int(dim))))
            .where(v.agent == scope.agent, *self.conditions(scope, query))
            .order_by(sa.text("distance"))
            .limit(count)
        )
        rows = conn.execute(found).all()
        conn.execute(_REACH_BACK)
        matches = [Match(vector_key(id, passage), min(1.0, max(0.0, 1.0 - far))) for id, passage, far in rows]
        return sorted(matches, key=lambda match: -match.score)

    def _by_opened_vector(self, conn: sa.Connection, scope: Scope, near: Placed, query: Query) -> list[Match]:
        """Search decrypted vectors in this process, since the server cannot compare encrypted ones."""
        if self._opened_vectors is None:
            raise Unsupported(
                "encrypted vectors are searched in this process, but the store has no `VectorStore` for that"
            )
        space, wanted = VectorSpace(scope, near.namespace, near.embedder), query.limit + query.offset
        search = partial(self._opened_vectors.search, space, near.vector)
        kept, everything = list[Match](), False
        with self._syncing:
            self._sync(conn, self._opened_vectors, space)
            if query.among is None:
                found, everything = nearest(search, wanted, wanted * ENOUGH)
                allowed = self.allowed(conn, scope, query, [match.id for match in found])
                kept = [match for match in found if match.id in allowed]
            if len(kept) < wanted and not everything:
                among = self.passing_keys(conn, space, query)
                kept, _ = nearest(partial(search, among=among), wanted, wanted * ENOUGH)
        return kept[query.offset : wanted]

    def _sync(self, conn: sa.Connection, opened: VectorStore, space: VectorSpace) -> None:
        """Update the index of this process with all writes since its last update."""
        epoch = conn.scalar(sa.select(settings.c.value).where(settings.c.name == VECTORS_EPOCH)) or ""
        mark = self._marks.get(space)
        if mark is None or mark[0] != epoch:
            opened.clear(space)
            mark = (epoch, 0, set())
        _, last, seen = mark
        v, t, agent = memory_index.c, tombstones.c, space.scope.agent
        here = (v.agent == agent, v.namespace == space.namespace, v.embedder == space.embedder)
        graves = sa.select(t.memory_id, t.seq, t.passages).where(t.agent == agent, t.seq > last - self.overlap)
        went = [row for row in conn.execute(graves) if (row.memory_id, row.seq) not in seen]
        opened.remove(space, [vector_key(row.memory_id, n) for row in went for n in range(row.passages)])
        new = sa.select(memory_index).where(*here, v.seq > last - self.overlap).order_by(v.seq)
        came = [self.mirrored_row(conn, row) for row in conn.execute(new) if (row.memory_id, row.seq) not in seen]
        for which, matrix in sound([row.dim for row in came], [row.vector for row in came]):
            opened.add(space, [vector_key(came[n].memory_id, came[n].passage) for n in which], matrix)
        news = {(row.memory_id, row.seq) for row in came} | {(row.memory_id, row.seq) for row in went}
        newest = max([last, *(seq for _, seq in news)])
        seen = {(id, seq) for id, seq in seen | news if seq > newest - self.overlap}
        self._marks[space] = (epoch, newest, seen)

    def after_fork(self) -> None:
        """Replace connections, locks and pending counts in a forked process, without touching its parent's."""
        self._syncing, self._counting = threading.Lock(), threading.Lock()
        super().after_fork()

    def pack_vector(self, vector: bytes) -> bytes:
        """Pack encrypted bytes as a vector, since pgvector holds numbers only: two bytes make one without loss."""
        padded = vector + bytes(len(vector) % 2)
        numbers = np.frombuffer(padded, dtype="<u2").astype("<f4")
        if len(numbers) >= MAX_DIM:
            raise InvalidInput(f"an encrypted vector may have {2 * MAX_DIM} bytes at most, not {len(vector)}")
        return np.concatenate([np.array([len(vector) % 2], dtype="<f4"), numbers]).tobytes()

    def unpack_vector(self, vector: bytes) -> bytes:
        """The inverse of `pack_vector`."""
        numbers = np.frombuffer(vector, dtype="<f4")
        if not len(numbers) or not np.all((numbers >= 0) & (numbers < 2**16) & (numbers == np.floor(numbers))):
            return b""
        data = numbers[1:].astype("<u2").tobytes()
        return data[: len(data) - int(numbers[0])]

    def vectors_removed(self, conn: sa.Connection) -> None:
        """Hook: vectors were deleted whose memories still exist."""
        if self.codec.encrypted:  # deleted vectors leave no numbers; all caches must be rebuilt
            conn.execute(_SET, {"name": VECTORS_EPOCH, "value": self.sources.new_id()})

    def vectors_added(self, rows: Sequence[Row]) -> None:
        """Hook: vectors were added."""
        if self.codec.encrypted:
            return
        spaces = {(row["namespace"], row["embedder"], row["dim"]) for row in rows if row["dim"] <= MAX_INDEXED_DIM}
        self._wanted |= spaces - self._indexed

    def after_write(self) -> None:
        """Hook: a transaction was committed."""
        while self._wanted:
            space = self._wanted.pop()
            self._indexed.add(space)
            try:
                self._ensure_index(*space)
            except (
                sa.exc.DBAPIError,
                sa.exc.TimeoutError,
            ) as error:  # without an index, search is exact and slower
                _log.warning("no index was made for the vectors of %s: %s", space[1], error.args[0])

    def _ensure_index(self, namespace: str, embedder: str, dim: int) -> None:
        """Create an index for a namespace, embedder and dimension, if it does not exist."""
        name = f"near_{digest(namespace, embedder, str(dim))}"
        make = (
            f"CREATE INDEX IF NOT EXISTS {name} ON memory_index USING hnsw ((vector::vector({int(dim)})) "
            f"vector_cosine_ops) WHERE namespace = {_literal(namespace)} AND embedder = {_literal(embedder)} "
            f"AND dim = {int(dim)}"
        )
        with self.engine.connect() as conn, conn.begin():
            if conn.scalar(sa.text("SELECT to_regclass(:name)"), {"name": name}) is None:
                _as_owner(conn)
                conn.exec_driver_sql(make.replace("%", "%%"))

    # Maintenance -------------------------------------------------------------------------------------

    def refuse_plain_rows(self, conn: sa.Connection) -> None:
        """Add triggers or constraints to the database that refuse rows that are not encrypted."""
        _as_owner(conn)
        for name in conn.scalars(_NEAR_INDEXES).all():  # encrypted vectors have other lengths
            conn.exec_driver_sql(f'DROP INDEX "{name}"')
        for table, sealed in GUARDS.items():
            name = f"sealed_{table}"
            if conn.scalar(_CONSTRAINT, {"name": name, "table": table}) is None:
                conn.exec_driver_sql(f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({sealed}) NOT VALID")

    def scrub_files(self) -> None:
        """Rewrite the tables; the server's log and backups are not affected."""
        with self.engine.connect() as conn:
            raw: Any = conn.connection.driver_connection
            raw.execute("SELECT set_config('role', 'none', false), set_config('statement_timeout', '0', false)")
            for table in (*GUARDS, "memory_index", "memory_words", "memory_tags", "memory_keys", "settings"):
                raw.execute(f"VACUUM FULL {table}")
            conn.invalidate()  # including its rights and limits

    def facts(self, conn: sa.Connection) -> Mapping[str, str | int | float | None]:
        """Return facts about the database: its location, size and schema."""
        facts = conn.execute(
            sa.text(
                "SELECT pg_database_size(current_database()) AS bytes, current_setting('server_version') AS server, "
                "(SELECT extversion FROM pg_extension WHERE extname = 'vector') AS pgvector, current_user AS role"
            )
        ).one()
        return {"path": self.name, "schema": _version(conn), **facts._asdict()}

    def advance_sequence(self, conn: sa.Connection, last: int) -> None:
        """Make the numbers of new writes higher than `last`."""
        conn.execute(sa.text("SELECT setval('engram_seq', greatest(:last, nextval('engram_seq')))"), {"last": last})

    def translate(self, error: Any) -> EngramError:
        """Return the error of `engram.errors` for one of the driver."""
        if getattr(error.orig, "sqlstate", None) == "23505" and self._is_taken_id(error.orig):
            return Conflict("a memory with this id exists; nothing was stored. Use a new id")
        return _translate(self.name, f"{self.url.host or 'the server'}:{self.url.port or 5432}", error)

    def _is_taken_id(self, error: Any) -> bool:
        """Return True if a row violates the key of `memories`, or of one of its partitions."""
        schema, table, name = error.diag.schema_name, error.diag.table_name, error.diag.constraint_name
        if name == "memories_pkey" or (table != memories.name and table in memories.metadata.tables):
            return bool(name == "memories_pkey")
        try:
            with self.engine.connect() as conn:
                return conn.scalar(_TAKEN_ID, {"schema": schema, "table": table, "name": name}) is not None
        except (sa.exc.DBAPIError, sa.exc.TimeoutError):  # the retry will find the row
            return False


class PostgresStore(SqlStore):
    """A `Store` on a PostgreSQL server that many clients can use at once."""

    def __init__(
        self,
        url: str,
        sources: Sources,
        *,
        durable: bool = True,
        busy_seconds: float = 30.0,
        pool_size: int = 8,
        max_overflow: int = 24,
        remote: VectorStore | None = None,
        cipher: Cipher | None = None,
        encryption: str = "none",
        opened: VectorStore | None = None,
    ) -> None:
        self.url = _parsed(url).set(drivername="postgresql+psycopg")
        tables = PostgresTables(
            self.url,
            sources,
            durable=durable,
            busy_seconds=busy_seconds,
            pool_size=pool_size,
            max_overflow=max_overflow,
            opened=opened,
        )
        super().__init__(tables, remote, cipher)
        try:
            self._encryption.unlock(tables.name, encryption, remote=remote is not None)
        except BaseException:
            tables.engine.dispose()
            raise
        self.snapshot = tables.snapshot

    def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """Raise `Unsupported`: use the server's own tools, or copy the database into a file."""
        raise Unsupported(
            "a PostgreSQL server is backed up with pg_dump; `engram db copy` copies its memories into a SQLite file"
        )


class _Sized(PgVector):
    """A vector type with a number of dimensions, which an index needs."""

    cache_ok = True

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def get_col_spec(self, **options: Any) -> str:
        return f"vector({self.dim})"


class _TryAgain(StoreBusy):
    """The transaction failed, but may succeed if it is retried."""


class _Lost(StoreAway):
    """The connection was lost; the transaction may or may not be committed, which `transact` checks."""


def open_store(location: str, vectors: VectorStore, sources: Sources, options: Mapping[str, Any]) -> PostgresStore:
    """Open the store at a URL, which may have the parameters `pool_size` and `max_overflow`."""
    url = _parsed(location)
    own = {name: str(value) for name, value in url.query.items() if name in {"pool_size", "max_overflow"}}
    for name, value in own.items():
        if not value.isdecimal():
            raise InvalidInput(f"{name} must be a whole number, not {value!r}")
    plain = url.difference_update_query(own).render_as_string(hide_password=False)
    given = {**options, **{name: int(value) for name, value in own.items()}}
    return PostgresStore(plain, sources, **given, opened=vectors)


def _parsed(location: str) -> sa.URL:
    try:
        return sa.make_url(location)
    except (sa.exc.ArgumentError, ValueError):
        # The invalid URL may contain the password.
        raise InvalidInput("a server is named as in postgresql://USER:PASSWORD@HOST:PORT/DATABASE") from None


def _take_on_role(connection: Any, record: object) -> None:
    """Switch to a role that owns nothing, since row-level security does not apply to owners and superusers."""
    connection.execute(
        "SELECT set_config('role', rolname, false) FROM pg_roles WHERE rolname = 'engram_app' "
        "AND pg_has_role(current_user, oid, 'MEMBER') AND has_table_privilege(oid, to_regclass('memories'), 'INSERT')"
    )


def _begin(conn: sa.Connection) -> None:
    conn.execute(_BEGIN_MOMENT if conn.get_execution_options().get(MOMENT) else _BEGIN)


def _send(cursor: Any, statement: str, parameters: Any, context: Any, *, many: bool = False) -> bool:
    """Send a statement together with deferred ones, and wait for the server once.

    Statements marked `LATER` are deferred; so BEGIN and the scope are sent with the first statement of a transaction.
    """
    outbox = context.execution_options.get(OUTBOX)
    if outbox is None:  # not a connection of `connection()`
        return False
    outbox.append((statement, parameters, many))
    if not LATER.keys() <= context.execution_options.keys():
        waiting = outbox[:]
        outbox.clear()
        _pipeline(cursor, waiting, context.dialect.loaded_dbapi)
    return True


def _send_many(cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
    return _send(cursor, statement, parameters, context, many=True)


def _pipeline(cursor: Any, statements: Sequence[tuple[str, Any, bool]], driver: Any) -> None:
    """Run statements in order; the cursor has the result of the last. Raises the first error."""
    first, last = None, len(statements) - 1
    together = cursor.connection.pipeline if driver.Pipeline.is_supported() else nullcontext  # libpq before 14
    try:
        with together():
            try:
                for number, (statement, parameters, many) in enumerate(statements):
                    one = cursor if number == last else cursor.connection.cursor()
                    (one.executemany if many else one.execute)(statement, parameters)
            except driver.Error as error:  # leaving the pipeline raises a follow-up error, which must not hide this one
                first = error
    except driver.Error as error:
        raise (first or error) from None
    if first is not None:
        raise first


def _send_the_rest(conn: sa.Connection) -> None:
    options = conn.get_execution_options()
    if options.get(WRITE) and options.get(OUTBOX):
        conn.execute(sa.text("SELECT 1"))


def _went_through(conn: sa.Connection, transaction: str) -> bool:
    """Return True if an earlier transaction was committed. Raises if it is still in progress."""
    fate = conn.scalar(_FATE, {"transaction": transaction})
    if fate == "in progress":
        raise _TryAgain("the server is still running an earlier transaction; try again")
    return bool(fate == "committed")


def _as_owner(conn: sa.Connection) -> None:
    """Use the rights of the login for the rest of this transaction, without a timeout, under an exclusive lock."""
    conn.execute(sa.text("SET LOCAL ROLE NONE"))
    conn.execute(sa.text("SET LOCAL statement_timeout = 0"))
    conn.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})


def _require_pgvector(conn: sa.Connection, name: str) -> None:
    try:
        with conn.begin_nested():
            conn.execute(sa.text("CREATE EXTENSION IF NOT EXISTS vector"))
    except sa.exc.DBAPIError as error:
        raise StoreError(
            f"{name} has no pgvector ({error.orig}); install it on the server, "
            "and run CREATE EXTENSION vector as a superuser"
        ) from error
    version = conn.scalar(sa.text("SELECT extversion FROM pg_extension WHERE extname = 'vector'"))
    if tuple(map(int, str(version).split("."))) < OLDEST_PGVECTOR:
        raise StoreError(
            f"{name} has pgvector {version}; 0.8 or newer is needed, then run ALTER EXTENSION vector UPDATE"
        )


def _version(conn: sa.Connection) -> str | None:
    # Not `to_regclass`, which may miss a table that was created while this connection waited for the lock.
    there = "SELECT 1 FROM pg_class WHERE relname = 'alembic_version' AND pg_table_is_visible(oid)"
    if conn.scalar(sa.text(there)) is None:
        return None
    return conn.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _counted(terms: Sequence[str]) -> dict[str, int]:
    """Count each term, as far as a tsvector can hold it."""
    room, kept = MAX_TSVECTOR_BYTES, {}
    for term, count in Counter(terms).items():
        room -= len(term.encode()) + 2 * min(count, MAX_COUNTED) + 8
        if room < 0:
            break
        kept[term] = min(count, MAX_COUNTED)
    return kept


def _tsvector(terms: Sequence[str]) -> str:
    # The positions are only used for counts.
    return " ".join(f"{_quoted(t)}:{','.join(map(str, range(1, n + 1)))}" for t, n in _counted(terms).items())


def _any_of(terms: Sequence[str]) -> str:
    return " | ".join(map(_quoted, terms))


def _best(hits: sa.Subquery) -> tuple[sa.ColumnElement[Any], ...]:
    return hits.c.score.desc(), hits.c.seq.desc()


def _asked(
    scope: Scope,
    sought: Sequence[str],
    terms: Sequence[str],
    holders: Mapping[str, int],
    known: _TermStatistics | None,
    most: int | None,
) -> dict[str, object]:
    """Return the parameters of `_SCORED`: rows with one of the `sought` terms are scored by all of them."""
    return {
        "agent": scope.agent,
        "query": _any_of(sought),
        "terms": list(terms),
        "unknown": [term for term in terms if term not in holders],
        "known": list(holders),
        "holders": list(holders.values()),
        "rows": None if known is None else known.rows,
        "mean": None if known is None else known.mean,
        "k1": K1,
        "b": B,
        "most": most,
    }


def _quoted(term: str) -> str:
    escaped = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _literal(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


_REFUSALS = {
    r'password authentication failed for user "(.*)"': "refused the password of role {0}; check both in the URL",
    r"no password supplied": "asks for a password; put it into the URL, or into ~/.pgpass",
    r'database "(.*)" does not exist': "has no database {0}; create it, or check its name in the URL",
    r'role "(.*)" does not exist': "has no role {0}; create it, or check its name in the URL",
    r'role "(.*)" is not permitted to log in': "does not let role {0} log in; name another in the URL",
    r'permission denied for database "(.*)"': "does not let this role into database {0}; GRANT CONNECT to it",
    r"((no )?pg_hba\.conf (entry|rejects) .*)": "does not let us in ({0}); ask who runs it, or check the URL",
}
"""Patterns of connection errors for which the driver has no code, and our messages."""


def _refused(where: str, said: str) -> EngramError | None:
    if re.search(r"too many clients|too many connections|connection slots are reserved", said):
        return _TryAgain(
            f"{where} has no connection left; close some, use a smaller `pool_size`, or raise its max_connections"
        )
    for pattern, advice in _REFUSALS.items():
        if found := re.search(pattern, said):
            return StoreAway(f"{where} {advice.format(*found.groups())}")
    return None


def _translate(name: str, where: str, error: sa.exc.DBAPIError) -> EngramError:
    state = getattr(error.orig, "sqlstate", None) or ""
    said = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
    if state == "23505":
        return _TryAgain(f"another client stored the same thing at the same time ({said}); try again")
    if state in {"40001", "40P01", "55P03"}:
        return _TryAgain(f"other clients are in the way ({said}); try again")
    if isinstance(error, sa.exc.ProgrammingError) and not state:
        return InvalidInput(f"{name} cannot be opened like this: {said}; fix the options in its URL")
    if state == "57014":
        return StoreBusy(f"{name} took too long ({said}); try again, or raise `busy_seconds`")
    if state in {"", "53300"} and (refused := _refused(where, said)):
        return refused
    if error.connection_invalidated or state.startswith("08") or state in {"57P01", "57P02", "57P03"} or not state:
        return _Lost(f"{name} does not answer ({said}); check that it is running, and try again")
    if state.startswith("53"):
        return StoreFull(f"{name} has no room left ({said}); free some space and try again. Nothing was lost")
    if state in {"42501", "25006"}:
        return StoreReadOnly(f"{name} does not let this role write ({said}); check its rights")
    if state.startswith("XX"):
        return StoreCorrupt(f"{name} is damaged ({said}); restore a backup")
    if state == "22000":
        return InvalidInput(f"the vectors do not fit together: {said}")
    return StoreError(f"{name} could not be used: {said}; run `engram doctor`")
