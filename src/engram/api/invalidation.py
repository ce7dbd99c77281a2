"""Whether something was let go: what the audit trail says, whichever door it was done at."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engram.model import AuditEntry
from engram.model.api_key import EVERYONE
from engram.ports import KeepsAudit, Store, reserved

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


OWN_GONE = frozenset("event.forget forget quarantine.discard quarantine.move".split())
"""Deeds after which something of the agent that they name may be gone, and nothing of anybody else's."""


@dataclass(frozen=True, slots=True)
class Losses:
    """When something was let go last, as far as anybody looked: looks that found something are counted."""

    number: int = 0
    """How many looks found something: where it is the same, nothing was let go in between."""
    names: int = 0
    """The last of them that found that even names may be gone: of agents, grants, holds."""
    everybody: int = 0
    """The last that found that something of any agent may be gone."""
    own: Mapping[str, int] = field(default_factory=dict)
    """The last that found that something of one agent is gone, for each since then."""

    def of(self, agent: str) -> int:
        """The last that touches what the memories of an agent say; any of them, if nobody says which agent."""
        return self.number if agent == EVERYONE else self.own.get(agent, self.everybody)

    def after(self, gone: Sequence[AuditEntry] | None) -> Losses:
        """The same after some deeds by which something went; `None` if nobody knows which."""
        number = self.number + 1
        if gone is None:
            return Losses(number, number, number)
        names = self.names if NAMES_GONE.isdisjoint(entry.action for entry in gone) else number
        if all(entry.action in OWN_GONE and entry.agent and not reserved(entry.agent) for entry in gone):
            return Losses(number, names, self.everybody, {**self.own, **{entry.agent: number for entry in gone}})
        return Losses(number, names, number)


class Watch:
    """Reads the audit trail on, whenever it is asked to; every process that opens the database writes there."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._newest: AuditEntry | None = None
        self._losses = Losses()

    def look(self) -> Losses:
        """The losses up to now. Where nothing is put on record, everything may be lost at any time."""
        with self._lock:
            fresh = self._fresh()
            gone = None if fresh is None else [entry for entry in fresh if entry.action not in NOTHING_GONE]
            if gone is None or gone:
                self._losses = self._losses.after(gone)
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
