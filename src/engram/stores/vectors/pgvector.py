"""Vectors in a PostgreSQL database with pgvector other than that of the memories."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from engram.ports import Match
from engram.stores.vectors.remote import (
    CONNECT_TIMEOUT,
    TIMEOUT,
    Point,
    RemoteVectors,
    VectorAddress,
    load,
    parse,
    require,
)

_EXTRA = "postgres"
_INDEXED = 2_000
"""The most dimensions that pgvector's HNSW index supports."""


def open_vectors(url: str, api_key: str | None = None) -> RemoteVectors:
    """Open the store at `pgvector://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE`, lazily; `api_key` is the password.

    Raises `InvalidInput` for another URL, and `MissingExtra` if the driver is not installed.
    """
    address = parse(url, "pgvector", ("sslmode",), None)
    require("psycopg", _EXTRA)
    return RemoteVectors(lambda: _PgVector(address, api_key), address)


class _PgVector:
    """A table for each collection, with an HNSW index; searches are iterative until they have enough of their scope."""

    batch = 500
    most = 10_000

    def __init__(self, address: VectorAddress, password: str | None) -> None:
        self._psycopg = load("psycopg", _EXTRA)
        self._sql = load("psycopg.sql", _EXTRA)
        port = f":{address.port}" if address.port else ""
        where = f"postgresql://{address.host}{port}/{quote(address.path.strip('/'))}"
        given = {
            "user": address.user,
            "password": address.password or password,
            "sslmode": address.options.get("sslmode"),
        }
        self._connection = self._psycopg.connect(
            where,
            autocommit=True,
            connect_timeout=round(CONNECT_TIMEOUT),
            options=f"-c statement_timeout={TIMEOUT * 1000} -c hnsw.iterative_scan=strict_order",
            **{name: value for name, value in given.items() if value},
        )
        self._turn = threading.Lock()

    def dimension(self, name: str) -> int | None:
        found = self._ask(
            "SELECT atttypmod FROM pg_attribute WHERE attrelid = to_regclass(quote_ident(%s)) AND attname = 'vector'",
            [name],
        )
        return int(found[0][0]) if found else None

    def create(self, name: str, dim: int) -> None:
        self._ask("CREATE EXTENSION IF NOT EXISTS vector")
        self._ask(
            "CREATE TABLE {table} (key uuid PRIMARY KEY, scope text NOT NULL, memory text NOT NULL, "
            f"vector vector({int(dim)}) NOT NULL)",
            name=name,
        )
        self._ask("CREATE INDEX ON {table} (scope)", name=name)
        if dim <= _INDEXED:
            self._ask("CREATE INDEX ON {table} USING hnsw (vector vector_cosine_ops)", name=name)

    def put(self, name: str, scope: str, points: Sequence[Point]) -> None:
        statement = self._sql.SQL(
            "INSERT INTO {table} (key, scope, memory, vector) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (key) DO UPDATE SET vector = excluded.vector"
        ).format(table=self._sql.Identifier(name))
        rows = [(point.key, scope, point.id, json.dumps(point.vector)) for point in points]
        with self._turn, self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(statement, rows)

    def nearest(self, name: str, scope: str, vector: list[float], k: int, keys: list[str] | None) -> list[Match]:
        asked = json.dumps(vector)
        rows = self._ask(
            "SELECT memory, 1 - (vector <=> %s::vector) FROM {table} WHERE scope = %s "
            "AND (%s::uuid[] IS NULL OR key = ANY(%s::uuid[])) ORDER BY vector <=> %s::vector LIMIT %s",
            [asked, scope, keys, keys, asked, k],
            name,
        )
        return [Match(memory, float(similarity)) for memory, similarity in rows]

    def drop(self, name: str, scope: str, keys: list[str]) -> None:
        self._ask("DELETE FROM {table} WHERE scope = %s AND key = ANY(%s::uuid[])", [scope, keys], name)

    def clear(self, name: str, scope: str) -> None:
        self._ask("DELETE FROM {table} WHERE scope = %s", [scope], name)

    def close(self) -> None:
        with self._turn:
            self._connection.close()

    def _ask(self, statement: str, given: Sequence[Any] = (), name: str | None = None) -> list[tuple[Any, ...]]:
        """Run one statement; `{table}` in it stands for the collection's table."""
        composed = self._sql.SQL(statement)
        if name is not None:
            composed = composed.format(table=self._sql.Identifier(name))
        with self._turn, self._connection.cursor() as cursor:
            cursor.execute(composed, given)
            return list(cursor.fetchall()) if cursor.description else []
