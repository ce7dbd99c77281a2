"""What one agent has at hand when it records and acts."""

from __future__ import annotations

from dataclasses import dataclass

from engram.clock import Sources
from engram.learning.service import Learning
from engram.learning.state import Experience
from engram.model import Memory
from engram.ports import LoggedRecall, LogsRecalls, Query, Redactor, Scope, Store, arguments
from engram.recall.tuning import Tuning
from engram.recording.echoes import Echoes
from engram.recording.embedding import Placing
from engram.recording.input import Gate
from engram.sharing.lenders import Sharing


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One agent's scope in a store, and all that its words pass on their way there and back."""

    store: Store
    scope: Scope
    redactor: Redactor
    sources: Sources
    gate: Gate
    placing: Placing
    experience: Experience
    tuning: Tuning
    echoes: Echoes
    sharing: Sharing
    learning: Learning

    def fetch(self, query: Query) -> list[Memory]:
        """The agent's own memories that a query finds; decisions as they turned out."""
        ids = [match.id for match in self.store.search(self.scope, query)]
        found = [memory for memory in self.store.get(self.scope, ids) if memory is not None]
        return self.learning.up_to_date(found)

    def shown(self, id: str) -> LoggedRecall | None:
        """What was shown to the agent under this id: by a recall or a suggestion."""
        if not isinstance(self.store, LogsRecalls) or not arguments.is_id(id):
            return None
        return self.store.get_recall(self.scope, id)
