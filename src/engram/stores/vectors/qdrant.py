"""Vectors in Qdrant, in this process or on a server; the only importer of its client."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from engram.ports import Match
from engram.stores.vectors.remote import TIMEOUT, Point, RemoteVectors, VectorAddress, folder, load, parse, require

_EXTRA = "qdrant"
_MEMORY = ":memory:"


def open_vectors(url: str, api_key: str | None = None) -> RemoteVectors:
    """Open the store at `qdrant:PATH`, `qdrant::memory:` or `qdrant+http(s)://[KEY@]HOST[:PORT]`, without connecting.

    Raises `InvalidInput` for another URL, and `MissingExtra` if the client is not installed.
    """
    address = parse(url, "qdrant", (), api_key)
    if not address.transport and address.path != _MEMORY:
        folder(address, "qdrant", "qdrant:vectors")
    require("qdrant_client", _EXTRA)
    return RemoteVectors(lambda: _Qdrant(address), address)


class _Qdrant:
    """Each point has its scope and id as payload; on a server the scope is a tenant index."""

    batch = 500
    most = 10_000

    def __init__(self, address: VectorAddress) -> None:
        self._models = load("qdrant_client.models", _EXTRA)
        self._local = not address.transport
        self._client = _connect(load("qdrant_client", _EXTRA).QdrantClient, address)
        # The local mode is not thread-safe: one call at a time.
        self._turn: AbstractContextManager[Any] = threading.Lock() if self._local else nullcontext()

    def dimension(self, name: str) -> int | None:
        with self._turn:
            if not self._client.collection_exists(name):
                return None
            return int(self._client.get_collection(name).config.params.vectors.size)

    def create(self, name: str, dim: int) -> None:
        models = self._models
        with self._turn:
            self._client.create_collection(
                name, vectors_config=models.VectorParams(size=dim, distance=models.Distance.COSINE)
            )
            if not self._local:
                tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
                self._client.create_payload_index(name, "scope", field_schema=tenant)

    def put(self, name: str, scope: str, points: Sequence[Point]) -> None:
        records = [
            self._models.PointStruct(id=point.key, vector=point.vector, payload={"scope": scope, "memory": point.id})
            for point in points
        ]
        with self._turn:
            self._client.upsert(name, points=records, wait=True)

    def nearest(self, name: str, scope: str, vector: list[float], k: int, keys: list[str] | None) -> list[Match]:
        with self._turn:
            answer = self._client.query_points(
                name, query=vector, query_filter=self._filter(scope, keys), limit=k, with_payload=["memory"]
            )
        return [Match(str(point.payload["memory"]), float(point.score)) for point in answer.points]

    def drop(self, name: str, scope: str, keys: list[str]) -> None:
        self._delete(name, self._filter(scope, keys))

    def clear(self, name: str, scope: str) -> None:
        self._delete(name, self._filter(scope, None))

    def close(self) -> None:
        with self._turn:
            self._client.close()

    def _delete(self, name: str, which: Any) -> None:
        with self._turn:
            self._client.delete(name, points_selector=self._models.FilterSelector(filter=which), wait=True)

    def _filter(self, scope: str, keys: list[str] | None) -> Any:
        models = self._models
        must = [models.FieldCondition(key="scope", match=models.MatchValue(value=scope))]
        if keys is not None:
            must.append(models.HasIdCondition(has_id=keys))
        return models.Filter(must=must)


def _connect(client: Any, address: VectorAddress) -> Any:
    if address.path == _MEMORY:
        return client(location=_MEMORY)
    if not address.transport:
        path = str(folder(address, "qdrant", "qdrant:vectors"))
        return client(path=path, force_disable_check_same_thread=True)
    return client(
        host=address.host,
        port=address.port or (443 if address.transport == "https" else 6333),
        https=address.transport == "https",
        prefix=address.path.strip("/") or None,
        api_key=address.key or None,
        timeout=TIMEOUT,
        check_compatibility=False,
    )
