"""Vectors in a Pinecone index; the only importer of its client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engram.errors import ConfigError, InvalidInput
from engram.ports import Match
from engram.stores.vectors.remote import TIMEOUT, Point, RemoteVectors, VectorAddress, load, parse, require

_EXTRA = "pinecone"


def open_vectors(url: str, api_key: str | None = None) -> RemoteVectors:
    """Open the store in the index of `pinecone://[KEY@]INDEX[?host=…]`, not connected yet; the index must exist.

    Raises `InvalidInput` for another URL, `ConfigError` without a key, `MissingExtra` without the client.
    """
    address = parse(url, "pinecone", ("host",), api_key)
    if address.transport or not address.host or address.path.strip("/"):
        raise InvalidInput("a Pinecone URL names an index, such as pinecone://memories")
    if not address.key:
        raise ConfigError("Pinecone needs an API key, before the name of the index: pinecone://KEY@INDEX")
    require("pinecone", _EXTRA)
    return RemoteVectors(lambda: _Pinecone(address), address)


class _Pinecone:
    """Each space is a namespace of the index, so that no query and no delete can reach another scope."""

    batch = 100
    most = 10_000

    def __init__(self, address: VectorAddress) -> None:
        self._client = load("pinecone", _EXTRA).Pinecone(api_key=address.key, timeout=TIMEOUT)
        self._errors = load("pinecone.exceptions", _EXTRA)
        self._index = self._client.Index(name=address.host, host=address.options.get("host", ""))

    def dimension(self, name: str) -> int | None:
        stats = self._index.describe_index_stats()
        metric = getattr(stats, "metric", None) or "cosine"
        if metric != "cosine":
            raise ConfigError(f"this Pinecone index compares by {metric}; Engram needs one with metric=cosine")
        return int(stats.dimension)

    def create(self, name: str, dim: int) -> None:
        """Do nothing: a namespace exists when it has a vector."""

    def put(self, name: str, scope: str, points: Sequence[Point]) -> None:
        records = [
            {
                "id": point.key,
                "values": point.vector,
                "metadata": {"scope": scope, "key": point.key, "memory": point.id},
            }
            for point in points
        ]
        self._index.upsert(vectors=records, namespace=_namespace(name, scope))

    def nearest(self, name: str, scope: str, vector: list[float], k: int, keys: list[str] | None) -> list[Match]:
        which: dict[str, Any] = {"scope": {"$eq": scope}}
        if keys is not None:
            which["key"] = {"$in": keys}
        answer = self._index.query(
            vector=vector, top_k=k, namespace=_namespace(name, scope), filter=which, include_metadata=True
        )
        return [Match(str(hit.metadata["memory"]), float(hit.score)) for hit in answer.matches]

    def drop(self, name: str, scope: str, keys: list[str]) -> None:
        self._delete(ids=keys, namespace=_namespace(name, scope))

    def clear(self, name: str, scope: str) -> None:
        self._delete(delete_all=True, namespace=_namespace(name, scope))

    def close(self) -> None:
        self._index.close()
        self._client.close()

    def _delete(self, **which: Any) -> None:
        try:
            self._index.delete(**which)
        except self._errors.NotFoundException:
            return  # a namespace that never had a vector


def _namespace(name: str, scope: str) -> str:
    return f"{name}-{scope}"
