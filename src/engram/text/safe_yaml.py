"""Read YAML files written by hand (skills, schemas, rules) as plain JSON values, without YAML's surprises.

There are no tags, anchors, aliases or merge keys, and `yes`, `on`, `12:30` and `2024-05-01` are texts. Only `null`,
`~`, `true`, `false` and decimal, `0x` and `0o` numbers are not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from engram.errors import InvalidInput

MOST_BYTES = 1_000_000
DEEPEST = 50

_CONSTANTS: dict[str, JsonValue] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_FRACTION = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_SURROGATES = re.compile("[\ud800-\udfff]")
_MOST_DIGITS = 20
_SHOWN = 80

_MESSAGES = {
    "tuple_type": "Input should be a list",
    "dict_type": "Input should be a mapping of names to values",
    "model_type": "Input should be a mapping of names to values",
}
"""Pydantic's messages in the terms of a file."""

_Model = TypeVar("_Model", bound=BaseModel)
_Place = tuple[str | int, ...]


def read_yaml(source: str | bytes | Path, what: str) -> JsonValue:
    """Return the value in a text, in UTF-8 bytes or in a file. Raises `InvalidInput` with the line."""
    return _read(source, what)[0]


def read_as(source: str | bytes | Path, what: str, model: type[_Model]) -> _Model:
    """Return the value as a `model`. Raises `InvalidInput` with the line and place of what does not fit."""
    value, lines = _read(source, what)
    if isinstance(source, str) and isinstance(value, str):
        raise InvalidInput(f"{what} is only the text {value[:_SHOWN]!a}; give YAML, or a file as a `pathlib.Path`")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidInput(_describe_misfits(error, what, lines)) from None


def validate_as(value: JsonValue, what: str, model: type[_Model]) -> _Model:
    """Return a value that is not from a file as a `model`. Raises `InvalidInput` with the place of a misfit."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidInput(_describe_misfits(error, what, {})) from None


@dataclass
class _OpenCollection:
    """A list or mapping whose end has not been read yet."""

    value: list[JsonValue] | dict[str, JsonValue]
    place: _Place
    key: str | None = None
    lines: dict[str, int] = field(default_factory=dict)


def _read(source: str | bytes | Path, what: str) -> tuple[JsonValue, dict[_Place, int]]:
    text = _text(source, what)
    try:
        return _build(_events(text), what)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line, len(text.splitlines()) - 1) + 1 if mark else 1
        raise _refused(what, line, f"is not YAML: {error.problem or error.context}; correct it there") from None
    except yaml.reader.ReaderError as error:
        raise InvalidInput(f"{what} has a character YAML does not allow ({error.reason}); remove it") from None


def _text(source: str | bytes | Path, what: str) -> str:
    if isinstance(source, str):
        try:
            written = source.encode()
        except UnicodeEncodeError:
            raise InvalidInput(f"{what} is not valid Unicode text; write it in UTF-8") from None
    elif isinstance(source, bytes):
        written = source
    else:
        try:
            with source.open("rb") as file:
                written = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise InvalidInput(f"{what} cannot be read from {source}: {error.strerror}; give a readable file") from None
    if len(written) > MOST_BYTES:
        raise InvalidInput(f"{what} is larger than {MOST_BYTES:,} bytes; split it")
    try:
        return written.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(what, written.count(b"\n", 0, error.start) + 1, "is not UTF-8; save it in UTF-8") from None


def _events(text: str) -> Iterator[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return iter(yaml.parse(text, Loader=loader))


def _build(events: Iterator[Any], what: str) -> tuple[JsonValue, dict[_Place, int]]:
    """Build the value in one pass without recursion, so that nothing is built from what will be refused."""
    around: list[_OpenCollection] = []
    lines: dict[_Place, int] = {}
    documents: list[JsonValue] = []
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            if documents:
                raise _refused(what, line, "starts a second document; write one document per file")
        elif isinstance(event, yaml.CollectionEndEvent):
            around.pop()
        elif isinstance(event, yaml.NodeEvent):
            _refuse_specials(event, what, line)
            opened = around[-1] if around else None
            value: JsonValue
            inner: list[JsonValue] | dict[str, JsonValue] | None
            if isinstance(event, yaml.ScalarEvent):
                if opened is not None and isinstance(opened.value, dict) and opened.key is None:
                    opened.key = _key(event, opened, what, line)
                    continue
                value, inner = _scalar(event, what, line), None
            elif len(around) == DEEPEST:
                raise _refused(what, line, f"is nested deeper than {DEEPEST} levels; make it flatter")
            else:
                value = inner = {} if isinstance(event, yaml.MappingStartEvent) else []
            place = _add_value(value, opened, documents, what, line)
            lines[place] = line if opened is None or opened.key is None else opened.lines[opened.key]
            if opened is not None:
                opened.key = None
            if inner is not None:
                around.append(_OpenCollection(inner, place))
    return (documents[0] if documents else None), lines


def _add_value(
    value: JsonValue, opened: _OpenCollection | None, documents: list[JsonValue], what: str, line: int
) -> _Place:
    if opened is None:
        documents.append(value)
        return ()
    if isinstance(opened.value, list):
        opened.value.append(value)
        return (*opened.place, len(opened.value) - 1)
    if opened.key is None:
        raise _refused(what, line, "has a list or mapping as a key; a key is a text")
    opened.value[opened.key] = value
    return (*opened.place, opened.key)


def _refuse_specials(event: Any, what: str, line: int) -> None:
    if isinstance(event, yaml.AliasEvent):
        raise _refused(what, line, f"uses the alias *{event.anchor[:_SHOWN]}; write the value out")
    if event.anchor is not None:
        raise _refused(
            what, line, f"has the anchor &{event.anchor[:_SHOWN]}; write the value out wherever it is needed"
        )
    if event.tag is not None:
        raise _refused(
            what, line, f"has the tag {event.tag[:_SHOWN]}; only plain texts, numbers, lists and mappings are read"
        )


def _key(event: Any, opened: _OpenCollection, what: str, line: int) -> str:
    key = _valid_text(event.value, what, line)
    if key == "<<" and event.implicit[0]:
        raise _refused(what, line, "has the merge key <<; write the values out")
    if key in opened.lines:
        raise _refused(what, line, f"repeats the key {key[:_SHOWN]!r} of line {opened.lines[key]}; keep one of them")
    opened.lines[key] = line
    return key


def _scalar(event: Any, what: str, line: int) -> JsonValue:
    text: str = event.value
    if not event.implicit[0]:
        return _valid_text(text, what, line)
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _WHOLE.fullmatch(text):
        if len(text) > _MOST_DIGITS:
            raise _refused(what, line, f"has a number of {len(text)} digits; put it in quotes to make it a text")
        return int(text, 0) if text[:2] in {"0x", "0o"} else int(text)
    if _FRACTION.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise _refused(what, line, "has a number that is too large; put it in quotes to make it a text")
        return number
    if _NOT_FINITE.fullmatch(text):
        raise _refused(what, line, f"has the number {text}, which is not finite; put it in quotes to make it a text")
    return _valid_text(text, what, line)


def _valid_text(text: str, what: str, line: int) -> str:
    if _SURROGATES.search(text):
        raise _refused(what, line, "has half of a surrogate pair; write the character itself")
    return text


def _describe_misfits(error: ValidationError, what: str, lines: dict[_Place, int]) -> str:
    """Describe the first few misfits, each with its line if known, and its place in the file."""
    whole = error.errors(include_url=False, include_input=False, include_context=False)
    found = [each for each in whole if not (each["type"] == "too_short" and _has_within(each["loc"], whole))]
    said = []
    for each in found[:3]:
        place: _Place = tuple(each["loc"])
        known = next((place[:end] for end in range(len(place), -1, -1) if place[:end] in lines), None)
        line = f"line {lines[known]}: " if known is not None else ""
        where = ".".join(str(part)[:_SHOWN] for part in place)
        what_ = _MESSAGES.get(each["type"]) or each["msg"].removeprefix("Value error, ")
        said.append(f"{line}{where + ': ' if where else ''}{what_}")
    more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
    return f"{what} does not fit: {'; '.join(said)}{more}; correct it there"


def _has_within(place: tuple[str | int, ...], misfits: Sequence[ErrorDetails]) -> bool:
    """Return whether something inside of it does not fit, which makes it seem too short."""
    return any(len(each["loc"]) > len(place) and each["loc"][: len(place)] == place for each in misfits)


def _refused(what: str, line: int, why: str) -> InvalidInput:
    return InvalidInput(f"{what}, line {line}: it {why}")
