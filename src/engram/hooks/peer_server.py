"""Offers a memory that is open in this process to the hooks of the same user, which need not open it then."""

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
from engram.hooks import events, peer_client
from engram.hooks.fast import ASKED, CLIENTS
from engram.wiring import locate

AT_A_TIME = 16
"""Hooks that are answered at once; whoever comes then is sent away, and opens the memory itself."""
FIRST_WORD = 0.5
"""Seconds that somebody who has connected may take to begin to say what it wants."""
PATIENCE = 5.0
"""Seconds that all of it may take."""
PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ECONNABORTED, errno.EINTR, errno.ENOBUFS, errno.ENOMEM})
"""Why nobody can be let in for a moment."""
PAUSE = 0.1

Answer = Callable[[dict[str, Any]], bytes]


@contextmanager
def offered(brain: Engram, db: str, agent: str) -> Iterator[Path | None]:
    """Answer hooks meanwhile; where, or `None` if that cannot be done here, and they open the memory themselves.

    It begins as soon as the memory is open: from then on, what takes the place of its file is another database.
    """
    called = peer_client.name(db, agent)
    listener, place = (None, None) if locate(db)[0] == "memory" else _listening(called)
    if listener is None or place is None:
        yield None
        return

    def answer(told: dict[str, Any]) -> bytes:
        payload = told.get("payload")
        asked = SimpleNamespace(event=told["event"], client=told["client"], block=told.get("block") is True)
        found = events.told(brain, agent, asked, payload if isinstance(payload, dict) else {})
        return json.dumps({"answer": found}).encode() if peer_client.name(db, agent) == called else b""

    with ThreadPoolExecutor(AT_A_TIME, "engram-hooks") as pool:
        guests = _Guests()
        waiting = threading.Thread(
            target=_serve, args=(listener, place, pool, guests, answer), name="engram-hooks-listen"
        )
        waiting.start()
        try:
            yield place
        finally:
            guests.send_away()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            waiting.join()


class _Guests:
    """Those who are connected."""

    def __init__(self) -> None:
        self.gone = threading.Event()
        """Nobody is let in any more."""
        self._here: set[socket.socket] = set()
        self._lock = threading.Lock()

    def enter(self, guest: socket.socket) -> bool:
        """Whether somebody may come in, who has to leave then."""
        with self._lock:
            if self.gone.is_set() or len(self._here) >= AT_A_TIME:
                return False
            self._here.add(guest)
            return True

    def leave(self, guest: socket.socket) -> None:
        """Hang up."""
        with self._lock:
            self._here.discard(guest)
            guest.close()

    def send_away(self) -> None:
        """Wait for nobody's word any more."""
        with self._lock:
            self.gone.set()
            for guest in self._here:
                with suppress(OSError):
                    guest.shutdown(socket.SHUT_RDWR)


def _listening(called: str) -> tuple[socket.socket | None, Path | None]:
    """A socket that can be connected to as soon as it has its name."""
    folder = peer_client.folder()
    place, unfinished = (folder / f"{called}{mark}{os.getpid()}" for mark in ".~")
    if not hasattr(socket, "AF_UNIX") or len(os.fsencode(place)) > peer_client.LONGEST_NAME:
        return None, None
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not peer_client.private(folder):
            raise PermissionError(f"{folder} is not this user's alone")
        unfinished.unlink(missing_ok=True)
        listener.bind(str(unfinished))
        listener.listen(AT_A_TIME)
        unfinished.replace(place)
    except OSError:
        listener.close()
        return None, None
    return listener, place


def _serve(listener: socket.socket, place: Path, pool: ThreadPoolExecutor, guests: _Guests, answer: Answer) -> None:
    """Let hooks in until all are sent away; where nobody is let in any more, nothing to knock at stays."""
    with listener:
        try:
            while not guests.gone.is_set():
                try:
                    guest, _ = listener.accept()
                except OSError as error:
                    if error.errno not in PASSING:
                        return
                    guests.gone.wait(PAUSE)
                    continue
                if guests.enter(guest):
                    pool.submit(_attend, guest, guests, answer)
                else:
                    guest.close()
        finally:
            with suppress(OSError):
                place.unlink()


def _attend(guest: socket.socket, guests: _Guests, answer: Answer) -> None:
    """Answer one hook; whatever goes wrong, it hears nothing, and goes on by itself."""
    try:
        with suppress(OSError, EngramError, ValueError, RecursionError):
            guest.settimeout(FIRST_WORD)
            guest.sendall(peer_client.HERE)
            guest.recv(1, socket.MSG_PEEK)
            told = json.loads(peer_client.read(guest, PATIENCE))
            if isinstance(told, dict) and told.get("event") in ASKED and told.get("client") in CLIENTS:
                guest.settimeout(PATIENCE)
                guest.sendall(answer(told))
    finally:
        guests.leave(guest)
