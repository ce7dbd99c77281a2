"""Legal holds and retention policies, stored as an event log in a reserved scope.

Held memories cannot be deleted by a policy, `forget` or `agent erase` until the hold is released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pydantic import JsonValue, ValidationError

from engram.clock import Sources
from engram.errors import Hint, InvalidInput, NotAllowed, NotFound
from engram.model import Clean, Memory
from engram.model.clean import DELETED_TEXT
from engram.model.memory import describe_error
from engram.model.retention import LegalHold, RetentionPolicy
from engram.ports import Event, KeepsEvents, Scope, Store, acting
from engram.ports.completed import require

RETENTION = Scope("\x1fretention")
"""The reserved scope of the log; no agent can have its name."""
HOLD, RELEASED, POLICY, REMOVED = "hold", "hold-released", "policy", "policy-removed"
PAGE = 1000


def active_holds(store: Store) -> list[LegalHold]:
    """Return the holds in force, oldest first."""
    return [hold for hold in all_holds(store) if hold.released_at is None]


def all_holds(store: Store) -> list[LegalHold]:
    """Return all holds, including released ones, oldest first."""
    found: dict[str, LegalHold] = {}
    for event in _all_events(store):
        if event.kind == HOLD:
            found[event.subject] = LegalHold.model_validate(event.body)
        elif event.kind == RELEASED and event.subject in found:
            found[event.subject] = found[event.subject].model_copy(update={"released_at": event.at})
    return list(found.values())


def policies(store: Store) -> list[RetentionPolicy]:
    """Return the policies in force, in the order in which they were first set."""
    found: dict[str, RetentionPolicy] = {}
    for event in _all_events(store):
        if event.kind == POLICY:
            found[event.subject] = RetentionPolicy.model_validate(event.body)
        elif event.kind == REMOVED:
            found.pop(event.subject, None)
    return list(found.values())


def find_hold(holds: Iterable[LegalHold], agent: str, memory: Memory) -> LegalHold | None:
    """Return the first hold that covers a memory, or `None`."""
    for hold in holds:
        if hold.agent in {None, agent} and (
            hold.whole
            or memory.id in hold.memories
            or not {*hold.tags}.isdisjoint(memory.tags)
            or (memory.session is not None and memory.session in hold.sessions)
        ):
            return hold
    return None


def held_error(hold: LegalHold, what: str) -> NotAllowed:
    """Make the error for a deletion that a hold forbids."""
    return NotAllowed(
        f"{what} is held by {hold.id} ({hold.reason}); nothing was deleted",
        hint=Hint(f"retention release {hold.id}", "ends the hold"),
    )


def refuse_if_held(store: Store, scope: Scope, memories: Iterable[Memory]) -> None:
    """Raise `NotAllowed` if one of these memories of an agent is held."""
    in_force = active_holds(store)
    for memory in memories if in_force else ():
        if hold := find_hold(in_force, scope.agent, memory):
            raise held_error(hold, f"memory {memory.id}")


def refuse_if_agent_held(store: Store, scope: Scope, what: str) -> None:
    """Raise `NotAllowed` for data other than memories if everything of its agent is held."""
    for hold in active_holds(store):
        if hold.whole and hold.agent == scope.agent:
            raise held_error(hold, what)


def redact_hold(store: Store, sources: Sources, hold: LegalHold) -> None:
    """Delete the text of a hold: the whole hold if it was released, or else its reason."""
    old = [event.id for event in _all_events(store) if event.subject == hold.id]
    with acting("", "hold.reword" if hold.released_at is None else "hold.forget", agent=hold.agent or ""):
        if hold.released_at is None:
            body = hold.model_copy(update={"reason": DELETED_TEXT}).model_dump(mode="json")
            store.append(RETENTION, [Event(sources.new_id(), HOLD, sources.now(), hold.id, HOLD, body)])
        store.delete_events(RETENTION, old)


class RetentionLog:
    """Set and end legal holds and retention policies."""

    def __init__(self, store: Store, sources: Sources, clean: Callable[[str], Clean]) -> None:
        require(store, KeepsEvents, "retention")
        self._store = store
        self._sources, self._clean = sources, clean

    def hold(
        self,
        reason: str,
        *,
        agent: str | None = None,
        memories: Sequence[str] = (),
        tags: Sequence[str] = (),
        sessions: Sequence[str] = (),
    ) -> LegalHold:
        """Forbid the deletion of an agent's memories, or of the named ones, until the hold is released."""
        if not reason.strip():
            raise InvalidInput("a hold needs a reason; say why the memories must be kept")
        try:
            made = LegalHold(
                id=self._sources.new_id(),
                reason=self._clean(reason.strip()),
                at=self._sources.now(),
                agent=None if agent is None else Scope(agent).agent,
                memories=tuple(memories),
                tags=tuple(self._clean(tag.strip()) for tag in tags),
                sessions=tuple(self._clean(session) for session in sessions),
            )
        except ValidationError as error:
            raise InvalidInput(describe_error(error)) from None
        self._append(HOLD, made.id, made.model_dump(mode="json"))
        return made

    def release(self, id: str) -> LegalHold:
        """End a hold; releasing it twice is harmless. Raises `NotFound`."""
        if not (found := [hold for hold in all_holds(self._store) if hold.id == id]):
            raise NotFound(f"there is no hold {id!a}", hint=Hint("retention holds", "shows all holds"))
        if found[0].released_at is None:
            self._append(RELEASED, id, {"agent": found[0].agent})
        return next(hold for hold in all_holds(self._store) if hold.id == id)

    def set(self, policy: RetentionPolicy) -> RetentionPolicy:
        """Set a policy, replacing one of the same name."""
        if policy.agent is not None:
            Scope(policy.agent)
        clean = policy.model_copy(
            update={"name": self._clean(policy.name), "tags": tuple(self._clean(tag) for tag in policy.tags)}
        )
        self._append(POLICY, clean.name, clean.model_dump(mode="json"))
        return clean

    def remove(self, name: str) -> RetentionPolicy:
        """Remove a policy. Raises `NotFound`."""
        for policy in policies(self._store):
            if policy.name == name:
                self._append(REMOVED, name, {"agent": policy.agent})
                return policy
        raise NotFound(f"there is no policy {name!a}", hint=Hint("retention list", "shows all policies"))

    def _append(self, kind: str, subject: str, body: dict[str, JsonValue]) -> None:
        now, id = self._sources.now(), self._sources.new_id()
        self._store.append(RETENTION, [Event(id, kind, now, subject, kind, body)])


def events_naming(store: Store, agent: str) -> list[Event]:
    """Return the events of policies and holds that name an agent."""
    events = _all_events(store)
    subjects = {event.subject for event in events if event.body.get("agent") == agent}
    return [event for event in events if event.subject in subjects]


def _all_events(store: Store) -> list[Event]:
    found, after = list[Event](), 0
    while some := store.events_after(RETENTION, after, PAGE):
        found, after = found + some, some[-1].seq
    return found
