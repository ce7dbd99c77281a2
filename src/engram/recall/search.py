"""The recall pipeline: understand, find candidates and their neighbours, compare, rank, group, pack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Literal

from engram.model import Clean, Hit
from engram.ports import (
    Filter,
    Match,
    MirrorMatch,
    Placed,
    Query,
    RankingInput,
    ReadsNeighbours,
    Scope,
    Snapshots,
    Store,
)
from engram.recall.confidence import confidence
from engram.recall.features import Scene, features, in_order, scene
from engram.recall.pack import best_per_session, within_budget
from engram.recall.rank import Ranked, Weights, fuse, rank, shipped
from engram.recall.trees import Trees
from engram.recall.understand import Asked, understand

AWAY = "the vector database is away; found in the local mirror"
POOL = 60
"""How many matches each of words and vectors brings."""
CANDIDATES = 60
"""How many of these are looked at closely, with their neighbours."""
SEEN = 2
"""How far around a candidate one looks; its next neighbours are candidates too."""

Near = Callable[[Clean], Placed | None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a caller asks of a recall."""

    now: datetime
    k: int = 5
    where: Filter = field(default_factory=Filter)
    min_score: float = 0.0
    group_by: Literal["session"] | None = None
    budget_tokens: int | None = None
    weights: Weights = field(default_factory=Weights)
    ranker: Trees | None = field(default_factory=shipped)


@dataclass(frozen=True, slots=True)
class Found:
    """What words and vectors found, best first, and where the query is among the vectors."""

    words: Mapping[str, Match]
    near: Mapping[str, Match]
    placed: Placed | None

    def by(self, id: str) -> dict[str, str | float]:
        """Which stage found a memory, and what that stage had to say."""
        match = self.near.get(id)
        stage = ("both" if match else "words") if id in self.words else "vector" if match else "neighbour"
        said: dict[str, str | float] = {"found_by": stage}
        if match is not None:
            said |= {"similarity": round(match.score, 3)} | ({"passage": match.passage + 1} if match.passage else {})
        return said | ({"vectors": AWAY} if isinstance(match, MirrorMatch) else {})


def recall(store: Store, scope: Scope, query: Clean, near: Near, wanted: Wanted) -> list[Hit]:
    """The memories of a scope that answer a query, best first; by words alone when there is no vector."""
    asked = understand(query, wanted.now, store.speakers(scope) if isinstance(store, ReadsNeighbours) else ())
    placed = near(asked.text)
    with store.snapshot(scope) if isinstance(store, Snapshots) else nullcontext():
        return _recall(store, scope, asked, placed, wanted)


def _recall(store: Store, scope: Scope, asked: Asked, placed: Placed | None, wanted: Wanted) -> list[Hit]:
    found = find(store, scope, asked, placed, wanted)
    ranked = [one for one in order(store, scope, asked, found, wanted) if one.score >= wanted.min_score]
    if wanted.group_by is None and wanted.budget_tokens is None:
        ranked = ranked[: wanted.k]
    memories = store.get(scope, [one.id for one in ranked])
    hits = [
        Hit(id=one.id, memory=memory, score=one.score, why={**one.why, **found.by(one.id)}, session=memory.session)
        for one, memory in zip(ranked, memories, strict=True)
        if memory is not None  # forgotten since the search
    ]
    return packed(hits, wanted)


def packed(hits: list[Hit], wanted: Wanted) -> list[Hit]:
    """As many of the hits as are wanted, in their order: grouped, and within the budget."""
    if wanted.group_by == "session":
        hits = best_per_session(hits)
    if wanted.budget_tokens is not None:
        hits = within_budget(hits, wanted.budget_tokens)
    return hits[: wanted.k]


def find(store: Store, scope: Scope, asked: Asked, placed: Placed | None, wanted: Wanted) -> Found:
    """What the two indexes know about a query."""
    pool = Query(where=wanted.where, limit=max(POOL, 2 * wanted.k))
    words = store.search(scope, replace(pool, words=asked.text))
    vectors = store.search(scope, replace(pool, near=placed)) if placed is not None else []
    return Found({match.id: match for match in words}, {match.id: match for match in vectors}, placed)


def order(store: Store, scope: Scope, asked: Asked, found: Found, wanted: Wanted) -> list[Ranked]:
    """The candidates for a query, best first."""
    first = fuse([*found.words.values()], [*found.near.values()], wanted.weights)
    if not first or not isinstance(store, ReadsNeighbours):
        return first
    ids = [one.id for one in first[: max(CANDIDATES, 2 * wanted.k)]]
    seen = look(store, store, scope, asked, found, ids, wanted.where)
    if not seen.candidate.any():
        return []  # forgotten since the search
    measured = features(seen, asked)
    sure = confidence(seen, asked, float(measured["cover"][seen.candidate].max()), by_words=found.placed is None)
    return rank(seen, measured, wanted.weights, wanted.ranker, sure)


def look(
    store: Store,
    surveys: ReadsNeighbours,
    scope: Scope,
    asked: Asked,
    found: Found,
    ids: Sequence[str],
    where: Filter,
) -> Scene:
    """The candidates among their neighbours, each compared with the query."""
    glimpses = surveys.neighbours(scope, ids, SEEN, asked.terms)
    similar = {id: match.score for id, match in found.near.items()}
    chosen = frozenset(ids) & {glimpse.id for glimpse in glimpses}
    close = chosen | beside(glimpses, chosen)
    unknown = close - similar.keys()
    passing = Query(near=found.placed, where=where, among=unknown, limit=len(unknown))
    others = store.search(scope, passing) if unknown else []
    if found.placed is not None:
        similar |= {match.id: match.score for match in others}
    allowed = found.words.keys() | found.near.keys() | {match.id for match in others}
    candidates = chosen | (close & allowed)
    return scene(glimpses, candidates, similar, asked, surveys.term_counts(scope, asked.terms))


def beside(glimpses: Sequence[RankingInput], ids: frozenset[str]) -> frozenset[str]:
    """Those next to one of the ids in the same session."""
    return frozenset(
        other.id
        for first, second in pairwise(in_order(glimpses))
        if first.session is not None and first.session == second.session
        for one, other in ((first, second), (second, first))
        if one.id in ids
    )
