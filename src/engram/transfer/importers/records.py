"""Records in JSON, however they are wrapped: one a line, in a list, or in a list that an object has."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import IO

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.transfer.untrusted import Limits, elements, lines, parse, parse_object

Found = tuple[str, str, dict[str, JsonValue]]
"""The name of the list it was in, or "", the name for messages, and the record."""


def records(stream: IO[bytes], limits: Limits, names: Collection[str], lists: Collection[str]) -> Iterator[Found]:
    """Each record, one at a time; a line that has all of `names` is a record of its own."""
    first = first_line(stream, limits)
    if first is not None and set(names) <= set(first):
        for where, line in lines(stream, limits):
            yield "", where, parse_object(line, where, limits)
        return
    for name, where, raw in elements(stream, limits, inside=lists):
        if not name or name in lists:
            yield name, where, parse_object(raw, where, limits)


def first_line(stream: IO[bytes], limits: Limits) -> dict[str, JsonValue] | None:
    """The first line, if it is a JSON object of its own."""
    try:
        value = next((parse(line, where, limits) for where, line in lines(stream, limits)), None)
    except InvalidInput:
        return None
    return value if isinstance(value, dict) else None
