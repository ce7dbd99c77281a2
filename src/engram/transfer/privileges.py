"""Remove privileges from imported drafts: pins, keys, high importance, and membership in legal holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engram.memories import holds
from engram.memories.tags import is_reserved
from engram.model import Draft
from engram.ports import Store

MAX_IMPORTANCE = 0.5
"""Maximum importance of an imported memory: the default importance."""


@dataclass(frozen=True, slots=True)
class Privileges:
    """The tags, sessions and ids that are under a legal hold."""

    tags: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()

    @classmethod
    def of(cls, store: Store) -> Privileges:
        """Read them from a store."""
        held = holds.active_holds(store)
        return cls(
            tags=frozenset(tag for hold in held for tag in hold.tags),
            sessions=frozenset(session for hold in held for session in hold.sessions),
            ids=frozenset(id for hold in held for id in hold.memories),
        )

    def without(self, draft: Draft) -> Draft:
        """Return the draft without privileges: reserved tags, held tags and sessions, high importance and trust."""
        return draft.model_copy(
            update={
                "tags": self._plain(draft.tags),
                "session": None if draft.session in self.sessions else draft.session,
                "importance": min(draft.importance, MAX_IMPORTANCE),
                "trust": None,
            }
        )

    def _plain(self, tags: Iterable[str]) -> tuple[str, ...]:
        return tuple(tag for tag in tags if not is_reserved(tag) and tag.strip() not in self.tags)
