"""What nothing that comes from elsewhere can give itself: to be kept for good, to rank first, to pass for another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engram.memories import holds
from engram.memories.tags import gives_rights
from engram.model import Draft
from engram.ports import Store

USUAL_IMPORTANCE = 0.5
"""How important a memory is if nobody says so; what is imported is that at most."""


@dataclass(frozen=True, slots=True)
class Privileges:
    """The tags, sessions and ids by which memories are held at the moment."""

    tags: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()

    @classmethod
    def of(cls, store: Store) -> Privileges:
        """Those that a database has to give."""
        held = holds.held(store)
        return cls(
            tags=frozenset(tag for hold in held for tag in hold.tags),
            sessions=frozenset(session for hold in held for session in hold.sessions),
            ids=frozenset(id for hold in held for id in hold.memories),
        )

    def without(self, draft: Draft) -> Draft:
        """The same draft as somebody else's word: it says what it said, and has no rights."""
        return draft.model_copy(
            update={
                "tags": self._plain(draft.tags),
                "session": None if draft.session in self.sessions else draft.session,
                "importance": min(draft.importance, USUAL_IMPORTANCE),
                "trust": None,
            }
        )

    def _plain(self, tags: Iterable[str]) -> tuple[str, ...]:
        return tuple(tag for tag in tags if not gives_rights(tag) and tag.strip() not in self.tags)
