"""Who the agents are: definitions in YAML files, and their versions in the database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from pydantic import Field, JsonValue

from engram.agents.payloads import packed
from engram.clock import Sources
from engram.errors import InvalidInput, NotFound
from engram.memories.working import SessionOptions
from engram.model.agent import Agent, AgentDefinition
from engram.model.content import Frozen
from engram.ports import Event, KeepsEvents, Redactor, Scope, Store, arguments
from engram.ports.completed import require
from engram.text.safe_yaml import read_as, validate_as

DEFINITION = "agent:definition"
"""The topic and subject of the events that say who an agent is."""
MOST_VERSIONS = 10_000
OVERRIDES = "engram"
"""The part of an agent's configuration that its memory goes by; the rest is for the program it runs in."""
_SUFFIXES = frozenset({".yaml", ".yml"})


class Held(Frozen):
    """How much this agent holds in mind, and for how long."""

    ttl: float | None = Field(default=None, gt=0, lt=10**9, description="Seconds of silence after which it lets go.")
    capacity_tokens: int | None = Field(default=None, ge=1, le=10**9)

    def options(self) -> SessionOptions:
        """The same, as a session takes it."""
        told = SessionOptions()
        if self.ttl is not None:
            told["ttl"] = self.ttl
        if self.capacity_tokens is not None:
            told["capacity_tokens"] = self.capacity_tokens
        return told


class Predicates(Frozen):
    """What this agent takes facts to mean."""

    functional: Mapping[str, bool] = Field(
        default_factory=dict, max_length=1000, description="Which predicates have one value at a time, or several."
    )


class Overrides(Frozen):
    """What is different in the memory of one agent."""

    working: Held = Held()
    semantic: Predicates = Predicates()


def overrides(agent: Agent | AgentDefinition | None) -> Overrides:
    """What an agent's configuration says about its memory. Raises `InvalidInput` for what is unknown."""
    told = {} if agent is None else agent.config.get(OVERRIDES, {})
    return validate_as(told, f"config.{OVERRIDES}{f' of {agent.name}' if agent else ''}", Overrides)


def read_definition(source: str | Path, what: str = "the definition") -> AgentDefinition:
    """A definition written in YAML, in a text or a file; without a name it is called as its file is."""
    definition = read_as(source, what, AgentDefinition)
    if not definition.name and isinstance(source, Path):
        definition = definition.model_copy(update={"name": source.stem})
    overrides(definition)
    return definition


def read_definitions(path: Path) -> list[AgentDefinition]:
    """The definitions in a file, or in all YAML files of a folder such as `agents/`, by name of the file.

    Raises `NotFound` if there is none and `InvalidInput` if two have one name; then none is read.
    """
    files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES) if path.is_dir() else [path]
    if not files or not path.exists():
        raise NotFound(f"there is no definition of an agent at {path}; write one, such as {path / 'alice.yaml'}")
    found: dict[str, AgentDefinition] = {}
    for file in files:
        definition = read_definition(file, str(file))
        if definition.name in found:
            raise InvalidInput(f"{file} defines {definition.name!r} a second time; keep one of them")
        found[definition.name] = definition
    return list(found.values())


class Definitions:
    """The definitions of all agents; each is kept in its agent's scope, version by version."""

    def __init__(self, store: Store, redactor: Redactor, sources: Sources) -> None:
        require(store, KeepsEvents, "defining agents")
        self._events = store
        self._redactor = redactor
        self._sources = sources

    def define(self, definition: AgentDefinition) -> Agent:
        """The agent as it is now defined: a new version if something changed, else the one that was there.

        Raises `InvalidInput` if no agent can have its name, or its configuration says of its memory what is unknown.
        """
        overrides(definition)
        scope = Scope(definition.name)
        arguments.agent(definition.name)
        if self._redactor.clean([definition.name])[0].secrets:
            raise InvalidInput("this agent's name holds a secret; give it another one")
        told = definition.model_dump(mode="json", exclude={"name"})
        body = packed(self._redactor, f"the definition of {definition.name}", told)
        while True:
            newest = self.current(definition.name)
            if newest is not None and _body(newest) == body:
                return newest
            version = 1 if newest is None else newest.version + 1
            event = _event(version, self._sources.now(), body)
            if self._events.append(scope, [event])[0]:  # else somebody else took this version
                return _agent(scope, event)

    def current(self, name: str) -> Agent | None:
        """The newest version of an agent, or `None` if nobody has defined it."""
        found = self._versions(name, 1)
        return found[-1] if found else None

    def history(self, name: str) -> list[Agent]:
        """All versions of an agent, oldest first."""
        return self._versions(name, MOST_VERSIONS)

    def load(self, path: Path) -> list[Agent]:
        """Define every agent of a file or folder; nothing is stored if one of them cannot be read."""
        return [self.define(definition) for definition in read_definitions(path)]

    def _versions(self, name: str, limit: int) -> list[Agent]:
        scope = Scope(name)
        return [_agent(scope, event) for event in self._events.events_by_topic(scope, DEFINITION, limit)]


def _event(version: int, at: datetime, body: Mapping[str, JsonValue]) -> Event:
    """One version; its id is taken once, so that two writers cannot both make it."""
    return Event(f"{DEFINITION}:{version}", "definition", at, DEFINITION, DEFINITION, {**body, "version": version})


def _agent(scope: Scope, event: Event) -> Agent:
    return Agent.model_validate({**event.body, "name": scope.agent, "at": event.at})


def _body(agent: Agent) -> dict[str, object]:
    """What a definition says, as it was kept."""
    told = agent.model_dump(mode="json", exclude={"name", "version", "at"})
    return told if agent.redacted else {name: value for name, value in told.items() if name != "redacted"}
