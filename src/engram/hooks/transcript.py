"""Read a client's transcript of a session: the last prompts and answers, and the exit codes of commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from engram.clock import aware

MAX_BYTES = 4_000_000
MAX_TEXT = 20_000
CLIENT_TEXTS = (
    "<command-",
    "<local-command",
    "<system-reminder",
    "<environment_context",
    "<user_instructions",
    "Caveat:",
)
"""Prefixes of messages that the client wrote, not the user."""
COMMAND_TOOLS = frozenset("exec_command shell shell_command local_shell container.exec".split())
"""Tools of Codex that run a command."""
_SHELL = re.compile(r"(?:\S{0,100}/)?(?:bash|sh|zsh)")
_ENDED = re.compile(r"^(?:Exit code:|Process exited with code) (-?[0-9]{1,6})$", re.MULTILINE)
_MAX_HEAD = 500


@dataclass(frozen=True, slots=True)
class TranscriptTurn:
    """One prompt of the user and the last answer to it."""

    id: str
    prompt: str
    answer: str = ""
    at: datetime | None = None


def read_turns(path: str, limit: int) -> list[TranscriptTurn]:
    """Read the last turns of a transcript, oldest first; none if it cannot be read. Skips subagents and summaries."""
    found: list[TranscriptTurn] = []
    for number, line in enumerate(_lines(path)):
        role, text = _message(line)
        if not text:
            continue
        if role == "user":
            id = line.get("uuid") or line.get("id") or f"{line.get('timestamp') or number}"
            found.append(TranscriptTurn(str(id)[:100], text[:MAX_TEXT], at=parse_time(line.get("timestamp"))))
        elif role == "assistant" and found:
            found[-1] = replace(found[-1], answer=text[:MAX_TEXT])
    return found[-limit:]


@dataclass(frozen=True, slots=True)
class FinishedCommand:
    """A command that ended, its output and exit code."""

    id: str
    text: str
    code: int
    output: str


def read_commands(path: str, limit: int) -> list[FinishedCommand]:
    """Read the last commands with an exit code in a transcript of Codex, oldest first.

    Codex reports only the output of a command to its hooks, not the exit code.
    """
    started: dict[str, str] = {}
    found: list[FinishedCommand] = []
    for line in _lines(path):
        item = line.get("payload")
        id = item.get("call_id") if isinstance(item, dict) else None
        if not isinstance(item, dict) or not isinstance(id, str):
            continue
        if item.get("type") == "function_call" and item.get("name") in COMMAND_TOOLS:
            started[id] = _command(item.get("arguments"))
        elif item.get("type") == "function_call_output" and (command := started.pop(id, "")):
            code, output = _exit_code(item.get("output"))
            found += [] if code is None else [FinishedCommand(id[:200], command, code, output)]
    return found[-limit:]


def _command(arguments: object) -> str:
    """Return the shell command in the arguments of a tool call."""
    given = _parse_object(arguments)
    command = given.get("cmd", given.get("command"))
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        by_shell = len(command) == 3 and _SHELL.fullmatch(command[0]) and command[1] in {"-c", "-lc"}
        command = command[2] if by_shell else " ".join(command)
    return command.strip() if isinstance(command, str) else ""


def _exit_code(output: object) -> tuple[int | None, str]:
    """Return the exit code of a command, `None` if unknown, and its output."""
    result = _parse_object(output)
    metadata, printed = result.get("metadata"), result.get("output")
    if isinstance(metadata, dict) and isinstance(code := metadata.get("exit_code"), int):
        return code, printed if isinstance(printed, str) else ""
    text = output if isinstance(output, str) else ""
    head, separator, rest = text.partition("Output:\n")
    found = _ENDED.search(head) if separator and len(head) <= _MAX_HEAD else None
    return (None, "") if found is None else (int(found[1]), rest)


def _parse_object(value: object) -> Mapping[str, Any]:
    try:
        value = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def parse_time(value: object) -> datetime | None:
    """Parse a time as clients write it; `None` if it is not one."""
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
            file.seek(max(0, size - MAX_BYTES))
            data = file.read(MAX_BYTES)
    except (OSError, ValueError):
        return
    for raw in data.split(b"\n"):
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            continue  # the first line may be cut, the last one may be incomplete
        if isinstance(line, dict) and not (
            line.get("isSidechain") or line.get("isMeta") or line.get("isCompactSummary")
        ):
            yield line


def _message(line: Mapping[str, Any]) -> tuple[str, str]:
    """Return the role and text of a message; the text is empty for other lines."""
    message = next((line[name] for name in ("message", "payload") if isinstance(line.get(name), dict)), line)
    role = message.get("role") or line.get("type")
    content = message.get("content")
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict)]
        texts = [part.get("text") for part in parts if part.get("type") in {"text", "input_text", "output_text"}]
        content = "\n".join(text for text in texts if isinstance(text, str))
    text = content.strip() if isinstance(content, str) else ""
    return str(role), "" if text.startswith(CLIENT_TEXTS) else text
