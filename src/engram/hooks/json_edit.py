"""Puts entries into JSON files and takes them out again without touching a character of the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engram.errors import Conflict

Way = tuple[str, ...]
"""The names that lead from the root of a document to an object or a list."""

_decoder = json.JSONDecoder()
_BLANK = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of an object or list: where it begins, where its value begins and where that ends."""

    name: str | None
    start: int
    value: int
    end: int


def check(text: str) -> None:
    """Raises `Conflict` if the text is no JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Conflict(f"it is not JSON ({error}); mend it, or see what to add with --print") from None
    if not isinstance(value, dict):
        raise Conflict("it is JSON, but no object; see what to add with --print")


def put(text: str, way: Way, name: str | None, value: Any, made: list[Way]) -> str:
    """The text with one more entry at the beginning of an object (with a name) or list (without one).

    What is missing on the way there is made, and noted. Raises `Conflict` if something else is in the way.
    """
    for depth in range(len(way)):
        inside = _find(text, way[:depth])
        if inside is None or text[inside] != "{":
            raise Conflict(f"{'.'.join(way[:depth]) or 'the document'} is no object; see what to add with --print")
        if _named(text, inside, way[depth]) is None:
            last = depth == len(way) - 1
            text = _insert(text, inside, way[depth], [] if last and name is None else {}, depth + 1)
            made.append(way[: depth + 1])
    inside = _find(text, way)
    if inside is None or text[inside] != ("[" if name is None else "{"):
        raise Conflict(f"{'.'.join(way)} is not what it should be; see what to add with --print")
    return _insert(text, inside, name, value, len(way) + 1)


def get(text: str, way: Way) -> Any:
    """The value at the end of a way, or `None`."""
    place = _find(text, way)
    return None if place is None else _decoder.raw_decode(text, place)[0]


def take(text: str, way: Way, ours: Callable[[str | None, Any], bool], before: Sequence[Way] | None) -> str:
    """The text without those entries of an object or list that are ours.

    What is empty then goes, too, unless it is known that it was there `before`.
    """
    while (place := _find(text, way)) is not None:
        mine = [i for i in items(text, place) if ours(i.name, _decoder.raw_decode(text, i.value)[0])]
        if not mine:
            return text
        text = _remove(text, place, mine[0])
        if get(text, way) in ({}, []) and way and (before is None or way not in before):
            return take(text, way[:-1], lambda name, value: name == way[-1] and value in ({}, []), before)
    return text


def items(text: str, place: int) -> list[Item]:
    """The entries of the object or list that begins at a place."""
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


def _find(text: str, way: Way) -> int | None:
    """Where the value at the end of a way begins."""
    place = _skip(text, 0)
    for name in way:
        if text[place] != "{" or (item := _named(text, place, name)) is None:
            return None
        place = item.value
    return place


def _named(text: str, place: int, name: str) -> Item | None:
    """The last entry of that name: it is the one that counts."""
    return next((item for item in reversed(items(text, place)) if item.name == name), None)


def _insert(text: str, place: int, name: str | None, value: Any, depth: int) -> str:
    line, step = "\r\n" if "\r\n" in text else "\n", _step(text)
    flat = line not in text.strip() and len(text.strip()) > 2  # a document on one line stays on one line
    body = json.dumps(value, ensure_ascii=False, indent=None if flat else step).replace("\n", line + step * depth)
    said = body if name is None else f"{json.dumps(name, ensure_ascii=False)}: {body}"
    empty = not items(text, place)
    if flat:
        piece = said if empty else f"{said}, "
    else:
        piece = f"{line}{step * depth}{said}" + (f"{line}{step * (depth - 1)}" if empty else ",")
    return text[: place + 1] + piece + text[place + 1 :]


def _remove(text: str, place: int, item: Item) -> str:
    """The text without an entry; one that was put in by `put` leaves no trace."""
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


def _step(text: str) -> str:
    """How the document is indented."""
    for line in text.splitlines()[1:20]:
        if blank := line[: len(line) - len(line.lstrip(" \t"))]:
            return blank[0] if blank[0] == "\t" else blank
    return "  "
