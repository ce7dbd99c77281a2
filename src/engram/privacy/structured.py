"""Takes secrets and personal data out of JSON values, where a key can tell what its value does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Protocol, runtime_checkable

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.ports import Cleaned, Redactor
from engram.privacy.redactor import SecretRedactor
from engram.privacy.rules import is_placeholder

MAX_DEPTH = 32
_TELLING_NUMBER = 1000


@runtime_checkable
class JudgesByKey(Protocol):
    """A redactor that also knows what a value is by the key it stands under."""

    def under(self, key: str, value: str) -> Cleaned | None:
        """What stands for a value because of its key; None if the key does not tell."""
        ...


def clean_json(redactor: Redactor, value: JsonValue) -> tuple[JsonValue, tuple[str, ...]]:
    """The value without secrets, in keys, strings and numbers, and the rules that found some; nothing else changes.

    Raises `InvalidInput` if it is nested more than 32 levels deep, is not JSON, or holds what the policy rejects.
    """
    texts = list(dict.fromkeys(_strings(value, 0)))
    cleaned = dict(zip(texts, redactor.clean(texts), strict=True))
    found = dict.fromkeys(rule for text in texts for rule in cleaned[text].found)
    judge = redactor if isinstance(redactor, JudgesByKey) else _default()
    return _Rebuilding(judge, cleaned, found).of(value, None), tuple(found)


@cache
def _default() -> JudgesByKey:
    return SecretRedactor()


def _strings(value: JsonValue, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        raise InvalidInput(f"the value is nested more than {MAX_DEPTH} levels deep; flatten it")
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidInput(f"a JSON key must be a string, not {type(key).__name__}; convert it first")
            yield key
            yield from _strings(item, depth + 1)
    elif isinstance(value, int) and not isinstance(value, bool):
        if value >= _TELLING_NUMBER:
            yield str(value)
    elif value is not None and not isinstance(value, bool | float):
        raise InvalidInput(f"a JSON value cannot hold a {type(value).__name__}; convert it first")


class _Rebuilding:
    """Makes the same value with clean strings."""

    def __init__(self, judge: JudgesByKey, cleaned: Mapping[str, Cleaned], found: dict[str, None]) -> None:
        self._judge, self._cleaned, self._found = judge, cleaned, found

    def of(self, value: JsonValue, key: str | None) -> JsonValue:
        """The value cleaned; `key` is the name that it stands under, if any."""
        if isinstance(value, str):
            return self._text(value, key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= _TELLING_NUMBER:
            # A count of tokens is a number under a telling name, and no secret.
            named = None if key is None or "token" in key.lower() else key
            text = self._text(str(value), named)
            return text if is_placeholder(text) else value
        if isinstance(value, list):
            names = [key if key is not None else _flag(item) for item in [None, *value]]
            return [self.of(item, name) for item, name in zip(value, names, strict=False)]
        if isinstance(value, dict):
            result: dict[str, JsonValue] = {}
            for name, item in value.items():
                result[_free(self._cleaned[name].text, result)] = self.of(item, _name(value, name))
            return result
        return value

    def _text(self, value: str, key: str | None) -> str:
        told = None if key is None else self._judge.under(key, value)
        if told is None or is_placeholder(self._cleaned[value].text):
            return self._cleaned[value].text
        self._found.update(dict.fromkeys(told.found))
        return told.text


def _flag(item: JsonValue) -> str | None:
    """The name an argument gives to the next one: `["--password", "hunter"]`."""
    return item if isinstance(item, str) and item.startswith("-") and "=" not in item else None


def _name(entry: Mapping[str, JsonValue], key: str) -> str:
    """The name of a value; in `{"name": "DB_PASSWORD", "value": "hunter"}` a sibling has it."""
    if key.lower() == "value":
        for sibling in ("name", "key", "Name", "Key"):
            if isinstance(name := entry.get(sibling), str):
                return name
    return key


def _free(key: str, taken: Mapping[str, JsonValue]) -> str:
    """A key that is not taken yet: two secret keys may share a placeholder, and neither may be lost."""
    candidate, count = key, 1
    while candidate in taken:
        count += 1
        candidate = f"{key} ({count})"
    return candidate
