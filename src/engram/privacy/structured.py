"""Takes secrets out of JSON values, where a key can tell what its value does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.ports import Cleaned, Redactor
from engram.privacy.redactor import placeholder, rule_set

MAX_DEPTH = 32
KEYED = "keyed-value"
"""The rule that finds a secret by its key alone: `{"password": "hunter"}`."""


def clean_json(redactor: Redactor, value: JsonValue) -> tuple[JsonValue, tuple[str, ...]]:
    """The value without secrets, in keys and strings, and the rules that found some; nothing else changes.

    Raises `InvalidInput` if it is nested more than 32 levels deep or is not JSON.
    """
    texts = list(dict.fromkeys(_strings(value, 0)))
    cleaned = dict(zip(texts, redactor.clean(texts), strict=True))
    found = dict.fromkeys(rule for text in texts for rule in cleaned[text].found)
    return _rebuilt(value, None, cleaned, found), tuple(found)


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
    elif value is not None and not isinstance(value, bool | int | float):
        raise InvalidInput(f"a JSON value cannot hold a {type(value).__name__}; convert it first")


def _rebuilt(value: JsonValue, key: str | None, cleaned: Mapping[str, Cleaned], found: dict[str, None]) -> JsonValue:
    """The same value with clean strings; `key` is the name that the value stands under, if any."""
    if isinstance(value, str):
        if key is None or not rule_set().gives_away(key, value):
            return cleaned[value].text
        # The redactor may know better what it is, and then it has taken all of it.
        if rule_set().is_placeholder(cleaned[value].text):
            return cleaned[value].text
        found[KEYED] = None
        return placeholder(KEYED)
    if isinstance(value, list):
        names = [key if key is not None else _flag(item) for item in [None, *value]]
        return [_rebuilt(item, name, cleaned, found) for item, name in zip(value, names, strict=False)]
    if isinstance(value, dict):
        result: dict[str, JsonValue] = {}
        for name, item in value.items():
            result[_free(cleaned[name].text, result)] = _rebuilt(item, _name(value, name), cleaned, found)
        return result
    return value


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
