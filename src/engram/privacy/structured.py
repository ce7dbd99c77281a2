"""Take secrets and personal data out of JSON values, also those recognised only by their key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, runtime_checkable

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.ports import Cleaned, Redactor
from engram.privacy.redactor import default_redactor
from engram.privacy.rules import is_placeholder

MAX_DEPTH = 32
_LEAST_NUMBER = 1000


@runtime_checkable
class JudgesByKey(Protocol):
    """A redactor that can also judge a value by its key."""

    def clean_keyed(self, key: str, value: str) -> Cleaned | None:
        """Return the replacement of a value that is sensitive because of its key; `None` if it is not."""
        ...


def clean_json(redactor: Redactor, value: JsonValue) -> tuple[JsonValue, tuple[str, ...]]:
    """Return the value without secrets in keys, strings and numbers, and the rules that matched; nothing else changes.

    Raises `InvalidInput` if it is nested more than 32 levels deep, is not JSON, or contains what the policy rejects.
    """
    texts = list(dict.fromkeys(_strings(value, 0)))
    cleaned = dict(zip(texts, redactor.clean(texts), strict=True))
    found = dict.fromkeys(rule for text in texts for rule in cleaned[text].found)
    judge = redactor if isinstance(redactor, JudgesByKey) else default_redactor()
    return _Rebuilder(judge, cleaned, found).of(value, None), tuple(found)


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
        if value >= _LEAST_NUMBER:
            yield str(value)
    elif value is not None and not isinstance(value, bool | float):
        raise InvalidInput(f"a JSON value cannot hold a {type(value).__name__}; convert it first")


class _Rebuilder:
    """Rebuilds a value with clean strings."""

    def __init__(self, judge: JudgesByKey, cleaned: Mapping[str, Cleaned], found: dict[str, None]) -> None:
        self._judge, self._cleaned, self._found = judge, cleaned, found

    def of(self, value: JsonValue, key: str | None) -> JsonValue:
        """Return the value cleaned; `key` is its key, if any."""
        if isinstance(value, list):
            names = [key if key is not None else _name_from_option(item) for item in [None, *value]]
            return [self.of(item, name) for item, name in zip(value, names, strict=False)]
        if isinstance(value, dict):
            result: dict[str, JsonValue] = {}
            for name, item in value.items():
                result[_free_key(self._cleaned[name].text, result)] = self.of(item, _effective_key(value, name))
            return result
        if isinstance(value, str):
            text = value
        elif isinstance(value, int) and not isinstance(value, bool) and value >= _LEAST_NUMBER:
            text = str(value)
            if key is not None and "token" in key.lower():
                key = None  # a count of tokens has a suspicious key, but is no secret
        else:
            return value
        clean = self._cleaned[text].text
        judged = None if key is None else self._judge.clean_keyed(key, text)
        if judged is not None and not is_placeholder(clean):
            self._found.update(dict.fromkeys(judged.found))
            clean = judged.text
        return clean if isinstance(value, str) or is_placeholder(clean) else value


def _name_from_option(item: JsonValue) -> str | None:
    """Return the key an option gives to the next argument: `["--password", "hunter"]`."""
    return item if isinstance(item, str) and item.startswith("-") and "=" not in item else None


def _effective_key(entry: Mapping[str, JsonValue], key: str) -> str:
    """Return the key of a value; in `{"name": "DB_PASSWORD", "value": "hunter"}` it is in a sibling."""
    if key.lower() == "value":
        for sibling in ("name", "key", "Name", "Key"):
            if isinstance(name := entry.get(sibling), str):
                return name
    return key


def _free_key(key: str, taken: Mapping[str, JsonValue]) -> str:
    """Return a key that is not used yet: two secret keys may get the same placeholder."""
    candidate, count = key, 1
    while candidate in taken:
        count += 1
        candidate = f"{key} ({count})"
    return candidate
