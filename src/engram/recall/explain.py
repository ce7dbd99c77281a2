"""Explain a recall: list every candidate of every stage, the parts of its score, and why it was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Literal

from engram.model import Clean, Hit, Memory
from engram.ports import Match, Placed, ReadsNeighbours, Scope, Snapshots, Store
from engram.recall.pack import best_per_session, tokens, within_budget
from engram.recall.rank import Ranked, fuse
from engram.recall.search import Near, RecallRequest, compare, find, order
from engram.recall.understand import ParsedQuery, parse_query

Dropped = Literal["choice", "min_score", "group", "budget", "k", "gone"]
"""Where a candidate was left out: before it was looked at closely, or after; `gone` is forgotten since the search."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One memory on its way through a recall; ranks begin at 1, and are `None` where it did not take part."""

    id: str
    memory: Memory | None
    found_by: str
    """`words`, `vector`, `both`, or `neighbour` of one that was found."""
    word_rank: int | None = None
    word_score: float | None = None
    vector_rank: int | None = None
    similarity: float | None = None
    first_rank: int | None = None
    """In the list by which candidates are chosen."""
    rank: int | None = None
    score: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    dropped: Dropped | None = None
    cost: int = 0
    """About how many tokens its text takes."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """All candidates of a recall, those that were ranked first, best first."""

    asked: ParsedQuery
    candidates: tuple[Candidate, ...]
    words: int
    """How many the words found."""
    vectors: int | None
    """How many the vectors found; `None` if the query has no vector."""

    @property
    def kept(self) -> tuple[Candidate, ...]:
        """What the recall answers with, in its order."""
        return tuple(candidate for candidate in self.candidates if candidate.dropped is None)


def explain(store: Store, scope: Scope, query: Clean, near: Near, request: RecallRequest) -> Explanation:
    """The same recall as `search.recall`, with everything that it passes over; what is kept is what that answers."""
    parsed = parse_query(query, request.now, store.speakers(scope) if isinstance(store, ReadsNeighbours) else ())
    placed = near(parsed.text)
    with store.snapshot(scope) if isinstance(store, Snapshots) else nullcontext():
        return _explain(store, scope, parsed, placed, request)


def _explain(
    store: Store, scope: Scope, parsed: ParsedQuery, placed: Placed | None, request: RecallRequest
) -> Explanation:
    found = find(store, scope, parsed, placed, request)
    first = fuse([*found.words.values()], [*found.near.values()], request.weights)
    ranked = order(parsed, found, first, compare(store, scope, parsed, found, first, request), request)
    place = {one.id: number for number, one in enumerate(ranked, 1)}
    ids = [*place, *(one.id for one in first if one.id not in place)]
    memories = dict(zip(ids, store.get(scope, ids), strict=True))
    reasons = _reasons(ranked, memories, request)
    scored, chosen = {one.id: one for one in ranked}, {one.id: number for number, one in enumerate(first, 1)}
    words, vectors = _places(found.words), _places(found.near)
    candidates = [
        Candidate(
            id=id,
            memory=memories[id],
            found_by=str(found.by(id)["found_by"]),
            word_rank=words.get(id),
            word_score=_score(found.words, id),
            vector_rank=vectors.get(id),
            similarity=_score(found.near, id),
            first_rank=chosen.get(id),
            rank=place.get(id),
            score=scored[id].score if id in scored else None,
            parts=scored[id].why if id in scored else {},
            dropped=reasons.get(id) if id in scored else "choice",
            cost=0 if (memory := memories[id]) is None else tokens(memory.text),
        )
        for id in ids
    ]
    return Explanation(parsed, tuple(candidates), len(found.words), None if placed is None else len(found.near))


def _reasons(
    ranked: Sequence[Ranked], memories: Mapping[str, Memory | None], request: RecallRequest
) -> dict[str, Dropped]:
    """Why each ranked candidate is left out; those that are kept are not among them."""
    reasons = dict[str, Dropped]({one.id: "min_score" for one in ranked if one.score < request.min_score})
    good = [one for one in ranked if one.id not in reasons]
    if request.group_by is None and request.budget_tokens is None:
        reasons |= {one.id: "k" for one in good[request.k :]}
        good = good[: request.k]
    hits = []
    for one in good:
        memory = memories[one.id]
        if memory is None:
            reasons[one.id] = "gone"
        else:
            hits.append(Hit(id=one.id, memory=memory, score=one.score, session=memory.session))
    if request.group_by == "session":
        hits = _drop_others(hits, best_per_session(hits), "group", reasons)
    if request.budget_tokens is not None:
        hits = _drop_others(hits, within_budget(hits, request.budget_tokens), "budget", reasons)
    _drop_others(hits, hits[: request.k], "k", reasons)
    return reasons


def _drop_others(before: Sequence[Hit], after: list[Hit], why: Dropped, reasons: dict[str, Dropped]) -> list[Hit]:
    """What is left, after it was noted why the others are not."""
    left = {hit.id for hit in after}
    reasons |= {hit.id: why for hit in before if hit.id not in left}
    return after


def _places(matches: Mapping[str, Match]) -> dict[str, int]:
    return {id: number for number, id in enumerate(matches, 1)}


def _score(matches: Mapping[str, Match], id: str) -> float | None:
    match = matches.get(id)
    return None if match is None else match.score
