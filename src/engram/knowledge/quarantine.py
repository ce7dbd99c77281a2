"""Memories that are set apart: kept for review, and in no search, list or pattern until somebody releases them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engram import holds
from engram.errors import NotAllowed, NotFound
from engram.ids import Sources
from engram.model import Clean, ForgetReceipt, Memory, ObservationContent
from engram.model.quarantine import Quarantined
from engram.ports import Entry, Event, KeepsEvents, MemoryStore, Query, Redactor, Scope, acting
from engram.privacy import shipped
from engram.words import digest

QUARANTINE = "\x1fquarantine:"
"""How the names of the reserved scopes begin that things are set apart in."""
WHY = "quarantine"
"""The kind of event that says why a memory was set apart."""
MOST = 10_000
TAKEN_BACK = "it was derived from knowledge whose grant was revoked"
"""Why something was set apart that its agent may not read any more."""


def apart(scope: Scope) -> Scope:
    """The reserved scope beside an agent's own, which nothing but a review looks into."""
    return Scope(f"{QUARANTINE}{digest(scope.agent)}")


class Quarantine:
    """What is set apart from one agent's memories."""

    def __init__(self, store: MemoryStore, scope: Scope, sources: Sources, redactor: Redactor | None = None) -> None:
        self._store = store
        self._scope = scope
        self._apart = apart(scope)
        self._sources = sources
        self._redactor = redactor

    def put(self, entry: Entry, reason: str) -> None:
        """Keep an entry here instead of among the memories, once."""
        self.keep([(entry, reason)])

    def keep(self, several: Sequence[tuple[Entry, str]]) -> None:
        """Keep entries here, each for its reason, in one transaction; those that are here stay as they are."""
        here = self._store.get(self._apart, [entry.memory.id for entry, _ in several])
        fresh = {
            entry.memory.id: (entry, reason)
            for (entry, reason), known in zip(several, here, strict=True)
            if known is None
        }
        cleaned = (self._redactor or shipped()).clean([reason for _, reason in fresh.values()])
        entries = []
        for (entry, _), said in zip(fresh.values(), cleaned, strict=True):
            id = entry.memory.id
            why = Event(f"{id}:{WHY}", WHY, self._sources.now(), id, WHY, {"reason": said.text})
            memory = entry.memory.model_copy(update={"agent": self._apart.agent})
            entries.append(Entry(memory, key=entry.key, events=(*entry.events, why)))
        with acting(self._scope.agent, "quarantine.put", agent=self._scope.agent):
            self._store.add(self._apart, entries)

    def move(self, ids: Sequence[str], reason: str) -> list[str]:
        """Set memories apart with all that was learned from them; those that were there.

        Each is kept here before it goes there: whoever is stopped in between can do it again.
        """
        moved = []
        here = {match.id for match in self._store.search(self._apart, Query(among=frozenset(ids), limit=len(ids)))}
        for memory in self._store.get(self._scope, ids):
            if memory is None:
                continue
            if memory.id not in here:
                self.put(Entry(memory, events=tuple(self._events(self._scope, memory.id))), reason)
            with acting(self._scope.agent, "quarantine.move"):
                self._store.forget(self._scope, [memory.id])
            moved.append(memory.id)
        return moved

    def list(self) -> list[Quarantined]:
        """What is set apart, the newest first, and why."""
        ids = [match.id for match in self._store.search(self._apart, Query(limit=MOST))]
        return [self._told(memory) for memory in self._store.get(self._apart, ids) if memory is not None]

    def get(self, id: str) -> Quarantined:
        """One of them. Raises `NotFound`."""
        (memory,) = self._store.get(self._apart, [id])
        if memory is None:
            raise NotFound(f"nothing called {id!a} is set apart; `engram quarantine list` shows what is")
        return self._told(memory)

    def release(self, id: str) -> Memory:
        """Give a memory back to the agent, as it was. Raises `NotFound`, and `NotAllowed` for what was taken back."""
        kept = self.get(id)
        if kept.reason == TAKEN_BACK:
            raise NotAllowed("its owner has taken it back; discard it, or ask for a new grant and remember it anew")
        memory = kept.memory
        events = [event for event in self._events(self._apart, id) if event.kind != WHY]
        (there,) = self._store.get(self._scope, [id])
        with acting(self._scope.agent, "quarantine.release", agent=self._scope.agent):
            if there is None:
                self._store.add(self._scope, [Entry(memory, events=tuple(events))])
            self._store.forget(self._apart, [id])
        return memory

    def discard(self, id: str) -> ForgetReceipt:
        """Forget a memory that was set apart. Raises `NotAllowed` if it is held."""
        (memory,) = self._store.get(self._apart, [id])
        holds.refuse_held(self._store, self._scope, [] if memory is None else [memory])
        with acting(self._scope.agent, "quarantine.discard", agent=self._scope.agent):
            return self._store.forget(self._apart, [id])[0]

    def _told(self, memory: Memory) -> Quarantined:
        why = [event for event in self._events(self._apart, memory.id) if event.kind == WHY]
        reason, at = (str(why[0].body["reason"]), why[0].at) if why else ("", memory.created_at)
        own = memory.model_copy(update={"agent": self._scope.agent})
        if reason == TAKEN_BACK:  # that it is here may be known, what it says no longer
            hidden = {"text": Clean(""), "context": Clean(""), "metadata": {}, "tags": ()}
            own = own.model_copy(update=hidden | {"content": ObservationContent()})
        return Quarantined(id=memory.id, memory=own, reason=reason, at=at)

    def _events(self, scope: Scope, id: str) -> Sequence[Event]:
        if not isinstance(self._store, KeepsEvents):
            return []
        return [replace(event, seq=0) for event in self._store.events_of(scope, [id])]
