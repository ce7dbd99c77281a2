"""In-process caches of agents' facts, updated on each access with what any process has written."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from engram.memories.facts import graph as graphs
from engram.memories.facts import timeline
from engram.memories.facts.graph import Graph
from engram.model import KnowledgeContent, Memory, MemoryType
from engram.model.fact import Fact
from engram.ports import Filter, Scope, Store
from engram.system import batched

FACT = "fact"
"""Tag of memories that are facts."""
DENIAL = "denial"
FACTS = Filter(kinds=frozenset({MemoryType.KNOWLEDGE}), tags=frozenset({FACT}))
MAX_AGENTS = 16
"""Number of agents whose facts are cached, least recently used first out."""
PAGE = 5_000


FOREVER = datetime(9999, 12, 31, tzinfo=UTC)
"""End of a fact without an end, where an earlier end has to be replaced."""


def to_fact(memory: Memory) -> Fact | None:
    """Convert a memory to a fact, or return `None` if it is other knowledge."""
    content = memory.content
    if not isinstance(content, KnowledgeContent) or not (content.subject and content.predicate and content.object):
        return None
    replaces = memory.metadata.get("replaces")
    return Fact(
        id=memory.id,
        subject=content.subject,
        predicate=content.predicate,
        object=content.object,
        negated=content.knowledge_type == DENIAL,
        text=memory.text,
        valid_from=memory.valid_from,
        valid_until=None if memory.valid_until == FOREVER else memory.valid_until,
        confidence=memory.confidence,
        evidence=memory.evidence,
        sources=memory.provenance.sources,
        replaces=replaces if isinstance(replaces, bool) else None,
        recorded_at=memory.created_at,
    )


@dataclass(frozen=True, slots=True)
class CurrentFacts:
    """The facts valid during a period, and their graph."""

    since: datetime
    until: datetime | None
    facts: tuple[Fact, ...]
    graph: Graph

    def covers(self, moment: datetime) -> bool:
        """Return true if a moment lies in the period."""
        return self.since <= moment and (self.until is None or moment < self.until)


class FactCache:
    """All facts of one agent; each access reads only what has changed since the last one."""

    def __init__(self, store: Store, scope: Scope) -> None:
        self._store, self._scope = store, scope
        self._versions: dict[str, int] = {}
        self._by_id: dict[str, Fact] = {}
        self._facts: tuple[Fact, ...] = ()
        self._current: dict[frozenset[tuple[str, bool]], CurrentFacts] = {}
        self._lock = threading.Lock()

    def facts(self) -> tuple[Fact, ...]:
        """Return all facts, valid or not, oldest first."""
        with self._lock:
            self._refresh()
            return self._facts

    def current(self, functional: Mapping[str, bool], now: datetime) -> CurrentFacts:
        """Return the facts valid now; `functional` has the predicates with one value at a time."""
        table = frozenset(functional.items())
        with self._lock:
            self._refresh()
            known = self._current.get(table)
            if known is None or not known.covers(now):
                known = self._current[table] = _current_facts(self._facts, timeline.functional_from(functional), now)
            return known

    def _refresh(self) -> None:
        there = self._store.versions(self._scope, FACTS)
        if there == self._versions:
            return
        fresh = [id for id, version in there.items() if self._versions.get(id) != version]
        for id in self._versions.keys() - there.keys():
            self._remove(id)
        for some in batched(fresh, PAGE):
            self._read(some)
        self._facts = tuple(sorted(self._by_id.values(), key=lambda fact: fact.order))
        self._current.clear()

    def _read(self, ids: Sequence[str]) -> None:
        for id, memory in zip(ids, self._store.get(self._scope, ids), strict=True):
            self._remove(id)
            if memory is None:  # it was forgotten just now
                continue
            self._versions[id] = memory.version
            if (fact := to_fact(memory)) is not None:
                self._by_id[id] = fact

    def _remove(self, id: str) -> None:
        self._versions.pop(id, None)
        self._by_id.pop(id, None)


class FactCaches:
    """The caches of the agents that were accessed last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._caches: OrderedDict[Scope, FactCache] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, scope: Scope) -> FactCache:
        """Return the cache of an agent."""
        with self._lock:
            cache = self._caches.setdefault(scope, FactCache(self._store, scope))
            self._caches.move_to_end(scope)
            if len(self._caches) > MAX_AGENTS:
                self._caches.popitem(last=False)
            return cache


def _current_facts(facts: Sequence[Fact], functional: timeline.Functional, now: datetime) -> CurrentFacts:
    """Return the facts valid now, and the next time at which that changes."""
    valid = timeline.valid_at(facts, now, functional, current=True)
    moments = (moment for fact in facts for moment in (fact.valid_from, fact.valid_until))
    until = min((moment for moment in moments if moment is not None and moment > now), default=None)
    return CurrentFacts(now, until, tuple(valid), graphs.build_graph(valid))
