"""LangGraph stores: items with namespace, key and value, as JSON or in the store's SQLite file."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.model import MemoryType
from engram.model.bundle import Incoming
from engram.text.terms import digest
from engram.transfer.importers.fields import label, labels, time_value
from engram.transfer.importers.records import records
from engram.transfer.untrusted import LIMITS, ReadLimits, open_copy, open_regular, parse, starts_with

SQLITE = b"SQLite format 3\x00"
_TEXTS = ("text", "content", "memory", "data", "fact", "value")
_MAX_DEPTH = 3
_MAX_VALUE = 50_000
_STEPS, _MOST_STEPS = 100_000, 3_000
_COLUMNS = ("prefix", "key", "value", "created_at", "updated_at")
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_PRAGMA})


def memories(path: Path, limits: ReadLimits) -> Iterator[Incoming]:
    """Yield each item of a store."""
    for where, item in _sqlite_items(path, limits) if starts_with(path, SQLITE) else _json_items(path, limits):
        yield _to_incoming(item, where)


def _json_items(path: Path, limits: ReadLimits) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Read a list of items, an object with `items`, or one item a line."""
    with open_copy(path, limits) as copy:
        for _, where, item in records(copy.stream, limits, ["namespace", "key", "value"], ["items"]):
            yield where, item


def _to_incoming(item: dict[str, JsonValue], where: str) -> Incoming:
    place = item.get("namespace")
    names = place if isinstance(place, list) else str(place).split(".") if isinstance(place, str) else None
    key, value = label(item.get("key")), item.get("value")
    if names is None or key is None or not isinstance(value, dict):
        raise InvalidInput(f"{where}: an item has a namespace, a key and a value that is an object")
    namespace = labels(names)
    whole = json.dumps(value, ensure_ascii=False, sort_keys=True)
    kind = value.get("kind")
    metadata: dict[str, JsonValue] = {"namespace": list(namespace), "key": key}
    return Incoming(
        text=_value_text(value) or whole,
        source="langgraph",
        original_id=digest(*namespace, "", key),
        kind=MemoryType.KNOWLEDGE,
        tags=labels([kind] if isinstance(kind, str) else []),
        at=time_value(item.get("created_at"), where),
        context=" / ".join(namespace),
        metadata=metadata | ({"value": value} if len(whole) <= _MAX_VALUE else {}),
    )


def _value_text(value: JsonValue, depth: int = 0) -> str:
    """Return the text of a value: the first of the usual text fields that has any."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        for name in _TEXTS:
            if said := _value_text(value.get(name), depth + 1):
                return said
    return ""


def _sqlite_items(path: Path, limits: ReadLimits) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Read the rows from a private copy of a store's SQLite file."""
    with TemporaryDirectory(prefix="engram-") as folder:
        copy = Path(folder) / "store.db"
        _copy_bounded(path, copy, limits)
        if Path(f"{path}-wal").is_file():
            _copy_bounded(Path(f"{path}-wal"), Path(f"{copy}-wal"), limits)
        try:
            with closing(sqlite3.connect(f"file:{quote(str(copy))}?mode=rw", uri=True)) as database:
                _restrict(database, limits)
                yield from _read_items(database, limits)
        except sqlite3.Error as error:
            raise InvalidInput(f"the SQLite file cannot be read: {error}; export the store as JSON") from None


def _copy_bounded(path: Path, copy: Path, limits: ReadLimits) -> None:
    with open_regular(path) as file, copy.open("wb") as target:
        if file.seek(0, 2) > limits.file:
            raise InvalidInput(f"the file has more than {limits.file:,} bytes; export a part of it as JSON")
        file.seek(0)
        shutil.copyfileobj(file, target)


def _restrict(database: sqlite3.Connection, limits: ReadLimits) -> None:
    """Restrict the connection: read only, no code in the schema, no long values, no endless queries."""
    steps = iter(range(_MOST_STEPS))
    database.set_progress_handler(lambda: next(steps, None) is None, _STEPS)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.record)
    database.text_factory = bytes
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "query_only = ON"):
        database.execute(f"PRAGMA {pragma}")
    database.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY)


def _read_items(database: sqlite3.Connection, limits: ReadLimits) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    kinds = database.execute("SELECT type, sql FROM sqlite_master WHERE name = 'store'").fetchall()
    if len(kinds) != 1 or kinds[0][0] != b"table" or b"VIRTUAL" in (kinds[0][1] or b"").upper():
        raise InvalidInput("the SQLite file is no LangGraph store: it has no table `store`; export the store as JSON")
    if any(column[-1] for column in database.execute("PRAGMA table_xinfo(store)")):
        raise InvalidInput(
            "the SQLite file is no LangGraph store: its table computes columns; export the store as JSON"
        )
    if (fault := database.execute("PRAGMA quick_check(1)").fetchone()) != (b"ok",):
        raise InvalidInput(f"the SQLite file is damaged: {_text(fault[0])}; export the store as JSON")
    asked = f"SELECT {', '.join(_COLUMNS)} FROM store ORDER BY prefix, key"  # noqa: S608 - constants
    for number, row in enumerate(database.execute(asked), 1):
        if number > limits.records:
            raise InvalidInput(f"the store has more than {limits.records:,} items; export a part of it as JSON")
        where = f"row {number}"
        prefix, key, value, created, updated = row
        if not isinstance(value, bytes):
            raise InvalidInput(f"{where}: the value must be JSON")
        yield (
            where,
            {
                "namespace": _text(prefix),
                "key": _text(key),
                "value": parse(value, where, limits),
                "created_at": _text(created) if created is not None else None,
                "updated_at": _text(updated) if updated is not None else None,
            },
        )


def _text(value: object) -> str:
    if not isinstance(value, bytes) or len(value) > LIMITS.text:
        raise InvalidInput("the SQLite file has a value of another type than a store has; export the store as JSON")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise InvalidInput("the SQLite file has a text that is not UTF-8; export the store as JSON") from None
    if "\x00" in text:
        raise InvalidInput("the SQLite file has a text with a NUL character; export the store as JSON")
    return text
