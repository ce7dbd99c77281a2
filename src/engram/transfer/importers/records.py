"""Records in JSON: one a line, in a list, or in a list inside an object."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import IO

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.transfer.untrusted import ReadLimits, elements, lines, parse, parse_object

NamedRecord = tuple[str, str, dict[str, JsonValue]]
"""The name of the enclosing list or "", the position for messages, and the record."""


def records(
    stream: IO[bytes], limits: ReadLimits, names: Collection[str], lists: Collection[str]
) -> Iterator[NamedRecord]:
    """Yield each record; a file whose first line has all of `names` is read line by line."""
    first = first_line(stream, limits)
    if first is not None and set(names) <= set(first):
        for where, line in lines(stream, limits):
            yield "", where, parse_object(line, where, limits)
        return
    for name, where, raw in elements(stream, limits, inside=lists):
        if not name or name in lists:
            yield name, where, parse_object(raw, where, limits)


def first_line(stream: IO[bytes], limits: ReadLimits) -> dict[str, JsonValue] | None:
    """Parse the first line; `None` if it is not a JSON object."""
    try:
        value = next((parse(line, where, limits) for where, line in lines(stream, limits)), None)
    except InvalidInput:
        return None
    return value if isinstance(value, dict) else None
