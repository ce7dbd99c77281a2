"""Reads a session from the file that a client keeps of it: what was asked and answered last, and how commands ended."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from engram.clock import aware

MOST_BYTES = 4_000_000
MOST_TEXT = 20_000
SKIPPED = ("<command-", "<local-command", "<system-reminder", "<environment_context", "<user_instructions", "Caveat:")
"""How messages begin that the client wrote, and no user."""
COMMANDS = frozenset("exec_command shell shell_command local_shell container.exec".split())
"""The tools of Codex that run a command."""
_SHELL = re.compile(r"(?:\S{0,100}/)?(?:bash|sh|zsh)")
_ENDED = re.compile(r"^(?:Exit code:|Process exited with code) (-?[0-9]{1,6})$", re.MULTILINE)
_MOST_HEAD = 500


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


@dataclass(frozen=True, slots=True)
class Ran:
    """A command, what it printed, and the code that it ended with."""

    id: str
    command: str
    code: int
    printed: str


def commands(path: str, most: int) -> list[Ran]:
    """The last commands in a transcript of Codex, oldest first, as far as it says how they ended.

    Its hooks are told what a command printed, and not how it ended.
    """
    asked: dict[str, str] = {}
    found: list[Ran] = []
    for line in _lines(path):
        said = line.get("payload")
        id = said.get("call_id") if isinstance(said, dict) else None
        if not isinstance(said, dict) or not isinstance(id, str):
            continue
        if said.get("type") == "function_call" and said.get("name") in COMMANDS:
            asked[id] = _command(said.get("arguments"))
        elif said.get("type") == "function_call_output" and (command := asked.pop(id, "")):
            code, printed = _ended(said.get("output"))
            found += [] if code is None else [Ran(id[:200], command, code, printed)]
    return found[-most:]


def _command(arguments: object) -> str:
    """What a shell is given to run."""
    given = _object(arguments)
    said = given.get("cmd", given.get("command"))
    if isinstance(said, list) and all(isinstance(word, str) for word in said):
        by_shell = len(said) == 3 and _SHELL.fullmatch(said[0]) and said[1] in {"-c", "-lc"}
        said = said[2] if by_shell else " ".join(said)
    return said.strip() if isinstance(said, str) else ""


def _ended(output: object) -> tuple[int | None, str]:
    """The code that a command ended with, if that is said, and what it printed."""
    told = _object(output)
    about, printed = told.get("metadata"), told.get("output")
    if isinstance(about, dict) and isinstance(code := about.get("exit_code"), int):
        return code, printed if isinstance(printed, str) else ""
    text = output if isinstance(output, str) else ""
    head, separator, rest = text.partition("Output:\n")
    found = _ENDED.search(head) if separator and len(head) <= _MOST_HEAD else None
    return (None, "") if found is None else (int(found[1]), rest)


def _object(value: object) -> Mapping[str, Any]:
    try:
        value = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


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
