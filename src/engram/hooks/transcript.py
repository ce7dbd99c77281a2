"""Reads the turns of a session from the file that a client keeps of it: what was asked, and what was answered last."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from engram.ids import aware

MOST_BYTES = 4_000_000
MOST_TEXT = 20_000
SKIPPED = ("<command-", "<local-command", "<system-reminder", "<environment_context", "<user_instructions", "Caveat:")
"""How messages begin that the client wrote, and no user."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt of the user and the last thing that was answered to it."""

    id: str
    asked: str
    answered: str = ""
    at: datetime | None = None


def turns(path: str, most: int) -> list[Turn]:
    """The last turns in a transcript, oldest first; none if it cannot be read. Subagents and summaries are left out."""
    found: list[Turn] = []
    for number, line in enumerate(_lines(path)):
        role, text = _said(line)
        if not text:
            continue
        if role == "user":
            id = line.get("uuid") or line.get("id") or f"{line.get('timestamp') or number}"
            found.append(Turn(str(id)[:100], text[:MOST_TEXT], at=moment(line.get("timestamp"))))
        elif role == "assistant" and found:
            found[-1] = replace(found[-1], answered=text[:MOST_TEXT])
    return found[-most:]


def moment(value: object) -> datetime | None:
    """A time as clients write it, or `None`."""
    if not isinstance(value, str):
        return None
    try:
        return aware(datetime.fromisoformat(value))
    except (ValueError, OverflowError):
        return None


def _lines(path: str) -> Iterator[Mapping[str, Any]]:
    try:
        with Path(path).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MOST_BYTES))
            data = file.read(MOST_BYTES)
    except (OSError, ValueError):
        return
    for raw in data.split(b"\n"):
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            continue  # the first one may be cut, the last one half written
        if isinstance(line, dict) and not (
            line.get("isSidechain") or line.get("isMeta") or line.get("isCompactSummary")
        ):
            yield line


def _said(line: Mapping[str, Any]) -> tuple[str, str]:
    """Who said what in a line; nothing for lines that tell of something else."""
    message = next((line[name] for name in ("message", "payload") if isinstance(line.get(name), dict)), line)
    role = message.get("role") or line.get("type")
    content = message.get("content")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        texts = [part.get("text") for part in parts if part.get("type") in {"text", "input_text", "output_text"}]
        content = "\n".join(text for text in texts if isinstance(text, str))
    text = content.strip() if isinstance(content, str) else ""
    return str(role), "" if text.startswith(SKIPPED) else text
