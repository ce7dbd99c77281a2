"""Vectors in Milvus, in this process (Milvus Lite) or on a server; the only importer of its client."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from engram.errors import InvalidInput
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

_EXTRA = "milvus"
_ID_BYTES = 512


def open_vectors(url: str, api_key: str | None = None) -> RemoteVectors:
    """Open the store at `milvus:PATH.db` or `milvus+http(s)://[USER:PASSWORD@ or TOKEN@]HOST[:PORT][/DATABASE]`.

    It does not connect yet. Raises `InvalidInput` for another URL, and `MissingExtra` if the client is not installed.
    """
    address = parse(url, "milvus", (), api_key)
    if not address.transport and folder(address, "milvus", "milvus:vectors.db").suffix != ".db":
        raise InvalidInput("the path of a Milvus database in this process ends in .db, such as milvus:vectors.db")
    require("pymilvus", _EXTRA)
    if not address.transport:
        require("milvus_lite", _EXTRA)
    return RemoteVectors(lambda: _Milvus(address), address)


class _Milvus:
    """Each point is a row with its key, scope and id; the scope is the partition key."""

    batch = 1000
    most = 16_384

    def __init__(self, address: VectorAddress) -> None:
        self._pymilvus = load("pymilvus", _EXTRA)
        _quiet()
        self._lite = None if address.transport else str(folder(address, "milvus", "milvus:vectors.db"))
        self._client = _connect(self._pymilvus.MilvusClient, address, self._lite)
        # Serialized, since two first writes to Lite would create one collection, or its log, twice.
        self._turn: AbstractContextManager[Any] = nullcontext() if self._lite is None else _Lite.lock

    def dimension(self, name: str) -> int | None:
        if not self._client.has_collection(name, timeout=TIMEOUT) or not self._client.list_indexes(name):
            return None  # without an index it is incomplete: another process is creating it, or was interrupted
        fields = self._client.describe_collection(name, timeout=TIMEOUT)["fields"]
        self._client.load_collection(name, timeout=TIMEOUT)
        return next(int(field["params"]["dim"]) for field in fields if field["name"] == "vector")

    def create(self, name: str, dim: int) -> None:
        with self._turn:
            if not self._client.has_collection(name, timeout=TIMEOUT):
                schema = self._schema(dim)
                self._client.create_collection(name, schema=schema, consistency_level="Strong", timeout=TIMEOUT)
            index = self._client.prepare_index_params()
            index.add_index("vector", index_type="AUTOINDEX", metric_type="COSINE")
            self._client.create_index(name, index, timeout=TIMEOUT)

    def _schema(self, dim: int) -> Any:
        kinds = self._pymilvus.DataType
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("key", kinds.VARCHAR, is_primary=True, max_length=36)
        schema.add_field("scope", kinds.VARCHAR, is_partition_key=True, max_length=64)
        schema.add_field("memory", kinds.VARCHAR, max_length=_ID_BYTES)
        schema.add_field("vector", kinds.FLOAT_VECTOR, dim=dim)
        return schema

    def put(self, name: str, scope: str, points: Sequence[Point]) -> None:
        rows = [{"key": point.key, "scope": scope, "memory": point.id, "vector": point.vector} for point in points]
        with self._turn:
            self._client.upsert(name, rows, timeout=TIMEOUT)

    def nearest(self, name: str, scope: str, vector: list[float], k: int, keys: list[str] | None) -> list[Match]:
        (hits,) = self._client.search(
            name,
            data=[vector],
            anns_field="vector",
            filter=_filter(scope, keys),
            limit=k,
            output_fields=["memory"],
            search_params={"metric_type": "COSINE"},
            timeout=TIMEOUT,
        )
        return [Match(str(hit["entity"]["memory"]), float(hit["distance"])) for hit in hits]

    def drop(self, name: str, scope: str, keys: list[str]) -> None:
        with self._turn:
            self._client.delete(name, filter=_filter(scope, keys), timeout=TIMEOUT)

    def clear(self, name: str, scope: str) -> None:
        with self._turn:
            self._client.delete(name, filter=_filter(scope, None), timeout=TIMEOUT)

    def close(self) -> None:
        self._client.close()
        if self._lite is not None:
            _Lite.close(self._lite)


class _Lite:
    """Milvus Lite runs one server per path in this process; it stops when the last user of the path has closed."""

    users: ClassVar[Counter[str]] = Counter()
    lock: ClassVar = threading.Lock()

    @classmethod
    def open(cls, client: Any, path: str) -> Any:
        with cls.lock:
            made = client(uri=path, timeout=TIMEOUT)
            cls.users[path] += 1
            return made

    @classmethod
    def close(cls, path: str) -> None:
        with cls.lock:
            cls.users[path] -= 1
            if cls.users[path] <= 0:
                del cls.users[path]
                load("milvus_lite.server_manager", _EXTRA).server_manager_instance.release_server(path)


def _connect(client: Any, address: VectorAddress, lite: str | None) -> Any:
    if lite is not None:
        return _Lite.open(client, lite)
    token = f"{address.user}:{address.password}" if address.user and address.password else address.key
    return client(uri=f"{address}", token=token, db_name=address.path.strip("/"), timeout=CONNECT_TIMEOUT)


def _filter(scope: str, keys: list[str] | None) -> str:
    """Build a filter as text, as Milvus Lite has no parameters; scope names (hexadecimal) and keys (UUIDs) are safe."""
    if keys is None:
        return f'scope == "{scope}"'
    listed = ", ".join(f'"{key}"' for key in keys)
    return f'scope == "{scope}" and key in [{listed}]'


def _quiet() -> None:
    """Stop the client from printing every error to standard error; it logs them like other libraries."""
    for name in ("pymilvus", "pymilvus.milvus_client", "milvus_lite"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [logging.NullHandler()]
        logger.propagate = True
    logging.getLogger("grpc").addHandler(logging.NullHandler())  # Milvus Lite lacks calls of its client
