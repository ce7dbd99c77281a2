"""Redact and size-check JSON data of cycles and definitions."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.ports import Redactor, unstorable
from engram.privacy import clean_json

MAX_SIZE = 1_000_000
MAX_TRACE = 8000


def redacted_json(redactor: Redactor, what: str, body: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Redact a JSON body and drop `None` values; `redacted` lists the applied rules. Raises `InvalidInput`."""
    told: dict[str, JsonValue] = {name: value for name, value in body.items() if value is not None}
    try:
        encoded = json.dumps(told, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(f"{what} must be plain JSON: {error}; convert it first") from None
    if len(encoded) > MAX_SIZE:
        raise InvalidInput(
            f"{what} has {len(encoded):,} characters as JSON, {MAX_SIZE:,} are the limit; "
            "write it to a file and name that as an artifact"
        )
    if reason := unstorable(encoded):
        raise InvalidInput(f"{what} cannot be stored: {reason}")
    if "\\u0000" in encoded.replace("\\\\", ""):  # two backslashes are one that the text has, and no escape
        raise InvalidInput(f"{what} has a NUL character; remove it")
    cleaned, found = clean_json(redactor, told)
    if not isinstance(cleaned, dict):
        raise InvalidInput(f"{what} must be a mapping")
    return cleaned | ({"redacted": list(found)} if found else {})


def error_payload(error: str | BaseException | Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Convert an error to JSON: type, message and end of the traceback of an exception; a mapping unchanged."""
    if isinstance(error, BaseException):
        trace = "".join(traceback.format_exception(error)).strip()[-MAX_TRACE:]
        kind = type(error).__name__
        return {"kind": kind, "message": str(error) or kind, "details": {"trace": trace}}
    if isinstance(error, Mapping):
        return _mapping_payload(dict(error))
    if not isinstance(error, str) or not error.strip():
        raise InvalidInput(
            "an error is a text, an exception or a mapping with a message; leave it out if there is none"
        )
    return {"message": error}


def _mapping_payload(error: dict[str, Any]) -> dict[str, JsonValue]:
    message, kind = error.pop("message", ""), error.pop("kind", "")
    if not isinstance(message, str) or not isinstance(kind, str) or not (message.strip() or kind.strip()):
        raise InvalidInput("an error needs a message in words; give one as `message`")
    said: dict[str, JsonValue] = {"message": message or kind}
    details = error.pop("details", None) if error.keys() == {"details"} else error
    return said | ({"kind": kind} if kind else {}) | ({"details": details} if details else {})
