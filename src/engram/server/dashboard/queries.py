"""What the pages show: read from the engine, in pieces that stay small however much is remembered."""

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
from engram.learning.events import ANYWHERE
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
from engram.server.dashboard.params import Asking, Board
from engram.upkeep.maintenance import unplaced

PAGE = 2000
"""So many changes are counted at a time."""
NODES = 300
"""So many concepts are drawn at most."""
RELATED = 8
LOOKED_AT = 500
"""So many audit entries are searched at either end for those about one memory."""
GRANTS = 50
NAMES = tuple(
    "similar words_near about time session learned importance trust usefulness recency repetition words vector".split()
)
"""The weights that the debugger lets one change."""


# Overview ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Overview:
    """How an agent's memory is doing."""

    memories: int | None
    stats: LearningStats | None
    report: EvaluationReport | None
    days: Mapping[Any, tuple[int, int]]
    counting: bool
    """Whether there is more to find out, for those who look again."""
    newest: Sequence[Memory]
    quarantined: int
    facts: Mapping[str, Any] | None
    """About the whole database; only for whoever may see all of it."""


def overview(asking: Asking) -> Overview:
    """What the first page shows."""
    agent, board, brain = asking.agent, asking.board, asking.brain
    days, counting = grown(board, asking.scope)
    whole = partial(_facts, brain) if asking.everywhere else lambda: None
    report, facts, stats = board.kept.soon(
        (("report", agent.name), partial(_report, brain, agent.name)),
        (("facts", asking.everywhere), whole),
        (("stats", agent.name), agent.learning.stats),
    )
    return Overview(
        memories=how_many(brain, asking.scope),
        stats=stats,
        report=report,
        days=days,
        counting=counting or stats is None,
        newest=agent.list(limit=6),
        quarantined=len(board.kept.get(("quarantine", agent.name), agent.quarantine.list)),
        facts=facts,
    )


def how_many(brain: Engram, scope: Scope) -> int | None:
    """How many memories an agent has, if the store knows without counting."""
    return brain.store.term_counts(scope, ()).rows if isinstance(brain.store, ReadsNeighbours) else None


def grown(board: Board, scope: Scope) -> tuple[Mapping[Any, tuple[int, int]], bool]:
    """How many memories came and went on each day, as far as they are counted, and whether there is more to count."""
    counting = board.kept.aside(("growth", scope.agent), partial(_count, board, scope))
    wait([counting], board.kept.patience)
    more = not counting.done()
    with board.counting:
        return dict(board.growth.get(scope.agent, (0, {}))[1]), more


def _count(board: Board, scope: Scope) -> None:
    """Count what came and went since the last time: each change once, whoever looks."""
    store, more = board.brain.store, True
    while more and isinstance(store, ListsChanges) and not board.stopping.is_set():
        with board.counting:
            after, days = board.growth.get(scope.agent, (0, {}))
            if after > store.newest(scope):  # all of it was erased
                after, days = 0, {}
            changes = store.changes(scope, after, PAGE)
            for change in changes:
                came, went = days.get(change.at.date(), (0, 0))
                stored = change.what == "stored"
                days[change.at.date()] = (came + stored, went + (not stored))
                after = change.seq
            board.growth[scope.agent] = (after, days)
            more = len(changes) == PAGE


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
        facts["without a vector"] = unplaced(store, embedder)
    return facts


# Timeline and memories ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """Which part of the timeline is looked at."""

    kind: str = ""
    tag: str = ""
    session: str = ""
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None


def timeline(agent: AgentHandle, asked: Asked, limit: int, cursor: str | None) -> Page[Memory]:
    """Memories, newest first, a page at a time."""
    if asked.kind and asked.kind not in set(MemoryType):
        raise InvalidInput("there is no such kind of memory")
    fetch = partial(
        agent.list,
        kinds=[asked.kind] if asked.kind else [],
        tags=[asked.tag] if asked.tag else [],
        since=asked.since,
        as_of=asked.as_of,
        session=asked.session or None,
    )
    which = ("timeline", agent.name, *(getattr(asked, field.name) for field in fields(asked)))
    return paging.memories(fetch, limit, asked.until, cursor, *which)


def began(asking: Asking, total: int | None, now: datetime) -> datetime:
    """When the first memory happened, at least a day ago: where the slider begins."""
    last = max(0, (total or 0) - 1)
    oldest = asking.board.kept.get(("oldest", asking.agent.name), partial(asking.agent.list, limit=1, offset=last))
    return min([now - timedelta(days=1), *(memory.happened_at for memory in oldest)])


@dataclass(frozen=True, slots=True)
class Told:
    """A memory, and what there is to know about it."""

    memory: Memory
    sources: Sequence[tuple[str, Memory | None]]
    derived: Sequence[Memory]
    around: Sequence[Memory]
    similar: Sequence[tuple[Memory, float]]
    line: Sequence[Fact]
    deeds: Sequence[AuditEntry]
    uses: Sequence[tuple[Grant, GrantUse]]
    outcomes: Sequence[Any]
    indexes: Sequence[Any]


def memory(asking: Asking, id: str) -> Told | None:
    """All about one memory of an agent; `None` if there is none."""
    agent, brain, scope = asking.agent, asking.brain, asking.scope
    (own,) = brain.store.get(scope, [id]) if id and unstorable(id) is None else [None]
    if own is None:
        return None
    return Told(
        memory=agent.learning.with_latest_outcomes([own])[0],
        sources=list(zip(own.provenance.sources, brain.store.get(scope, list(own.provenance.sources)), strict=True)),
        derived=_derived(brain, scope, id),
        around=_around(brain, scope, id),
        similar=_similar(brain, scope, own),
        line=_line(agent, own),
        deeds=_deeds(brain, scope, own) if asking.session.key.has_right("admin") else [],
        uses=_uses(agent, id) if asking.session.key.has_right("share") else [],
        outcomes=agent.outcomes(id) if own.kind == MemoryType.DECISION else [],
        indexes=agent.indexes(id),
    )


def _derived(brain: Engram, scope: Scope, id: str) -> list[Memory]:
    if not isinstance(brain.store, FindsDerived):
        return []
    ids = [other for whose, other in brain.store.derived([id]) if whose == scope]
    return [each for each in brain.store.get(scope, ids) if each is not None]


def _around(brain: Engram, scope: Scope, id: str) -> list[Memory]:
    """What was said before and after it in its session."""
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


def _deeds(brain: Engram, scope: Scope, own: Memory) -> list[AuditEntry]:
    """Entries of the audit trail about a memory, newest first: those soon after it was stored, and the newest."""
    if not isinstance(brain.store, KeepsAudit):
        return []
    look = partial(brain.store.trail, 0, LOOKED_AT, agent=scope.agent)
    trail = {entry.seq: entry for entry in (*look(since=own.created_at), *look(newest=True))}
    about = (entry for entry in trail.values() if entry.target == own.id or own.id in _several(entry))
    return sorted(about, key=lambda entry: entry.seq, reverse=True)


def _several(entry: AuditEntry) -> Sequence[Any]:
    """The memories that an entry is about, if it names more than one."""
    ids = entry.detail.get("ids")
    return ids if isinstance(ids, list) else ()


def _line(agent: AgentHandle, own: Memory) -> list[Fact]:
    """What was said of the same thing before and after, oldest first, if the memory is a fact that has changed."""
    content = own.content
    if not isinstance(content, KnowledgeContent) or not (content.subject and content.predicate):
        return []
    line = agent.semantic.history(content.subject, content.predicate)
    here = next((at for at, fact in enumerate(line) if fact.id == own.id), len(line))
    return line[max(0, here - RELATED) : here + RELATED + 1] if len(line) > 1 else []


def _uses(agent: AgentHandle, id: str) -> list[tuple[Grant, GrantUse]]:
    """Who saw a memory by which grant, newest first, as far as the uses name it."""
    try:
        given = [grant for grant in agent.grants.list() if grant.owner == agent.name][-GRANTS:]
    except Unsupported:
        return []
    found = [(grant, use) for grant in given for use in agent.grants.uses(grant.id, 200) if id in use.memories]
    return sorted(found, key=lambda each: each[1].at, reverse=True)


# The retrieval debugger --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compared:
    """A recall taken apart, and the same by the usual weights, if others were asked for."""

    own: Explanation
    usual: Explanation | None
    changed: Mapping[str, float]

    def before(self, id: str) -> int | None:
        """Where a candidate is by the usual weights."""
        if self.usual is None:
            return None
        return next((each.rank for each in self.usual.candidates if each.id == id), None)


def usual_weights() -> dict[str, float]:
    """The weights of every recall, by the names that the debugger has for them."""
    weights = Weights()
    return {name: float(weights.relevance.get(name, getattr(weights, name, 0.0))) for name in NAMES}


def weighed(values: Mapping[str, float], tuned: Mapping[str, float]) -> Weights:
    """Weights with some values instead of the usual ones."""
    given, relevance = usual_weights() | dict(values), Weights().relevance
    own: dict[str, Any] = {name: given[name] for name in NAMES if name not in relevance}
    return Weights(relevance={name: given[name] for name in relevance}, tuned=tuned, **own)


def debug(asking: Asking, query: str, values: Mapping[str, float], **wanted: Any) -> Compared:
    """Take a recall apart; nothing is noted, so that looking does not change what is looked at. Raises `InvalidInput`.

    Only the agent's own memories are asked: what is lent to it is merged in after this.
    """
    if reason := unstorable(query):
        raise InvalidInput(f"the query cannot be used: {reason}")
    brain, scope, now = asking.brain, asking.scope, asking.brain.sources.now()
    clean, near = brain.clean(query), cache(brain.near)
    tuned = brain._parts.tuning.multipliers(scope, now)
    as_of = wanted.pop("as_of", None)
    where = Filter(current=now) if as_of is None else Filter(as_of=as_of)
    changed = {name: value for name, value in values.items() if not math.isclose(value, usual_weights()[name])}
    plain = RecallRequest(now, where=where, weights=Weights(tuned=tuned), **wanted)
    own = replace(plain, weights=weighed(changed, tuned)) if changed else plain
    return Compared(
        explain(brain.store, scope, clean, near, own),
        explain(brain.store, scope, clean, near, plain) if changed else None,
        changed,
    )


def warm(asking: Asking) -> None:
    """Bring the vectors of an agent into memory, so that the first query does not wait for them."""
    near = asking.brain.near(asking.brain.clean("the first query"))
    if near is not None:
        asking.brain.store.search(asking.scope, Query(near=near, limit=1))


# Decisions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rate:
    """How an action went, over all contexts."""

    action: str
    attempts: int
    quality: float
    """The sum of how well each attempt went."""
    mean: float
    low: float
    high: float


def rates(agent: AgentHandle, limit: int = 50) -> list[Rate]:
    """The actions that were tried, the most frequent first."""
    found = []
    for action, (attempts, quality) in agent.learning.rates().items():
        belief = Beta(1 + quality, 1 + attempts - quality)
        found.append(Rate(action, attempts, quality, belief.mean, *belief.interval()))
    return sorted(found, key=lambda rate: (-rate.attempts, rate.action))[:limit]


def contexts(history: Sequence[DecisionEpisode], limit: int = 40) -> list[tuple[str, int]]:
    """The situations that decisions were taken in, the most frequent first."""
    return Counter(episode.context for episode in history).most_common(limit)


def history(asking: Asking) -> list[DecisionEpisode]:
    """All decisions whose outcome is known, oldest first."""
    agent = asking.agent
    return asking.board.kept.get(("history", agent.name), agent.learning.history)


def suggested(asking: Asking, context: str) -> Suggestion:
    """What the evidence says about a context; nothing is noted. Raises `InvalidInput`."""
    if reason := unstorable(context):
        raise InvalidInput(f"the context cannot be used: {reason}")
    return asking.agent.learning.suggest(asking.brain.clean(context), ANYWHERE, None)


def texts(asking: Asking, ids: Sequence[str]) -> dict[str, Memory]:
    """The memories with these ids, as far as they are there."""
    return {each.id: each for each in asking.brain.store.get(asking.scope, list(ids)) if each is not None}


# Failures ----------------------------------------------------------------------------------------------


def occurrences(asking: Asking) -> dict[str, list[datetime]]:
    """When each failure happened, by the id of its pattern."""
    with asking.brain._parts.experience.of(asking.scope) as learned:
        shelf = learned.recognizer.index.patterns
        return {id: [from_micros(at) for at in pattern.times.values()] for id, pattern in shelf.items()}


# Knowledge ---------------------------------------------------------------------------------------------


def drawn(graph: Graph, around: str, depth: int, most: int = NODES) -> dict[str, Any]:
    """The part of a graph that is drawn: what is around a concept, or the concepts with the most edges. Limited."""
    keys = _near(graph, concept_key(around), depth) if around else _busiest(graph)
    if around and not keys:
        raise NotFound("no fact names this; ask for another concept")
    chosen = {key: number for number, key in enumerate(keys[:most])}
    nodes = [{"name": graph.name(key), "edges": len(graph.edges_of[key])} for key in chosen]
    edges = [
        {"from": chosen[line.start], "to": chosen[line.end], "name": line.edge.predicate, "fact": line.edge.fact}
        for line in graph.edges
        if line.start in chosen and line.end in chosen
    ]
    return {"nodes": nodes, "edges": edges, "left_out": len(graph.edges_of) - len(nodes)}


def concepts(graph: Graph) -> list[str]:
    """The names of the concepts with the most edges, for whoever types one."""
    return [graph.name(key) for key in _busiest(graph)[:NODES]]


def _busiest(graph: Graph) -> list[str]:
    return sorted(graph.edges_of, key=lambda key: (-len(graph.edges_of[key]), key))


def _near(graph: Graph, start: str, depth: int) -> list[str]:
    """The concepts around one, the nearest first."""
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


def trail(asking: Asking, which: Which, before: int | None, limit: int) -> list[AuditEntry]:
    """Entries of the audit trail, newest first: those of one agent, or all. Raises `Unsupported`."""
    store = asking.brain.store
    if not isinstance(store, KeepsAudit):
        raise Unsupported("this store keeps no audit trail; SQLite, PostgreSQL and the store in memory do")
    agent = asking.agent.name if which == "agent" else None
    if before is None:
        return store.trail(0, limit, agent=agent, newest=True)[::-1]
    if agent is None:
        return [e for e in store.trail(max(0, before - limit - 1), limit, agent=None) if e.seq < before][::-1]
    return _older(lambda after, most: store.trail(after, most, agent=agent), before, limit)


def _older(look: Callable[[int, int], list[AuditEntry]], before: int, limit: int) -> list[AuditEntry]:
    """The last entries before a number, found by looking at wider and wider stretches before it."""
    width = limit * 4
    while True:
        after = max(0, before - width)
        found = [entry for entry in look(after, width) if entry.seq < before]
        if len(found) >= limit or after == 0:
            return found[-limit:][::-1]
        width *= 8


def verified(asking: Asking) -> AuditVerification:
    """What a look at the whole audit trail finds."""
    return asking.brain.audit.verify()
