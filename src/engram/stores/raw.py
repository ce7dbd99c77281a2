"""Looking at the bytes of a database file without letting go of the locks that SQLite has on it.

A process loses all its locks on a file as soon as it closes any handle to it. Another process then takes itself for the
last one and deletes the log, and what is written here after that is lost. So no handle is closed while a store of this
process has the file open: it is kept, used again, and closed with the last store.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_turn = threading.RLock()
_stores: Counter[str] = Counter()
_kept: dict[str, dict[tuple[int, int], int]] = {}


def claim(path: Path) -> None:
    """Say that a store is about to open a file."""
    with _turn:
        _stores[_name(path)] += 1


def release(path: Path) -> None:
    """Say that a store has closed its file; with the last one, handles to it are closed."""
    name = _name(path)
    with _turn:
        _stores[name] -= 1
        if _stores[name] <= 0:
            del _stores[name]
            for handle in _kept.pop(name, {}).values():
                os.close(handle)


@contextmanager
def peek(path: Path) -> Iterator[int]:
    """A handle to read a file by; only `os.pread` may be used on it. Raises `OSError`."""
    name = _name(path)
    with _turn:
        seen = Path(name).stat()
        handle = _kept.get(name, {}).get((seen.st_dev, seen.st_ino))
        if handle is None:
            handle = os.open(name, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            if name in _stores:
                _kept.setdefault(name, {})[seen.st_dev, seen.st_ino] = handle
        try:
            yield handle
        finally:
            if name not in _stores:
                os.close(handle)


def _name(path: Path) -> str:
    """The file itself, by whichever links it was named."""
    try:
        return os.path.realpath(path)
    except ValueError:  # a name that no file can have; whoever opens it is told
        return str(path)


def head(path: Path, length: int) -> bytes:
    """The first bytes of a file. Raises `OSError`."""
    with peek(path) as handle:
        return os.pread(handle, length, 0)


def blocks(path: Path, size: int) -> Iterator[bytes]:
    """The file, block by block."""
    with peek(path) as handle:
        at = 0
        while block := os.pread(handle, size, at):
            yield block
            at += len(block)
