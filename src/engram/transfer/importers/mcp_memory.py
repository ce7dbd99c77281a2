"""The reference MCP memory server: a knowledge graph as JSON Lines, entities with observations, and relations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.model import MemoryType
from engram.model.bundle import Incoming
from engram.text.terms import digest
from engram.transfer.importers.fields import items, label, labels, text
from engram.transfer.importers.records import records
from engram.transfer.untrusted import Limits, opened

_LISTS = {"entities": "entity", "relations": "relation"}


def memories(path: Path, limits: Limits) -> Iterator[Incoming]:
    """A memory for each observation and each relation, in the order of the file."""
    with opened(path, limits) as copy:
        for name, where, record in records(copy.stream, limits, ["type"], _LISTS):
            kind = _LISTS.get(name, record.get("type"))
            if kind not in _READERS:
                raise InvalidInput(f"{where}: type must be entity or relation")
            yield from _READERS[str(kind)](record, where)


def _of_entity(record: dict[str, JsonValue], where: str) -> Iterator[Incoming]:
    name, kind = text(record, "name", where), label(record.get("entityType")) or ""
    for observation in items(record, "observations", where):
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


def _of_relation(record: dict[str, JsonValue], where: str) -> Iterator[Incoming]:
    start, end, kind = (text(record, name, where) for name in ("from", "to", "relationType"))
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


_READERS = {"entity": _of_entity, "relation": _of_relation}
