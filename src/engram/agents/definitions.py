"""Definitions of agents: YAML files, and their versions in the database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from pydantic import Field, JsonValue

from engram.agents.payloads import redacted_json
from engram.clock import Sources
from engram.errors import InvalidInput, NotFound
from engram.memories.working import SessionOptions
from engram.model.agent import Agent, AgentDefinition
from engram.model.content import Frozen
from engram.ports import Event, KeepsEvents, Redactor, Scope, Store, arguments
from engram.ports.completed import require
from engram.text.safe_yaml import read_as, validate_as

DEFINITION = "agent:definition"
"""Topic and subject of the events with definitions."""
MAX_VERSIONS = 10_000
OVERRIDES = "engram"
"""Configuration key for memory settings; other keys are for the program that runs the agent."""
_SUFFIXES = frozenset({".yaml", ".yml"})


class WorkingOverrides(Frozen):
    """Settings of the agent's working memory."""

    ttl: float | None = Field(default=None, gt=0, lt=10**9, description="Seconds without activity that end a session.")
    capacity_tokens: int | None = Field(default=None, ge=1, le=10**9)

    def options(self) -> SessionOptions:
        """Convert to options of a session."""
        told = SessionOptions()
        if self.ttl is not None:
            told["ttl"] = self.ttl
        if self.capacity_tokens is not None:
            told["capacity_tokens"] = self.capacity_tokens
        return told


class SemanticOverrides(Frozen):
    """Settings of the agent's semantic memory."""

    functional: Mapping[str, bool] = Field(
        default_factory=dict,
        max_length=1000,
        description="True for predicates with one value at a time, false for several.",
    )


class Overrides(Frozen):
    """Memory settings of one agent."""

    working: WorkingOverrides = WorkingOverrides()
    semantic: SemanticOverrides = SemanticOverrides()


def memory_overrides(agent: Agent | AgentDefinition | None) -> Overrides:
    """Return the memory settings in an agent's configuration. Raises `InvalidInput` for unknown ones."""
    told = {} if agent is None else agent.config.get(OVERRIDES, {})
    return validate_as(told, f"config.{OVERRIDES}{f' of {agent.name}' if agent else ''}", Overrides)


def read_definition(source: str | Path, what: str = "the definition") -> AgentDefinition:
    """Read a definition from YAML text or a file; the default name is that of the file."""
    definition = read_as(source, what, AgentDefinition)
    if not definition.name and isinstance(source, Path):
        definition = definition.model_copy(update={"name": source.stem})
    memory_overrides(definition)
    return definition


def read_definitions(path: Path) -> list[AgentDefinition]:
    """Read the definitions in a file or in all YAML files of a folder, by name of the file.

    Raises `NotFound` if there are none and `InvalidInput` if two have the same name.
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
    """The stored definitions of all agents, with all versions."""

    def __init__(self, store: Store, redactor: Redactor, sources: Sources) -> None:
        require(store, KeepsEvents, "defining agents")
        self._events = store
        self._redactor = redactor
        self._sources = sources

    def define(self, definition: AgentDefinition) -> Agent:
        """Store a definition as a new version, unless it equals the current one; returns the current one.

        Raises `InvalidInput` for an invalid name or unknown memory settings.
        """
        memory_overrides(definition)
        scope = Scope(definition.name)
        arguments.agent(definition.name)
        if self._redactor.clean([definition.name])[0].secrets:
            raise InvalidInput("this agent's name holds a secret; give it another one")
        told = definition.model_dump(mode="json", exclude={"name"})
        body = redacted_json(self._redactor, f"the definition of {definition.name}", told)
        while True:
            newest = self.current(definition.name)
            if newest is not None and _body(newest) == body:
                return newest
            version = 1 if newest is None else newest.version + 1
            event = _event(version, self._sources.now(), body)
            if self._events.append(scope, [event])[0]:  # otherwise another writer took this version
                return _agent(scope, event)

    def current(self, name: str) -> Agent | None:
        """Return the newest version of an agent, or `None`."""
        found = self._versions(name, 1)
        return found[-1] if found else None

    def history(self, name: str) -> list[Agent]:
        """Return all versions of an agent, oldest first."""
        return self._versions(name, MAX_VERSIONS)

    def load(self, path: Path) -> list[Agent]:
        """Define the agents of a file or folder; nothing is stored if one definition is invalid."""
        return [self.define(definition) for definition in read_definitions(path)]

    def _versions(self, name: str, limit: int) -> list[Agent]:
        scope = Scope(name)
        return [_agent(scope, event) for event in self._events.events_by_topic(scope, DEFINITION, limit)]


def _event(version: int, at: datetime, body: Mapping[str, JsonValue]) -> Event:
    """Make the event for a version; its id is unique, so that two writers cannot both store it."""
    return Event(f"{DEFINITION}:{version}", "definition", at, DEFINITION, DEFINITION, {**body, "version": version})


def _agent(scope: Scope, event: Event) -> Agent:
    return Agent.model_validate({**event.body, "name": scope.agent, "at": event.at})


def _body(agent: Agent) -> dict[str, object]:
    """Return the stored form of a definition."""
    told = agent.model_dump(mode="json", exclude={"name", "version", "at"})
    return told if agent.redacted else {name: value for name, value in told.items() if name != "redacted"}
