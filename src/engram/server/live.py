"""Live changes: what came, what went and what was learned, in the order of writes, for whoever listens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from engram.model.wire import LiveEvent
from engram.ports import FORGOTTEN, KeepsEvents, MemoryStore, Scope, TellsChanges

PAGE = 500


@dataclass(slots=True)
class Listener:
    """Somebody who hears of the changes of some agents, from a number on; each once, as long as he listens."""

    store: MemoryStore
    after: int
    _seen: set[int] = field(default_factory=set)
    _began: bool = False

    def news(self, scopes: Sequence[Scope]) -> list[LiveEvent]:
        """What happened since he last asked, the oldest first, limited."""
        lag = self.store.lag() if isinstance(self.store, TellsChanges) else 0
        if lag and not self._began:  # what was there before he came is no news, wherever its number is
            self._seen = {event.seq for event in self._since(scopes, self.after - lag, lag + PAGE)}
            self._seen = {seq for seq in self._seen if seq <= self.after}
        self._began = True
        found = [event for event in self._since(scopes, self.after - lag, lag + PAGE) if event.seq not in self._seen]
        self.after = max([self.after, *(event.seq for event in found)])
        if lag:
            self._seen |= {event.seq for event in found}
            self._seen = {seq for seq in self._seen if seq > self.after - lag}
        return found

    def _since(self, scopes: Sequence[Scope], after: int, limit: int) -> list[LiveEvent]:
        found = [event for scope in scopes for event in _of(self.store, scope, max(after, 0), limit)]
        return list(islice(sorted(found, key=lambda event: event.seq), limit))


def newest(store: MemoryStore, scopes: Sequence[Scope]) -> int:
    """The number of the newest thing that happened to these agents."""
    if isinstance(store, TellsChanges):
        return max((store.newest(scope) for scope in scopes), default=0)
    return 0


def _of(store: MemoryStore, scope: Scope, after: int, limit: int) -> list[LiveEvent]:
    found, agent = [], scope.agent
    tells = isinstance(store, TellsChanges)
    if isinstance(store, TellsChanges):
        found += [
            LiveEvent(seq=change.seq, agent=agent, event=change.what, subject=change.id, at=change.at)
            for change in store.changes(scope, after, limit)
        ]
    if isinstance(store, KeepsEvents):
        found += [
            LiveEvent(seq=event.seq, agent=agent, event=event.kind, subject=event.subject, at=event.at)
            for event in store.feed(scope, after, limit)
            if not (tells and event.kind == FORGOTTEN)
        ]
    return found
