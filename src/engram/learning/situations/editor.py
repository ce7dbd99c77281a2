"""List the situations of an agent, and let users rename, merge, split and pin them permanently."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pydantic import JsonValue

from engram.clock import Sources
from engram.errors import Hint, InvalidInput, NotFound
from engram.learning import events
from engram.learning.state import Experience
from engram.model import Clean
from engram.model.situation import Situation
from engram.ports import Event, KeepsEvents, Scope, Store, arguments
from engram.ports.completed import require

LONGEST_NAME = 200


class SituationEditor:
    """The situations of one agent."""

    def __init__(
        self,
        store: Store,
        scope: Scope,
        experience: Experience,
        sources: Sources,
        clean: Callable[[str, str], Clean],
    ) -> None:
        self._store = store
        self._scope = scope
        self._experience = experience
        self._sources = sources
        self._clean = clean

    def _named_by(self, id: str) -> Sequence[str]:
        with self._experience.of(self._scope) as learned:
            return learned.situations.naming_wordings(id)

    def list(self) -> list[Situation]:
        """Return all situations, those with most decisions first."""
        with self._experience.of(self._scope) as learned:
            return learned.situations.list_all()

    def get(self, which: str) -> Situation:
        """Return the situation with this id, name or context. Raises `NotFound`."""
        cleaned = self._clean("situation", which)
        with self._experience.of(self._scope) as learned:
            id = learned.situations.find(cleaned)
            if id is not None:
                return learned.situations.to_model(id)
        raise _unknown(cleaned)

    def rename(self, which: str, name: str) -> Situation:
        """Name a situation, and pin it. Raises `NotFound` and `InvalidInput`."""
        cleaned = self._name(name)
        id = self._find(which)
        with self._experience.of(self._scope) as learned:
            other = learned.situations.id_by_name(cleaned)
        if other not in {None, id}:
            raise InvalidInput(f"another situation is called {cleaned!r}; merge them, or choose another name")
        return self._append_edit(id, {"name": cleaned, "pinned": True})

    def merge(self, which: str, others: Sequence[str]) -> Situation:
        """Merge situations into the first, which keeps its name. Raises `NotFound` and `InvalidInput`."""
        named, id = arguments.texts("the other situations", others), self._find(which)
        gone = list(dict.fromkeys(self._find(other) for other in named))
        if not gone or id in gone:
            raise InvalidInput("name at least one other situation to merge into the first")
        with self._experience.of(self._scope) as learned:
            name = learned.situations.name(id)
        for other in gone:
            twin: dict[str, JsonValue] = {"twin": other, "twin_wordings": [*self._named_by(other)]}
            self._append_edit(id, {**twin, "name": name, "pinned": True})
        return self.get(id)

    def split(self, which: str, contexts: Sequence[str], name: str = "") -> Situation:
        """Move some contexts of a situation into a new one. Raises `NotFound` and `InvalidInput`."""
        named, called = arguments.texts("contexts", contexts), self._name(name) if name else ""
        id = self._find(which)
        texts = [self._clean("context", context) for context in named]
        with self._experience.of(self._scope) as learned:
            found = {text: learned.situations.key(id, text) for text in texts}
            keys = {key for key in found.values() if key is not None}
            rest = learned.situations.wordings(id) - keys
        if missing := [text for text, key in found.items() if key is None]:
            raise NotFound(
                f"{missing[0]!a} is not a context of this situation",
                hint=Hint("learning situations show", "lists them"),
            )
        if not keys or not rest:
            raise InvalidInput("name some of its contexts, not all of them")
        new = self._sources.new_id()
        self._append_edit(id, {"split": new, "contexts": [*sorted(keys)], "pinned": True})
        return self.rename(new, called) if called else self.get(new)

    def pin(self, which: str, *, pinned: bool = True) -> Situation:
        """Protect a situation from automatic merging and splitting; `pinned=False` allows it again."""
        return self._append_edit(self._find(which), {"pinned": pinned})

    def _name(self, name: str) -> str:
        """Check a user-supplied name. Raises `InvalidInput`."""
        cleaned = self._clean("name", name).strip()
        if len(cleaned) > LONGEST_NAME:
            raise InvalidInput(f"the name has {len(cleaned):,} characters; give one of at most {LONGEST_NAME}")
        return cleaned

    def _find(self, which: str) -> str:
        """Find a situation to edit, by exact matches only."""
        cleaned = self._clean("situation", which)
        with self._experience.of(self._scope) as learned:
            found = learned.situations.find_exact(cleaned)
        if found is None:
            raise _unknown(cleaned)
        return found

    def _append_edit(self, id: str, change: dict[str, JsonValue]) -> Situation:
        """Record an edit under no memory, so that it stays when decisions are deleted."""
        require(self._store, KeepsEvents, "editing situations")
        body: dict[str, JsonValue] = {"situation": id, "wordings": [*self._named_by(id)], **change}
        event = Event(self._sources.new_id(), events.SITUATION, self._sources.now(), "", "", body)
        self._store.append(self._scope, [event])
        with self._experience.of(self._scope) as learned:
            current = learned.situations.find_exact(id)
            if current is None:
                raise NotFound("this situation no longer exists: its decisions were deleted")
            return learned.situations.to_model(current)


def _unknown(cleaned: str) -> NotFound:
    return NotFound(f"there is no situation {cleaned!a}", hint=Hint("learning situations"))
