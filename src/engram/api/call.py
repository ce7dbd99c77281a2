"""The context of one call: the open memory, the caller's key, and the agent that the call is for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import unquote

from engram.api.operations import no_agent
from engram.engine import AgentHandle, Engram
from engram.errors import InvalidInput, NotAllowed
from engram.model.api_key import EVERYONE, ApiKey, Right
from engram.ports import reserved, unstorable


@dataclass(frozen=True, slots=True)
class Call:
    """The caller and the agent of a call: both are determined by the API key, never by the body of a request."""

    brain: Engram
    key: ApiKey
    named: str | None = None
    """The agent that the request names in its header or metadata, percent-encoded."""
    repeat_key: str | None = None
    """The Idempotency-Key, if it is not a field of the request."""

    def repeatable(self, key: str) -> Call:
        """Return the same call with an Idempotency-Key."""
        return replace(self, repeat_key=key)

    @property
    def agent(self) -> AgentHandle:
        """The agent of the call. Raises `NotFound` also for an agent that the key is not for."""
        return self.brain.agent(self.agent_name())

    def agent_name(self) -> str:
        """Return the agent's name. Raises `NotFound`, or `InvalidInput` if none is named and the key is for several."""
        return agent_named(self.key, self.named)

    def check_right(self, right: Right) -> None:
        """Raise `NotAllowed` if the key does not have a right."""
        if not self.key.has_right(right):
            raise NotAllowed(f"this key has no right to {right}; ask the operator of the server for one that has")

    def check_all(self) -> None:
        """Raise `NotAllowed` unless the key is for all agents."""
        if EVERYONE not in self.key.agents:
            raise NotAllowed("this needs a key for all agents; ask the operator of the server for one")

    def agents(self) -> list[str]:
        """Return the names of the existing agents that the key is for."""
        return [name for name in self.brain.agents() if self.key.may_act_for(name) and not reserved(name)]

    @staticmethod
    def check_name(text: str) -> str:
        """Return a name that can be stored. Raises `InvalidInput`."""
        if not text.strip():
            raise InvalidInput("a name is empty; give a name")
        if reason := unstorable(text):
            raise InvalidInput(f"a name cannot be used: {reason}")
        return text

    @staticmethod
    def is_storable(text: str) -> bool:
        """Return True if every store can store a text unchanged."""
        return unstorable(text) is None

    @staticmethod
    def check_storable(*texts: str) -> None:
        """Raise `InvalidInput` for text that no store can keep unchanged."""
        for text in texts:
            if reason := unstorable(text):
                raise InvalidInput(f"a text cannot be used: {reason}")

    def audited_agent(self) -> str | None:
        """Return the agent whose audit trail to read; `None` for all, if none is named and the key is for all."""
        return None if EVERYONE in self.key.agents and self.named is None else self.agent_name()


def agent_named(key: ApiKey, named: str | None) -> str:
    """Return the agent that a request names, or the only one of its key. Raises `NotFound` and `InvalidInput`."""
    if named is None:
        if len(key.agents) == 1 and key.agents[0] != EVERYONE:
            return key.agents[0]
        raise InvalidInput("the key is not for just one agent; name one in `Engram-Agent`")
    try:
        name = unquote(named, errors="strict")
    except UnicodeDecodeError:
        raise no_agent() from None
    if reserved(name) or not key.may_act_for(name):
        raise no_agent()
    return name
