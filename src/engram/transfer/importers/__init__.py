"""Readers for other programs' files: mem0, MCP memory server, Markdown, ChatGPT and Claude exports, LangGraph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.model.bundle import Incoming
from engram.transfer.importers import chats, langgraph, markdown, mcp_memory, mem0
from engram.transfer.importers.fields import label
from engram.transfer.importers.records import first_line
from engram.transfer.untrusted import LIMITS, ReadLimits, elements, is_folder, open_copy, parse, read_head, starts_with

Importer = Callable[[Path, ReadLimits], Iterator[Incoming]]

IMPORTERS: dict[str, Importer] = {
    "mem0": mem0.memories,
    "mcp-memory": mcp_memory.memories,
    "markdown": markdown.memories,
    "openai": chats.openai,
    "anthropic": chats.anthropic,
    "langgraph": langgraph.memories,
}
"""The reader of each format, by name."""

_LISTS = ("results", "memories", "items", "entities", "relations")
_FORMAT_BY_NAME = {
    "entities": "mcp-memory",
    "relations": "mcp-memory",
    "mapping": "openai",
    "chat_messages": "anthropic",
}

__all__ = ["IMPORTERS", "Importer", "Incoming", "detect", "incoming"]


def incoming(path: str | Path, name: str | None = None, limits: ReadLimits = LIMITS) -> Iterator[Incoming]:
    """Yield the memories of a file or folder in order; without a format name it is detected.

    Raises `InvalidInput` at the first invalid record; the memories before it have been yielded by then.
    """
    name = detect(path, limits) if name is None else name
    if name not in IMPORTERS:
        raise InvalidInput(f"there is no importer {name!r}; there are {', '.join(IMPORTERS)}")
    for number, one in enumerate(IMPORTERS[name](Path(path), limits), 1):
        if number > limits.records:
            raise InvalidInput(f"there are more than {limits.records:,} memories; split the file")
        yield one


def detect(path: str | Path, limits: ReadLimits = LIMITS) -> str:
    """Detect the format of a file or folder. Raises `InvalidInput` if it is unknown."""
    path = Path(path)
    if is_folder(path):
        return detect(chats.conversations_file(path), limits) if chats.conversations_file(path) != path else "markdown"
    if path.suffix.lower() in markdown.SUFFIXES:
        return "markdown"
    if starts_with(path, langgraph.SQLITE):
        return "langgraph"
    with open_copy(path, limits) as copy:
        if not read_head(copy.stream).strip():
            raise InvalidInput(f"{label(str(path))} is empty; there is nothing to import")
        first = first_line(copy.stream, limits)
        found = (_format_of_record(first) if first else None) or _format_of_document(copy.stream, limits)
    if found is None:
        raise InvalidInput(f"no importer knows this file; name one of {', '.join(IMPORTERS)}")
    return found


def _format_of_document(stream: IO[bytes], limits: ReadLimits) -> str | None:
    """Detect the format by the first record."""
    for name, where, raw in elements(stream, limits, inside=_LISTS):
        if name in _FORMAT_BY_NAME:
            return _FORMAT_BY_NAME[name]
        if not name or name in _LISTS:
            value = parse(raw, where, limits)
            return _format_of_record(value) if isinstance(value, dict) else None
    return None


def _format_of_record(value: Mapping[str, JsonValue]) -> str | None:
    if value.get("type") in {"entity", "relation"}:
        return "mcp-memory"
    if isinstance(value.get("mapping"), dict):
        return "openai"
    if isinstance(value.get("chat_messages"), list):
        return "anthropic"
    if {"namespace", "key", "value"} <= set(value):
        return "langgraph"
    if isinstance(value.get("memory"), str):
        return "mem0"
    return None
