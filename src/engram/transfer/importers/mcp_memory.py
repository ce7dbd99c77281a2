"""The reference MCP memory server: a graph of entities with observations, and relations, as JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.model import MemoryType
from engram.model.bundle import Incoming
from engram.text.terms import digest
from engram.transfer.importers.fields import label, labels, list_field, text_field
from engram.transfer.importers.records import records
from engram.transfer.untrusted import ReadLimits, open_copy

_LISTS = {"entities": "entity", "relations": "relation"}


def memories(path: Path, limits: ReadLimits) -> Iterator[Incoming]:
    """Yield a memory for each observation and each relation, in the order of the file."""
    with open_copy(path, limits) as copy:
        for name, where, record in records(copy.stream, limits, ["type"], _LISTS):
            kind = _LISTS.get(name, record.get("type"))
            if kind not in _READERS:
                raise InvalidInput(f"{where}: type must be entity or relation")
            yield from _READERS[str(kind)](record, where)


def _entity_memories(record: dict[str, JsonValue], where: str) -> Iterator[Incoming]:
    name, kind = text_field(record, "name", where), label(record.get("entityType")) or ""
    for observation in list_field(record, "observations", where):
        if not isinstance(observation, str):
            raise InvalidInput(f"{where}: each of observations must be a text")
        if observation.strip():
            yield Incoming(
                text=observation if name.lower() in observation.lower() else f"{name}: {observation}",
                source="mcp-memory",
                original_id=digest("observation", name, observation),
                kind=MemoryType.KNOWLEDGE,
                tags=labels([kind]),
                content={"domain": kind, "knowledge_type": "observation", "related_entities": [name]},
                metadata={"entity": name, "entity_type": kind},
            )


def _relation_memories(record: dict[str, JsonValue], where: str) -> Iterator[Incoming]:
    start, end, kind = (text_field(record, name, where) for name in ("from", "to", "relationType"))
    if not (start.strip() and end.strip() and kind.strip()):
        raise InvalidInput(f"{where}: a relation needs from, to and relationType")
    yield Incoming(
        text=f"{start} {kind.replace('_', ' ')} {end}",
        source="mcp-memory",
        original_id=digest("relation", start, kind, end),
        kind=MemoryType.KNOWLEDGE,
        content={
            "knowledge_type": "relation",
            "related_entities": [start, end],
            "subject": start,
            "predicate": kind,
            "object": end,
        },
    )


_READERS = {"entity": _entity_memories, "relation": _relation_memories}
