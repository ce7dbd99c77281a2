"""The recall pipeline: understand, find candidates and their neighbours, compare, rank, group, pack, log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from itertools import pairwise
from typing import Literal

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.learning.events import with_latest_outcomes
from engram.model import Clean, Hit, Recall
from engram.ports import (
    Filter,
    LoggedRecall,
    LogsRecalls,
    Match,
    MirrorMatch,
    Placed,
    Query,
    RankingInput,
    ReadsNeighbours,
    Scope,
    Snapshots,
    Store,
    arguments,
)
from engram.ports.arguments import When
from engram.recall.features import Scene, features, in_order, scene
from engram.recall.pack import best_per_session, within_budget
from engram.recall.rank import PARTS, Ranked, Trees, Weights, confidence, fuse, rank, shipped
from engram.recall.understand import ParsedQuery, parse_query
from engram.recording.agent_context import AgentContext
from engram.sharing.lenders import Lender, topic

MAX_BUDGET = 1_000_000_000
DISCOUNT = 0.8
"""Factor of the scores of the expanded query."""
LENDERS = "lenders"
"""The field of a logged recall with the sources of the shared memories in it."""
AWAY = "the vector database is away; found in the local mirror"
POOL = 60
"""Number of matches taken from each of words and vectors."""
CANDIDATES = 60
"""Number of these that are ranked closely, with their neighbours."""
SEEN = 2
"""Number of neighbours read on each side of a candidate; the nearest are candidates too."""

Near = Callable[[Clean], Placed | None]


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """The options of a recall."""

    now: datetime
    k: int = 5
    where: Filter = field(default_factory=Filter)
    min_score: float = 0.0
    group_by: Literal["session"] | None = None
    budget_tokens: int | None = None
    weights: Weights = field(default_factory=Weights)
    ranker: Trees | None = field(default_factory=shipped)


@dataclass(frozen=True, slots=True)
class Matches:
    """The matches by words and by vectors, best first, and the vector of the query."""

    words: Mapping[str, Match]
    near: Mapping[str, Match]
    placed: Placed | None

    def by(self, id: str) -> dict[str, str | float]:
        """Describe which stage found a memory, and how similar it is."""
        match = self.near.get(id)
        stage = ("both" if match else "words") if id in self.words else "vector" if match else "neighbour"
        said: dict[str, str | float] = {"found_by": stage}
        if match is not None:
            said |= {"similarity": round(match.score, 3)} | ({"passage": match.passage + 1} if match.passage else {})
        return said | ({"vectors": AWAY} if isinstance(match, MirrorMatch) else {})


def recall(store: Store, scope: Scope, query: Clean, near: Near, request: RecallRequest) -> list[Hit]:
    """Find the memories of a scope that answer a query, best first; by words alone when there is no vector."""
    parsed = parse_query(query, request.now, store.speakers(scope) if isinstance(store, ReadsNeighbours) else ())
    placed = near(parsed.text)
    with store.snapshot(scope) if isinstance(store, Snapshots) else nullcontext():
        found = find(store, scope, parsed, placed, request)
        first = fuse([*found.words.values()], [*found.near.values()], request.weights)
        seen = compare(store, scope, parsed, found, first, request)
        ranked = [one for one in order(parsed, found, first, seen, request) if one.score >= request.min_score]
        if request.group_by is None and request.budget_tokens is None:
            ranked = ranked[: request.k]
        memories = store.get(scope, [one.id for one in ranked])
    hits = [
        Hit(id=one.id, memory=memory, score=one.score, why={**one.why, **found.by(one.id)}, session=memory.session)
        for one, memory in zip(ranked, memories, strict=True)
        if memory is not None  # forgotten since the search
    ]
    return select_hits(hits, request)


def select_hits(hits: list[Hit], request: RecallRequest) -> list[Hit]:
    """Keep as many of the hits as are requested, in their order: grouped, and within the budget."""
    if request.group_by == "session":
        hits = best_per_session(hits)
    if request.budget_tokens is not None:
        hits = within_budget(hits, request.budget_tokens)
    return hits[: request.k]


def find(store: Store, scope: Scope, parsed: ParsedQuery, placed: Placed | None, request: RecallRequest) -> Matches:
    """Search the two indexes, by words and by vector."""
    pool = Query(where=request.where, limit=max(POOL, 2 * request.k))
    words = store.search(scope, replace(pool, words=parsed.text))
    vectors = store.search(scope, replace(pool, near=placed)) if placed is not None else []
    return Matches({match.id: match for match in words}, {match.id: match for match in vectors}, placed)


def compare(
    store: Store,
    scope: Scope,
    parsed: ParsedQuery,
    found: Matches,
    first: Sequence[Ranked],
    request: RecallRequest,
) -> Scene | None:
    """Compare the best candidates and their neighbours with the query; `None` if the store cannot read neighbours."""
    if not first or not isinstance(store, ReadsNeighbours):
        return None
    ids = [one.id for one in first[: max(CANDIDATES, 2 * request.k)]]
    glimpses = store.neighbours(scope, ids, SEEN, parsed.terms)
    similar = {id: match.score for id, match in found.near.items()}
    chosen = frozenset(ids) & {glimpse.id for glimpse in glimpses}
    close = chosen | session_neighbours(glimpses, chosen)
    unknown = close - similar.keys()
    passing = Query(near=found.placed, where=request.where, among=unknown, limit=len(unknown))
    others = store.search(scope, passing) if unknown else []
    if found.placed is not None:
        similar |= {match.id: match.score for match in others}
    allowed = found.words.keys() | found.near.keys() | {match.id for match in others}
    candidates = chosen | (close & allowed)
    return scene(glimpses, candidates, similar, parsed, store.term_counts(scope, parsed.terms))


def order(
    parsed: ParsedQuery, found: Matches, first: list[Ranked], seen: Scene | None, request: RecallRequest
) -> list[Ranked]:
    """Rank the candidates for a query, best first; without a comparison, they stay as they were chosen `first`."""
    if seen is None:
        return first
    if not seen.candidate.any():
        return []  # forgotten since the search
    measured = features(seen, parsed)
    sure = confidence(seen, parsed, float(measured["cover"][seen.candidate].max()), by_words=found.placed is None)
    return rank(seen, measured, request.weights, request.ranker, sure)


def session_neighbours(glimpses: Sequence[RankingInput], ids: frozenset[str]) -> frozenset[str]:
    """Return the ids next to one of these in the same session."""
    return frozenset(
        other.id
        for first, second in pairwise(in_order(glimpses))
        if first.session is not None and first.session == second.session
        for one, other in ((first, second), (second, first))
        if one.id in ids
    )


# For an agent ------------------------------------------------------------------------------------------


def build_request(
    agent: AgentContext,
    where: Filter,
    *,
    k: int,
    now: When | None,
    min_score: float,
    group_by: Literal["session"] | None,
    budget_tokens: int | None,
) -> RecallRequest:
    """Check the options of a recall; it finds what is valid now, unless the filter has another time."""
    at = agent.sources.now()
    if budget_tokens is not None:
        arguments.count("budget_tokens", budget_tokens, MAX_BUDGET)
    if group_by not in {None, "session"}:
        raise InvalidInput(f'group_by is "session" or nothing, not {group_by!r}')
    return RecallRequest(
        now=arguments.moment("now", now) or at,
        k=arguments.count("k", k),
        where=where if where.as_of is not None else replace(where, current=at),
        min_score=arguments.share("min_score", min_score),
        group_by=group_by,
        budget_tokens=budget_tokens,
        weights=Weights(tuned=agent.tuning.multipliers(agent.scope, at)),
    )


def run_recall(
    agent: AgentContext, query: Clean, request: RecallRequest, *, shared: bool, names: Sequence[str] = ()
) -> Recall:
    """Recall the agent's own memories that answer a query, and with `shared` those of others; they count as shown.

    With `names`, related concepts, the query is also asked together with these.
    """
    at, near, sharing = agent.sources.now(), cache(agent.embeddings.query_vector), agent.sharing
    search_scope: Callable[[Store, Scope], list[Hit]] = partial(recall, query=query, near=near, request=request)
    if names:
        wider = agent.input.clean("query", " ".join((query, *names)))
        search_scope = partial(_recall_expanded, query=query, wider=wider, names=names, near=near, request=request)

    hits, lent = search_scope(agent.store, agent.scope), dict[str, Lender]()
    if shared and sharing.ledger.has_entries():
        hits, lent = sharing.merge_hits(agent.scope, search_scope, hits)
    if lent:
        hits = select_hits(hits, request)
        sharing.log_hits(agent.scope, hits, lent)
    if hits:
        agent.store.touch(agent.scope, [hit.id for hit in hits if hit.id not in lent], at)
    memories = with_latest_outcomes(agent.store, agent.scope, [hit.memory for hit in hits])
    hits = [
        hit if hit.memory is memory else hit.model_copy(update={"memory": memory})
        for hit, memory in zip(hits, memories, strict=True)
    ]
    return _log_recall(agent, hits, at, lent)


def score_parts(agent: AgentContext, hits: Sequence[Hit], at: datetime) -> dict[str, dict[str, float]]:
    """Return the parts of the score of each hit, without what was learned from earlier credits."""
    if not isinstance(agent.store, ReadsNeighbours):
        return {hit.id: {} for hit in hits}
    tuned = agent.tuning.multipliers(agent.scope, at)
    return {
        hit.id: {
            name: round(value / tuned.get(name, 1.0), 4)
            for name, value in hit.why.items()
            if name in PARTS and isinstance(value, int | float)
        }
        for hit in hits
    }


def _recall_expanded(
    store: Store, scope: Scope, *, query: Clean, wider: Clean, names: Sequence[str], near: Near, request: RecallRequest
) -> list[Hit]:
    """Recall by the query and by the wider one, which has the names of related concepts, too."""
    direct, more = recall(store, scope, query, near, request), recall(store, scope, wider, near, request)
    return select_hits(_merge_expanded(direct, more, names, request.min_score), request)


def _merge_expanded(direct: Sequence[Hit], more: Sequence[Hit], names: Sequence[str], least: float) -> list[Hit]:
    """Merge the hits of a query with those of the wider one, best first; `why["expanded"]` names the concepts."""
    best = {hit.id: hit for hit in direct}
    for hit in more:
        score = hit.score * DISCOUNT
        if score >= least and (hit.id not in best or score > best[hit.id].score):
            why = {**hit.why, "expanded": ", ".join(names)}
            best[hit.id] = hit.model_copy(update={"score": score, "why": why})
    return sorted(best.values(), key=lambda hit: -hit.score)


def _log_recall(agent: AgentContext, hits: Sequence[Hit], at: datetime, lent: Mapping[str, Lender]) -> Recall:
    """Log a recall under an id, by which its outcome can be recorded, and return its hits."""
    id = agent.sources.new_id()
    agent.recent_recalls.note(agent.scope, hits)
    if hits and isinstance(agent.store, LogsRecalls):
        noted = score_parts(agent, hits, at)
        about: dict[str, JsonValue] = {}
        if lent:
            about = {LENDERS: {hit.id: topic(lent[hit.id].key) for hit in hits if hit.id in lent}}
        agent.store.log_recall(agent.scope, LoggedRecall(id, at, tuple(hit.id for hit in hits), noted, about))
    return Recall(id, hits)


Wanted = RecallRequest
"""The earlier name of `RecallRequest`."""
