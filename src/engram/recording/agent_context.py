"""The parts that all agents of a memory share, and the context in which one agent records and recalls."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engram.clock import Sources
from engram.learning.service import Learning
from engram.learning.state import Experience
from engram.model import Hit, Memory
from engram.ports import LoggedRecall, LogsRecalls, Query, Redactor, Scope, Store, arguments
from engram.recall.tuning import Tuning
from engram.recording.embedding import Embeddings
from engram.recording.input import InputCleaner
from engram.sharing.lenders import Sharing
from engram.text.terms import digest, normal_form

if TYPE_CHECKING:
    from engram.memories.facts.fact_cache import FactCaches
    from engram.memories.working import WorkingSessions

REMEMBERED = 5000
LEAST_WORDS = 4
"""Shorter texts are repeated by chance."""


class RecentRecalls:
    """The texts that were recalled lately: an agent that repeats one of them has observed nothing new."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Scope, str], str] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, scope: Scope, hits: Iterable[Hit]) -> None:
        """Remember what an agent was shown."""
        with self._lock:
            for hit in hits:
                self._known[scope, _text_key(hit.memory)] = hit.id
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)

    def was_shown(self, scope: Scope, id: str) -> bool:
        """Tell whether a memory was recalled lately."""
        with self._lock:
            return any(known == id and owner == scope for (owner, _), known in self._known.items())

    def source_of(self, scope: Scope, memory: Memory) -> str | None:
        """Return the id of the recalled memory that this one repeats, if it does."""
        if not self._known or len(memory.text.split()) < LEAST_WORDS:
            return None
        with self._lock:
            return self._known.get((scope, _text_key(memory)))


def _text_key(memory: Memory) -> str:
    return digest(normal_form(memory.text))


@dataclass(kw_only=True)
class MemoryParts:
    """What all agents of one memory share; internal to the library."""

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
        return self.learning.with_latest_outcomes(found)

    def get_recall(self, id: str) -> LoggedRecall | None:
        """Return what was shown to the agent under this id by a recall, a suggestion or a check."""
        if not isinstance(self.store, LogsRecalls) or not arguments.is_id(id):
            return None
        return self.store.get_recall(self.scope, id)
