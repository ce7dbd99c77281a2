"""Rules shared by all stores: filters, idempotent writes, merging of memories, scores."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from engram.clock import micros
from engram.errors import InvalidInput
from engram.model import Memory, Receipt, comparable_content
from engram.ports import FORGOTTEN, Cells, Entry, Event, Filter, Match, Matrix, TableChecksum, Vector
from engram.ports.arguments import refuse_foreign
from engram.stores.rows import by_place, memory_terms, to_json, usefulness
from engram.text.terms import K1, B, digest

__all__ = [
    "ENOUGH",
    "MERGED",
    "MOST_SCORED",
    "REPLAYED",
    "accepts",
    "annotated",
    "by_place",
    "evidence",
    "fingerprint",
    "forgotten",
    "key_receipt",
    "memory_terms",
    "merged",
    "nearest",
    "owner",
    "refuse_foreign",
    "stacked",
    "superseded",
    "tally",
    "telling",
    "term_score",
    "term_weight",
    "usefulness",
    "vector_key",
]

REPLAYED = "already stored under this key"
MERGED = "the same statement was already known; it now has more evidence"
ENOUGH = 2  # candidates read for each result, before all rows are filtered
MOST_SCORED = 2_500
"""The number of scored rows above which frequent words are left out of a search."""


def forgotten(id: str, seq: int, at: datetime) -> Event:
    """Return the event that replaces the events of a deleted memory, so that learned state is corrected."""
    return Event(f"{FORGOTTEN}:{seq}", FORGOTTEN, at, "", body={"id": id})


def accepts(where: Filter, memory: Memory, context_key: str) -> bool:
    """Return True if a memory passes a filter."""
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
    """Return True if a memory is valid now; one that was valid when stored is so even after the clock is set back."""
    begun = memory.valid_from <= max(now, memory.created_at)
    return begun and (memory.valid_until is None or now < memory.valid_until)


def fingerprint(entry: Entry) -> str:
    """Return a digest of an entry's content, equal for two requests to store the same thing at different times."""
    memory = entry.memory
    content = comparable_content(memory.content)
    extra = json.dumps([content, memory.tags, memory.metadata], sort_keys=True, ensure_ascii=False)
    return digest(memory.kind, memory.text, memory.context, extra)


def key_receipt(entry: Entry, id: str, known: str) -> Receipt:
    """Return the receipt for a write whose key is known: the first id, or a rejection if the content differs."""
    if known == fingerprint(entry):
        return Receipt(id=id, status="stored", reason=REPLAYED, code="replayed")
    reason = f"the key {entry.key!r} already belongs to another memory ({id}); use a new key"
    return Receipt(id=None, status="rejected", reason=reason, code="conflict")


def superseded(known: Memory, newcomer: Memory) -> bool:
    """Return True if a statement's validity ended before it was repeated, so that the repetition is a new memory."""
    return known.valid_until is not None and known.valid_until <= newcomer.valid_from


def annotated(known: Memory, update: Mapping[str, object]) -> Memory:
    """Return the memory with new metadata and the next version. Raises `InvalidInput` for an invalid validity."""
    memory = known.model_copy(update={**update, "version": known.version + 1})
    if memory.valid_until is not None and memory.valid_until <= memory.valid_from:
        raise InvalidInput("valid_until must be later than valid_from")
    return memory


def merged(known: Memory, newcomer: Memory) -> Memory:
    """Return the known memory with an equal new one counted as evidence."""
    return known.model_copy(
        update={
            "tags": tuple(dict.fromkeys((*known.tags, *newcomer.tags))),
            "importance": max(known.importance, newcomer.importance),
            "evidence": known.evidence + 1,
            "version": known.version + 1,
        }
    )


def evidence(id: str, seq: int, memory: Memory) -> dict[str, Any]:
    """Return the evidence row of a memory that was merged into another one, the `id`."""
    said = memory.model_dump(mode="json", include={"text", "tags", "metadata", "provenance", "importance"})
    return {
        "memory_id": id,
        "seq": seq,
        "happened_at": micros(memory.happened_at),
        "said": memory.id,
        "detail": to_json(said),
    }


def vector_key(id: str, passage: int) -> str:
    """Return the key of a passage's vector: the id of the memory, with a number for all but the first passage.

    Keys of different passages and memories always differ.
    """
    return f"{id}#{passage}" if passage or "#" in id else id


def owner(key: str) -> tuple[str, int]:
    """Return the memory and the passage of a vector's key."""
    id, mark, passage = key.rpartition("#")
    return (id, int(passage)) if mark else (key, 0)


def stacked(vectors: Sequence[Vector]) -> Matrix:
    """Stack vectors to a matrix. Raises `InvalidInput` if they differ in length."""
    if len({len(vector) for vector in vectors}) > 1:
        raise InvalidInput("the passages of one memory must have vectors of the same length")
    return np.array(vectors, dtype=np.float32)


def nearest(search: Callable[[int], list[Match]], wanted: int, reach: int) -> tuple[list[Match], bool]:
    """Return the memories nearest to a vector, best first, and True if there are no others.

    `search` returns a number of vectors, best first; `reach` is the number to begin with. A memory counts once, with
    its best passage: if these vectors belong to fewer than `wanted` memories, more are searched for.
    """
    while True:
        found, best = search(reach), dict[str, Match]()
        for match in found:
            id, passage = owner(match.id)
            best.setdefault(id, Match(id, match.score, passage))
        if len(best) >= wanted or len(found) < reach:
            return list(best.values()), len(found) < reach
        reach *= 2


def telling(terms: Sequence[str], holders: Mapping[str, int]) -> list[str]:
    """Return the rarest terms: as many as `MOST_SCORED` rows allow, and at least one."""
    kept: list[str] = []
    rows = 0
    for term in sorted(terms, key=lambda term: holders[term]):
        if kept and rows + holders[term] > MOST_SCORED:
            break
        kept.append(term)
        rows += holders[term]
    return kept


def tally(rows: Iterable[Cells]) -> TableChecksum:
    """Count rows, and compute a checksum that does not depend on their order."""
    count, total = 0, 0
    for row in rows:
        count += 1
        total += int(digest(*(f"{name}={row[name]!r}" for name in sorted(row))), 16)
    return TableChecksum(count, f"{total % 2**128:032x}")


def term_weight(total: int, holders: int) -> float:
    """Return the BM25 weight of a term: the fewer of all memories have it, the higher."""
    return max(1e-6, math.log((total - holders + 0.5) / (holders + 0.5)))


def term_score(weight: float, times: int, length: int, mean: float) -> float:
    """Return the BM25 score of a term in a memory; it is below the weight times K1 + 1."""
    return weight * times * (K1 + 1) / (times + K1 * (1 - B + B * length / mean))
