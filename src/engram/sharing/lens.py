"""Somebody else's scope, seen through a grant: only what it covers is there, and nothing can be written."""

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
"""What the id of a memory looks like; other names of sources, such as `runbook`, are the owner's own words."""
READ_ONLY = "shared knowledge can be read, not changed; remember what you make of it in your own words"


class Lens(Fallbacks):
    """What a grant covers, in the place of a store. Whatever scope is asked for, the owner's is looked at.

    `ids` are the memories that are covered, `None` for all. How common words are is taken from the reader's own
    memories, so that scores tell nothing of what is not covered.
    """

    def __init__(self, store: Store, owner: Scope, reader: Scope, ids: frozenset[str] | None) -> None:
        self.store = store
        self.owner = owner
        self.reader = reader
        self.ids = ids
        self.lacks = Fallbacks.lacks - {KeepsEvents} if can(store, KeepsEvents) else Fallbacks.lacks

    def covers(self, id: str) -> bool:
        """Whether a memory may be seen."""
        return self.ids is None or id in self.ids

    def search(self, scope: Scope, query: Query) -> list[Match]:
        """As the store does, among what is covered."""
        if self.ids is not None:
            among = self.ids if query.among is None else self.ids & query.among
            if not among:
                return []
            query = replace(query, among=among)
        return self.store.search(self.owner, query)

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        """One answer per id, in order; `None` for what is not covered, as for what is not there.

        A memory names none of its sources that is not covered: already that there is one tells something.
        """
        found = self._naming(self.store.get(self.owner, [id for id in ids if self.covers(id)]))
        return [next(found) if self.covers(id) else None for id in ids]

    def _naming(self, memories: Sequence[Memory | None]) -> Iterator[Memory | None]:
        cited = {source for memory in memories if memory is not None for source in memory.provenance.sources}
        seen = self.store.get(self.owner, sorted(cited)) if cited else ()
        there = {memory.id for memory in seen if memory is not None}
        hidden = {id for id in cited if (not self.covers(id) if id in there else _ID.fullmatch(id))}
        return (memory if memory is None else _without(memory, hidden) for memory in memories)

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Never. Raises `NotAllowed`."""
        raise NotAllowed(READ_ONLY)

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Never. Raises `NotAllowed`."""
        raise NotAllowed(READ_ONLY)

    def close(self) -> None:
        """Nothing: the store belongs to somebody else."""

    def snapshot(self, scope: Scope) -> AbstractContextManager[None]:
        """One moment of the owner's scope."""
        return self.store.snapshot(self.owner) if isinstance(self.store, Snapshots) else nullcontext()

    def append(self, scope: Scope, events: Sequence[Event]) -> list[bool]:
        """Never. Raises `NotAllowed`."""
        raise NotAllowed(READ_ONLY)

    def events_after(self, scope: Scope, after: int, limit: int) -> list[Event]:
        """The next events about what is covered; an empty list only when there are no more."""
        while some := self.store.events_after(self.owner, after, limit):
            if kept := [event for event in some if self._shows(event)]:
                return kept
            after = some[-1].seq
        return []

    def events_by_topic(self, scope: Scope, topic: str, limit: int) -> list[Event]:
        """The newest events of a topic about what is covered."""
        return [event for event in self.store.events_by_topic(self.owner, topic, limit) if self._shows(event)]

    def events_of(self, scope: Scope, subjects: Sequence[str]) -> list[Event]:
        """All events about these subjects, as far as they are covered."""
        return self.store.events_of(self.owner, [subject for subject in subjects if self.covers(subject)])

    def _shows(self, event: Event) -> bool:
        # What a check said is the owner's own business; what was forgotten must be known to be forgotten.
        return event.kind == FORGOTTEN or (bool(event.subject) and self.covers(event.subject))


class SurveyingLens(Lens):
    """A lens over a store that also knows what surrounds its memories."""

    def speakers(self, scope: Scope) -> list[str]:
        """Nobody: names of speakers may belong to what is not covered."""
        return []

    def neighbours(self, scope: Scope, ids: Sequence[str], reach: int, terms: Sequence[str]) -> list[RankingInput]:
        """The neighbours that are covered."""
        chosen = [id for id in ids if self.covers(id)]
        seen = self._surveys.neighbours(self.owner, chosen, reach if self.ids is None else 0, terms) if chosen else []
        return [glimpse for glimpse in seen if self.covers(glimpse.id)]

    def term_counts(self, scope: Scope, terms: Sequence[str]) -> TermCounts:
        """How common the terms are among the reader's own memories."""
        return self._surveys.term_counts(self.owner if self.ids is None else self.reader, terms)

    @property
    def _surveys(self) -> ReadsNeighbours:
        assert isinstance(self.store, ReadsNeighbours)  # noqa: S101 - `lens` chose this class because it does
        return self.store


def lens(store: Store, owner: Scope, reader: Scope, ids: frozenset[str] | None) -> Lens:
    """Return the lens with the abilities that its store has."""
    return (SurveyingLens if isinstance(store, ReadsNeighbours) else Lens)(store, owner, reader, ids)


def _without(memory: Memory, sources: Set[str]) -> Memory:
    """The same memory, which names none of these sources."""
    said = memory.provenance
    if not sources or sources.isdisjoint(said.sources):
        return memory
    named = tuple(source for source in said.sources if source not in sources)
    return memory.model_copy(update={"provenance": said.model_copy(update={"sources": named})})
