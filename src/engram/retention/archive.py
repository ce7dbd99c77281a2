"""Files with memories that were let go: compressed JSON, one memory a line, from which they can come back.

The database knows where its archives are, so that whoever forgets a memory for good can take it out of them too.
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
"""The setting with the archives that were written from this database."""
_log = logging.getLogger("engram")


def note(store: Store, path: Path) -> None:
    """Remember where an archive is going to be. Raises `NotAllowed` if it would give away what is encrypted."""
    if isinstance(store, Encrypts) and store.encryption()["mode"] != "none":
        raise NotAllowed("this database is encrypted, and an archive would not be; forget for good instead")
    store.set_setting(KNOWN, json.dumps(sorted({*map(str, known(store)), str(path.resolve())})))


def known(store: Store) -> list[Path]:
    """Where archives were written that are still there."""
    return [path for path in map(Path, json.loads(store.setting(KNOWN) or "[]")) if path.is_file()]


def line_of(memory: Memory, reason: str, events: Sequence[Event] = ()) -> dict[str, Any]:
    """What an archive keeps of a memory: why it went, and what was learned from it."""
    line: dict[str, Any] = {"reason": reason, "memory": memory.model_dump(mode="json")}
    if events:
        line["events"] = [asdict(event) | {"at": event.at.isoformat(), "seq": 0} for event in events]
    return line


def write(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Write a new file; it is on disk in full, or not there at all."""
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
    """The memories in an archive, in its order, with what was learned from them. Raises `InvalidInput`."""
    try:
        return [(Memory.model_validate(line["memory"]), _events(line)) for line in _lines(path)]
    except (gzip.BadGzipFile, EOFError, ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} is no archive of memories: {error}") from None


def without(path: Path, goes: Callable[[dict[str, Any]], bool]) -> int:
    """Write an archive anew without the memories that go, or remove it if none is left; how many went.

    What is no archive any more is left alone.
    """
    try:
        lines = _lines(path)
        kept = [line for line in lines if not goes(line["memory"])]
    except (gzip.BadGzipFile, EOFError, ValueError, KeyError, TypeError, OSError) as error:
        _log.warning("%s is no archive any more, and was left alone: %s", path, error)
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


def _events(line: dict[str, Any]) -> tuple[Event, ...]:
    return tuple(Event(**(each | {"at": aware(datetime.fromisoformat(each["at"]))})) for each in line.get("events", ()))
