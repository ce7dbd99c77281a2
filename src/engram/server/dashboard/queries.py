"""Queries of the pages, with limits that keep them fast for any number of memories."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any, Literal

from engram.api import paging
from engram.clock import from_micros
from engram.engine import AgentHandle, Engram
from engram.errors import InvalidInput, NotFound, Unsupported
from engram.learning.decisions.belief import DecisionEpisode
from engram.learning.decisions.beta import Beta
from engram.learning.events import ANYWHERE, with_latest_outcomes
from engram.memories.facts.graph import Graph
from engram.memories.facts.names import concept_key
from engram.model import AuditEntry, AuditVerification, LearningStats, Memory, MemoryType, Suggestion
from engram.model.content import KnowledgeContent
from engram.model.fact import Fact
from engram.model.grant import Grant, GrantUse
from engram.model.upkeep import EvaluationReport
from engram.model.wire import Page
from engram.ports import (
    Filter,
    FindsDerived,
    KeepsAudit,
    ListsChanges,
    Maintains,
    Query,
    ReadsNeighbours,
    Scope,
    unstorable,
)
from engram.recall.explain import Explanation, explain
from engram.recall.rank import Weights
from engram.recall.search import RecallRequest
from engram.server.dashboard.params import Dashboard, PageRequest
from engram.upkeep.maintenance import count_missing_vectors

COUNT_BATCH = 2000
"""Changes that are counted at a time."""
NODES = 300
"""Maximum number of drawn concepts."""
RELATED = 8
AUDIT_SCAN = 500
"""Audit entries that are searched for a memory: soon after it was stored, and the newest."""
GRANTS = 50
NAMES = tuple(
    "similar words_near about time session learned importance trust usefulness recency repetition words vector".split()
)
"""The weights that can be changed in the debugger."""


# Overview ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Overview:
    """Figures of the overview page."""

    memories: int | None
    stats: LearningStats | None
    report: EvaluationReport | None
    days: Mapping[Any, tuple[int, int]]
    counting: bool
    """True if some figures are still being calculated."""
    newest: Sequence[Memory]
    quarantined: int
    facts: Mapping[str, Any] | None
    """Figures of the whole database; only with a key for all agents."""


def overview(request: PageRequest) -> Overview:
    """Return the figures of the overview page."""
    agent, dashboard, brain = request.agent, request.dashboard, request.brain
    days, counting = growth(dashboard, request.scope)
    whole = partial(_facts, brain) if request.all_agents else lambda: None
    report, facts, stats = dashboard.cache.get_soon(
        (("report", agent.name), partial(_report, brain, agent.name)),
        (("facts", request.all_agents), whole),
        (("stats", agent.name), agent.learning.stats),
    )
    return Overview(
        memories=memory_count(brain, request.scope),
        stats=stats,
        report=report,
        days=days,
        counting=counting or stats is None,
        newest=agent.list(limit=6),
        quarantined=len(dashboard.cache.get(("quarantine", agent.name), agent.quarantine.list)),
        facts=facts,
    )


def memory_count(brain: Engram, scope: Scope) -> int | None:
    """Return the number of memories of an agent if the store knows it without counting, else `None`."""
    return brain.store.term_counts(scope, ()).rows if isinstance(brain.store, ReadsNeighbours) else None


def growth(dashboard: Dashboard, scope: Scope) -> tuple[Mapping[Any, tuple[int, int]], bool]:
    """Return the memories stored and deleted by day as far as counted, and True if counting is not finished."""
    counting = dashboard.cache.run_in_background(("growth", scope.agent), partial(_count, dashboard, scope))
    wait([counting], dashboard.cache.max_wait)
    more = not counting.done()
    with dashboard.growth_lock:
        return dict(dashboard.growth.get(scope.agent, (0, {}))[1]), more


def _count(dashboard: Dashboard, scope: Scope) -> None:
    """Count the changes since the last count."""
    store, more = dashboard.brain.store, True
    while more and isinstance(store, ListsChanges) and not dashboard.stopping.is_set():
        with dashboard.growth_lock:
            after, days = dashboard.growth.get(scope.agent, (0, {}))
            if after > store.newest(scope):  # the agent was erased
                after, days = 0, {}
            changes = store.changes(scope, after, COUNT_BATCH)
            for change in changes:
                stored, deleted = days.get(change.at.date(), (0, 0))
                is_stored = change.what == "stored"
                days[change.at.date()] = (stored + is_stored, deleted + (not is_stored))
                after = change.seq
            dashboard.growth[scope.agent] = (after, days)
            more = len(changes) == COUNT_BATCH


def _report(brain: Engram, agent: str) -> EvaluationReport | None:
    try:
        return brain.upkeep.evaluate([agent], period="week")
    except Unsupported:
        return None


def _facts(brain: Engram) -> Mapping[str, Any] | None:
    store = brain.store
    if not isinstance(store, Maintains):
        return None
    facts = dict(store.info())
    facts["agents"] = len(brain.agents())
    if (embedder := store.embedder()) is not None:
        facts["without a vector"] = count_missing_vectors(store, embedder)
    return facts


# Timeline and memories ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TimelineFilter:
    """The filters of the timeline."""

    kind: str = ""
    tag: str = ""
    session: str = ""
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None


def timeline(agent: AgentHandle, filters: TimelineFilter, limit: int, cursor: str | None) -> Page[Memory]:
    """Return a page of memories, newest first."""
    if filters.kind and filters.kind not in set(MemoryType):
        raise InvalidInput("there is no such kind of memory")
    fetch = partial(
        agent.list,
        kinds=[filters.kind] if filters.kind else [],
        tags=[filters.tag] if filters.tag else [],
        since=filters.since,
        as_of=filters.as_of,
        session=filters.session or None,
    )
    which = ("timeline", agent.name, *(getattr(filters, field.name) for field in fields(filters)))
    return paging.memories(fetch, limit, filters.until, cursor, *which)


def slider_start(request: PageRequest, total: int | None, now: datetime) -> datetime:
    """Return the time of the first memory, at least a day ago: the start of the slider."""
    last = max(0, (total or 0) - 1)
    oldest = request.dashboard.cache.get(
        ("oldest", request.agent.name), partial(request.agent.list, limit=1, offset=last)
    )
    return min([now - timedelta(days=1), *(memory.happened_at for memory in oldest)])


@dataclass(frozen=True, slots=True)
class MemoryDetails:
    """A memory with everything that its page shows."""

    memory: Memory
    sources: Sequence[tuple[str, Memory | None]]
    derived: Sequence[Memory]
    neighbours: Sequence[Memory]
    similar: Sequence[tuple[Memory, float]]
    fact_history: Sequence[Fact]
    audit_entries: Sequence[AuditEntry]
    uses: Sequence[tuple[Grant, GrantUse]]
    outcomes: Sequence[Any]
    indexes: Sequence[Any]


def memory(request: PageRequest, id: str) -> MemoryDetails | None:
    """Return the details of a memory, or `None` if the agent has no such memory."""
    agent, brain, scope = request.agent, request.brain, request.scope
    (own,) = brain.store.get(scope, [id]) if id and unstorable(id) is None else [None]
    if own is None:
        return None
    return MemoryDetails(
        memory=with_latest_outcomes(brain.store, scope, [own])[0],
        sources=list(zip(own.provenance.sources, brain.store.get(scope, list(own.provenance.sources)), strict=True)),
        derived=_derived(brain, scope, id),
        neighbours=_neighbours(brain, scope, id),
        similar=_similar(brain, scope, own),
        fact_history=_fact_history(agent, own),
        audit_entries=_audit_entries(brain, scope, own) if request.session.key.has_right("admin") else [],
        uses=_uses(agent, id) if request.session.key.has_right("share") else [],
        outcomes=agent.outcomes(id) if own.kind == MemoryType.DECISION else [],
        indexes=agent.indexes(id),
    )


def _derived(brain: Engram, scope: Scope, id: str) -> list[Memory]:
    if not isinstance(brain.store, FindsDerived):
        return []
    ids = [other for whose, other in brain.store.derived([id]) if whose == scope]
    return [each for each in brain.store.get(scope, ids) if each is not None]


def _neighbours(brain: Engram, scope: Scope, id: str) -> list[Memory]:
    """Return the memories before and after one in its session."""
    if not isinstance(brain.store, ReadsNeighbours):
        return []
    near = sorted(brain.store.neighbours(scope, [id], 2, ()), key=lambda glimpse: glimpse.seq)
    ids = [glimpse.id for glimpse in near]
    return [each for each in brain.store.get(scope, ids) if each is not None] if len(ids) > 1 else []


def _similar(brain: Engram, scope: Scope, own: Memory) -> list[tuple[Memory, float]]:
    near = brain.near(own.text, purpose="document")
    if near is None:
        return []
    matches = [match for match in brain.store.search(scope, Query(near=near, limit=RELATED + 1)) if match.id != own.id]
    found = zip(matches, brain.store.get(scope, [match.id for match in matches]), strict=True)
    return [(each, match.score) for match, each in found if each is not None][:RELATED]


def _audit_entries(brain: Engram, scope: Scope, own: Memory) -> list[AuditEntry]:
    """Return audit entries about a memory, newest first; searches those soon after it was stored and the newest."""
    if not isinstance(brain.store, KeepsAudit):
        return []
    read = partial(brain.store.trail, 0, AUDIT_SCAN, agent=scope.agent)
    trail = {entry.seq: entry for entry in (*read(since=own.created_at), *read(newest=True))}
    about = (entry for entry in trail.values() if entry.target == own.id or own.id in _target_ids(entry))
    return sorted(about, key=lambda entry: entry.seq, reverse=True)


def _target_ids(entry: AuditEntry) -> Sequence[Any]:
    """Return the ids of an entry about more than one memory."""
    ids = entry.detail.get("ids")
    return ids if isinstance(ids, list) else ()


def _fact_history(agent: AgentHandle, own: Memory) -> list[Fact]:
    """Return the history of the fact in a memory, oldest first, if it has changed."""
    content = own.content
    if not isinstance(content, KnowledgeContent) or not (content.subject and content.predicate):
        return []
    history = agent.semantic.history(content.subject, content.predicate)
    position = next((at for at, fact in enumerate(history) if fact.id == own.id), len(history))
    return history[max(0, position - RELATED) : position + RELATED + 1] if len(history) > 1 else []


def _uses(agent: AgentHandle, id: str) -> list[tuple[Grant, GrantUse]]:
    """Return the uses of a memory through grants, newest first."""
    try:
        given = [grant for grant in agent.grants.list() if grant.owner == agent.name][-GRANTS:]
    except Unsupported:
        return []
    found = [(grant, use) for grant in given for use in agent.grants.uses(grant.id, 200) if id in use.memories]
    return sorted(found, key=lambda each: each[1].at, reverse=True)


# The retrieval debugger --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """An explained recall, and the same with default weights if others were given."""

    own: Explanation
    default: Explanation | None
    changed: Mapping[str, float]

    def before(self, id: str) -> int | None:
        """Return the rank of a candidate with default weights."""
        if self.default is None:
            return None
        return next((each.rank for each in self.default.candidates if each.id == id), None)


def default_weights() -> dict[str, float]:
    """Return the default weights, by their names in the debugger."""
    weights = Weights()
    return {name: float(weights.relevance.get(name, getattr(weights, name, 0.0))) for name in NAMES}


def changed_weights(values: Mapping[str, float], tuned: Mapping[str, float]) -> Weights:
    """Return weights with some values changed."""
    given, relevance = default_weights() | dict(values), Weights().relevance
    own: dict[str, Any] = {name: given[name] for name in NAMES if name not in relevance}
    return Weights(relevance={name: given[name] for name in relevance}, tuned=tuned, **own)


def debug(request: PageRequest, query: str, values: Mapping[str, float], **options: Any) -> Comparison:
    """Explain a recall without logging it. Raises `InvalidInput`.

    Only the agent's own memories are searched; shared ones are merged in later.
    """
    if reason := unstorable(query):
        raise InvalidInput(f"the query cannot be used: {reason}")
    brain, scope, now = request.brain, request.scope, request.brain.sources.now()
    clean, near = brain.clean(query), cache(brain.near)
    tuned = brain._parts.tuning.multipliers(scope, now)
    as_of = options.pop("as_of", None)
    where = Filter(current=now) if as_of is None else Filter(as_of=as_of)
    changed = {name: value for name, value in values.items() if not math.isclose(value, default_weights()[name])}
    plain = RecallRequest(now, where=where, weights=Weights(tuned=tuned), **options)
    own = replace(plain, weights=changed_weights(changed, tuned)) if changed else plain
    return Comparison(
        explain(brain.store, scope, clean, near, own),
        explain(brain.store, scope, clean, near, plain) if changed else None,
        changed,
    )


def warm(request: PageRequest) -> None:
    """Load the vectors of an agent, so that the first query is fast."""
    near = request.brain.near(request.brain.clean("the first query"))
    if near is not None:
        request.brain.store.search(request.scope, Query(near=near, limit=1))


# Decisions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rate:
    """The success rate of an action over all contexts."""

    action: str
    attempts: int
    quality: float
    """The sum of the outcomes of all attempts."""
    mean: float
    low: float
    high: float


def rates(agent: AgentHandle, limit: int = 50) -> list[Rate]:
    """Return the rates of all actions, the most frequent first."""
    found = []
    for action, (attempts, quality) in agent.learning.rates().items():
        belief = Beta(1 + quality, 1 + attempts - quality)
        found.append(Rate(action, attempts, quality, belief.mean, *belief.interval()))
    return sorted(found, key=lambda rate: (-rate.attempts, rate.action))[:limit]


def contexts(history: Sequence[DecisionEpisode], limit: int = 40) -> list[tuple[str, int]]:
    """Return the contexts of decisions with their counts, the most frequent first."""
    return Counter(episode.context for episode in history).most_common(limit)


def history(request: PageRequest) -> list[DecisionEpisode]:
    """Return all decisions with a known outcome, oldest first."""
    agent = request.agent
    return request.dashboard.cache.get(("history", agent.name), agent.learning.history)


def suggestion(request: PageRequest, context: str) -> Suggestion:
    """Suggest an action for a context without logging it. Raises `InvalidInput`."""
    if reason := unstorable(context):
        raise InvalidInput(f"the context cannot be used: {reason}")
    return request.agent.learning.suggest(request.brain.clean(context), ANYWHERE, None)


def texts(request: PageRequest, ids: Sequence[str]) -> dict[str, Memory]:
    """Return the memories with these ids, as far as they exist."""
    return {each.id: each for each in request.brain.store.get(request.scope, list(ids)) if each is not None}


# Failures ----------------------------------------------------------------------------------------------


def occurrences(request: PageRequest) -> dict[str, list[datetime]]:
    """Return the times of each failure, by the id of its pattern."""
    with request.brain._parts.experience.of(request.scope) as learned:
        shelf = learned.recognizer.index.patterns
        return {id: [from_micros(at) for at in pattern.times.values()] for id, pattern in shelf.items()}


# Knowledge ---------------------------------------------------------------------------------------------


def visible_graph(graph: Graph, around: str, depth: int, most: int = NODES) -> dict[str, Any]:
    """Return the drawn part of a graph: around a concept, or the concepts with the most edges."""
    keys = _reachable(graph, concept_key(around), depth) if around else _busiest(graph)
    if around and not keys:
        raise NotFound("no fact contains this concept; try another one")
    chosen = {key: number for number, key in enumerate(keys[:most])}
    nodes = [{"name": graph.name(key), "edges": len(graph.edges_of[key])} for key in chosen]
    edges = [
        {"from": chosen[line.start], "to": chosen[line.end], "name": line.edge.predicate, "fact": line.edge.fact}
        for line in graph.edges
        if line.start in chosen and line.end in chosen
    ]
    return {"nodes": nodes, "edges": edges, "left_out": len(graph.edges_of) - len(nodes)}


def concepts(graph: Graph) -> list[str]:
    """Return the names of the concepts with the most edges, for completion."""
    return [graph.name(key) for key in _busiest(graph)[:NODES]]


def _busiest(graph: Graph) -> list[str]:
    return sorted(graph.edges_of, key=lambda key: (-len(graph.edges_of[key]), key))


def _reachable(graph: Graph, start: str, depth: int) -> list[str]:
    """Return the concepts around one, the nearest first."""
    if start not in graph.edges_of:
        return []
    found = {start: 0}
    waiting = [start]
    for key in waiting:
        if found[key] < depth and len(found) < NODES:
            for line in graph.edges_of[key]:
                other = line.end if line.start == key else line.start
                if other not in found:
                    found[other] = found[key] + 1
                    waiting.append(other)
    return list(found)


# Audit -------------------------------------------------------------------------------------------------

Which = Literal["agent", "all"]


def trail(request: PageRequest, which: Which, before: int | None, limit: int) -> list[AuditEntry]:
    """Return audit entries of one agent or all, newest first. Raises `Unsupported`."""
    store = request.brain.store
    if not isinstance(store, KeepsAudit):
        raise Unsupported("this store keeps no audit trail; SQLite, PostgreSQL and the store in memory do")
    agent = request.agent.name if which == "agent" else None
    if before is None:
        return store.trail(0, limit, agent=agent, newest=True)[::-1]
    if agent is None:
        return [e for e in store.trail(max(0, before - limit - 1), limit, agent=None) if e.seq < before][::-1]
    return _entries_before(lambda after, most: store.trail(after, most, agent=agent), before, limit)


def _entries_before(read: Callable[[int, int], list[AuditEntry]], before: int, limit: int) -> list[AuditEntry]:
    """Return the last entries before a number, searching wider and wider ranges before it."""
    width = limit * 4
    while True:
        after = max(0, before - width)
        found = [entry for entry in read(after, width) if entry.seq < before]
        if len(found) >= limit or after == 0:
            return found[-limit:][::-1]
        width *= 8


def verify_trail(request: PageRequest) -> AuditVerification:
    """Verify the whole audit trail."""
    return request.brain.audit.verify()
