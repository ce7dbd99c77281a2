"""The recall pipeline: candidates by words and by vectors, fused, ranked, grouped, packed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from engram.model import Clean, Hit
from engram.ports import Filter, MemoryStore, Placed, Query, Scope
from engram.retrieve.pack import best_per_session, within_budget
from engram.retrieve.rank import Weights, fuse

POOL = 100
"""How many candidates each list brings at least."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a caller asks of a recall."""

    k: int = 5
    where: Filter = field(default_factory=Filter)
    min_score: float = 0.0
    group_by: Literal["session"] | None = None
    budget_tokens: int | None = None
    weights: Weights = field(default_factory=Weights)


def recall(store: MemoryStore, scope: Scope, query: Clean, near: Placed | None, wanted: Wanted) -> list[Hit]:
    """The memories of a scope that answer a query, best first; by words alone when there is no vector."""
    pool = Query(where=wanted.where, limit=max(POOL, 4 * wanted.k))
    words = store.search(scope, replace(pool, words=query))
    vectors = store.search(scope, replace(pool, near=near)) if near is not None else []
    ranked = [found for found in fuse(words, vectors, wanted.weights) if found.score >= wanted.min_score]
    if wanted.group_by is None and wanted.budget_tokens is None:
        ranked = ranked[: wanted.k]
    memories = store.get(scope, [found.id for found in ranked])
    hits = [
        Hit(id=found.id, memory=memory, score=found.score, why=found.why, session=memory.session)
        for found, memory in zip(ranked, memories, strict=True)
        if memory is not None  # forgotten since the search
    ]
    if wanted.group_by == "session":
        hits = best_per_session(hits)
    if wanted.budget_tokens is not None:
        hits = within_budget(hits, wanted.budget_tokens)
    return hits[: wanted.k]
