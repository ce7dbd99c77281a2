"""Memories in PostgreSQL: tsvector for words, pgvector for vectors, row-level security as a second wall."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa

from engram.errors import (
    Conflict,
    EngramError,
    InvalidInput,
    MissingExtra,
    NewerSchema,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    Unsupported,
)
from engram.ids import Sources
from engram.model import Memory
from engram.ports import Match, Placed, Query, Scope, VectorStore
from engram.stores.migrate import upgrade
from engram.stores.rows import Row
from engram.stores.schema import REVISION, PgVector, memories, memory_index
from engram.stores.sql import SqlStore, conditions, storable
from engram.words import digest

R = TypeVar("R")
_log = logging.getLogger("engram")

K1, B = 1.2, 0.75
MAX_TSVECTOR_BYTES = 900_000  # PostgreSQL refuses a tsvector of a megabyte
MAX_COUNTED = 255  # and keeps no more places of a term
MAX_INDEXED_DIM = 2000
EXACT_BELOW = 20_000  # up to so many vectors in a scope a scan is quick, and finds everything
PAUSES = (0.02, 0.04, 0.08, 0.16, 0.32)  # seconds, before a write or a read is tried again
LOCK = 0x454E4752
OLDEST_PGVECTOR = (0, 8)  # it goes on searching until enough passed the filter

_NUMBER = sa.text("SELECT nextval('engram_seq') FROM generate_series(1, :count)")
_ENTER = sa.text("SELECT set_config('engram.agent', :agent, true), set_config('engram.everyone', :everyone, true)")
_THIS = sa.text("SELECT pg_current_xact_id()")
_FATE = sa.text("SELECT pg_xact_status(CAST(:transaction AS xid8))")
_INDEX = sa.text(
    "INSERT INTO memory_words (agent, seq, words, length) VALUES (:agent, :seq, CAST(:words AS tsvector), :length)"
)
_UNINDEX = sa.text("DELETE FROM memory_words WHERE agent = :agent AND seq = ANY(:seqs)")

# Every row that holds a term of the query is among the hits, so counting them there gives the exact document
# frequency in this scope. Filters come after: they do not change how rare a word is.
_BM25 = sa.text(
    """
WITH everything AS (
  SELECT greatest(count(*), 1)::float AS rows, greatest(coalesce(avg(length), 1), 1)::float AS mean
  FROM memory_words WHERE agent = :agent
), hits AS (
  SELECT w.seq, w.length, t.lexeme, cardinality(t.positions)::float AS times
  FROM memory_words AS w CROSS JOIN LATERAL unnest(w.words) AS t
  WHERE w.agent = :agent AND w.words @@ CAST(:query AS tsquery) AND t.lexeme = ANY(:terms)
), rarity AS (
  SELECT lexeme, greatest(1e-6, ln((max(everything.rows) - count(*) + 0.5) / (count(*) + 0.5))) AS weight
  FROM hits, everything GROUP BY lexeme
)
SELECT hits.seq AS seq, sum(rarity.weight * hits.times * (:k1 + 1)
       / (hits.times + :k1 * (1 - :b + :b * hits.length / everything.mean))) AS score
FROM hits JOIN rarity USING (lexeme), everything GROUP BY hits.seq
"""
).columns(sa.column("seq", sa.BigInteger), sa.column("score", sa.Float))


class PostgresStore(SqlStore):
    """A `MemoryStore` on a PostgreSQL server that many clients can use at once."""

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
    ) -> None:
        self.url = _parsed(url).set(drivername="postgresql+psycopg")
        self._busy_seconds = busy_seconds
        self._indexed: set[tuple[str, str, int]] = set()
        self._wanted: set[tuple[str, str, int]] = set()
        super().__init__(self._make_engine(durable, busy_seconds, pool_size, max_overflow), sources, remote)
        try:
            self._prepare()
        except BaseException:
            self._engine.dispose()
            raise

    _overlap = 1000  # numbers are given when a transaction writes, and seen when it commits

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
                pool_pre_ping=True,  # a server that was restarted is noticed before anything is lost
                connect_args={
                    **{name: value for name, value in own.items() if name not in given},
                    "options": f"{options} {given.get('options', '')}",
                },
            )
        except ImportError as error:
            raise MissingExtra('PostgreSQL needs psycopg: pip install "engram-learning[postgres]"') from error
        sa.event.listen(engine, "connect", _take_on_role)
        return engine

    def _prepare(self) -> None:
        """Bring the database to the newest schema, once, however many processes open it at the same time."""
        with self._read(None) as conn:
            version = _version(conn)
        if version == REVISION:
            return
        if version is not None and version > REVISION:
            raise NewerSchema(
                f"{self._name} was written by a newer Engram (schema {version}, this one knows {REVISION}); "
                "upgrade with `pip install -U engram-learning`"
            )
        with self._write(None) as conn:
            _as_owner(conn)
            if _version(conn) != REVISION:
                _require_pgvector(conn, self._name)
                upgrade(conn)
        self._engine.dispose()  # new connections take on the role that the migration made

    @property
    def _name(self) -> str:
        return self.url.set(drivername="postgresql", query={}).render_as_string(hide_password=True)

    def _enter(self, conn: sa.Connection, scope: Scope | None) -> None:
        """Tell row-level security whose rows this transaction may see."""
        everybody = {"agent": "", "everyone": "on"}
        conn.execute(_ENTER, everybody if scope is None else {"agent": scope.agent, "everyone": ""})

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        """One answer per id, in order; `None` for an id that is not in this scope."""
        return self._patiently(lambda: super(PostgresStore, self).get(scope, ids))

    def search(self, scope: Scope, query: Query) -> list[Match]:
        """Best first, or newest first without words and vector; filtered before the limit is applied."""
        return self._patiently(lambda: super(PostgresStore, self).search(scope, query))

    def _transact(self, scope: Scope | None, work: Callable[[sa.Connection], R]) -> R:
        """Run a write, and again if it did not go through; the server knows if one went whose answer was lost."""
        done: list[tuple[str, R]] = []

        def attempt() -> R:
            with self._write(scope) as conn:
                if done and _went_through(conn, done[-1][0]):
                    return done[-1][1]
                done.clear()
                result = work(conn)
                done.append((str(conn.scalar(_THIS)), result))
            return result

        return self._patiently(attempt)

    def _patiently(self, attempt: Callable[[], R]) -> R:
        """Try again for a while if others were in the way, or the connection was lost."""
        patience = time.monotonic() + self._busy_seconds
        for pause in PAUSES:
            try:
                return attempt()
            except _TryAgain:
                if time.monotonic() > patience:
                    raise
                time.sleep(pause * (0.5 + self._sources.random.random()))
        return attempt()

    # Words -------------------------------------------------------------------------------------------

    def _number(self, conn: sa.Connection, count: int) -> list[int]:
        return sorted(conn.scalars(_NUMBER, {"count": count}))

    def _one_of(self, column: sa.ColumnElement[Any], values: Sequence[str]) -> sa.ColumnElement[bool]:
        return column == sa.any_(sa.bindparam(None, storable(values), type_=sa.ARRAY(sa.Text)))

    def _index_words(self, conn: sa.Connection, rows: Sequence[tuple[str, int, list[str]]]) -> None:
        if rows:
            conn.execute(
                _INDEX,
                [
                    {"agent": agent, "seq": seq, "words": _tsvector(terms), "length": len(terms)}
                    for agent, seq, terms in rows
                ],
            )

    def _unindex_words(self, conn: sa.Connection, agent: str, seqs: Sequence[int]) -> None:
        if seqs:
            conn.execute(_UNINDEX, {"agent": agent, "seqs": list(seqs)})

    def _empty_words(self, conn: sa.Connection) -> None:
        # Who writes meanwhile would index a row of which the rebuilding does not know that it is indexed.
        conn.execute(sa.text("SET LOCAL statement_timeout = 0"))
        conn.execute(sa.text("LOCK TABLE memories IN SHARE ROW EXCLUSIVE MODE"))
        conn.execute(sa.text("DELETE FROM memory_words"))

    def _word_marks(self, conn: sa.Connection) -> Iterator[tuple[int, object]]:
        rows = conn.execute(sa.text("SELECT seq, agent, length, tsvector_to_array(words) AS terms FROM memory_words"))
        return ((row.seq, (row.agent, row.length, frozenset(row.terms))) for row in rows)

    def _word_mark(self, agent: str, terms: list[str]) -> object:
        return agent, len(terms), frozenset(_counted(terms))

    def _by_words(self, conn: sa.Connection, scope: Scope, terms: list[str], query: Query) -> list[Match]:
        hits = _BM25.subquery("hits")
        found = (
            sa.select(memories.c.id, hits.c.score)
            .select_from(sa.join(hits, memories, memories.c.seq == hits.c.seq))
            .where(*conditions(scope, query.where))
            .order_by(hits.c.score.desc(), memories.c.seq.desc())
            .limit(query.limit)
            .offset(query.offset)
        )
        wanted = {"agent": scope.agent, "query": " | ".join(map(_quoted, terms)), "terms": terms, "k1": K1, "b": B}
        conn.execute(sa.text("SET LOCAL enable_nestloop = off"))  # without statistics it is taken, and quadratic
        rows = conn.execute(found, wanted).all()
        conn.execute(sa.text("SET LOCAL enable_nestloop = on"))
        return [Match(id, score) for id, score in rows]

    # Vectors -----------------------------------------------------------------------------------------

    def _by_vector(self, conn: sa.Connection, scope: Scope, near: Placed, query: Query) -> list[Match]:
        v = memory_index.c
        here = (v.agent == scope.agent, v.namespace == near.namespace, v.embedder == near.embedder)
        self._refuse_query_length(conn, near, here)
        some = sa.select(v.memory_id).where(*here).limit(EXACT_BELOW + 1).subquery()
        many = (conn.scalar(sa.select(sa.func.count()).select_from(some)) or 0) > EXACT_BELOW
        found = self._nearest(conn, scope, near, query, exactly=not many)
        if many and len(found) < query.limit:  # the index gave up before enough passed the filter
            found = self._nearest(conn, scope, near, query, exactly=True)
        return found

    def _refuse_query_length(self, conn: sa.Connection, near: Placed, here: Sequence[sa.ColumnElement[bool]]) -> None:
        dim = conn.scalar(sa.select(memory_index.c.dim).where(*here).limit(1))
        if dim is not None and dim != len(near.vector):
            raise InvalidInput(f"vectors of {len(near.vector)} dimensions cannot be compared with those of {dim}")

    def _nearest(self, conn: sa.Connection, scope: Scope, near: Placed, query: Query, *, exactly: bool) -> list[Match]:
        v, dim = memory_index.c, len(near.vector)
        stored: sa.ColumnElement[Any] = sa.cast(v.vector, _Sized(dim))
        asked = sa.bindparam("asked", np.asarray(near.vector, dtype="<f4").tobytes(), type_=PgVector())
        distance = stored.op("<=>", return_type=sa.Float())(asked)
        reach = min(1000, max(100, query.limit + query.offset))
        conn.execute(sa.text(f"SET LOCAL enable_indexscan = {'off' if exactly else 'on'}"))
        conn.execute(sa.text(f"SET LOCAL hnsw.ef_search = {reach}"))
        conn.execute(sa.text("SET LOCAL hnsw.iterative_scan = 'relaxed_order'"))
        found = (
            sa.select(memories.c.id, distance.label("distance"))
            .select_from(
                sa.join(memory_index, memories, sa.and_(memories.c.agent == v.agent, memories.c.id == v.memory_id))
            )
            # As literals, so that the planner sees that the partial index fits.
            .where(v.namespace == sa.literal_column(_literal(near.namespace)))
            .where(v.embedder == sa.literal_column(_literal(near.embedder)))
            .where(v.dim == sa.literal_column(str(int(dim))))
            .where(v.agent == scope.agent, *conditions(scope, query.where))
            .order_by(sa.text("distance"))
            .limit(query.limit)
            .offset(query.offset)
        )
        rows = conn.execute(found).all()
        conn.execute(sa.text("SET LOCAL enable_indexscan = on"))
        matches = [Match(id, min(1.0, max(0.0, 1.0 - far))) for id, far in rows]
        return sorted(matches, key=lambda match: -match.score)

    def _vectors_came(self, rows: Sequence[Row]) -> None:
        shelves = {(row["namespace"], row["embedder"], row["dim"]) for row in rows if row["dim"] <= MAX_INDEXED_DIM}
        self._wanted |= shelves - self._indexed

    def _after_write(self) -> None:
        while self._wanted:
            shelf = self._wanted.pop()
            self._indexed.add(shelf)
            try:
                self._ensure_index(*shelf)
            except (
                sa.exc.DBAPIError,
                sa.exc.TimeoutError,
            ) as error:  # without an index the search is exact, and slower
                _log.warning("no index was made for the vectors of %s: %s", shelf[1], error.args[0])

    def _ensure_index(self, namespace: str, embedder: str, dim: int) -> None:
        """One index per namespace, embedder and dimension; made when the first vector of its kind is stored."""
        name = f"near_{digest(namespace, embedder, str(dim))}"
        make = (
            f"CREATE INDEX IF NOT EXISTS {name} ON memory_index USING hnsw ((vector::vector({int(dim)})) "
            f"vector_cosine_ops) WHERE namespace = {_literal(namespace)} AND embedder = {_literal(embedder)} "
            f"AND dim = {int(dim)}"
        )
        with self._engine.connect() as conn, conn.begin():
            if conn.scalar(sa.text("SELECT to_regclass(:name)"), {"name": name}) is None:
                _as_owner(conn)
                conn.exec_driver_sql(make.replace("%", "%%"))

    # Keeping the database well -----------------------------------------------------------------------

    def _facts(self, conn: sa.Connection) -> Mapping[str, str | int | float | None]:
        facts = conn.execute(
            sa.text(
                "SELECT pg_database_size(current_database()) AS bytes, current_setting('server_version') AS server, "
                "(SELECT extversion FROM pg_extension WHERE extname = 'vector') AS pgvector, current_user AS role"
            )
        ).one()
        return {"path": self._name, "schema": _version(conn), **facts._asdict()}

    def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """A server is backed up with its own tools, or copied into a file. Raises `Unsupported`."""
        raise Unsupported(
            "a PostgreSQL server is backed up with pg_dump; `engram db copy` copies its memories into a SQLite file"
        )

    def _go_on_from(self, conn: sa.Connection, last: int) -> None:
        conn.execute(sa.text("SELECT setval('engram_seq', greatest(:last, nextval('engram_seq')))"), {"last": last})

    def _translate(self, error: sa.exc.DBAPIError) -> EngramError:
        return _translate(self._name, error)


class _Sized(PgVector):
    """A vector of a known number of dimensions, which an index needs."""

    cache_ok = True

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def get_col_spec(self, **options: Any) -> str:
        return f"vector({self.dim})"


class _TryAgain(StoreBusy):
    """The transaction did not go through, but may if it is tried again."""


def open_store(location: str, vectors: VectorStore, sources: Sources, options: Mapping[str, Any]) -> PostgresStore:
    """The store on the server that the URL names; `pool_size` and `max_overflow` may be among its parameters."""
    url = _parsed(location)
    own = {name: str(value) for name, value in url.query.items() if name in {"pool_size", "max_overflow"}}
    for name, value in own.items():
        if not value.isdecimal():
            raise InvalidInput(f"{name} must be a whole number, not {value!r}")
    plain = url.difference_update_query(own).render_as_string(hide_password=False)
    return PostgresStore(plain, sources, **{**options, **{name: int(value) for name, value in own.items()}})


def _parsed(location: str) -> sa.URL:
    try:
        return sa.make_url(location)
    except (sa.exc.ArgumentError, ValueError):
        # What could not be read may hold the password.
        raise InvalidInput("a server is named as in postgresql://USER:PASSWORD@HOST:PORT/DATABASE") from None


def _take_on_role(connection: Any, record: object) -> None:
    """Work as a role that owns nothing, since whoever owns a table, or everything, passes the wall."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM pg_roles WHERE rolname = 'engram_app' AND pg_has_role(current_user, oid, 'MEMBER') "
            "AND has_table_privilege(oid, to_regclass('memories'), 'INSERT')"
        )
        if cursor.fetchone():
            cursor.execute("SET ROLE engram_app")
    connection.commit()


def _went_through(conn: sa.Connection, transaction: str) -> bool:
    """Whether an earlier transaction was committed. Raises if it is still about to be."""
    fate = conn.scalar(_FATE, {"transaction": transaction})
    if fate == "in progress":
        raise _TryAgain("the server has not finished what it was told before; try again")
    return bool(fate == "committed")


def _as_owner(conn: sa.Connection) -> None:
    """For the rest of this transaction: with the rights of whoever logged in, alone, and however long it takes."""
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
    # Not `to_regclass`: it may still miss a table that was made while this connection waited for the lock.
    there = "SELECT 1 FROM pg_class WHERE relname = 'alembic_version' AND pg_table_is_visible(oid)"
    if conn.scalar(sa.text(there)) is None:
        return None
    return conn.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _counted(terms: Sequence[str]) -> dict[str, int]:
    """How often each term occurs, as far as a tsvector can hold it."""
    room, kept = MAX_TSVECTOR_BYTES, {}
    for term, count in Counter(terms).items():
        room -= len(term.encode()) + 2 * min(count, MAX_COUNTED) + 8
        if room < 0:
            break
        kept[term] = min(count, MAX_COUNTED)
    return kept


def _tsvector(terms: Sequence[str]) -> str:
    # The places are only there to be counted.
    return " ".join(f"{_quoted(t)}:{','.join(map(str, range(1, n + 1)))}" for t, n in _counted(terms).items())


def _quoted(term: str) -> str:
    escaped = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _literal(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def _translate(name: str, error: sa.exc.DBAPIError) -> EngramError:
    state = getattr(error.orig, "sqlstate", None) or ""
    said = str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
    if state == "23505":
        if "memories_pkey" in str(error.orig):
            return Conflict("a memory with this id exists; nothing was stored. Use a new id")
        return _TryAgain(f"somebody else stored the same thing at the same time ({said}); try again")
    if state in {"40001", "40P01", "55P03"}:
        return _TryAgain(f"other clients are in the way ({said}); try again")
    if isinstance(error, sa.exc.ProgrammingError) and not state:
        return InvalidInput(f"{name} cannot be opened like this: {said}; mend the options in its URL")
    if state in {"57014", "53300"}:
        return StoreBusy(f"{name} took too long ({said}); try again, or raise `busy_seconds`")
    if error.connection_invalidated or state.startswith("08") or state in {"57P01", "57P02", "57P03"} or not state:
        return _TryAgain(f"{name} does not answer ({said}); check that it is running, and try again")
    if state.startswith("53"):
        return StoreFull(f"{name} has no room left ({said}); free some space and try again. Nothing was lost")
    if state in {"42501", "25006"}:
        return StoreReadOnly(f"{name} does not let this role write ({said}); check its rights")
    if state.startswith("XX"):
        return StoreCorrupt(f"{name} is damaged ({said}); restore a backup")
    if state == "22000":
        return InvalidInput(f"the vectors do not fit together: {said}")
    return StoreError(f"{name} could not be used: {said}; `engram doctor` looks into it")
