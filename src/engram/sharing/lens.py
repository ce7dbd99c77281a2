"""A read-only view of another agent's memories, limited to what a grant covers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from engram.errors import NotAllowed
from engram.model import ForgetReceipt, Memory, Receipt
from engram.ports import (
    FORGOTTEN,
    Entry,
    Event,
    KeepsEvents,
    Match,
    Query,
    RankingInput,
    ReadsNeighbours,
    Scope,
    Snapshots,
    Store,
    TermCounts,
)
from engram.ports.completed import Fallbacks, can

_ID = re.compile("[0-9a-z]{26}|[0-9a-f]{32,64}")
"""The form of memory ids; other source names, such as `runbook`, are the owner's own text."""
READ_ONLY = "shared knowledge is read-only; store a memory of your own instead"


class Lens(Fallbacks):
    """A read-only store of what a grant covers. It always reads the owner's scope, whatever scope is passed.

    `ids` are the covered memories, `None` for all. Word frequencies come from the reader's own memories, so that
    scores reveal nothing about memories that are not covered.
    """

    def __init__(self, store: Store, owner: Scope, reader: Scope, ids: frozenset[str] | None) -> None:
        self.store = store
        self.owner = owner
        self.reader = reader
        self.ids = ids
        self.lacks = Fallbacks.lacks - {KeepsEvents} if can(store, KeepsEvents) else Fallbacks.lacks

    def covers(self, id: str) -> bool:
        """Check if a memory is covered."""
        return self.ids is None or id in self.ids

    def search(self, scope: Scope, query: Query) -> list[Match]:
        """Search the covered memories."""
        if self.ids is not None:
            among = self.ids if query.among is None else self.ids & query.among
            if not among:
                return []
            query = replace(query, among=among)
        return self.store.search(self.owner, query)

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        """Return one memory per id, in order; `None` if it does not exist or is not covered.

        Sources that are not covered are removed from each memory: even their existence is not revealed.
        """
        found = self._without_hidden_sources(self.store.get(self.owner, [id for id in ids if self.covers(id)]))
        return [next(found) if self.covers(id) else None for id in ids]

    def _without_hidden_sources(self, memories: Sequence[Memory | None]) -> Iterator[Memory | None]:
        cited = {source for memory in memories if memory is not None for source in memory.provenance.sources}
        seen = self.store.get(self.owner, sorted(cited)) if cited else ()
        there = {memory.id for memory in seen if memory is not None}
        hidden = {id for id in cited if (not self.covers(id) if id in there else _ID.fullmatch(id))}
        return (memory if memory is None else _without(memory, hidden) for memory in memories)

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Raise `NotAllowed`: a lens is read-only."""
        raise NotAllowed(READ_ONLY)

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Raise `NotAllowed`: a lens is read-only."""
        raise NotAllowed(READ_ONLY)

    def close(self) -> None:
        """Do nothing: the store is closed by its owner."""

    def snapshot(self, scope: Scope) -> AbstractContextManager[None]:
        """Read the owner's scope as of one moment."""
        return self.store.snapshot(self.owner) if isinstance(self.store, Snapshots) else nullcontext()

    def append(self, scope: Scope, events: Sequence[Event]) -> list[bool]:
        """Raise `NotAllowed`: a lens is read-only."""
        raise NotAllowed(READ_ONLY)

    def events_after(self, scope: Scope, after: int, limit: int) -> list[Event]:
        """Return the next events about covered memories; an empty list only if there are no more."""
        while some := self.store.events_after(self.owner, after, limit):
            if kept := [event for event in some if self._shows(event)]:
                return kept
            after = some[-1].seq
        return []

    def events_by_topic(self, scope: Scope, topic: str, limit: int) -> list[Event]:
        """Return the events about covered memories among the newest `limit` of a topic."""
        return [event for event in self.store.events_by_topic(self.owner, topic, limit) if self._shows(event)]

    def events_of(self, scope: Scope, subjects: Sequence[str]) -> list[Event]:
        """Return all events about those of these subjects that are covered."""
        return self.store.events_of(self.owner, [subject for subject in subjects if self.covers(subject)])

    def _shows(self, event: Event) -> bool:
        # Results of checks (no subject) stay private to the owner; deletions must reach every reader.
        return event.kind == FORGOTTEN or (bool(event.subject) and self.covers(event.subject))


class SurveyingLens(Lens):
    """A lens over a store that can also read neighbouring memories."""

    def speakers(self, scope: Scope) -> list[str]:
        """Return an empty list: the names of speakers may come from memories that are not covered."""
        return []

    def neighbours(self, scope: Scope, ids: Sequence[str], reach: int, terms: Sequence[str]) -> list[RankingInput]:
        """Return the neighbours that are covered."""
        chosen = [id for id in ids if self.covers(id)]
        seen = self._surveys.neighbours(self.owner, chosen, reach if self.ids is None else 0, terms) if chosen else []
        return [glimpse for glimpse in seen if self.covers(glimpse.id)]

    def term_counts(self, scope: Scope, terms: Sequence[str]) -> TermCounts:
        """Count the terms in the owner's memories if all are covered, else in the reader's own."""
        return self._surveys.term_counts(self.owner if self.ids is None else self.reader, terms)

    @property
    def _surveys(self) -> ReadsNeighbours:
        assert isinstance(self.store, ReadsNeighbours)  # noqa: S101 - `lens` chose this class because it does
        return self.store


def lens(store: Store, owner: Scope, reader: Scope, ids: frozenset[str] | None) -> Lens:
    """Return the lens with the abilities that its store has."""
    return (SurveyingLens if isinstance(store, ReadsNeighbours) else Lens)(store, owner, reader, ids)


def _without(memory: Memory, sources: Set[str]) -> Memory:
    """Return the memory without these sources in its provenance."""
    provenance = memory.provenance
    if not sources or sources.isdisjoint(provenance.sources):
        return memory
    named = tuple(source for source in provenance.sources if source not in sources)
    return memory.model_copy(update={"provenance": provenance.model_copy(update={"sources": named})})
