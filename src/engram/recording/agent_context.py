"""The parts that all agents of a memory share, and the context in which one agent records and recalls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engram.clock import Sources
from engram.learning.events import with_latest_outcomes
from engram.learning.service import Learning
from engram.learning.state import Experience
from engram.model import Memory
from engram.ports import Query, Redactor, Scope, Store
from engram.recall.rank import Tuning
from engram.recording.embedding import Embeddings
from engram.recording.input import InputCleaner, RecentRecalls
from engram.sharing.lenders import Sharing

if TYPE_CHECKING:
    from engram.memories.facts.fact_cache import FactCaches
    from engram.memories.working import WorkingSessions


@dataclass(kw_only=True)
class MemoryParts:
    """The objects that all agents of one database share; internal to the library."""

    store: Store
    redactor: Redactor
    sources: Sources
    input: InputCleaner
    embeddings: Embeddings
    experience: Experience
    tuning: Tuning
    recent_recalls: RecentRecalls
    sharing: Sharing
    sessions: WorkingSessions
    fact_caches: FactCaches


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContext:
    """One agent's scope in a store, and the parts that its recording and recall need."""

    store: Store
    scope: Scope
    redactor: Redactor
    sources: Sources
    input: InputCleaner
    embeddings: Embeddings
    experience: Experience
    tuning: Tuning
    recent_recalls: RecentRecalls
    sharing: Sharing
    learning: Learning

    @classmethod
    def of(cls, parts: MemoryParts, scope: Scope) -> AgentContext:
        """Return the context of one agent."""
        learning = Learning(
            parts.store,
            scope,
            parts.experience,
            parts.sources,
            parts.embeddings.context_vector,
            parts.input.clean,
            parts.embeddings.baseline_similarity,
            parts.embeddings.chance_closeness,
            notes_shown=True,
        )
        return cls(
            store=parts.store,
            scope=scope,
            redactor=parts.redactor,
            sources=parts.sources,
            input=parts.input,
            embeddings=parts.embeddings,
            experience=parts.experience,
            tuning=parts.tuning,
            recent_recalls=parts.recent_recalls,
            sharing=parts.sharing,
            learning=learning,
        )

    def fetch(self, query: Query) -> list[Memory]:
        """Return the agent's own memories that a query finds; decisions with their latest outcomes."""
        ids = [match.id for match in self.store.search(self.scope, query)]
        found = [memory for memory in self.store.get(self.scope, ids) if memory is not None]
        return with_latest_outcomes(self.store, self.scope, found)
