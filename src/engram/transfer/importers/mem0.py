"""mem0: the output of `get_all` and of exports, a list of memories or an object with `results`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.model import MemoryType
from engram.model.bundle import Incoming
from engram.text.terms import digest
from engram.transfer.importers.fields import (
    label,
    labels,
    list_field,
    object_field,
    present_fields,
    text_field,
    time_value,
)
from engram.transfer.importers.records import records
from engram.transfer.untrusted import ReadLimits, open_copy

_LISTS = ("results", "memories")


def memories(path: Path, limits: ReadLimits) -> Iterator[Incoming]:
    """Yield each memory of a mem0 file."""
    with open_copy(path, limits) as copy:
        for _, where, record in records(copy.stream, limits, ["memory"], _LISTS):
            yield _to_incoming(record, where)


def _to_incoming(record: dict[str, JsonValue], where: str) -> Incoming:
    said = text_field(record, "memory", where)
    if not said.strip():
        raise InvalidInput(f"{where}: the memory is empty")
    scope = present_fields(record, "user_id", "agent_id", "app_id", "run_id", "actor_id")
    metadata = {
        **object_field(record, "metadata", where),
        **scope,
        **present_fields(record, "hash", "updated_at", "expiration_date"),
    }
    return Incoming(
        text=said,
        source="mem0",
        original_id=label(record.get("id")) or digest(said, str(scope)),
        kind=MemoryType.KNOWLEDGE,
        tags=labels(list_field(record, "categories", where)),
        at=time_value(record.get("created_at"), where),
        session=label(record.get("run_id")),
        role=label(record.get("role")),
        speaker=label(record.get("actor_id")) or label(record.get("user_id")),
        metadata=metadata,
    )
