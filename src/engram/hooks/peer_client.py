"""Asks a memory that is open already in another process of this user, so that a hook need not open it again.

`engram mcp`, which a client keeps running beside its hooks, offers itself so; see `engram.hooks.peer_server`. Only the
standard library is imported here.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engram import config
from engram.hooks.fast import database

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 8_000_000
"""Bytes of a question or an answer."""
LONGEST_NAME = 100
"""Bytes of the path of a socket, which systems keep short."""
HERE = b"\n"
"""What is said first to whoever connects."""
SOON = 0.3
"""Seconds within which it is said; whoever does not say it hangs."""
_FORM = "2"
"""What is asked and answered in another way has another number, and so other names."""


def folder() -> Path:
    """Where the sockets of this user are."""
    return config.default_db().parent / "near"


def name(db: str, agent: str) -> str:
    """How the socket of each process is called, up to a dot, that has this database open for this agent.

    A database in a file is the file that is there now: one that takes its place has another name.
    """
    known = "\0".join((_FORM, *_identity(db), agent))
    return hashlib.sha256(known.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def private(place: Path) -> bool:
    """Whether a folder is this user's alone: nobody else can have put a socket there, or listen to one."""
    try:
        told = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(told.st_mode) and told.st_uid == os.getuid() and not told.st_mode & 0o077


def ask(db: str, agent: str, question: dict[str, Any], seconds: float) -> dict[str, Any] | None:
    """What the first process says that has this database open for this agent; `None` if none is there.

    The answer is an object with the field `answer`; one that is anything else counts as none. Those that hang cost two
    times `SOON` at most, however many there are.
    """
    if not hasattr(socket, "AF_UNIX") or not private(folder()):
        return None
    said, began = json.dumps(question).encode(), time.monotonic()
    for place in _places(name(db, agent)):
        try:
            told = _told(place, said, began + seconds)
        except ConnectionRefusedError:
            with suppress(OSError):
                place.unlink()  # whoever listened there has ended without a word
            continue
        except TimeoutError:
            if time.monotonic() >= began + 2 * SOON:
                return None
            continue
        except OSError:
            continue
        try:
            value = json.loads(told)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and "answer" in value:
            return value
    return None


def read(connection: socket.socket, seconds: float) -> bytes:
    """Everything that the other end says. Raises `OSError` if that is too much, or takes too long."""
    end = time.monotonic() + seconds
    parts: list[bytes] = []
    size = 0
    while part := _part(connection, end):
        parts.append(part)
        size += len(part)
        if size > MOST:
            raise OSError("too much was said")
    return b"".join(parts)


def _part(connection: socket.socket, end: float) -> bytes:
    connection.settimeout(_left(end))
    return connection.recv(1 << 16)


def _left(end: float) -> float:
    """The seconds until then. Raises `TimeoutError` if there are none."""
    if (left := end - time.monotonic()) <= 0:
        raise TimeoutError("the time is up")
    return left


def _identity(db: str) -> tuple[str, ...]:
    """What tells a database from all others: its address, or its path and which file is there."""
    if (file := database(db)) is None:
        return (db,)
    path = Path(file).expanduser().resolve()
    try:
        there = path.stat()
    except OSError:
        return (str(path),)
    return str(path), str(there.st_dev), str(there.st_ino)


def _places(called: str) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(folder().glob(f"{called}.*"))


def _told(place: Path, question: bytes, end: float) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(min(SOON, _left(end)))
        connection.connect(str(place))
        if connection.recv(1) != HERE:
            return b""  # it has no time for this
        connection.settimeout(_left(end))
        connection.sendall(question)
        connection.shutdown(socket.SHUT_WR)
        return read(connection, _left(end))
