"""Qdrant in this process; and its client over real HTTP, answered by the same engine behind a small server."""

from __future__ import annotations

import gc
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_vectors_remote import HOME, Opener, RemoteVectorsContract, fan, missing, quickly_away

from engram.errors import InvalidInput, StoreError
from engram.stores.vectors import qdrant
from engram.stores.vectors.remote import RemoteVectors
from engram.testing.factories import unit
from support.ports import nobody_listens

# The client opens a SQLite database to find out whether threads may share one, and leaves it open.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")


class TestQdrantInMemoryKeepsTheContract(RemoteVectorsContract):
    backend = "Qdrant, in memory"

    @pytest.fixture
    def open_another(self) -> Iterator[Opener]:
        pytest.importorskip("qdrant_client")
        store = qdrant.open_vectors("qdrant::memory:")  # nobody else can open it
        yield lambda: store
        store.close()


class TestQdrantInAFolderKeepsTheContract(RemoteVectorsContract):
    backend = "Qdrant, in a folder"

    many = 150  # a file is committed for each

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        pytest.importorskip("qdrant_client")
        return f"qdrant:{tmp_path}/new/vectors"

    @pytest.fixture
    def open_another(self, url: str) -> Iterator[Opener]:
        store = qdrant.open_vectors(url)  # one at a time may open it
        yield lambda: store
        store.close()
        gc.collect()

    def test_everything_is_there_after_reopening(self, open_another: Opener, url: str) -> None:
        ids, rows = fan(50)
        first = open_another()
        first.add(HOME, ids, rows)
        first.remove(HOME, ids[:3])
        first.close()
        again = qdrant.open_vectors(url)
        assert [match.id for match in again.search(HOME, unit(1, 0), 2)] == ids[3:5]
        again.close()

    @pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # the client forgets its lock file
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_a_folder_that_is_in_use_is_a_clear_error_until_it_is_free(self, open_another: Opener, url: str) -> None:
        first, second = open_another(), qdrant.open_vectors(url)
        first.add(HOME, ["m1"], np.stack([unit(1, 0)]))
        with pytest.raises(StoreError, match="already accessed by another"):
            second.search(HOME, unit(1, 0), 1)
        first.close()
        assert len(second.search(HOME, unit(1, 0), 1)) == 1
        second.close()


class StandIn:
    """The requests of Qdrant's HTTP interface that Engram makes, answered by the client's local engine."""

    def __init__(self) -> None:
        self.engine, self.lock = import_module("qdrant_client").QdrantClient(":memory:"), threading.Lock()
        self.indexed: list[Any] = []
        self.keys: set[str | None] = set()

    def answer(self, method: str, path: str, body: Any) -> Any:
        models = import_module("qdrant_client.models")
        _, _, name, *rest = path.partition("?")[0].split("/")
        match (method, rest):
            case ("GET", ["exists"]):
                return {"exists": self.engine.collection_exists(name)}
            case ("GET", []):
                return json.loads(self.engine.get_collection(name).model_dump_json())
            case ("PUT", []):
                return self.engine.create_collection(name, models.VectorParams(**body["vectors"]))
            case ("PUT", ["index"]):
                self.indexed.append(body)
                return DONE
            case ("PUT", ["points"]):
                self.engine.upsert(name, [models.PointStruct(**point) for point in body["points"]])
                return DONE
            case ("POST", ["points", "delete"]):
                self.engine.delete(name, models.FilterSelector(**body))
                return DONE
        assert (method, rest) == ("POST", ["points", "query"])
        which = models.Filter(**body["filter"])
        found = self.engine.query_points(name, body["query"]["nearest"], query_filter=which, limit=body["limit"])
        return json.loads(found.model_dump_json())


DONE = {"operation_id": 1, "status": "completed"}


def _handler(server: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            with server.lock:
                server.keys.add(self.headers.get("api-key"))
                try:
                    status, answer = 200, {"result": server.answer(self.command, self.path, body), "status": "ok"}
                except ValueError as error:
                    status, answer = 409, {"status": {"error": str(error)}}
            data = json.dumps({**answer, "time": 0.0}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_PUT(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


class TestQdrantOverHttpKeepsTheContract(RemoteVectorsContract):
    backend = "Qdrant server"
    verified = "its client over HTTP, a stand-in server"

    many = 650

    @pytest.fixture
    def stand_in(self) -> Iterator[tuple[StandIn, str]]:
        pytest.importorskip("qdrant_client")
        server = StandIn()
        http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        yield server, f"qdrant+http://127.0.0.1:{http.server_port}"
        http.shutdown()
        http.server_close()

    @pytest.fixture
    def open_another(self, stand_in: tuple[StandIn, str]) -> Iterator[Opener]:
        made: list[RemoteVectors] = []

        def open_one() -> RemoteVectors:
            made.append(qdrant.open_vectors(stand_in[1]))
            return made[-1]

        yield open_one
        for store in made:
            store.close()

    def test_a_scope_is_a_tenant(self, vectors: RemoteVectors, stand_in: tuple[StandIn, str]) -> None:
        vectors.add(HOME, ["m1"], np.stack([unit(1, 0)]))
        assert stand_in[0].indexed == [{"field_name": "scope", "field_schema": {"type": "keyword", "is_tenant": True}}]

    @pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection:UserWarning")
    def test_a_key_is_sent_and_never_shown(self, stand_in: tuple[StandIn, str]) -> None:
        vectors = qdrant.open_vectors(stand_in[1].replace("//", "//KEY-7@"))
        assert vectors.search(HOME, unit(1, 0), 1) == []
        assert stand_in[0].keys == {"KEY-7"}
        assert "KEY-7" not in repr(vectors)
        vectors.close()


def test_without_the_client_the_extra_is_named() -> None:
    assert 'pip install "engram-learning[qdrant]"' in missing("qdrant", "qdrant_client", "qdrant::memory:")


def test_a_server_that_is_away_is_an_error_within_seconds() -> None:
    pytest.importorskip("qdrant_client")
    with nobody_listens() as port:
        quickly_away(qdrant.open_vectors(f"qdrant+http://127.0.0.1:{port}"))


def test_a_server_that_says_nothing_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("qdrant_client")
    monkeypatch.setattr(qdrant, "TIMEOUT", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        quickly_away(qdrant.open_vectors(f"qdrant+http://127.0.0.1:{silent.getsockname()[1]}"))


@pytest.mark.parametrize("url", ["qdrant:", "qdrant:///", "qdrant://host/path", "qdrant+http:path", "chroma:x"])
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        qdrant.open_vectors(url)
