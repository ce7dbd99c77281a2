"""Connections: whoever does not say in time, and in few words, what he wants is hung up on; all others are served."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

from engram.server.rest import connections
from engram.server.rest.run import Announced, Binding, listen, settings

HEAD = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
BRIEF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
SLOW = b"GET /slow HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
SECONDS = 1.0


class ByH11(connections.Hurried, H11Protocol):
    """What is there without another parser."""


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers at once, whatever comes as a body, and one path after longer than a head may take."""
    if scope["type"] == "lifespan":
        for word in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{word}"
            await send({"type": f"lifespan.{word}.complete"})
        return
    if scope["path"] == "/slow":
        await asyncio.sleep(1.5 * SECONDS)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def served(protocol: Any) -> Iterator[int]:
    binding, ready = Binding(port=0), threading.Event()
    config = settings(app, binding)
    config.http = protocol
    with listen(binding) as listener:
        server = Announced(config, ready.set)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        assert ready.wait(60)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(60)


@pytest.fixture(params=[connections.Connection, ByH11])
def port(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(connections, "SECONDS", SECONDS)
    with served(request.param) as found:
        yield found


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as caller:
        yield caller


def heard(caller: socket.socket) -> bytes:
    """Everything that comes until somebody hangs up."""
    parts = []
    try:
        while part := caller.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def answered(caller: socket.socket) -> None:
    said = b""
    while not said.endswith(b"ok"):
        part = caller.recv(65536)
        assert part, said
        said += part
    assert said.startswith(b"HTTP/1.1 200")


def test_whoever_says_nothing_is_hung_up_on(port: int) -> None:
    began = time.monotonic()
    with connected(port) as caller:
        assert heard(caller) == b""
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("before", [b"", BRIEF])
def test_whoever_says_a_letter_now_and_then_is_hung_up_on(port: int, before: bytes) -> None:
    with connected(port) as caller:
        if before:
            caller.sendall(before)
            answered(caller)
        caller.settimeout(SECONDS / 10)
        began = time.monotonic()
        while time.monotonic() - began < 30:
            try:
                caller.sendall(b"X" if before else HEAD[:1])
                if not caller.recv(100):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() - began < 30


def test_a_head_without_an_end_is_not_kept(port: int) -> None:
    with connected(port) as caller:
        try:
            caller.sendall(HEAD)
            for number in range(20_000):
                caller.sendall(b"X-%d: %s\r\n" % (number, b"a" * 200))
        except OSError:
            return
        pytest.fail("four megabytes of headers were taken")


def test_a_body_that_is_answered_before_it_came_gets_its_answer(port: int) -> None:
    with connected(port) as caller:
        caller.sendall(HEAD + b"Content-Length: 300000\r\n\r\n" + b"x" * 300_000)
        answered(caller)


def test_a_request_may_take_its_time_and_another_one_follow(port: int) -> None:
    with connected(port) as caller:
        for _ in range(2):
            caller.sendall(SLOW)
            answered(caller)
        time.sleep(1.5 * SECONDS)  # nothing was begun: a connection that is kept may rest
        caller.sendall(BRIEF)
        answered(caller)
