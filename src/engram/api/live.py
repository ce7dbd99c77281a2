"""Live changes: stored and deleted memories and learning events, in the order of writes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from engram.errors import InvalidInput
from engram.model.wire import LiveEvent
from engram.ports import FORGOTTEN, KeepsSettings, ListsChanges, Scope, Store
from engram.ports.completed import require

PAGE = 500
HIDING = "events:hiding"
"""The setting with the key that encrypts the numbers of events."""
_HALF = 26
_MASK = (1 << _HALF) - 1
_ROUNDS = 8
_MOST = 1 << 40
HIGHEST = 1 << (2 * _HALF)
"""The highest public number of an event, which every JSON reader represents exactly."""


@dataclass(frozen=True, slots=True)
class Veil:
    """Encrypt the numbers of events, so that public numbers do not reveal how much other agents write.

    It is a permutation of 52-bit numbers (a Feistel network) with a key that is stored in the database.
    """

    secret: bytes

    def shown(self, seq: int) -> int:
        """Encode a position in the order of writes as a public number; never 0."""
        left, right = seq >> _HALF, seq & _MASK
        for turn in range(_ROUNDS):
            left, right = right, left ^ self._mixed(turn, right)
        return (left << _HALF | right) + 1

    def place(self, number: int) -> int:
        """Decode a public number; 0 is before the first. Raises `InvalidInput` for a number that was never given."""
        if number == 0:
            return 0
        left, right = (number - 1) >> _HALF, (number - 1) & _MASK
        for turn in reversed(range(_ROUNDS)):
            left, right = right ^ self._mixed(turn, left), left
        seq = left << _HALF | right
        if not 0 < number <= HIGHEST or seq >= _MOST:
            raise InvalidInput("this is not the number of an event; begin without one")
        return seq

    def _mixed(self, turn: int, half: int) -> int:
        made = hashlib.blake2b(half.to_bytes(4), digest_size=4, key=self.secret, salt=bytes([turn]))
        return int.from_bytes(made.digest()) & _MASK


def veil_of(store: Store, entropy: Callable[[int], bytes] = os.urandom) -> Veil:
    """Return the encryption of event numbers of a database, with a random key that is stored in it for all servers.

    If two servers create the key at once, the later one counts for both, as it is read again for each use.
    """
    require(store, KeepsSettings, "a stream of changes")
    if (known := store.setting(HIDING)) is None:
        store.set_setting(HIDING, entropy(32).hex())
        known = store.setting(HIDING) or ""
    return Veil(bytes.fromhex(known))


@dataclass(slots=True)
class Listener:
    """A reader of the changes of some agents after a position; it returns each change once."""

    store: Store
    after: int
    _seen: set[int] = field(default_factory=set)
    _began: bool = False

    def news(self, scopes: Sequence[Scope]) -> list[LiveEvent]:
        """Return the next changes since the last call, the oldest first, with public numbers."""
        if not (found := self._found(scopes)):
            return []
        veil = veil_of(self.store)
        return [event.model_copy(update={"seq": veil.shown(event.seq)}) for event in found]

    def _found(self, scopes: Sequence[Scope]) -> list[LiveEvent]:
        lag = self.store.lag() if isinstance(self.store, ListsChanges) else 0
        if lag and not self._began:  # skip changes that were visible before
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


def place(store: Store, scopes: Sequence[Scope], number: int | None) -> int:
    """Return the position after an event by its public number, or the newest. Raises `InvalidInput`."""
    return newest(store, scopes) if number is None else veil_of(store).place(number)


def newest(store: Store, scopes: Sequence[Scope]) -> int:
    """Return the position of the newest change of these agents."""
    if isinstance(store, ListsChanges):
        return max((store.newest(scope) for scope in scopes), default=0)
    return 0


def _of(store: Store, scope: Scope, after: int, limit: int) -> list[LiveEvent]:
    found, agent = [], scope.agent
    tells = isinstance(store, ListsChanges)
    if isinstance(store, ListsChanges):
        found += [
            LiveEvent(seq=change.seq, agent=agent, event=change.what, subject=change.id, at=change.at)
            for change in store.changes(scope, after, limit)
        ]
    found += [
        LiveEvent(seq=event.seq, agent=agent, event=event.kind, subject=event.subject, at=event.at)
        for event in store.events_after(scope, after, limit)
        if not (tells and event.kind == FORGOTTEN)
    ]
    return found
