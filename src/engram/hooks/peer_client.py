"""Ask a running process of the same user that has the database open, so that a hook need not open it.

That process is usually `engram mcp`, which the client keeps running; see `engram.hooks.peer_server`. Only the standard
library is imported here.
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
from engram.hooks.entry import sqlite_file

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 8_000_000
"""Maximum bytes of a request or an answer."""
MAX_PATH = 100
"""Maximum bytes of the path of a socket; operating systems allow little more."""
GREETING = b"\n"
"""The first byte that the server sends on a connection."""
GREETING_SECONDS = 0.3
"""Seconds to wait for the greeting; a server that does not send it in time hangs."""
_PROTOCOL = "2"
"""Version of the protocol; part of the socket name, so that different versions do not meet."""


def socket_folder() -> Path:
    """Return the folder of this user's sockets."""
    return config.default_db().parent / "near"


def socket_name(db: str, agent: str) -> str:
    """Return the name, up to a dot, of the sockets of all processes with this database open for this agent.

    It contains the identity of the database file: if the file is replaced, the name changes.
    """
    identity = "\0".join((_PROTOCOL, *_identity(db), agent))
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def is_private(place: Path) -> bool:
    """Return True if only this user can access a folder, so that no other user can listen there."""
    try:
        info = place.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o077


def ask(db: str, agent: str, question: dict[str, Any], seconds: float) -> dict[str, Any] | None:
    """Ask a process that has this database open for this agent; `None` if there is none, or none answers properly.

    The answer is an object with the field `answer`. Hanging processes cost at most two times `GREETING_SECONDS`.
    """
    if not hasattr(socket, "AF_UNIX") or not is_private(socket_folder()):
        return None
    request, began = json.dumps(question).encode(), time.monotonic()
    for place in _sockets(socket_name(db, agent)):
        try:
            reply = _exchange(place, request, began + seconds)
        except ConnectionRefusedError:
            with suppress(OSError):
                place.unlink()  # its process has ended without removing it
            continue
        except TimeoutError:
            if time.monotonic() >= began + 2 * GREETING_SECONDS:
                return None
            continue
        except OSError:
            continue
        try:
            value = json.loads(reply)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and "answer" in value:
            return value
    return None


def read(connection: socket.socket, seconds: float) -> bytes:
    """Read until the other side stops sending. Raises `OSError` if that is too much, or takes too long."""
    end = time.monotonic() + seconds
    parts: list[bytes] = []
    size = 0
    while part := _receive(connection, end):
        parts.append(part)
        size += len(part)
        if size > MAX_BYTES:
            raise OSError("the message is too long")
    return b"".join(parts)


def _receive(connection: socket.socket, end: float) -> bytes:
    connection.settimeout(_seconds_left(end))
    return connection.recv(1 << 16)


def _seconds_left(end: float) -> float:
    """Return the seconds until a time. Raises `TimeoutError` if it has passed."""
    if (left := end - time.monotonic()) <= 0:
        raise TimeoutError("the time is up")
    return left


def _identity(db: str) -> tuple[str, ...]:
    """Return what identifies a database: its URL, or its path, device and inode."""
    if (file := sqlite_file(db)) is None:
        return (db,)
    path = Path(file).expanduser().resolve()
    try:
        info = path.stat()
    except OSError:
        return (str(path),)
    return str(path), str(info.st_dev), str(info.st_ino)


def _sockets(name: str) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(socket_folder().glob(f"{name}.*"))


def _exchange(place: Path, question: bytes, end: float) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(min(GREETING_SECONDS, _seconds_left(end)))
        connection.connect(str(place))
        if connection.recv(1) != GREETING:
            return b""  # the server has too many connections
        connection.settimeout(_seconds_left(end))
        connection.sendall(question)
        connection.shutdown(socket.SHUT_WR)
        return read(connection, _seconds_left(end))
