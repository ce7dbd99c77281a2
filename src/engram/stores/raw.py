"""Read the bytes of a database file without losing SQLite's locks on it.

On POSIX, a process loses all its locks on a file as soon as it closes any handle to it. Another process may then delete
the write-ahead log, and later writes of this process are lost. So no handle is closed while a store of this process has
the file open: it is cached, and closed with the last store.
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
    """Count a store that is about to open a file."""
    with _turn:
        _stores[_name(path)] += 1


def release(path: Path) -> None:
    """Count a store that has closed its file; after the last one, close the cached handles."""
    name = _name(path)
    with _turn:
        _stores[name] -= 1
        if _stores[name] <= 0:
            del _stores[name]
            for handle in _kept.pop(name, {}).values():
                os.close(handle)


@contextmanager
def peek(path: Path) -> Iterator[int]:
    """Provide a handle for reading a file; only `os.pread` may be used on it. Raises `OSError`."""
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
    """Resolve symbolic links."""
    try:
        return os.path.realpath(path)
    except ValueError:  # not a valid file name; opening it raises the error
        return str(path)


def head(path: Path, length: int) -> bytes:
    """Return the first bytes of a file. Raises `OSError`."""
    with peek(path) as handle:
        return os.pread(handle, length, 0)


def blocks(path: Path, size: int) -> Iterator[bytes]:
    """Yield the content of a file, block by block."""
    with peek(path) as handle:
        at = 0
        while block := os.pread(handle, size, at):
            yield block
            at += len(block)
