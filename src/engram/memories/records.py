"""Read, list and annotate stored memories."""

from __future__ import annotations

from collections.abc import Sequence

from engram.errors import Conflict, Hint, NotFound
from engram.learning.events import with_latest_outcomes
from engram.memories import holds
from engram.model import Clean, Memory
from engram.ports import Annotates, Changes, Filter, Query, arguments
from engram.ports.arguments import When
from engram.ports.completed import require
from engram.recording.agent_context import AgentContext
from engram.recording.input import refuse_list

MAX_LISTED = 10_000
MAX_OFFSET = 1_000_000_000


def get(agent: AgentContext, id: str, *, shared: bool) -> Memory | None:
    """Return a memory of the agent, or with `shared` also one shared with it, or `None`."""
    if not arguments.is_id(id):
        return None
    (found,) = agent.store.get(agent.scope, [id])
    if found is not None:
        return with_latest_outcomes(agent.store, agent.scope, [found])[0]
    return agent.sharing.get_shared(agent.scope, [id], "get").get(id) if shared else None


def list_memories(agent: AgentContext, where: Filter, limit: int, offset: int, *, shared: bool) -> list[Memory]:
    """Return the memories that pass a filter, newest first; with `shared` also those shared with the agent."""
    most = arguments.count("limit", limit, MAX_LISTED)
    first = arguments.count("offset", offset, MAX_OFFSET, least=0)
    if not shared:
        return agent.fetch(Query(where=where, limit=most, offset=first))
    all_of_them = Query(where=where, limit=most + first)
    found = {memory.id: memory for memory in agent.fetch(all_of_them)}
    for memory in agent.sharing.list_shared(agent.scope, all_of_them):
        found.setdefault(memory.id, memory)
    return sorted(found.values(), key=lambda memory: memory.happened_at, reverse=True)[first : first + most]


def annotate(
    agent: AgentContext,
    id: str,
    *,
    tags: Sequence[str] | None,
    importance: float | None,
    confidence: float | None,
    valid_until: When | None,
    expected_version: int | None,
) -> Memory:
    """Change the metadata of a memory. Raises `NotFound`, `Conflict`, and `NotAllowed` if that would end a hold."""
    require(agent.store, Annotates, "changing a memory")
    for name, value in {"importance": importance, "confidence": confidence}.items():
        if value is not None:
            arguments.share(name, value)
    if not arguments.is_id(id):
        raise NotFound("there is no such memory", hint=Hint("memory list", "shows all memories"))
    labels = None
    if tags is not None:
        refuse_list("tags", arguments.several("tags", tags))
        labels = tuple(dict.fromkeys(agent.input.tags(tags)))
        _check_holds(agent, id, labels)
    changes = Changes(labels, importance, confidence, None, arguments.moment("valid_until", valid_until))
    return agent.store.annotate(agent.scope, id, changes, expected_version)


def check_version(agent: AgentContext, id: str, expected_version: int | None) -> None:
    """Raise `Conflict` if a memory does not exist in the expected version."""
    if expected_version is None:
        return
    (known,) = agent.store.get(agent.scope, [id]) if arguments.is_id(id) else [None]
    if known is None or known.version != expected_version:
        now = "gone" if known is None else f"at version {known.version}"
        raise Conflict(f"the memory is {now}, not at version {expected_version}; read it again")


def _check_holds(agent: AgentContext, id: str, tags: tuple[Clean, ...]) -> None:
    """Raise `NotAllowed` if a held memory would escape its hold by losing a tag."""
    held, name = holds.active_holds(agent.store), agent.scope.agent
    (memory,) = agent.store.get(agent.scope, [id]) if held else [None]
    if memory is None:
        return
    for hold in held:
        after = memory.model_copy(update={"tags": tags})
        if holds.find_hold([hold], name, memory) and not holds.find_hold([hold], name, after):
            raise holds.held_error(hold, f"memory {id}")
