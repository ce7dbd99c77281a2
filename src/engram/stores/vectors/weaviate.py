"""Vectors on a Weaviate server; the only importer of its client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from engram.errors import InvalidInput
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

_EXTRA = "weaviate"
_CLOUD = (".weaviate.cloud", ".weaviate.network")


def open_vectors(url: str, api_key: str | None = None) -> RemoteVectors:
    """Open the store at `weaviate+http(s)://[KEY@]HOST[:PORT][?grpc=HOST:PORT]`, without connecting.

    Raises `InvalidInput` for another URL, and `MissingExtra` if the client is not installed.
    """
    address = parse(url, "weaviate", ("grpc",), api_key)
    if not address.transport:
        raise InvalidInput("a Weaviate URL names a server, such as weaviate+http://127.0.0.1:8080")
    _grpc(address)
    require("weaviate", _EXTRA)
    return RemoteVectors(lambda: _Weaviate(address), address)


class _Weaviate:
    """Each point is an object with its scope and id as properties, named by its UUID."""

    batch = 500
    most = 10_000

    def __init__(self, address: VectorAddress) -> None:
        self._classes = load("weaviate.classes", _EXTRA)
        self._client = _connect(load("weaviate", _EXTRA), self._classes, address)

    def dimension(self, name: str) -> int | None:
        if not self._client.collections.exists(name):
            return None
        description = self._client.collections.get(name).config.get(simple=True).description
        return int(description.rpartition(" ")[2])

    def create(self, name: str, dim: int) -> None:
        config = self._classes.config
        kept = {"data_type": config.DataType.TEXT, "tokenization": config.Tokenization.FIELD, "index_searchable": False}
        self._client.collections.create(
            name,
            description=f"Vectors of Engram, dimensions: {dim}",
            properties=[
                config.Property(name="scope", index_filterable=True, **kept),
                config.Property(name="memory", index_filterable=False, **kept),
            ],
            vector_config=config.Configure.Vectors.self_provided(
                vector_index_config=config.Configure.VectorIndex.hnsw(distance_metric=config.VectorDistances.COSINE)
            ),
        )

    def put(self, name: str, scope: str, points: Sequence[Point]) -> None:
        objects = [
            self._classes.data.DataObject(
                uuid=point.key, properties={"scope": scope, "memory": point.id}, vector=point.vector
            )
            for point in points
        ]
        answer = self._client.collections.get(name).data.insert_many(objects)
        if answer.has_errors:
            raise RuntimeError(next(iter(answer.errors.values())).message)

    def nearest(self, name: str, scope: str, vector: list[float], k: int, keys: list[str] | None) -> list[Match]:
        answer = self._client.collections.get(name).query.near_vector(
            near_vector=vector,
            limit=k,
            filters=self._filter(scope, keys),
            return_metadata=self._classes.query.MetadataQuery(distance=True),
            return_properties=["memory"],
        )
        return [Match(str(hit.properties["memory"]), 1 - float(hit.metadata.distance)) for hit in answer.objects]

    def drop(self, name: str, scope: str, keys: list[str]) -> None:
        self._delete(name, self._filter(scope, keys))

    def clear(self, name: str, scope: str) -> None:
        while self._delete(name, self._filter(scope, None)):  # one call deletes at most 10,000
            pass

    def close(self) -> None:
        self._client.close()

    def _delete(self, name: str, which: Any) -> int:
        answer = self._client.collections.get(name).data.delete_many(which)
        if answer.failed:
            raise RuntimeError(f"{answer.failed} objects could not be deleted")
        return int(answer.successful)

    def _filter(self, scope: str, keys: list[str] | None) -> Any:
        filters = self._classes.query.Filter
        of_scope = filters.by_property("scope").equal(scope)
        return of_scope if keys is None else of_scope & filters.by_id().contains_any(keys)


def _connect(weaviate: Any, classes: Any, address: VectorAddress) -> Any:
    """Make a client that only calls this server: its own first checks would also call a package registry."""
    secure = address.transport == "https"
    grpc_host, grpc_port = _grpc(address)
    timeouts = classes.init.Timeout(init=CONNECT_TIMEOUT, query=TIMEOUT, insert=TIMEOUT)
    return weaviate.connect_to_custom(
        http_host=address.host,
        http_port=address.port or (443 if secure else 8080),
        http_secure=secure,
        grpc_host=grpc_host,
        grpc_port=grpc_port,
        grpc_secure=secure,
        auth_credentials=classes.init.Auth.api_key(address.key) if address.key else None,
        additional_config=classes.init.AdditionalConfig(timeout=timeouts),
        skip_init_checks=True,
    )


def _grpc(address: VectorAddress) -> tuple[str, int]:
    """Return the gRPC host for searches; Weaviate's cloud has another name for it."""
    if "grpc" not in address.options:
        return (f"grpc-{address.host}", 443) if address.host.endswith(_CLOUD) else (address.host, 50051)
    try:
        parts = urlsplit(f"//{address.options['grpc']}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise InvalidInput("the option grpc of a Weaviate URL is a host and a port, such as grpc=127.0.0.1:50051")
    return host, port
