"""Watch the audit trail for deletions, through any interface, to invalidate cached responses."""

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
"""Actions that delete nothing; any other action may delete something."""
NAMES_GONE = frozenset("agent.erase copy destroy grant.reword hold.forget hold.reword key.close prune restore".split())
"""Actions that may delete even names: of agents, grants and holds."""


OWN_GONE = frozenset("event.forget forget quarantine.discard quarantine.move".split())
"""Actions that delete only data of the agent that they name."""


@dataclass(frozen=True, slots=True)
class Losses:
    """The latest deletions, as numbers of the checks that found them."""

    number: int = 0
    """Number of checks that found a deletion; unchanged if nothing was deleted in between."""
    names: int = 0
    """The last check that found that names may be deleted: of agents, grants, holds."""
    everybody: int = 0
    """The last check that found that data of any agent may be deleted."""
    own: Mapping[str, int] = field(default_factory=dict)
    """The last check that found a deletion of one agent only, for each agent since then."""

    def of(self, agent: str) -> int:
        """Return the number of the last deletion that affects the memories of an agent."""
        return self.number if agent == EVERYONE else self.own.get(agent, self.everybody)

    def after(self, gone: Sequence[AuditEntry] | None) -> Losses:
        """Return the state after some actions that deleted something; `None` if they are unknown."""
        number = self.number + 1
        if gone is None:
            return Losses(number, number, number)
        names = self.names if NAMES_GONE.isdisjoint(entry.action for entry in gone) else number
        if all(entry.action in OWN_GONE and entry.agent and not reserved(entry.agent) for entry in gone):
            return Losses(number, names, self.everybody, {**self.own, **{entry.agent: number for entry in gone}})
        return Losses(number, names, number)


class Watch:
    """Reads the new entries of the audit trail on demand; every process that opens the database writes there."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._newest: AuditEntry | None = None
        self._losses = Losses()

    def look(self) -> Losses:
        """Return the deletions up to now; without an audit trail, every check counts as one."""
        with self._lock:
            fresh = self._fresh()
            gone = None if fresh is None else [entry for entry in fresh if entry.action not in NOTHING_GONE]
            if gone is None or gone:
                self._losses = self._losses.after(gone)
            return self._losses

    def _fresh(self) -> list[AuditEntry] | None:
        """Return the entries since the last check; `None` if they are unknown or too many."""
        if not isinstance(self._store, KeepsAudit):
            return None
        known = self._newest
        found = [] if known is None else self._store.trail(known.seq - 1, PAGE)
        if known is not None and found and found[0].hash == known.hash and len(found) < PAGE:
            self._newest = found[-1]
            return found[1:]
        self._newest = self._store.head()
        return None
