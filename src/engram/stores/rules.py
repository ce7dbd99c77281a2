"""What every store agrees on: what a filter lets through, when two writes are one, how memories merge."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from engram.errors import InvalidInput
from engram.model import Memory, MemoryType, Receipt
from engram.ports import Entry, Filter, Scope
from engram.words import digest, index_terms

REPLAYED = "already stored under this key"
MERGED = "the same statement was already known; it now has more evidence"


def refuse_foreign(scope: Scope, entries: Iterable[Entry]) -> None:
    """Raise `InvalidInput` if an entry belongs to another scope than the one it is stored in."""
    for entry in entries:
        if entry.memory.agent != scope.agent:
            raise InvalidInput(f"a memory of {entry.memory.agent!r} cannot be stored in the scope of {scope.agent!r}")


def accepts(where: Filter, memory: Memory, context_key: str) -> bool:
    """Whether a memory passes a filter."""
    return (
        (not where.kinds or memory.kind in where.kinds)
        and where.tags <= set(memory.tags)
        and (where.since is None or where.since <= memory.happened_at)
        and (where.until is None or memory.happened_at < where.until)
        and (where.session is None or memory.session == where.session)
        and (where.context_key is None or where.context_key == context_key)
        and (where.as_of is None or _valid(memory, where.as_of))
        and (where.current is None or _current(memory, where.current))
    )


def _valid(memory: Memory, moment: datetime) -> bool:
    return memory.valid_from <= moment and (memory.valid_until is None or moment < memory.valid_until)


def _current(memory: Memory, now: datetime) -> bool:
    """Valid now. What began when it was stored has begun, whatever a clock that was set back says."""
    begun = memory.valid_from <= max(now, memory.created_at)
    return begun and (memory.valid_until is None or now < memory.valid_until)


def fingerprint(entry: Entry) -> str:
    """Equal for two entries that ask to remember the same thing, whenever they were made."""
    memory = entry.memory
    content = memory.content.model_dump(mode="json")
    extra = json.dumps([content, memory.tags, memory.metadata], sort_keys=True, ensure_ascii=False)
    return digest(memory.kind, memory.text, memory.context, extra)


def key_receipt(entry: Entry, id: str, known: str) -> Receipt:
    """The answer to a write whose key is taken: the first id, or a refusal if it says something else."""
    if known == fingerprint(entry):
        return Receipt(id=id, status="stored", reason=REPLAYED, code="replayed")
    reason = f"the key {entry.key!r} already belongs to another memory ({id}); use a new key"
    return Receipt(id=None, status="rejected", reason=reason, code="conflict")


def superseded(known: Memory, newcomer: Memory) -> bool:
    """Whether a statement had ended before it was made again, so that it is a new one."""
    return known.valid_until is not None and known.valid_until <= newcomer.valid_from


def annotated(known: Memory, update: Mapping[str, object]) -> Memory:
    """The memory with new surroundings, one version on. Raises `InvalidInput` if it ends before it begins."""
    memory = known.model_copy(update={**update, "version": known.version + 1})
    if memory.valid_until is not None and memory.valid_until <= memory.valid_from:
        raise InvalidInput("valid_until must lie after the time it is valid from")
    return memory


def merged(known: Memory, newcomer: Memory) -> Memory:
    """The known memory with the newcomer counted as evidence."""
    return known.model_copy(
        update={
            "tags": tuple(dict.fromkeys((*known.tags, *newcomer.tags))),
            "importance": max(known.importance, newcomer.importance),
            "evidence": known.evidence + 1,
            "version": known.version + 1,
        }
    )


def memory_terms(memory: Memory) -> list[str]:
    """The terms a memory is found by: its text, its context, its tags and the details of its kind."""
    return index_terms("\n".join((memory.text, memory.context, *memory.tags, *_details(memory))))


def _details(memory: Memory) -> Iterator[str]:
    if memory.kind is MemoryType.DECISION:
        return  # its text and context say the same
    for name, value in memory.content:
        if name != "kind" and value:
            yield from value if isinstance(value, tuple) else (str(value),)
