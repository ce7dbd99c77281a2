"""Take secrets and personal data out of JSON values, also those recognised only by their key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.ports import Cleaned, Redactor
from engram.privacy.redactor import default_redactor
from engram.privacy.rules import is_placeholder

MAX_DEPTH = 32
_LEAST_NUMBER = 1000
_KeyedText = tuple[str | None, str]
"""A text, and before it the key by which it is judged, if any."""


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
    keyed = dict.fromkeys(_keyed_texts(value, None, 0))
    texts = list(dict.fromkeys(text for _, text in keyed))
    cleaned = dict(zip(texts, redactor.clean(texts), strict=True))
    found = dict.fromkeys(rule for text in texts for rule in cleaned[text].found)
    judge = redactor if isinstance(redactor, JudgesByKey) else default_redactor()
    clean = dict[_KeyedText, str]()
    for key, text in keyed:
        clean[key, text] = cleaned[text].text
        judged = None if key is None else judge.clean_keyed(key, text)
        if judged is not None and not is_placeholder(cleaned[text].text):
            clean[key, text] = judged.text
            found.update(dict.fromkeys(judged.found))
    return _rebuild(value, None, clean), tuple(found)


def _keyed_texts(value: JsonValue, key: str | None, depth: int) -> Iterator[_KeyedText]:
    """Yield the strings and the large numbers of a value, and the keys in it, which have no key themselves."""
    if depth > MAX_DEPTH:
        raise InvalidInput(f"the value is nested more than {MAX_DEPTH} levels deep; flatten it")
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for item, name in zip(value, _keys_of_items(value, key), strict=True):
            yield from _keyed_texts(item, name, depth + 1)
    elif isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                raise InvalidInput(f"a JSON key must be a string, not {type(name).__name__}; convert it first")
            yield None, name
            yield from _keyed_texts(item, _effective_key(value, name), depth + 1)
    elif isinstance(value, int) and not isinstance(value, bool):
        if value >= _LEAST_NUMBER:
            yield _key_of_number(key), str(value)
    elif value is not None and not isinstance(value, bool | float):
        raise InvalidInput(f"a JSON value cannot hold a {type(value).__name__}; convert it first")


def _rebuild(value: JsonValue, key: str | None, clean: Mapping[_KeyedText, str]) -> JsonValue:
    """Return the value with clean texts; `key` is its key, if any."""
    if isinstance(value, str):
        return clean[key, value]
    if isinstance(value, int) and not isinstance(value, bool) and value >= _LEAST_NUMBER:
        text = clean[_key_of_number(key), str(value)]
        return text if is_placeholder(text) else value
    if isinstance(value, list):
        names = _keys_of_items(value, key)
        return [_rebuild(item, name, clean) for item, name in zip(value, names, strict=True)]
    if isinstance(value, dict):
        result: dict[str, JsonValue] = {}
        for name, item in value.items():
            result[_free_key(clean[None, name], result)] = _rebuild(item, _effective_key(value, name), clean)
        return result
    return value


def _keys_of_items(items: Sequence[JsonValue], key: str | None) -> list[str | None]:
    """Return the key of each item: that of the list, or the option before it."""
    return [key if key is not None else _name_from_option(item) for item in [None, *items[:-1]]][: len(items)]


def _key_of_number(key: str | None) -> str | None:
    """Return the key by which a number is judged: a count of tokens has a suspicious key, but is no secret."""
    return None if key is None or "token" in key.lower() else key


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
