"""What people already have, as memories to be: other programs' files, found out by their content or named."""

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
from engram.transfer.untrusted import LIMITS, Limits, begins, elements, head, is_folder, opened, parse

Importer = Callable[[Path, Limits], Iterator[Incoming]]

IMPORTERS: dict[str, Importer] = {
    "mem0": mem0.memories,
    "mcp-memory": mcp_memory.memories,
    "markdown": markdown.memories,
    "openai": chats.openai,
    "anthropic": chats.anthropic,
    "langgraph": langgraph.memories,
}
"""By name: what reads the files of each program."""

_LISTS = ("results", "memories", "items", "entities", "relations")
_TELLING = {
    "entities": "mcp-memory",
    "relations": "mcp-memory",
    "mapping": "openai",
    "chat_messages": "anthropic",
}

__all__ = ["IMPORTERS", "Importer", "Incoming", "detect", "incoming"]


def incoming(path: str | Path, name: str | None = None, limits: Limits = LIMITS) -> Iterator[Incoming]:
    """The memories in a file or folder, one at a time, in its order; without a name it is found out.

    Raises `InvalidInput` where something is not as it should be; what came before has been handed out.
    """
    name = detect(path, limits) if name is None else name
    if name not in IMPORTERS:
        raise InvalidInput(f"there is no importer {name!r}; there are {', '.join(IMPORTERS)}")
    for number, one in enumerate(IMPORTERS[name](Path(path), limits), 1):
        if number > limits.records:
            raise InvalidInput(f"there are more than {limits.records:,} memories; split the file")
        yield one


def detect(path: str | Path, limits: Limits = LIMITS) -> str:
    """The name of the importer for a file or folder. Raises `InvalidInput` if none knows it."""
    path = Path(path)
    if is_folder(path):
        return detect(chats.inside(path), limits) if chats.inside(path) != path else "markdown"
    if path.suffix.lower() in markdown.SUFFIXES:
        return "markdown"
    if begins(path, langgraph.SQLITE):
        return "langgraph"
    with opened(path, limits) as copy:
        if not head(copy.stream).strip():
            raise InvalidInput(f"{label(str(path))} is empty; there is nothing to import")
        first = first_line(copy.stream, limits)
        found = (_of_record(first) if first else None) or _of_document(copy.stream, limits)
    if found is None:
        raise InvalidInput(f"no importer knows this file; name one of {', '.join(IMPORTERS)}")
    return found


def _of_document(stream: IO[bytes], limits: Limits) -> str | None:
    """The first record decides."""
    for name, where, raw in elements(stream, limits, inside=_LISTS):
        if name in _TELLING:
            return _TELLING[name]
        if not name or name in _LISTS:
            value = parse(raw, where, limits)
            return _of_record(value) if isinstance(value, dict) else None
    return None


def _of_record(value: Mapping[str, JsonValue]) -> str | None:
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
