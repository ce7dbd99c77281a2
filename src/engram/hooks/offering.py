"""Offers a memory that is open in this process to the hooks of the same user, which need not open it then."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

from engram.engine import Engram
from engram.errors import EngramError
from engram.hooks import events, nearby
from engram.hooks.fast import ASKED, CLIENTS

AT_A_TIME = 4
PATIENCE = 5.0
"""Seconds that somebody who has connected may take to say what it wants."""


@contextmanager
def offered(brain: Engram, db: str, agent: str) -> Iterator[Path | None]:
    """Answer hooks meanwhile; where, or `None` if that cannot be done here, and they open the memory themselves."""
    listener, place = _listening(db, agent)
    if listener is None or place is None:
        yield None
        return
    with ThreadPoolExecutor(AT_A_TIME, "engram-hooks") as pool:
        waiting = threading.Thread(target=_serve, args=(listener, pool, brain, agent), name="engram-hooks-listen")
        waiting.start()
        try:
            yield place
        finally:
            with suppress(OSError):
                place.unlink()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            waiting.join()


def _listening(db: str, agent: str) -> tuple[socket.socket | None, Path | None]:
    folder = nearby.folder()
    place = folder / f"{nearby.name(db, agent)}.{os.getpid()}"
    if not hasattr(socket, "AF_UNIX") or db.startswith(":") or len(os.fsencode(place)) > nearby.LONGEST_NAME:
        return None, None
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not nearby.private(folder):
            raise PermissionError(f"{folder} is not this user's alone")
        place.unlink(missing_ok=True)
        listener.bind(str(place))
        listener.listen(16)
    except OSError:
        listener.close()
        return None, None
    return listener, place


def _serve(listener: socket.socket, pool: ThreadPoolExecutor, brain: Engram, agent: str) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # it was closed
            return
        pool.submit(_answer, connection, brain, agent)


def _answer(connection: socket.socket, brain: Engram, agent: str) -> None:
    """Answer one hook; whatever goes wrong, it hears nothing, and goes on by itself."""
    with connection, suppress(OSError, EngramError, ValueError, RecursionError):
        connection.settimeout(PATIENCE)
        told = json.loads(nearby.read(connection))
        if not isinstance(told, dict) or told.get("event") not in ASKED or told.get("client") not in CLIENTS:
            return
        payload = told.get("payload")
        asked = SimpleNamespace(event=told["event"], client=told["client"], block=told.get("block") is True)
        answer = events.told(brain, agent, asked, payload if isinstance(payload, dict) else {})
        connection.sendall(json.dumps({"answer": answer}).encode())
