"""An adapter that gives a store plugin of five methods the rest of the `Store` interface."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NoReturn

from engram.errors import Unsupported
from engram.model import ForgetReceipt, Memory, MemoryIndex, Receipt
from engram.ports import (
    Annotates,
    Changes,
    CountsAccess,
    Credit,
    CreditsRecalls,
    DeletesEvents,
    DeletesScopes,
    Entry,
    Event,
    Filter,
    KeepsEvents,
    KeepsSettings,
    ListsAgents,
    Match,
    MemoryStore,
    MirrorsVectors,
    Placed,
    PreviewsAdds,
    Query,
    Scope,
    Store,
    Versions,
)
from engram.system import batched

PAGE = 500
ABILITIES: Mapping[type, str] = {
    PreviewsAdds: "previews writes",
    Annotates: "annotates memories",
    Versions: "lists versions",
    CountsAccess: "counts accesses",
    CreditsRecalls: "keeps the outcomes of recalls",
    KeepsEvents: "keeps events",
    DeletesEvents: "deletes events",
    DeletesScopes: "deletes scopes",
    KeepsSettings: "keeps settings",
    ListsAgents: "lists its agents",
    MirrorsVectors: "mirrors vectors",
}
"""The abilities that make a `MemoryStore` a `Store`, each with a description for error messages."""


def can(store: object, ability: type) -> bool:
    """Return True if a store implements an ability itself, instead of by a fallback."""
    return ability not in getattr(store, "lacks", ()) and isinstance(store, ability)


def require(store: object, ability: type, purpose: str) -> None:
    """Raise `Unsupported`, naming the purpose, unless a store implements an ability itself."""
    if not can(store, ability):
        _refuse(ability, purpose)


def complete(store: MemoryStore) -> Store:
    """Return the store itself if it is a `Store`, else wrap it in `Completed`."""
    return store if isinstance(store, Store) else Completed(store)


def _refuse(ability: type, purpose: str) -> NoReturn:
    raise Unsupported(f"{purpose} needs a store that {ABILITIES[ability]}; use SQLite, PostgreSQL or Redis")


class Fallbacks(MemoryStore):
    """Default methods for the abilities that a store lacks.

    Reads find nothing, statistics and settings are dropped, other writes raise `Unsupported`.
    """

    lacks: frozenset[type] = frozenset(ABILITIES)
    """The abilities that have only a fallback."""

    def annotate(self, scope: Scope, id: str, changes: Changes, expected_version: int | None) -> Memory:
        """Raise `Unsupported`."""
        _refuse(Annotates, "changing a memory")

    def touch(self, scope: Scope, ids: Sequence[str], at: datetime) -> None:
        """Ignore the counts."""

    def credit(self, scope: Scope, credit: Credit) -> bool:
        """Raise `Unsupported`."""
        _refuse(CreditsRecalls, "crediting a recall")

    def credits(self, scope: Scope, limit: int) -> list[Credit]:
        """Return no credits."""
        return []

    def append(self, scope: Scope, events: Sequence[Event]) -> list[bool]:
        """Raise `Unsupported` if there are events to append."""
        return _refuse(KeepsEvents, "recording what is learned from") if events else []

    def events_after(self, scope: Scope, after: int, limit: int) -> list[Event]:
        """Return no events."""
        return []

    def events_by_topic(self, scope: Scope, topic: str, limit: int) -> list[Event]:
        """Return no events."""
        return []

    def events_of(self, scope: Scope, subjects: Sequence[str]) -> list[Event]:
        """Return no events."""
        return []

    def delete_events(self, scope: Scope, ids: Sequence[str]) -> int:
        """Return 0 if the store keeps no events, else raise `Unsupported`."""
        return 0 if KeepsEvents in self.lacks or not ids else _refuse(DeletesEvents, "deleting events")

    def setting(self, name: str) -> str | None:
        """Return no value."""
        return None

    def set_setting(self, name: str, value: str) -> None:
        """Ignore the value; callers that depend on one `require` a store that keeps settings."""

    def agents(self) -> list[str]:
        """Return no names; callers that depend on them `require` a store that lists its agents."""
        return []

    def embedder(self) -> str | None:
        """Return no embedder."""
        return None

    def set_embedder(self, identity: str) -> None:
        """Ignore the name of the embedder."""

    def unembedded(self, namespace: str, embedder: str, limit: int) -> list[Memory]:
        """Return no memories, since the plugin indexes vectors itself."""
        return []

    def count_unembedded(self, namespace: str, embedder: str) -> int:
        """Return 0."""
        return 0

    def indexes(self, scope: Scope, id: str) -> list[MemoryIndex]:
        """Return no vectors."""
        return []

    def place(self, vectors: Sequence[tuple[Scope, str, Placed]]) -> int:
        """Add nothing."""
        return 0

    def discard_vectors(self, namespace: str, keep: str) -> int:
        """Drop nothing."""
        return 0

    def preview_add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Expect that every entry would be stored as a new memory."""
        return [Receipt(id=entry.memory.id, status="stored") for entry in entries]

    def versions(self, scope: Scope, where: Filter) -> Mapping[str, int]:
        """Read all memories that pass the filter, and return their versions."""
        ids = [match.id for match in self.search(scope, Query(where=where, limit=sys.maxsize))]
        return {memory.id: memory.version for memory in self.get(scope, ids) if memory is not None}

    def delete_scope(self, scope: Scope) -> Mapping[str, int]:
        """Delete the memories and events of a scope; return how many of each."""
        ids = [match.id for match in self.search(scope, Query(limit=sys.maxsize))]
        for some in batched(ids, PAGE):
            self.forget(scope, some)
        events = [event.id for event in self.events_after(scope, 0, sys.maxsize)]
        return {"memories": len(ids), "events": self.delete_events(scope, events)}


class Completed(Fallbacks):
    """A plugin store, with a fallback for each ability that it lacks.

    Further public methods of the plugin, such as those of `Maintains`, are available as well.
    """

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.lacks = frozenset(ability for ability in ABILITIES if not isinstance(store, ability))
        for name in dir(store):  # as attributes of the instance, which is where `isinstance` looks for them
            if not name.startswith("_") and callable(method := getattr(store, name)):
                self.__dict__[name] = method

    def __repr__(self) -> str:
        return f"Completed({self._store!r})"

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Store entries; a store that keeps no events stores only the memories."""
        return self._store.add(scope, entries)

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        """Return one answer per id, in order."""
        return self._store.get(scope, ids)

    def search(self, scope: Scope, query: Query) -> list[Match]:
        """Search memories."""
        return self._store.search(scope, query)

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Delete memories."""
        return self._store.forget(scope, ids)

    def close(self) -> None:
        """Close the store."""
        self._store.close()
