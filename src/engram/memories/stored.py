"""What is kept: shown by id, listed by time, and changed in what surrounds it."""

from __future__ import annotations

from collections.abc import Sequence

from engram.errors import Conflict, Hint, NotFound
from engram.memories import holds
from engram.model import Clean, Memory
from engram.ports import Annotates, Changes, Filter, Query, arguments
from engram.ports.arguments import When
from engram.ports.completed import require
from engram.recording.agent_context import Seat
from engram.recording.draft import refuse_list

MAX_LISTED = 10_000
MAX_OFFSET = 1_000_000_000


def get(seat: Seat, id: str, *, shared: bool) -> Memory | None:
    """A memory of the agent's own, or with `shared` one that is lent to it, or `None`."""
    if not arguments.is_id(id):
        return None
    (found,) = seat.store.get(seat.scope, [id])
    if found is not None:
        return seat.learning.up_to_date([found])[0]
    return seat.sharing.borrow(seat.scope, [id], "get").get(id) if shared else None


def listed(seat: Seat, where: Filter, limit: int, offset: int, *, shared: bool) -> list[Memory]:
    """The memories that pass a filter, newest first; with `shared` also those that are lent to the agent."""
    most = arguments.count("limit", limit, MAX_LISTED)
    first = arguments.count("offset", offset, MAX_OFFSET, least=0)
    if not shared:
        return seat.fetch(Query(where=where, limit=most, offset=first))
    all_of_them = Query(where=where, limit=most + first)
    found = {memory.id: memory for memory in seat.fetch(all_of_them)}
    for memory in seat.sharing.listed(seat.scope, all_of_them):
        found.setdefault(memory.id, memory)
    return sorted(found.values(), key=lambda memory: memory.happened_at, reverse=True)[first : first + most]


def annotated(
    seat: Seat,
    id: str,
    *,
    tags: Sequence[str] | None,
    importance: float | None,
    confidence: float | None,
    valid_until: When | None,
    expected_version: int | None,
) -> Memory:
    """The memory with what surrounds it changed. Raises `NotFound`, `Conflict`, and `NotAllowed` if it is held."""
    require(seat.store, Annotates, "changing a memory")
    for name, value in {"importance": importance, "confidence": confidence}.items():
        if value is not None:
            arguments.share(name, value)
    if not arguments.is_id(id):
        raise NotFound("there is no such memory", hint=Hint("memory list"))
    labels = None
    if tags is not None:
        refuse_list("tags", arguments.several("tags", tags))
        labels = tuple(dict.fromkeys(seat.gate.tags(tags)))
        _refuse_unholding(seat, id, labels)
    changes = Changes(labels, importance, confidence, None, arguments.moment("valid_until", valid_until))
    return seat.store.annotate(seat.scope, id, changes, expected_version)


def refuse_changed(seat: Seat, id: str, expected_version: int | None) -> None:
    """Raises `Conflict` if a memory has another version than the one that is expected, or is not there."""
    if expected_version is None:
        return
    (known,) = seat.store.get(seat.scope, [id]) if arguments.is_id(id) else [None]
    if known is None or known.version != expected_version:
        now = "gone" if known is None else f"at version {known.version}"
        raise Conflict(f"the memory is {now}, not at version {expected_version}; read it again")


def _refuse_unholding(seat: Seat, id: str, tags: tuple[Clean, ...]) -> None:
    """Raises `NotAllowed` if a memory that is held would be so no longer without one of its tags."""
    held, name = holds.held(seat.store), seat.scope.agent
    (memory,) = seat.store.get(seat.scope, [id]) if held else [None]
    if memory is None:
        return
    for hold in held:
        after = memory.model_copy(update={"tags": tags})
        if holds.covering([hold], name, memory) and not holds.covering([hold], name, after):
            raise holds.refusal(hold, f"memory {id}")
