"""Typed access to fields of other programs' records. Raises `InvalidInput` with the position for wrong types."""

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
    """Convert a value to a short single line; `None` if it is blank or neither text nor number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return _CONTROL.sub(" ", str(value)).strip()[:MAX_LABEL].strip() or None


def labels(values: Iterable[object]) -> tuple[str, ...]:
    """Convert values to distinct labels, at most `MAX_LIST`."""
    found = dict.fromkeys(own for value in values if (own := label(value)))
    return tuple(found)[:MAX_LIST]


def text_field(record: Mapping[str, JsonValue], name: str, where: str) -> str:
    """Return a required text."""
    value = record.get(name)
    if not isinstance(value, str):
        raise InvalidInput(f"{where}: {name} must be a text")
    return value


def list_field(record: Mapping[str, JsonValue], name: str, where: str) -> list[JsonValue]:
    """Return a list; empty if it is missing."""
    value = record.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidInput(f"{where}: {name} must be a list")
    return value


def object_field(record: Mapping[str, JsonValue], name: str, where: str) -> dict[str, JsonValue]:
    """Return an object; empty if it is missing."""
    value = record.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: {name} must be an object")
    return value


def time_value(value: object, where: str) -> datetime | None:
    """Parse a time from ISO 8601 or seconds since 1970; `None` if it is missing."""
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


def present_fields(record: Mapping[str, JsonValue], *names: str) -> dict[str, JsonValue]:
    """Return those of the fields that are not empty."""
    return {name: record[name] for name in names if record.get(name) not in (None, "", [], {})}
