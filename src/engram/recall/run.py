"""act: context → recall → rank; what is shown has an id, by which its outcome can be told."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Literal

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.model import Clean, Hit, Recall
from engram.ports import Filter, LoggedRecall, LogsRecalls, ReadsNeighbours, Scope, Store, arguments
from engram.ports.arguments import When
from engram.recall import credit
from engram.recall.rank import PARTS, Weights
from engram.recall.search import Wanted, packed, recall
from engram.recording.agent_context import AgentContext
from engram.sharing.lenders import Lender, topic

MAX_BUDGET = 1_000_000_000
DISCOUNT = 0.8
"""What a hit of a widened query is worth beside one of the query itself."""


def wanted(
    agent: AgentContext,
    where: Filter,
    *,
    k: int,
    now: When | None,
    min_score: float,
    group_by: Literal["session"] | None,
    budget_tokens: int | None,
) -> Wanted:
    """What a caller asks of a recall: what is valid now, unless the filter has another time. Raises `InvalidInput`."""
    at = agent.sources.now()
    if budget_tokens is not None:
        arguments.count("budget_tokens", budget_tokens, MAX_BUDGET)
    if group_by not in {None, "session"}:
        raise InvalidInput(f'group_by is "session" or nothing, not {group_by!r}')
    return Wanted(
        now=arguments.moment("now", now) or at,
        k=arguments.count("k", k),
        where=where if where.as_of is not None else replace(where, current=at),
        min_score=arguments.share("min_score", min_score),
        group_by=group_by,
        budget_tokens=budget_tokens,
        weights=Weights(tuned=agent.tuning.multipliers(agent.scope, at)),
    )


def recalled(agent: AgentContext, query: Clean, asked: Wanted, *, shared: bool, names: Sequence[str] = ()) -> Recall:
    """The memories that answer a query, of the agent's own and with `shared` those lent to it; they count as shown.

    `names` are concepts that the query is asked with once more.
    """
    at, near, sharing = agent.sources.now(), cache(agent.embeddings.query_vector), agent.sharing
    wider = agent.input.clean("query", " ".join((query, *names))) if names else query

    def look(store: Store, scope: Scope) -> list[Hit]:
        direct = recall(store, scope, query, near, asked)
        if not names:
            return direct
        more = recall(store, scope, wider, near, asked)
        return packed(_widened(direct, more, names, asked.min_score), asked)

    hits, lent = look(agent.store, agent.scope), dict[str, Lender]()
    if shared:
        hits, lent = sharing.hits(agent.scope, look, hits)
    if lent:
        hits = packed(hits, asked)
        sharing.note_hits(agent.scope, hits, lent)
    if hits:
        agent.store.touch(agent.scope, [hit.id for hit in hits if hit.id not in lent], at)
    return _shown(agent, hits, at, lent)


def parts(store: Store) -> Collection[str]:
    """The parts of a score that are learned from, in this store."""
    return PARTS if isinstance(store, ReadsNeighbours) else ()


def _widened(direct: Sequence[Hit], more: Sequence[Hit], names: Sequence[str], least: float) -> list[Hit]:
    """The hits of a query with those of the widened one, best first; `why["expanded"]` names what these owe it to."""
    best = {hit.id: hit for hit in direct}
    for hit in more:
        score = hit.score * DISCOUNT
        if score >= least and (hit.id not in best or score > best[hit.id].score):
            why = {**hit.why, "expanded": ", ".join(names)}
            best[hit.id] = hit.model_copy(update={"score": score, "why": why})
    return sorted(best.values(), key=lambda hit: -hit.score)


def _shown(agent: AgentContext, hits: Sequence[Hit], at: datetime, lent: Mapping[str, Lender]) -> Recall:
    """The hits with the id by which their outcome can be told; what they say is no news when it comes back."""
    id = agent.sources.new_id()
    agent.recent_recalls.note(agent.scope, hits)
    if hits and isinstance(agent.store, LogsRecalls):
        noted = credit.parts(hits, parts(agent.store), agent.tuning.multipliers(agent.scope, at))
        about: dict[str, JsonValue] = {}
        if lent:
            about = {credit.LENDERS: {hit.id: topic(lent[hit.id].key) for hit in hits if hit.id in lent}}
        agent.store.log_recall(agent.scope, LoggedRecall(id, at, tuple(hit.id for hit in hits), noted, about))
    fresh = agent.learning.with_latest_outcomes([hit.memory for hit in hits])
    same = zip(hits, fresh, strict=True)
    return Recall(id, [h if h.memory is m else h.model_copy(update={"memory": m}) for h, m in same])
