"""The facts of agents, kept in this process and brought up to date at every look, whoever has written since."""

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
"""The tag of memories that are facts."""
DENIAL = "denial"
FACTS = Filter(kinds=frozenset({MemoryType.KNOWLEDGE}), tags=frozenset({FACT}))
AGENTS = 16
"""Of so many agents the facts are kept; those that were asked for last."""
PAGE = 5_000


FOREVER = datetime(9999, 12, 31, tzinfo=UTC)
"""The end of what has none, where one had been written down before."""


def fact_of(memory: Memory) -> Fact | None:
    """The fact that a memory holds, or `None` if it is another kind of knowledge."""
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
class Present:
    """What holds from a moment on until another, and the graph of it."""

    since: datetime
    until: datetime | None
    facts: tuple[Fact, ...]
    graph: Graph

    def covers(self, moment: datetime) -> bool:
        """Whether the same holds at a moment."""
        return self.since <= moment and (self.until is None or moment < self.until)


class Book:
    """All facts of one agent: at each look, what changed since the last one is read, and nothing else."""

    def __init__(self, store: Store, scope: Scope) -> None:
        self._store, self._scope = store, scope
        self._versions: dict[str, int] = {}
        self._known: dict[str, Fact] = {}
        self._facts: tuple[Fact, ...] = ()
        self._present: dict[frozenset[tuple[str, bool]], Present] = {}
        self._lock = threading.Lock()

    def facts(self) -> tuple[Fact, ...]:
        """All that was ever learned and not forgotten, oldest first."""
        with self._lock:
            self._look()
            return self._facts

    def present(self, functional: Mapping[str, bool], now: datetime) -> Present:
        """What holds now, given which predicates have one value at a time."""
        table = frozenset(functional.items())
        with self._lock:
            self._look()
            known = self._present.get(table)
            if known is None or not known.covers(now):
                known = self._present[table] = _present(self._facts, timeline.functional_by(functional), now)
            return known

    def _look(self) -> None:
        there = self._store.versions(self._scope, FACTS)
        if there == self._versions:
            return
        fresh = [id for id, version in there.items() if self._versions.get(id) != version]
        for id in self._versions.keys() - there.keys():
            self._drop(id)
        for some in batched(fresh, PAGE):
            self._read(some)
        self._facts = tuple(sorted(self._known.values(), key=lambda fact: fact.order))
        self._present.clear()

    def _read(self, ids: Sequence[str]) -> None:
        for id, memory in zip(ids, self._store.get(self._scope, ids), strict=True):
            self._drop(id)
            if memory is None:  # it was forgotten just now
                continue
            self._versions[id] = memory.version
            if (fact := fact_of(memory)) is not None:
                self._known[id] = fact

    def _drop(self, id: str) -> None:
        self._versions.pop(id, None)
        self._known.pop(id, None)


class Books:
    """The books of the agents whose facts were asked for last."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._books: OrderedDict[Scope, Book] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, scope: Scope) -> Book:
        """Return the book of an agent."""
        with self._lock:
            book = self._books.setdefault(scope, Book(self._store, scope))
            self._books.move_to_end(scope)
            if len(self._books) > AGENTS:
                self._books.popitem(last=False)
            return book


def _present(facts: Sequence[Fact], functional: timeline.Functional, now: datetime) -> Present:
    """What holds now, until the next moment at which a fact begins or ends: by itself, or because another begins."""
    valid = timeline.valid_at(facts, now, functional, current=True)
    moments = (moment for fact in facts for moment in (fact.valid_from, fact.valid_until))
    until = min((moment for moment in moments if moment is not None and moment > now), default=None)
    return Present(now, until, tuple(valid), graphs.graph(valid))
