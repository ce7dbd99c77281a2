"""Add entries to JSON text, and remove them, without changing a character of the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engram.errors import Conflict

KeyPath = tuple[str, ...]
"""The keys from the root of a document to an object or a list."""

_decoder = json.JSONDecoder()
_BLANK = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Item:
    """An entry of an object or list: the positions of its start, and of its value's start and end."""

    name: str | None
    start: int
    value: int
    end: int


def check(text: str) -> None:
    """Raise `Conflict` if the text is not a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Conflict(f"it is not JSON ({error}); fix it, or see what to add with --print") from None
    if not isinstance(value, dict):
        raise Conflict("it is JSON, but not an object; see what to add with --print")


def put(text: str, path: KeyPath, name: str | None, value: Any, made: list[KeyPath]) -> str:
    """Return the text with a new first entry in an object (with a name) or list (without one).

    Missing objects on the path are created and added to `made`. Raises `Conflict` if a value on it is not an object.
    """
    for depth in range(len(path)):
        inside = _find(text, path[:depth])
        if inside is None or text[inside] != "{":
            raise Conflict(f"{'.'.join(path[:depth]) or 'the document'} is not an object; see what to add with --print")
        if _named(text, inside, path[depth]) is None:
            last = depth == len(path) - 1
            text = _insert(text, inside, path[depth], [] if last and name is None else {}, depth + 1)
            made.append(path[: depth + 1])
    inside = _find(text, path)
    if inside is None or text[inside] != ("[" if name is None else "{"):
        raise Conflict(f"{'.'.join(path)} has another type than expected; see what to add with --print")
    return _insert(text, inside, name, value, len(path) + 1)


def get(text: str, path: KeyPath) -> Any:
    """Return the value at a path, or `None`."""
    place = _find(text, path)
    return None if place is None else _decoder.raw_decode(text, place)[0]


def take(text: str, path: KeyPath, ours: Callable[[str | None, Any], bool], before: Sequence[KeyPath] | None) -> str:
    """Return the text without those entries of an object or list that are ours.

    Objects and lists that become empty are removed too, unless they existed `before`.
    """
    while (place := _find(text, path)) is not None:
        mine = [i for i in items(text, place) if ours(i.name, _decoder.raw_decode(text, i.value)[0])]
        if not mine:
            return text
        text = _remove(text, place, mine[0])
        if get(text, path) in ({}, []) and path and (before is None or path not in before):
            return take(text, path[:-1], lambda name, value: name == path[-1] and value in ({}, []), before)
    return text


def items(text: str, place: int) -> list[Item]:
    """Return the entries of the object or list that begins at a position."""
    found: list[Item] = []
    keyed, at = text[place] == "{", _skip(text, place + 1)
    while text[at] not in "]}":
        start, name = at, None
        if keyed:
            name, at = _decoder.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        _, end = _decoder.raw_decode(text, at)
        found.append(Item(name, start, at, end))
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


def _find(text: str, path: KeyPath) -> int | None:
    """Return the position of the value at a path, or `None`."""
    place = _skip(text, 0)
    for name in path:
        if text[place] != "{" or (item := _named(text, place, name)) is None:
            return None
        place = item.value
    return place


def _named(text: str, place: int, name: str) -> Item | None:
    """Return the last entry with a name; of duplicate names the last one is valid."""
    return next((item for item in reversed(items(text, place)) if item.name == name), None)


def _insert(text: str, place: int, name: str | None, value: Any, depth: int) -> str:
    line, step = "\r\n" if "\r\n" in text else "\n", _indentation(text)
    flat = line not in text.strip() and len(text.strip()) > 2  # a document on one line stays on one line
    body = json.dumps(value, ensure_ascii=False, indent=None if flat else step).replace("\n", line + step * depth)
    entry = body if name is None else f"{json.dumps(name, ensure_ascii=False)}: {body}"
    empty = not items(text, place)
    if flat:
        piece = entry if empty else f"{entry}, "
    else:
        piece = f"{line}{step * depth}{entry}" + (f"{line}{step * (depth - 1)}" if empty else ",")
    return text[: place + 1] + piece + text[place + 1 :]


def _remove(text: str, place: int, item: Item) -> str:
    """Return the text without an entry; the exact inverse of `put`."""
    after = _skip(text, item.end)
    if text[after] == ",":
        first = _skip(text, place + 1) == item.start
        if first and "\n" in text[place + 1 : item.start]:
            return text[: place + 1] + text[after + 1 :]
        return text[: item.start] + text[_skip(text, after + 1) :]
    comma = len(text[: item.start].rstrip(_BLANK)) - 1
    if text[comma] == ",":
        return text[:comma] + text[item.end :]
    return text[: place + 1] + text[after:]


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def _indentation(text: str) -> str:
    """Return the indentation of the document."""
    for line in text.splitlines()[1:20]:
        if blank := line[: len(line) - len(line.lstrip(" \t"))]:
            return blank[0] if blank[0] == "\t" else blank
    return "  "
