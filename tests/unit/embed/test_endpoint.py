"""The endpoint embedder against a real server on this machine, well behaved or not."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import engram
from engram.embed.endpoint import LONGEST_TEXT, EndpointEmbedder, EndpointLimits, openai
from engram.embed.hashing import HashingEmbedder
from engram.errors import InvalidInput, ModelError, ModelUnavailable
from engram.model import Clean
from engram.testing import EmbedderContract, FixedSources
from support.ports import nobody_listens

KEY = "sk-very-secret-0123456789"
NATIVE = 64
TEXTS = [Clean(f"text number {n}") for n in range(10)]

Json = dict[str, Any]
Behaviour = Callable[["Handler", Json], None]


class Server(ThreadingHTTPServer):
    """Embeds by hashing; follows `script`, one behaviour per request, and then behaves correctly."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Behaviour] = []
        self.requests: list[Json] = []
        self.headers: list[Mapping[str, str]] = []
        self.release = threading.Event()
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore disconnected clients, which are part of the tests."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            server.requests.append(body)
            server.headers.append(dict(self.headers))
            behave = server.script.pop(0) if server.script else fine
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
            self.under_way = True
        try:
            behave(self, body)
        finally:
            self.leave()

    def leave(self) -> None:
        """No longer under way: the client may ask again as soon as it has the last byte."""
        with self.server.lock:
            self.server.at_once -= self.under_way
            self.under_way = False

    def answer(self, content: object, status: int = 200, **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.leave()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None:
        """Nobody reads it."""


def embedded(body: Json) -> Json:
    """Return OpenAI's response: rows with an index, here not of length 1."""
    rows = HashingEmbedder(body.get("dimensions", NATIVE)).embed(body["input"]) * 3
    data = [{"object": "embedding", "index": n, "embedding": row.tolist()} for n, row in enumerate(rows)]
    return {"object": "list", "data": data, "model": body["model"], "usage": {"total_tokens": 1}}


def fine(handler: Handler, body: Json) -> None:
    texts = body["input"]
    if handler.path != "/v1/embeddings" or body["model"] == "unknown":
        handler.answer({"error": {"message": f"The model `{body['model']}` does not exist"}}, 404)
    elif not all(texts) or len(texts) > 32 or any(len(text.encode()) > 8192 for text in texts):
        handler.answer({"error": {"message": "'$.input' is invalid", "type": "invalid_request_error"}}, 400)
    else:
        handler.answer(embedded(body))


def refusing(status: int, said: object = None, **headers: str) -> Behaviour:
    return lambda handler, body: handler.answer(said or {"error": {"message": "no"}}, status, **headers)


def altered(change: Callable[[Json], object]) -> Behaviour:
    def behave(handler: Handler, body: Json) -> None:
        answer = embedded(body)
        change(answer)
        handler.answer(answer)

    return behave


def edited(number: int, **fields: object) -> Behaviour:
    return altered(lambda answer: answer["data"][number].update(fields))


def instead(content: object) -> Behaviour:
    return lambda handler, body: handler.answer(content)


def resetting(handler: Handler, body: Json) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(handler.connection.detach())


def hanging_up(handler: Handler, body: Json) -> None:
    """Close the connection without a response."""


def breaking_off(handler: Handler, body: Json) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"data": [')


def silent(handler: Handler, body: Json) -> None:
    handler.server.release.wait()


def dripping(handler: Handler, body: Json) -> None:
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):  # until the other side has had enough
        while not handler.server.release.wait(0.02):
            handler.wfile.write(b" ")


def endless(handler: Handler, body: Json) -> None:
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while True:
            handler.wfile.write(b" " * 65536)


def no_http(handler: Handler, body: Json) -> None:
    handler.wfile.write(b"220 mail.example.com ESMTP\r\n")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.release.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def make(server: Server, pauses: list[float]) -> Callable[..., EndpointEmbedder]:
    def make(model: str = "small", key: str | None = KEY, **options: Any) -> EndpointEmbedder:
        url = options.pop("url", server.url)
        return EndpointEmbedder(model, url, key, sources=FixedSources(), sleep=pauses.append, **options)

    return make


@pytest.fixture
def embedder(make: Callable[..., EndpointEmbedder]) -> EndpointEmbedder:
    return make()


class TestEndpointKeepsTheContract(EmbedderContract):
    backend = "OpenAI-compatible endpoint"
    verified = "a real local HTTP server"


class TestAShorterEndpointKeepsTheContract(EmbedderContract):
    backend = "OpenAI-compatible endpoint, shortened"
    verified = "a real local HTTP server"

    @pytest.fixture
    def embedder(self, make: Callable[..., EndpointEmbedder]) -> EndpointEmbedder:
        return make(dim=32, limits=EndpointLimits(texts=3, characters=100))


# --- what is sent


def test_a_request_has_the_form_that_openai_documents(server: Server, embedder: EndpointEmbedder) -> None:
    embedder.embed(TEXTS[:2])
    assert server.requests == [{"model": "small", "input": TEXTS[:2], "encoding_format": "float"}]
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert server.headers[0]["Content-Type"] == "application/json"


def test_without_a_key_none_is_sent(server: Server, make: Callable[..., EndpointEmbedder]) -> None:
    make(key=None).embed(TEXTS[:1])
    assert "Authorization" not in server.headers[0]


def test_nothing_is_sent_before_the_first_use(server: Server, embedder: EndpointEmbedder) -> None:
    assert embedder.identity
    assert server.requests == []


def test_the_dimension_is_learnt_once(server: Server, embedder: EndpointEmbedder) -> None:
    assert (embedder.dim, embedder.dim, len(server.requests)) == (NATIVE, NATIVE, 1)
    assert embedder.embed([]).shape == (0, NATIVE)
    assert len(server.requests) == 1


def test_a_dimension_can_be_asked_for(server: Server, make: Callable[..., EndpointEmbedder]) -> None:
    embedder = make(dim=16)
    assert embedder.dim == 16
    assert server.requests == []
    assert embedder.embed(TEXTS[:2]).shape == (2, 16)
    assert server.requests[0]["dimensions"] == 16


def test_batches_hold_no_more_texts_and_characters_than_allowed(
    server: Server, make: Callable[..., EndpointEmbedder]
) -> None:
    texts = [Clean("x" * size) for size in (10, 10, 10, 10, 50, 60, 120, 5, 5)]
    rows = make(limits=EndpointLimits(texts=3, characters=100)).embed(texts)
    sizes = sorted([len(text) for text in request["input"]] for request in server.requests)
    assert sizes == [[5, 5], [10, 10, 10], [10, 50], [60], [120]]
    assert np.allclose(rows, HashingEmbedder(NATIVE).embed(texts), atol=1e-6)


def test_only_the_beginning_of_a_text_is_sent_and_never_half_a_character(
    server: Server, make: Callable[..., EndpointEmbedder]
) -> None:
    make().embed([Clean("é" * 10_000)])
    make(longest=5).embed([Clean("ééé"), Clean("ab"), Clean(" \n")])
    assert [request["input"] for request in server.requests] == [["é" * (LONGEST_TEXT // 2)], ["éé", "ab", "."]]


def test_no_more_than_four_requests_are_under_way_however_many_threads_ask(
    server: Server, make: Callable[..., EndpointEmbedder]
) -> None:
    everyone = threading.Barrier(4)

    def together(handler: Handler, body: Json) -> None:
        everyone.wait(30)  # broken, and the test with it, if fewer than four are let through
        fine(handler, body)

    server.script = [together] * 24
    embedder = make(limits=EndpointLimits(texts=1))
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(embedder.embed, [TEXTS[:8]] * 3))
    assert server.most_at_once == 4
    assert len(server.requests) == 24
    for rows in answers:
        assert np.allclose(rows, HashingEmbedder(NATIVE).embed(TEXTS[:8]), atol=1e-6)


# --- answers


def test_rows_are_put_in_order_by_their_index(server: Server, embedder: EndpointEmbedder) -> None:
    server.script = [altered(lambda answer: answer["data"].reverse())]
    assert np.allclose(embedder.embed(TEXTS), HashingEmbedder(NATIVE).embed(TEXTS), atol=1e-6)


MISTAKES: dict[str, tuple[Behaviour, str]] = {
    "one too few": (altered(lambda answer: answer["data"].pop()), "2 vectors for 3 texts"),
    "one too many": (altered(lambda answer: answer["data"].append(answer["data"][0])), "4 vectors for 3 texts"),
    "an index twice": (edited(1, index=0), "numbers do not match"),
    "a negative index": (edited(0, index=-1), "numbers do not match"),
    "no index": (altered(lambda answer: answer["data"][1].pop("index")), r"data\.1\.index: Field required"),
    "other lengths": (edited(1, embedding=[1.0, 0.0]), "vectors of 2 and 64 dimensions"),
    "no numbers": (altered(lambda answer: [row.update(embedding=[]) for row in answer["data"]]), "0 dimensions"),
    "not a number": (edited(1, embedding=[float("nan")] * NATIVE), "finite"),
    "infinite": (edited(1, embedding=[float("inf")] * NATIVE), "finite"),
    "too large to square": (edited(1, embedding=[1e300] * NATIVE), "zero or non-finite vector"),
    "no direction": (edited(1, embedding=[0.0] * NATIVE), "zero or non-finite vector"),
    "words": (edited(1, embedding=["0.5"] * NATIVE), "valid number"),
    "base64": (edited(1, embedding="AACAPw=="), "valid array"),
    "an error": (instead({"error": "over capacity"}), "over capacity"),
    "another shape": (instead([1, 2]), "object"),
    "not json": (instead(b"<html>Welcome</html>"), "Invalid JSON"),
    "half": (instead(b'{"data": [{"index": 0,'), "Invalid JSON"),
    "deep": (instead(b"[" * 500_000), "Invalid JSON"),
    "not text": (instead(b"\xff\xfe\x00"), "Invalid JSON"),
    "nothing": (instead(b""), "Invalid JSON"),
}


@pytest.mark.parametrize(("mistake", "says"), MISTAKES.values(), ids=MISTAKES.keys())
def test_an_answer_that_is_not_what_was_asked_for_is_refused_and_not_asked_again(
    server: Server, embedder: EndpointEmbedder, mistake: Behaviour, says: str
) -> None:
    server.script = [mistake]
    with pytest.raises(ModelError, match=says) as caught:
        embedder.embed(TEXTS[:3])
    assert len(str(caught.value)) < 600
    assert len(server.requests) == 1


def test_the_dimension_may_not_change_from_one_answer_to_the_next(
    server: Server, make: Callable[..., EndpointEmbedder]
) -> None:
    server.script = [fine, edited(0, embedding=[1.0, 2.0])]
    embedder = make()
    embedder.embed(TEXTS[:1])
    with pytest.raises(ModelError, match="2 dimensions, not 64"):
        embedder.embed(TEXTS[:1])
    server.script = [edited(0, embedding=[1.0, 2.0])]
    with pytest.raises(ModelError, match="2 dimensions, not 16"):
        make(dim=16).embed(TEXTS[:1])


def test_an_answer_larger_than_allowed_is_not_read_to_its_end(
    server: Server, make: Callable[..., EndpointEmbedder]
) -> None:
    server.script = [endless]
    with pytest.raises(ModelError, match="more than 1000000 bytes"):
        make(limits=EndpointLimits(answer=1_000_000)).embed(TEXTS[:1])


# --- trouble that passes


@pytest.mark.parametrize(
    "trouble",
    [refusing(429), refusing(500), refusing(502), refusing(503), refusing(504), resetting, hanging_up, breaking_off],
    ids=["429", "500", "502", "503", "504", "reset", "hang up", "break off"],
)
def test_trouble_that_passes_is_tried_again_after_growing_pauses(
    server: Server, embedder: EndpointEmbedder, pauses: list[float], trouble: Behaviour
) -> None:
    server.script = [trouble, trouble, trouble]
    assert np.allclose(embedder.embed(TEXTS), HashingEmbedder(NATIVE).embed(TEXTS), atol=1e-6)
    assert len(server.requests) == 4
    for number, pause in enumerate(pauses):
        assert 0.25 * 2**number <= pause <= 0.75 * 2**number


def test_trouble_that_stays_is_an_error_that_says_how_often_it_was_tried(
    server: Server, embedder: EndpointEmbedder, pauses: list[float]
) -> None:
    server.script = [refusing(503, {"error": {"message": "loading\nthe model"}})] * 9
    with pytest.raises(ModelUnavailable, match="503: loading the model; tried 4 times"):
        embedder.embed(TEXTS)
    assert len(pauses) == 3


@pytest.mark.parametrize("header", ["7", "Thu, 01 Jan 2026 00:00:07 GMT", "Thu, 01 Jan 2026 00:00:07 -0000"])
def test_the_endpoint_says_how_long_to_wait(
    server: Server, embedder: EndpointEmbedder, pauses: list[float], header: str
) -> None:
    server.script = [refusing(429, Retry_After=header)]
    embedder.embed(TEXTS)
    (pause,) = pauses
    assert 7 <= pause <= 7.5


@pytest.mark.parametrize("header", ["Wed, 31 Dec 2025 00:00:00 GMT", "0", "soon", "-5", ""])
def test_a_wait_that_is_over_or_unreadable_is_short(
    server: Server, embedder: EndpointEmbedder, pauses: list[float], header: str
) -> None:
    server.script = [refusing(429, Retry_After=header)]
    embedder.embed(TEXTS)
    (pause,) = pauses
    assert 0 <= pause <= 0.75


@pytest.mark.parametrize("header", ["3600", "9" * 400, "Fri, 01 Jan 2027 00:00:00 GMT"])
def test_nobody_waits_for_long(server: Server, embedder: EndpointEmbedder, pauses: list[float], header: str) -> None:
    server.script = [refusing(429, {"error": "quota used up"}, Retry_After=header)]
    with pytest.raises(ModelUnavailable, match="quota used up; tried 1 times"):
        embedder.embed(TEXTS)
    assert pauses == []


def test_one_bad_batch_fails_the_call(server: Server, make: Callable[..., EndpointEmbedder]) -> None:
    server.script = [fine, refusing(400), fine, fine]
    with pytest.raises(ModelError):
        make(limits=EndpointLimits(texts=2)).embed(TEXTS)


# --- trouble that stays


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (400, "400: no; if a text is too long"),
        (401, "does not accept the key; set the right one as embedder_key"),
        (403, "does not accept the key"),
        (404, "the address, which often ends in /v1"),
        (413, "add .bytes=2000"),
        (422, "422: no"),
    ],
)
def test_a_refusal_is_not_tried_again_and_says_what_to_do(
    server: Server, embedder: EndpointEmbedder, pauses: list[float], status: int, says: str
) -> None:
    server.script = [refusing(status)]
    with pytest.raises(ModelError, match=says):
        embedder.embed(TEXTS)
    assert (len(server.requests), pauses) == (1, [])


def test_a_missing_key_is_called_missing(server: Server, make: Callable[..., EndpointEmbedder]) -> None:
    server.script = [refusing(401)]
    with pytest.raises(ModelUnavailable, match="wants a key"):
        make(key=None).embed(TEXTS)


def test_an_unknown_model_is_named_by_the_endpoint(make: Callable[..., EndpointEmbedder]) -> None:
    with pytest.raises(ModelUnavailable, match="The model `unknown` does not exist"):
        make("unknown").embed(TEXTS)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("target", ["http://localhost:1/v1/embeddings?x=1", "/v2/embeddings", "file:///etc/passwd"])
def test_a_redirect_is_not_followed(server: Server, embedder: EndpointEmbedder, status: int, target: str) -> None:
    server.script = [refusing(status, Location=target)]
    with pytest.raises(ModelUnavailable, match="moved to " + target.partition("?")[0]) as caught:
        embedder.embed(TEXTS)
    assert "x=1" not in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize("behaviour", [silent, dripping], ids=["silent", "dripping"])
def test_a_slow_endpoint_is_given_up_and_not_asked_again(
    server: Server, make: Callable[..., EndpointEmbedder], behaviour: Behaviour
) -> None:
    server.script = [behaviour]
    with pytest.raises(ModelUnavailable, match=r"did not answer within 1\.5 seconds"):
        make(limits=EndpointLimits(timeout=1.5)).embed(TEXTS)
    assert len(server.requests) == 1


def test_an_endpoint_that_is_away_says_so_at_once(make: Callable[..., EndpointEmbedder], pauses: list[float]) -> None:
    with (
        nobody_listens() as port,
        pytest.raises(ModelUnavailable, match=r"cannot be reached.*check the address and that it is running"),
    ):
        make(url=f"http://127.0.0.1:{port}/v1").embed(TEXTS)
    assert pauses == []


def test_something_else_than_http_is_an_error(server: Server, embedder: EndpointEmbedder) -> None:
    server.script = [no_http]
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        embedder.embed(TEXTS)


# --- the key


@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 404, 429, 500])
def test_the_key_is_in_no_message_whatever_the_endpoint_says(
    server: Server, make: Callable[..., EndpointEmbedder], status: int
) -> None:
    said = {"error": {"message": f"Incorrect API key provided: {KEY}"}}
    server.script = [refusing(status, said, Location=f"http://elsewhere/{KEY}")] * 4
    embedder = make()
    with pytest.raises(ModelError) as caught:
        embedder.embed(TEXTS)
    shown = [str(caught.value), str(caught.value.__cause__), repr(embedder), embedder.identity]
    assert not any(KEY in text for text in shown)


@pytest.mark.parametrize("key", ["sk-1\nX-Other: 1", "sk 1", "schlüssel"])
def test_a_key_that_cannot_be_one_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        openai("m@http://localhost/v1", key)
    assert key not in str(caught.value)


# --- the setting


@pytest.mark.parametrize(
    ("argument", "identity"),
    {
        "m@https://api.openai.com/v1": "openai:m@api.openai.com/v1",
        "m@https://API.openai.com:443/v1/": "openai:m@api.openai.com/v1",
        "m@http://localhost:8080/v1/embeddings": "openai:m@localhost:8080/v1",
        "m@http://localhost": "openai:m@localhost",
        "m@http://[::1]:8080/v1": "openai:m@[::1]:8080/v1",
        "m@https://host/v1?dim=256": "openai:m@host/v1#dim=256",
        "m@https://host/v1?dim=256&bytes=2000": "openai:m@host/v1#dim=256,bytes=2000",
        "@cf/baai/bge-m3@https://host/v1": "openai:@cf/baai/bge-m3@host/v1",
        "org/model:latest@https://host/v1": "openai:org/model:latest@host/v1",
    }.items(),
)
def test_the_identity_names_the_model_the_place_and_what_is_asked(argument: str, identity: str) -> None:
    assert openai(argument, KEY).identity == identity


@pytest.mark.parametrize(
    "argument",
    [
        "",
        "text-embedding-3-small",
        "@https://host/v1",
        "m@",
        "m@https://",
        "m@ftp://host/v1",
        "m@file:///etc/passwd",
        "m@https://host:99999/v1",
        "m@https://host:port/v1",
        "m@http://[::1/v1",
        "m@https://host/v1#part",
        "m@https://host/v 1",
        "m@https://hóst/v1",
        "m@https://host/v1?dim=0",
        "m@https://host/v1?dim=many",
        "m@https://host/v1?dim=99999999",
        "m@https://host/v1?dim",
        "m@https://host/v1?api-version=1",
    ],
)
def test_a_setting_that_is_no_endpoint_is_refused(argument: str) -> None:
    with pytest.raises(InvalidInput):
        openai(argument)


def test_a_password_in_the_address_is_refused_and_not_shown() -> None:
    with pytest.raises(InvalidInput, match="embedder_key") as caught:
        openai("m@https://me:hunter2@host/v1")
    assert "hunter2" not in str(caught.value)


# --- in a brain


def test_a_brain_remembers_and_recalls_through_an_endpoint(server: Server, path: Path) -> None:
    with engram.open(path, embedder=f"openai:small@{server.url}?dim=48", embedder_key=KEY) as brain:
        alice = brain.agent("alice")
        alice.remember(["Staging runs PostgreSQL 15", "Bananas are yellow"])
        assert alice.recall("which database runs in staging?")[0].memory.text == "Staging runs PostgreSQL 15"
        assert brain.embedder.dim == 48
    assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}


def test_a_memory_is_not_lost_when_the_endpoint_is_away_and_hears_why(server: Server, path: Path) -> None:
    server.script = [refusing(401)] * 9
    said: list[str] = []
    with engram.open(path, embedder=f"openai:small@{server.url}", embedder_key=KEY, say=said.append) as brain:
        assert brain.agent("alice").remember("Staging runs PostgreSQL 15").status == "stored"
        assert brain.agent("alice").recall("staging")
    assert any("does not accept the key" in line for line in said)
    assert KEY not in "".join(said)


def test_another_embedder_than_before_is_noticed_for_plugged_ones_too(server: Server, path: Path) -> None:
    said: list[str] = []
    with engram.open(path, embedder="hashing") as brain:
        brain.agent("alice").remember("x")
    with engram.open(path, embedder=f"openai:small@{server.url}", say=said.append) as brain:
        brain.agent("alice").recall("x")
    assert any("hashing-256@1" in line and "upkeep reembed" in line for line in said)
