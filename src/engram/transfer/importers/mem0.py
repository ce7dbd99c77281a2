"""mem0: what `get_all` and the exports give, a list of memories or an object with them in `results`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.model import MemoryType
from engram.model.bundle import Incoming
from engram.text.terms import digest
from engram.transfer.importers.fields import fields, items, label, labels, moment, text, told
from engram.transfer.importers.records import records
from engram.transfer.untrusted import Limits, opened

_LISTS = ("results", "memories")


def memories(path: Path, limits: Limits) -> Iterator[Incoming]:
    """Each memory of a mem0 file."""
    with opened(path, limits) as copy:
        for _, where, record in records(copy.stream, limits, ["memory"], _LISTS):
            yield _incoming(record, where)


def _incoming(record: dict[str, JsonValue], where: str) -> Incoming:
    said = text(record, "memory", where)
    if not said.strip():
        raise InvalidInput(f"{where}: the memory is empty")
    scope = told(record, "user_id", "agent_id", "app_id", "run_id", "actor_id")
    metadata = {**fields(record, "metadata", where), **scope, **told(record, "hash", "updated_at", "expiration_date")}
    return Incoming(
        text=said,
        source="mem0",
        original_id=label(record.get("id")) or digest(said, str(scope)),
        kind=MemoryType.KNOWLEDGE,
        tags=labels(items(record, "categories", where)),
        at=moment(record.get("created_at"), where),
        session=label(record.get("run_id")),
        role=label(record.get("role")),
        speaker=label(record.get("actor_id")) or label(record.get("user_id")),
        metadata=metadata,
    )
