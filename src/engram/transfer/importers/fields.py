"""Fields of other programs' records: each function gives the value in our form, or says what is wrong with it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from pydantic import JsonValue

from engram.clock import EPOCH, aware
from engram.errors import InvalidInput
from engram.model.bundle import MAX_LABEL, MAX_LIST

_CONTROL = re.compile("[\x00-\x1f\x7f]+")
_LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


def label(value: object) -> str | None:
    """A short text in one line, cut if it is long; `None` for nothing, a blank, or what is no text or number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return _CONTROL.sub(" ", str(value)).strip()[:MAX_LABEL].strip() or None


def labels(values: Iterable[object]) -> tuple[str, ...]:
    """The labels among some values, each once, the first so many."""
    found = dict.fromkeys(own for value in values if (own := label(value)))
    return tuple(found)[:MAX_LIST]


def text(record: Mapping[str, JsonValue], name: str, where: str) -> str:
    """A text that has to be there."""
    value = record.get(name)
    if not isinstance(value, str):
        raise InvalidInput(f"{where}: {name} must be a text")
    return value


def items(record: Mapping[str, JsonValue], name: str, where: str) -> list[JsonValue]:
    """A list; empty, if there is none."""
    value = record.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidInput(f"{where}: {name} must be a list")
    return value


def fields(record: Mapping[str, JsonValue], name: str, where: str) -> dict[str, JsonValue]:
    """An object; empty, if there is none."""
    value = record.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: {name} must be an object")
    return value


def moment(value: object, where: str) -> datetime | None:
    """A time, written as text or as seconds since 1970; `None` for nothing."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str) and len(value) <= 40:
            return aware(datetime.fromisoformat(value))
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            if abs(value) > _LATEST:
                raise OverflowError
            return datetime.fromtimestamp(value, UTC) if value >= 0 else EPOCH
    except (ValueError, OverflowError, OSError):
        pass
    raise InvalidInput(f"{where}: {str(value)[:60]!a} is no time; write it such as 2026-01-31T14:00:00Z")


def told(record: Mapping[str, JsonValue], *names: str) -> dict[str, JsonValue]:
    """Those of the fields that say something."""
    return {name: record[name] for name in names if record.get(name) not in (None, "", [], {})}
