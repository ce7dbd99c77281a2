"""Archive files: gzip-compressed JSON Lines with memories removed from the database, which can be restored.

The database registers its archives, so that deleting a memory for good can delete it from them, too.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from engram.clock import aware
from engram.errors import InvalidInput, NotAllowed
from engram.model import Memory
from engram.ports import Encrypts, Event, Store
from engram.system import fsync

KNOWN = "forgetting:archives"
"""Setting with the archives written from this database."""
_log = logging.getLogger("engram")


def register(store: Store, path: Path) -> None:
    """Register an archive before it is written. Raises `NotAllowed` for an encrypted database."""
    if isinstance(store, Encrypts) and store.encryption()["mode"] != "none":
        raise NotAllowed("this database is encrypted, but an archive would not be; use the action `forget` instead")
    store.set_setting(KNOWN, json.dumps(sorted({*map(str, registered(store)), str(path.resolve())})))


def registered(store: Store) -> list[Path]:
    """Return the registered archives that still exist."""
    return [path for path in map(Path, json.loads(store.setting(KNOWN) or "[]")) if path.is_file()]


def make_line(memory: Memory, reason: str, events: Sequence[Event] = ()) -> dict[str, Any]:
    """Make the archive record of a memory: the reason, the memory, and its events."""
    line: dict[str, Any] = {"reason": reason, "memory": memory.model_dump(mode="json")}
    if events:
        line["events"] = [asdict(event) | {"at": event.at.isoformat(), "seq": 0} for event in events]
    return line


def write(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Write a new file atomically."""
    part = path.with_name(path.name + ".part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
            for line in lines:
                packed.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    fsync(path.parent)


def read(path: Path) -> list[tuple[Memory, tuple[Event, ...]]]:
    """Read the memories of an archive in order, with their events. Raises `InvalidInput`."""
    try:
        return [(Memory.model_validate(line["memory"]), _parse_events(line)) for line in _lines(path)]
    except (gzip.BadGzipFile, EOFError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} is no archive of memories: {error}") from None


def remove_memories(path: Path, goes: Callable[[dict[str, Any]], bool]) -> int:
    """Rewrite an archive without some memories, or delete it if none remain; returns the number removed.

    A file that is no longer an archive is left alone.
    """
    try:
        lines = _lines(path)
        kept = [line for line in lines if not goes(line["memory"])]
    except (gzip.BadGzipFile, EOFError, ValueError, KeyError, TypeError, OSError) as error:
        _log.warning("%s is no longer an archive; it was not changed: %s", path, error)
        return 0
    if len(kept) == len(lines):
        return 0
    if kept:
        write(path, kept)
    else:
        path.unlink()
        fsync(path.parent)
    return len(lines) - len(kept)


def _lines(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _parse_events(line: dict[str, Any]) -> tuple[Event, ...]:
    return tuple(Event(**(each | {"at": aware(datetime.fromisoformat(each["at"]))})) for each in line.get("events", ()))
