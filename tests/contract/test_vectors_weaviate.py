"""Weaviate's own client, over real HTTP and gRPC, against a small stand-in for its server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from test_vectors_remote import HOME, Opener, RemoteVectorsContract, fan, missing, quickly_away

from engram.errors import InvalidInput, StoreError
from engram.stores.vectors import weaviate
from engram.stores.vectors.remote import RemoteVectors, parse
from engram.testing.factories import unit
from support.ports import nobody_listens

PROTO = "weaviate.proto.v1"
MOST_DELETED = 1000
"""A real server removes 10,000 objects at most in one call."""


class StandIn:
    """Keeps schemas and objects, and answers by comparing with each; every request must carry the key."""

    def __init__(self, key: str) -> None:
        self.key, self.lock = key, threading.Lock()
        self.schemas: dict[str, dict[str, Any]] = {}
        self.objects: dict[str, dict[str, tuple[dict[str, str], Any]]] = {}
        self.refuse_objects = False

    def search(self, request: Any, context: Any) -> Any:
        proto = import_module(PROTO)
        self._check(context)
        given = request.near_vector
        packed = given.vector_bytes or (given.vectors[0].vector_bytes if given.vectors else b"")
        wanted = np.frombuffer(packed, dtype="<f4")
        with self.lock:
            rows = self._matching(request)
        hits = sorted((1 - float(vector @ wanted), uuid, kept["memory"]) for uuid, kept, vector in rows)
        results = [
            proto.search_get_pb2.SearchResult(
                metadata=proto.search_get_pb2.MetadataResult(id=uuid, distance=distance, distance_present=True),
                properties=proto.search_get_pb2.PropertiesResult(
                    non_ref_props=proto.properties_pb2.Properties(
                        fields={"memory": proto.properties_pb2.Value(text_value=memory)}
                    )
                ),
            )
            for distance, uuid, memory in hits[: request.limit]
        ]
        return proto.search_get_pb2.SearchReply(results=results)

    def put(self, request: Any, context: Any) -> Any:
        proto = import_module(PROTO)
        self._check(context)
        if self.refuse_objects:
            error = proto.batch_pb2.BatchObjectsReply.BatchError(index=0, error="no space")
            return proto.batch_pb2.BatchObjectsReply(errors=[error])
        with self.lock:
            for thing in request.objects:
                packed = thing.vector_bytes or thing.vectors[0].vector_bytes
                kept = dict(thing.properties.non_ref_properties)
                self.objects[thing.collection][thing.uuid] = (kept, np.frombuffer(packed, dtype="<f4"))
        return proto.batch_pb2.BatchObjectsReply()

    def delete(self, request: Any, context: Any) -> Any:
        proto = import_module(PROTO)
        self._check(context)
        with self.lock:
            chosen = [uuid for uuid, _, _ in self._matching(request)][:MOST_DELETED]
            for uuid in chosen:
                del self.objects[request.collection][uuid]
        return proto.batch_delete_pb2.BatchDeleteReply(matches=len(chosen), successful=len(chosen))

    def _check(self, context: Any) -> None:
        grpc = import_module("grpc")
        if dict(context.invocation_metadata()).get("authorization") != f"Bearer {self.key}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong key")

    def _matching(self, request: Any) -> list[tuple[str, dict[str, str], Any]]:
        return [
            (uuid, kept, vector)
            for uuid, (kept, vector) in self.objects[request.collection].items()
            if _passes(request.filters, uuid, kept)
        ]


def _passes(which: Any, uuid: str, kept: dict[str, str]) -> bool:
    proto = import_module(PROTO)
    if which.operator == proto.base_pb2.Filters.OPERATOR_AND:
        return all(_passes(part, uuid, kept) for part in which.filters)
    value = uuid if which.target.property == "_id" else kept[which.target.property].strip()  # as a real one does
    if which.operator == proto.base_pb2.Filters.OPERATOR_EQUAL:
        return bool(value == which.value_text)
    assert which.operator == proto.base_pb2.Filters.OPERATOR_CONTAINS_ANY
    return value in which.value_text_array.values


def _handler(server: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_GET(self) -> None:
            if self.path == "/v1/meta":
                self._answer(200, {"version": "1.34.0"})
            elif (name := self.path.removeprefix("/v1/schema/")) in server.schemas:
                self._answer(200, server.schemas[name])
            else:
                self._answer(404, {})

        def do_POST(self) -> None:
            schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.headers.get("Authorization") != f"Bearer {server.key}":
                self._answer(401, {"error": "wrong key"})
                return
            with server.lock:
                if schema["class"] in server.schemas:
                    self._answer(422, {"error": [{"message": "class already exists"}]})
                    return
                server.schemas[schema["class"]] = _complete(schema)
                server.objects[schema["class"]] = {}
            self._answer(200, server.schemas[schema["class"]])

        def _answer(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


def _complete(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with what a server adds to the vector index, as far as the client reads it."""
    for config in schema["vectorConfig"].values():
        config["vectorIndexConfig"] = {
            "cleanupIntervalSeconds": 300,
            "dynamicEfMin": 100,
            "dynamicEfMax": 500,
            "dynamicEfFactor": 8,
            "ef": -1,
            "efConstruction": 128,
            "filterStrategy": "sweeping",
            "flatSearchCutoff": 40000,
            "maxConnections": 32,
            "skip": False,
            "vectorCacheMaxObjects": 10**12,
            **config["vectorIndexConfig"],
        }
    return schema


@pytest.fixture
def stand_in() -> Iterator[tuple[StandIn, str]]:
    pytest.importorskip("weaviate")
    proto = import_module(PROTO)
    server = StandIn("KEY-7")
    rpc = import_module("grpc").server(ThreadPoolExecutor(4))
    proto.weaviate_pb2_grpc.add_WeaviateServicer_to_server(_full(server), rpc)
    port = rpc.add_insecure_port("127.0.0.1:0")
    rpc.start()
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    yield server, f"weaviate+http://KEY-7@127.0.0.1:{http.server_port}?grpc=127.0.0.1:{port}"
    http.shutdown()
    http.server_close()
    rpc.stop(0).wait()


def _full(server: StandIn) -> Any:
    """The stand-in with the calls that Engram does not use, which say so."""
    proto = import_module(PROTO)

    class Servicer(proto.weaviate_pb2_grpc.WeaviateServicer):  # type: ignore[name-defined, misc]
        Search = staticmethod(server.search)
        BatchObjects = staticmethod(server.put)
        BatchDelete = staticmethod(server.delete)

    return Servicer()


class TestWeaviateKeepsTheContract(RemoteVectorsContract):
    backend = "Weaviate"
    verified = "its client over HTTP and gRPC, a stand-in server"

    @pytest.fixture
    def open_another(self, stand_in: tuple[StandIn, str]) -> Iterator[Opener]:
        made: list[RemoteVectors] = []

        def open_one() -> RemoteVectors:
            made.append(weaviate.open_vectors(stand_in[1]))
            return made[-1]

        yield open_one
        for store in made:
            store.close()

    def test_more_are_cleared_than_one_call_removes(self, vectors: RemoteVectors) -> None:
        vectors.add(HOME, *fan(2 * MOST_DELETED + 1))
        vectors.clear(HOME)
        assert vectors.search(HOME, unit(1, 0), 1) == []

    def test_an_object_that_was_refused_is_an_error(
        self, vectors: RemoteVectors, stand_in: tuple[StandIn, str]
    ) -> None:
        stand_in[0].refuse_objects = True
        with pytest.raises(StoreError, match="no space"):
            vectors.add(HOME, ["m1", "m2"], np.stack([unit(1, 0), unit(0, 1)]))

    def test_a_wrong_key_is_an_error_that_does_not_show_it(self, stand_in: tuple[StandIn, str]) -> None:
        vectors = weaviate.open_vectors(stand_in[1].replace("KEY-7", "KEY-8"))
        with pytest.raises(StoreError) as caught:
            vectors.add(HOME, ["m1"], np.stack([unit(1, 0)]))
        assert "KEY-8" not in str(caught.value)
        vectors.close()

    def test_nothing_but_the_names_given_is_in_a_collection(
        self, vectors: RemoteVectors, stand_in: tuple[StandIn, str]
    ) -> None:
        vectors.add(HOME, ["m1"], np.stack([unit(1, 0)]))
        (schema,) = stand_in[0].schemas.values()
        assert [(p["name"], p["tokenization"]) for p in schema["properties"]] == [
            ("scope", "field"),
            ("memory", "field"),
        ]
        (config,) = schema["vectorConfig"].values()
        assert config["vectorizer"] == {"none": {}}
        assert config["vectorIndexConfig"]["distance"] == "cosine"


def test_without_the_client_the_extra_is_named() -> None:
    assert 'pip install "engram-learning[weaviate]"' in missing("weaviate", "weaviate", "weaviate+http://127.0.0.1")


def test_a_server_that_is_away_is_an_error_within_seconds() -> None:
    pytest.importorskip("weaviate")
    with nobody_listens() as port:
        quickly_away(weaviate.open_vectors(f"weaviate+http://KEY-7@127.0.0.1:{port}"), "KEY-7")


def test_searches_go_to_the_port_for_them() -> None:
    def grpc_of(url: str) -> tuple[str, int]:
        return weaviate._grpc(parse(url, "weaviate", ("grpc",)))

    assert grpc_of("weaviate+http://host:80") == ("host", 50051)
    assert grpc_of("weaviate+http://host?grpc=other:443") == ("other", 443)
    assert grpc_of("weaviate+https://x.c0.weaviate.cloud") == ("grpc-x.c0.weaviate.cloud", 443)


@pytest.mark.parametrize(
    "url", ["weaviate:path", "weaviate+http:path", "weaviate+http://host?grpc=x", "weaviate+http://host?grpc=x:y"]
)
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        weaviate.open_vectors(url)
