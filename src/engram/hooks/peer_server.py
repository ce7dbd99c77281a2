"""Answer hooks of the same user from the database that is open in this process, so that they need not open it."""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from engram.engine import Engram
from engram.errors import EngramError
from engram.hooks import handlers, peer_client
from engram.hooks.entry import ANSWERED_EVENTS, CLIENTS
from engram.wiring import locate

MAX_CONNECTIONS = 16
"""Hooks that are answered at the same time; further ones are refused, and open the database themselves."""
FIRST_BYTE_SECONDS = 0.5
"""Seconds that a client may take to send the first byte."""
TOTAL_SECONDS = 5.0
"""Seconds that a request, and then its answer, may take."""
TEMPORARY_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.EINTR, errno.ENOBUFS, errno.ENOMEM})
"""Errors of `accept` that pass."""
RETRY_SECONDS = 0.1

Answer = Callable[[dict[str, Any]], bytes]


@contextmanager
def serve_hooks(brain: Engram, db: str, agent: str) -> Iterator[Path | None]:
    """Answer hooks during the block; yield the path of the socket, or `None` if sockets cannot be used here.

    Enter it as soon as the database is open: the socket name contains the identity of the file at this time.
    """
    name = peer_client.socket_name(db, agent)
    listener, place = (None, None) if locate(db)[0] == "memory" else _listen(name)
    if listener is None or place is None:
        yield None
        return

    def answer(request: dict[str, Any]) -> bytes:
        payload = request.get("payload")
        call = SimpleNamespace(event=request["event"], client=request["client"], block=request.get("block") is True)
        found = handlers.handle_event(brain, agent, call, payload if isinstance(payload, dict) else {})
        return json.dumps({"answer": found}).encode() if peer_client.socket_name(db, agent) == name else b""

    with ThreadPoolExecutor(MAX_CONNECTIONS, "engram-hooks") as pool:
        connections = _Connections()
        thread = threading.Thread(
            target=_serve, args=(listener, place, pool, connections, answer), name="engram-hooks-listen"
        )
        thread.start()
        try:
            yield place
        finally:
            connections.shut_down()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join()


class _Connections:
    """The open connections."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        """Set when no more connections are accepted."""
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def add(self, connection: socket.socket) -> bool:
        """Add a connection and return True, unless there are too many; it must be closed with `close`."""
        with self._lock:
            if self.closed.is_set() or len(self._open) >= MAX_CONNECTIONS:
                return False
            self._open.add(connection)
            return True

    def close(self, connection: socket.socket) -> None:
        """Close a connection."""
        with self._lock:
            self._open.discard(connection)
            connection.close()

    def shut_down(self) -> None:
        """Shut down all connections, and accept no more."""
        with self._lock:
            self.closed.set()
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def _listen(name: str) -> tuple[socket.socket | None, Path | None]:
    """Return a listening socket and its path; it gets its final name only when it can be connected to."""
    folder = peer_client.socket_folder()
    place, unfinished = (folder / f"{name}{mark}{os.getpid()}" for mark in ".~")
    if not hasattr(socket, "AF_UNIX") or len(os.fsencode(place)) > peer_client.MAX_PATH:
        return None, None
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not peer_client.is_private(folder):
            raise PermissionError(f"{folder} is not this user's alone")
        unfinished.unlink(missing_ok=True)
        listener.bind(str(unfinished))
        listener.listen(MAX_CONNECTIONS)
        unfinished.replace(place)
    except OSError:
        listener.close()
        return None, None
    return listener, place


def _serve(
    listener: socket.socket, place: Path, pool: ThreadPoolExecutor, connections: _Connections, answer: Answer
) -> None:
    """Accept hooks until shut down, then remove the socket."""
    with listener:
        try:
            while not connections.closed.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError as error:
                    if error.errno not in TEMPORARY_ERRORS:
                        return
                    connections.closed.wait(RETRY_SECONDS)
                    continue
                if connections.add(connection):
                    pool.submit(_answer_one, connection, connections, answer)
                else:
                    connection.close()
        finally:
            with suppress(OSError):
                place.unlink()


def _answer_one(connection: socket.socket, connections: _Connections, answer: Answer) -> None:
    """Answer one hook; after an error it gets no answer, and opens the database itself."""
    try:
        with suppress(OSError, EngramError, ValueError, RecursionError):
            connection.settimeout(FIRST_BYTE_SECONDS)
            connection.sendall(peer_client.GREETING)
            connection.recv(1, socket.MSG_PEEK)
            request = json.loads(peer_client.read(connection, TOTAL_SECONDS))
            if (
                isinstance(request, dict)
                and request.get("event") in ANSWERED_EVENTS
                and request.get("client") in CLIENTS
            ):
                connection.settimeout(TOTAL_SECONDS)
                connection.sendall(answer(request))
    finally:
        connections.close(connection)
