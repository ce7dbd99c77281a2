"""Pinecone's own client, over real HTTP, against a small stand-in for an index."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from test_vectors_remote import HOME, Opener, RemoteVectorsContract, fan, missing, quickly_away

from engram.errors import ConfigError, InvalidInput
from engram.ports import Scope, VectorSpace
from engram.stores.vectors import pinecone
from engram.stores.vectors.remote import RemoteVectors
from engram.testing.factories import unit
from support.ports import nobody_listens

BATCH = 100


class StandIn:
    """One index: namespaces of vectors with metadata; answers by comparing with each; the key must be right."""

    def __init__(self) -> None:
        self.dimension, self.metric, self.key = 2, "cosine", "KEY-7"
        self.namespaces: dict[str, dict[str, dict[str, Any]]] = {}
        self.lock = threading.Lock()

    def answer(self, path: str, key: str | None, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if key != self.key:
            return 401, {"error": {"code": "UNAUTHENTICATED", "message": "wrong key"}}
        with self.lock:
            if path == "/describe_index_stats":
                return 200, {"dimension": self.dimension, "metric": self.metric, "namespaces": {}}
            if path == "/vectors/upsert":
                return self._upsert(body)
            if body["namespace"] not in self.namespaces:
                return (
                    (404, {"code": 5, "message": "Namespace not found"}) if "delete" in path else (200, {"matches": []})
                )
            return self._query(body) if path == "/query" else self._delete(body)

    def _upsert(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        wrong = [row for row in body["vectors"] if len(row["values"]) != self.dimension]
        if wrong or len(body["vectors"]) > BATCH:
            return 400, {"code": 3, "message": "refused"}
        self.namespaces.setdefault(body["namespace"], {}).update({row["id"]: row for row in body["vectors"]})
        return 200, {"upsertedCount": len(body["vectors"])}

    def _query(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        rows = self.namespaces[body["namespace"]].values()
        matches = [
            {"id": row["id"], "score": float(np.dot(row["values"], body["vector"])), "metadata": row["metadata"]}
            for row in rows
            if _passes(body["filter"], row["metadata"])
        ]
        return 200, {"matches": sorted(matches, key=lambda match: -match["score"])[: body["topK"]]}

    def _delete(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if body.get("deleteAll"):
            del self.namespaces[body["namespace"]]
        for id in body.get("ids", ()):
            self.namespaces[body["namespace"]].pop(id, None)
        return 200, {}


def _passes(which: dict[str, Any], metadata: dict[str, str]) -> bool:
    return all(
        metadata[name] == test["$eq"] if "$eq" in test else metadata[name] in test["$in"]
        for name, test in which.items()
    )


@pytest.fixture
def stand_in() -> Iterator[tuple[StandIn, str]]:
    pytest.importorskip("pinecone")
    index = StandIn()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = index.answer(self.path, self.headers.get("Api-Key"), body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield index, f"pinecone://KEY-7@memories?host={quote(f'http://127.0.0.1:{server.server_port}')}"
    server.shutdown()
    server.server_close()


class TestPineconeKeepsTheContract(RemoteVectorsContract):
    backend = "Pinecone"
    verified = "its client over HTTP, a stand-in index"

    @pytest.fixture
    def open_another(self, stand_in: tuple[StandIn, str], request: pytest.FixtureRequest) -> Iterator[Opener]:
        if "history" in request.node.name:
            stand_in[0].dimension = 8
        made: list[RemoteVectors] = []

        def open_one() -> RemoteVectors:
            made.append(pinecone.open_vectors(stand_in[1]))
            return made[-1]

        yield open_one
        for store in made:
            store.close()

    def test_each_shelf_is_a_namespace_that_tells_no_names(
        self, vectors: RemoteVectors, stand_in: tuple[StandIn, str]
    ) -> None:
        for agent in ("alice", "bob"):
            vectors.add(VectorSpace(Scope(agent), "long-term", "fixed@1"), *fan(3))
        assert len(stand_in[0].namespaces) == 2
        assert all(name.replace("-", "_").replace("_", "").isalnum() for name in stand_in[0].namespaces)
        assert not any("alice" in name or "long" in name for name in stand_in[0].namespaces)

    def test_a_wrong_key_is_an_error_that_does_not_show_it(self, stand_in: tuple[StandIn, str]) -> None:
        quickly_away(pinecone.open_vectors(stand_in[1].replace("KEY-7", "KEY-8")), "KEY-8")

    def test_a_key_from_the_settings_will_do(self, stand_in: tuple[StandIn, str]) -> None:
        vectors = pinecone.open_vectors(stand_in[1].replace("KEY-7@", ""), api_key="KEY-7")
        assert vectors.search(HOME, unit(1, 0), 1) == []
        vectors.close()

    def test_an_index_with_another_metric_is_refused(self, stand_in: tuple[StandIn, str]) -> None:
        stand_in[0].metric = "euclidean"
        vectors = pinecone.open_vectors(stand_in[1])
        with pytest.raises(ConfigError, match="metric=cosine"):
            vectors.search(HOME, unit(1, 0), 1)
        vectors.close()

    def test_an_index_for_other_vectors_is_refused_and_named(self, vectors: RemoteVectors) -> None:
        with pytest.raises(InvalidInput, match="3 dimensions"):
            vectors.add(HOME, ["m1"], np.stack([unit(1, 0, 0)]))


def test_without_the_client_the_extra_is_named() -> None:
    assert 'pip install "engram-learning[pinecone]"' in missing("pinecone", "pinecone", "pinecone://KEY@index")


def test_without_a_key_it_is_not_opened() -> None:
    with pytest.raises(ConfigError, match="API key"):
        pinecone.open_vectors("pinecone://memories")


def test_a_server_that_is_away_is_an_error_within_seconds() -> None:
    pytest.importorskip("pinecone")
    with nobody_listens() as port:
        url = f"pinecone://KEY-7@memories?host=http%3A%2F%2F127.0.0.1%3A{port}"
        quickly_away(pinecone.open_vectors(url), "KEY-7")


@pytest.mark.parametrize("url", ["pinecone:memories", "pinecone://", "pinecone+http://host", "pinecone://KEY@a/b"])
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        pinecone.open_vectors(url)
