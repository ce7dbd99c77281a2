"""Vectors in Chroma, in this process or on a server; the only importer of its client."""

from __future__ import annotations

import base64
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import Any
from urllib.parse import quote

import numpy as np

from engram.ports import Match
from engram.stores.vectors.remote import (
    CONNECT_TIMEOUT,
    TIMEOUT,
    Point,
    RemoteVectors,
    VectorAddress,
    folder,
    load,
    parse,
    require,
)

_EXTRA = "chroma"
_Turn = Callable[[], AbstractContextManager[None]]

_OPENING = threading.Lock()  # clients of one path share state, which two threads must not create at once


def open_vectors(url: str, api_key: str | None = None) -> RemoteVectors:
    """Open the store at `chroma:PATH` or `chroma+http(s)://[KEY@]HOST[:PORT][?tenant=…&database=…]`, lazily.

    Raises `InvalidInput` for another URL, and `MissingExtra` if the client is not installed.
    """
    address = parse(url, "chroma", ("tenant", "database"), api_key)
    path = "" if address.transport else str(folder(address, "chroma", "chroma:vectors"))
    require("chromadb", _EXTRA)
    if address.transport:
        return RemoteVectors(lambda: _Chroma(_server, address, nullcontext), address)
    return RemoteVectors(
        lambda: _Chroma(lambda chromadb, _: _embedded(chromadb, path), address, lambda: _turn(path)), address
    )


class _Chroma:
    """Each point is a record of a collection with its scope and id as metadata."""

    batch = 1000
    most = 10_000
    small = 256
    """The number of candidates up to which all are compared."""

    def __init__(self, connect: Callable[[Any, VectorAddress], Any], address: VectorAddress, turn: _Turn) -> None:
        chromadb = load("chromadb", _EXTRA)
        self._missing: type[Exception] = load("chromadb.errors", _EXTRA).NotFoundError
        self._turn = turn
        with turn():
            self._client = connect(chromadb, address)
        self._collections: dict[str, Any] = {}

    def dimension(self, name: str) -> int | None:
        try:
            with self._turn():
                found = self._client.get_collection(name, embedding_function=None)
        except self._missing:
            return None
        self._collections[name] = found
        return int(found.metadata["dim"])

    def create(self, name: str, dim: int) -> None:
        with self._turn():
            self._client.get_or_create_collection(
                name,
                metadata={"dim": dim},
                configuration={"hnsw": {"space": "cosine"}},
                embedding_function=None,
            )

    def put(self, name: str, scope: str, points: Sequence[Point]) -> None:
        with self._turn():
            self._collections[name].upsert(
                ids=[point.key for point in points],
                embeddings=[point.vector for point in points],
                metadatas=[{"scope": scope, "memory": point.id} for point in points],
            )

    def nearest(self, name: str, scope: str, vector: list[float], k: int, keys: list[str] | None) -> list[Match]:
        """Search; exactly among few candidates, since Chroma's graph does not reach every point after updates."""
        wanted = max(k, self.small)
        if keys is None:
            with self._turn():
                answer = self._collections[name].query(
                    query_embeddings=[vector],
                    n_results=wanted,
                    where={"scope": scope},
                    include=["metadatas", "distances"],
                )
            hits = zip(answer["metadatas"][0], answer["distances"][0], strict=True)
            found = [Match(str(metadata["memory"]), 1 - float(distance)) for metadata, distance in hits]
            if len(found) == wanted:
                return found
        return self._exactly(name, scope, vector, keys)

    def _exactly(self, name: str, scope: str, vector: list[float], keys: list[str] | None) -> list[Match]:
        with self._turn():
            held = self._collections[name].get(
                ids=keys, where={"scope": scope}, limit=self.most, include=["metadatas", "embeddings"]
            )
        if len(held["ids"]) == 0:
            return []
        rows, to = np.asarray(held["embeddings"], dtype=np.float64), np.asarray(vector, dtype=np.float64)
        cosines = rows @ to / (np.linalg.norm(rows, axis=1) * np.linalg.norm(to))
        return [
            Match(str(metadata["memory"]), float(cosine))
            for metadata, cosine in zip(held["metadatas"], cosines, strict=True)
        ]

    def drop(self, name: str, scope: str, keys: list[str]) -> None:
        with self._turn():
            self._collections[name].delete(ids=keys, where={"scope": scope})

    def clear(self, name: str, scope: str) -> None:
        with self._turn():
            self._collections[name].delete(where={"scope": scope})

    def close(self) -> None:
        sessions = _sessions(self._client)
        with _OPENING:
            getattr(self._client, "close", _nothing)()  # older clients have none
        for session in sessions:
            session.close()  # the client leaves them open


def _nothing() -> None:
    """Do nothing, for older clients that cannot be closed."""


def _sessions(client: Any) -> list[Any]:
    """The HTTP sessions of a client, which it neither limits in time nor closes; none if it is in this process."""
    parts = (client, getattr(client, "_admin_client", None))
    found = (getattr(getattr(part, "_server", None), "_session", None) for part in parts)
    return [session for session in found if session is not None]


@contextmanager
def _turn(path: str) -> Iterator[None]:
    """Lock a database folder: processes that open or write at once would find incomplete tables and fail on locks.

    The lock is on an empty SQLite file beside the folder, because every system supports it and releases it when a
    process dies.
    """
    with closing(sqlite3.connect(f"{path}.lock", timeout=TIMEOUT, isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        yield


def _embedded(chromadb: Any, path: str) -> Any:
    with _OPENING:
        return chromadb.PersistentClient(path, settings=_settings())


def _server(chromadb: Any, address: VectorAddress) -> Any:
    """Make a client with timeouts: Chroma's own has none during its first calls, so these are made before.

    A client that finds no database never closes its connection, so that is checked before, too.
    """
    httpx = load("httpx", _EXTRA)
    secure, headers = address.transport == "https", _headers(address)
    port = address.port or (443 if secure else 8000)
    host = f"[{address.host}]" if ":" in address.host else address.host
    tenant = address.options.get("tenant", chromadb.DEFAULT_TENANT)
    database = address.options.get("database", chromadb.DEFAULT_DATABASE)
    for path in ("heartbeat", f"tenants/{quote(tenant, safe='')}/databases/{quote(database, safe='')}"):
        url = f"{address.transport}://{host}:{port}/api/v2/{path}"
        httpx.get(url, headers=headers, timeout=CONNECT_TIMEOUT).raise_for_status()
    client = chromadb.HttpClient(
        host=address.host,
        port=port,
        ssl=secure,
        headers=headers,
        tenant=tenant,
        database=database,
        settings=_settings(chroma_server_host=address.host, chroma_server_http_port=port),
    )
    for session in _sessions(client):
        session.timeout = httpx.Timeout(TIMEOUT, connect=CONNECT_TIMEOUT)
    return client


def _settings(**given: Any) -> Any:
    """Return settings without telemetry, and without reading a .env file."""
    return load("chromadb.config", _EXTRA).Settings(_env_file=None, anonymized_telemetry=False, **given)


def _headers(address: VectorAddress) -> dict[str, str]:
    if address.user and address.password:
        pair = base64.b64encode(f"{address.user}:{address.password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {"Authorization": f"Bearer {address.key}", "X-Chroma-Token": address.key} if address.key else {}
