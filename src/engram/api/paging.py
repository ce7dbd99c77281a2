"""Pages of lists, and cursors: opaque positions in a list, valid for that list only."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from engram.clock import from_micros, micros
from engram.errors import InvalidInput
from engram.model import Memory
from engram.model.wire import Page
from engram.text.terms import digest

T = TypeVar("T")
MOST = 500
USUAL = 50
_TICK = timedelta(microseconds=1)


def slice_of(items: Sequence[T], limit: int, cursor: str | None, *of: object) -> Page[T]:
    """Return a page of a list in memory; `of` names the list, and its cursors are valid for no other one."""
    (start,) = read(cursor, 1, *of) if cursor is not None else [0]
    end = start + limit
    return Page(items=tuple(items[start:end]), next_cursor=write([end], *of) if end < len(items) else None)


def memories(
    fetch: Callable[..., list[Memory]], limit: int, until: datetime | None, cursor: str | None, *of: object
) -> Page[Memory]:
    """Return a page of memories, newest first, after the last one of the previous page.

    `fetch(limit=, offset=, until=)` returns the newest before a time.
    """
    seen = 0
    if cursor is not None:
        moment, seen = read(cursor, 2, *of)
        until = _after(moment) if until is None else min(until, _after(moment))
    found = fetch(limit=limit + 1, offset=seen, until=until)
    items = found[:limit]
    if len(found) <= limit:
        return Page(items=tuple(items))
    last = items[-1].happened_at
    same = sum(memory.happened_at == last for memory in items)
    began = cursor is not None and micros(last) == moment
    return Page(items=tuple(items), next_cursor=write([micros(last), same + (seen if began else 0)], *of))


def _after(moment: int) -> datetime:
    try:
        return from_micros(moment) + _TICK
    except OverflowError:
        raise _strange() from None


def write(place: Sequence[int], *of: object) -> str:
    """Encode a position in a list as a cursor."""
    told = json.dumps([_mark(of), *place], separators=(",", ":"))
    return base64.urlsafe_b64encode(told.encode()).decode().rstrip("=")


def read(cursor: str, numbers: int, *of: object) -> list[int]:
    """Decode a cursor of this list. Raises `InvalidInput`, also for a cursor of another list."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        mark: object
        place: list[int]
        mark, *place = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, TypeError, RecursionError):
        raise _strange() from None
    if mark != _mark(of) or len(place) != numbers or not all(type(n) is int and abs(n) < 1 << 60 for n in place):
        raise _strange()
    if place[-1] < 0:
        raise _strange()
    return place


def _mark(of: tuple[Any, ...]) -> str:
    return digest(*(repr(part) for part in of))[:16]


def _strange() -> InvalidInput:
    return InvalidInput("the cursor is not one of this list; begin without one")
