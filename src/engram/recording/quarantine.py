"""The quarantine: memories held for review, which no search, list or pattern uses until they are released."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from engram.clock import Sources
from engram.errors import Hint, NotAllowed, NotFound
from engram.memories import holds
from engram.model import Clean, ForgetReceipt, Memory, ObservationContent, Origin
from engram.model.clean import clean_name
from engram.model.memory import Quarantined
from engram.ports import Entry, Event, Query, Redactor, Scope, Scrubs, Store, acting
from engram.privacy import default_redactor
from engram.sharing.ledger import LINEAGE, Ledger
from engram.text.terms import digest

QUARANTINE = "\x1fquarantine:"
"""How the names of the reserved scopes begin that things are set apart in."""
WHY = "quarantine"
"""The kind of event that says why a memory was set apart."""
MOST = 10_000
TAKEN_BACK = "it was derived from knowledge whose grant was revoked"
"""Why something was set apart that its agent may not read any more."""
ANNEX, KEY = "annex", "key"
"""Fields of the event: the imported source that a memory belongs to, if any, and the key it was to be stored under."""
NO_PLACE = (
    "it came from somebody else, and the place for what its source says is not there; "
    "import the file that brought it again, and release it then, or discard it"
)
NO_SOURCE = "it came by an import, and nothing says by which; discard it, and import its file again"


def apart(scope: Scope) -> Scope:
    """The reserved scope beside an agent's own, which nothing but a review looks into."""
    return Scope(f"{QUARANTINE}{digest(scope.agent)}")


def meant_for(store: Store, scope: Scope, ids: Sequence[str]) -> dict[str, str]:
    """Return the scope of the imported source of each quarantined memory, by its id."""
    events = store.events_of(apart(scope), ids) if ids else []
    return {event.subject: str(event.body[ANNEX]) for event in events if event.kind == WHY and ANNEX in event.body}


class Quarantine:
    """What is set apart from one agent's memories."""

    def __init__(
        self,
        store: Store,
        scope: Scope,
        sources: Sources,
        redactor: Redactor | None = None,
        embed: Callable[[Sequence[Entry]], tuple[list[Entry], str | None]] | None = None,
    ) -> None:
        self._store = store
        self._scope = scope
        self._apart = apart(scope)
        self._sources = sources
        self._redactor = redactor
        self._embed = embed

    def put(self, entry: Entry, reason: str) -> None:
        """Keep an entry here instead of among the memories, once."""
        self.keep([(entry, reason)])

    def keep(self, several: Sequence[tuple[Entry, str]], place: Scope | None = None) -> None:
        """Keep entries here, each for its reason, in one transaction; those that are here stay as they are.

        `place` is where they belong, if not among the agent's own memories.
        """
        belongs: dict[str, JsonValue] = {} if place is None or place == self._scope else {ANNEX: place.agent}
        here = self._store.get(self._apart, [entry.memory.id for entry, _ in several])
        fresh = {
            entry.memory.id: (entry, reason)
            for (entry, reason), known in zip(several, here, strict=True)
            if known is None
        }
        cleaned = (self._redactor or default_redactor()).clean([reason for _, reason in fresh.values()])
        entries = []
        for (entry, _), said in zip(fresh.values(), cleaned, strict=True):
            id = entry.memory.id
            body: dict[str, JsonValue] = {"reason": said.text, **belongs}
            if entry.key is not None:
                body[KEY] = entry.key
            why = Event(f"{id}:{WHY}", WHY, self._sources.now(), id, WHY, body)
            memory = entry.memory.model_copy(update={"agent": self._apart.agent})
            entries.append(Entry(memory, key=entry.key, events=(*entry.events, why)))
        with acting(self._scope.agent, "quarantine.put", agent=self._scope.agent):
            self._store.add(self._apart, entries)

    def move(self, ids: Sequence[str], reason: str) -> list[str]:
        """Set memories apart with all that was learned from them; those that were there.

        Each is kept here before it goes there: whoever is stopped in between can do it again.
        """
        moved = []
        here = {match.id for match in self._store.search(self._apart, Query(among=frozenset(ids), limit=len(ids)))}
        for memory in self._store.get(self._scope, ids):
            if memory is None:
                continue
            if memory.id not in here:
                self.put(Entry(memory, events=tuple(self._events(self._scope, memory.id))), reason)
            with acting(self._scope.agent, "quarantine.move"):
                self._store.forget(self._scope, [memory.id])
            moved.append(memory.id)
        return moved

    def list(self) -> list[Quarantined]:
        """What is set apart, the newest first, and why."""
        ids = [match.id for match in self._store.search(self._apart, Query(limit=MOST))]
        return [self._told(memory) for memory in self._store.get(self._apart, ids) if memory is not None]

    def get(self, id: str) -> Quarantined:
        """One of them. Raises `NotFound`."""
        (memory,) = self._store.get(self._apart, [id])
        if memory is None:
            raise NotFound(
                f"nothing called {id!a} is set apart",
                hint=Hint("quarantine list", "shows what is"),
            )
        return self._told(memory)

    def release(self, id: str) -> Memory:
        """Release a memory unchanged: to the agent if it is its own, or else to its imported source.

        Raises `NotFound`, and `NotAllowed` for what was taken back and what has no place to go to.
        """
        kept = self.get(id)
        if kept.reason == TAKEN_BACK:
            raise NotAllowed("its owner has taken it back; discard it, or ask for a new grant and remember it anew")
        every = self._events(self._apart, id)
        told = next((event.body for event in every if event.kind == WHY), {})
        place, source = self._place(kept.memory, told)
        memory = kept.memory.model_copy(update={"agent": place.agent})
        entry = Entry(memory, events=tuple(event for event in every if event.kind != WHY))
        with acting(self._scope.agent, "quarantine.release", agent=self._scope.agent):
            if self._store.get(place, [id]) == [None]:
                (placed,) = self._embed([entry])[0] if self._embed else [entry]
                memory = self._give(place, placed, told.get(KEY))
            self._store.forget(self._apart, [id])
        return memory.model_copy(update={"agent": source})

    def _place(self, memory: Memory, told: Mapping[str, JsonValue]) -> tuple[Scope, str]:
        """Where a memory belongs, and whose it is there. Raises `NotAllowed` if there is no such place."""
        if ANNEX not in told:
            if memory.provenance.origin == Origin.IMPORTED and isinstance(memory.metadata.get(LINEAGE), dict):
                raise NotAllowed(NO_SOURCE)
            return self._scope, self._scope.agent
        name = str(told[ANNEX])
        known = Ledger(self._store, self._sources).imported_sources(self._scope.agent).get(name)
        if known is None or known.get("quarantined"):
            raise NotAllowed(NO_PLACE)
        return Scope(name), str(known["source"])

    def _give(self, place: Scope, entry: Entry, key: JsonValue) -> Memory:
        """Store a memory under its key, or under none if that is another's by now; the memory that is there."""
        keyed = replace(entry, key=clean_name(key)) if isinstance(key, str) else entry
        (receipt,) = self._store.add(place, [keyed])
        if receipt.status == "rejected":
            self._store.add(place, [entry])
        elif receipt.id != entry.memory.id:
            (there,) = self._store.get(place, [str(receipt.id)])
            return there or entry.memory
        return entry.memory

    def discard(self, id: str) -> ForgetReceipt:
        """Forget a memory that was set apart, and leave nothing of it. Raises `NotAllowed` if it is held."""
        store = self._store
        (memory,) = store.get(self._apart, [id])
        holds.refuse_if_held(store, self._scope, [] if memory is None else [memory])
        with acting(self._scope.agent, "quarantine.discard", agent=self._scope.agent):
            (receipt,) = store.forget(self._apart, [id])
        lingers = receipt.forgotten and isinstance(store, Scrubs) and not store.scrub()
        return receipt.model_copy(update={"lingers": lingers})

    def _told(self, memory: Memory) -> Quarantined:
        why = [event for event in self._events(self._apart, memory.id) if event.kind == WHY]
        reason, at = (str(why[0].body["reason"]), why[0].at) if why else ("", memory.created_at)
        own = memory.model_copy(update={"agent": self._scope.agent})
        if reason == TAKEN_BACK:  # that it is here may be known, what it says no longer
            said = memory.provenance.model_copy(update={"session": None, "speaker": None, "sources": ()})
            hidden = {"text": Clean(""), "context": Clean(""), "metadata": {}, "tags": (), "provenance": said}
            own = own.model_copy(update=hidden | {"content": ObservationContent()})
        return Quarantined(id=memory.id, memory=own, reason=reason, at=at)

    def _events(self, scope: Scope, id: str) -> Sequence[Event]:
        return [replace(event, seq=0) for event in self._store.events_of(scope, [id])]
