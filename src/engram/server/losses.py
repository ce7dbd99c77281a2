"""Whether something was let go: what the audit trail says, whichever door it was done at."""

from __future__ import annotations

import threading
from typing import NamedTuple

from engram.model import AuditEntry
from engram.ports import KeepsAudit, MemoryStore

PAGE = 1000
NOTHING_GONE = frozenset(
    (
        "agent.define annex.add annotate checkpoint credit embed encrypt event export genesis grant.approve "
        "grant.deny grant.offer grant.request grant.share group.add group.change group.remove hold.release hold.set "
        "import key.add key.revoke merge policy.remove policy.set quarantine.put quarantine.release read rebuild rekey "
        "replay retention rotate setting unembed use write"
    ).split()
)
"""Deeds after which everything that could be read before can still be read; whatever else is done may let go."""
NAMES_GONE = frozenset("agent.erase copy destroy grant.reword hold.forget hold.reword key.close prune restore".split())
"""Deeds after which even names, of agents and of what was agreed on, may be gone."""


class Losses(NamedTuple):
    """How often something was let go so far, as far as anybody looked: two that are equal have nothing in between."""

    memories: int = 0
    """Of what memories say, or is learned from them."""
    names: int = 0
    """Of anything else: agents, grants, holds."""


class Watch:
    """Reads the audit trail on, whenever it is asked to; every process that opens the database writes there."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._newest: AuditEntry | None = None
        self._losses = Losses()

    def look(self) -> Losses:
        """The losses up to now. Where nothing is put on record, everything may be lost at any time."""
        with self._lock:
            memories, names = self._losses
            fresh = self._fresh()
            if fresh is None:
                self._losses = Losses(memories + 1, names + 1)
            elif deeds := {entry.action for entry in fresh} - NOTHING_GONE:
                self._losses = Losses(memories + 1, names + (not deeds.isdisjoint(NAMES_GONE)))
            return self._losses

    def _fresh(self) -> list[AuditEntry] | None:
        """What was done since the last look; `None` if that is not known, or too much."""
        if not isinstance(self._store, KeepsAudit):
            return None
        known = self._newest
        found = [] if known is None else self._store.trail(known.seq - 1, PAGE)
        if known is not None and found and found[0].hash == known.hash and len(found) < PAGE:
            self._newest = found[-1]
            return found[1:]
        self._newest = self._store.head()
        return None
