"""Grants: permissions to read or learn from another agent's knowledge."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field, model_validator

from engram.model.clean import Clean
from engram.model.content import Frozen
from engram.model.memory import Moment

EVERYONE = "everyone"


class Right(StrEnum):
    """A right that a grant gives."""

    READ = "read"
    LEARN = "learn"
    RESHARE = "reshare"


class GrantState(StrEnum):
    """State of a grant."""

    REQUESTED = "requested"
    OFFERED = "offered"
    GRANTED = "granted"
    DENIED = "denied"
    REVOKED = "revoked"
    EXPIRED = "expired"


class Subject(Frozen):
    """The shared knowledge: named memories or patterns, all with a tag or of a domain, or everything."""

    memories: tuple[str, ...] = Field(default=(), description="Ids of memories.")
    patterns: tuple[Clean, ...] = Field(default=(), description="Names or ids of learned patterns.")
    domains: tuple[Clean, ...] = Field(default=(), description="Fields of knowledge, such as auth or db.")
    tags: tuple[Clean, ...] = Field(default=(), description="Tags; a memory with any of them is shared.")
    everything: bool = Field(default=False, description="All memories of the owner, present and future.")

    @model_validator(mode="after")
    def _says_something(self) -> Subject:
        if not (self.memories or self.patterns or self.domains or self.tags or self.everything):
            raise ValueError("say what is shared: memories, patterns, domains, tags, or everything")
        return self

    def __str__(self) -> str:
        if self.everything:
            return "everything"
        named = {"memory": self.memories, "pattern": self.patterns, "domain": self.domains, "tag": self.tags}
        return ", ".join(f"{name} {value}" for name, values in named.items() for value in values)


class Grant(Frozen):
    """A permission, requested or given. Knowledge is shared only under a grant in the state `granted`."""

    id: str = Field(description="Its id.")
    owner: str = Field(description="The agent whose knowledge is shared.")
    receiver: str = Field(description="The agent or group that may use it; `everyone` for all.")
    audience: Literal["agent", "group", "everyone"] = Field(default="agent", description="The type of the receiver.")
    subject: Subject = Field(description="The shared knowledge.")
    rights: tuple[Right, ...] = Field(default=(Right.READ, Right.LEARN), description="Permitted uses.")
    purpose: Clean = Field(default=Clean(""), description="Purpose of the grant.")
    state: GrantState = Field(description="Its state.")
    made_by: str = Field(description="The agent that requested or offered it.")
    made_at: Moment = Field(description="Time of the request or offer.")
    decided_at: Moment | None = Field(default=None, description="Time it was approved, denied or revoked.")
    expires_at: Moment | None = Field(default=None, description="Time at which it expires.")
    via: str = Field(default="", description="The grant under which it is passed on, if it was not given by the owner.")
    version: int = Field(default=1, description="Incremented by every change.")

    def state_at(self, now: datetime) -> GrantState:
        """Return the state at a time; a granted one past its end is expired."""
        over = self.expires_at is not None and self.expires_at <= now
        return GrantState.EXPIRED if over and self.state == GrantState.GRANTED else self.state

    def involves(self, agent: str) -> bool:
        """Return true if an agent is the owner, the maker or, by name, the receiver."""
        return agent in {self.owner, self.made_by} or (self.audience == "agent" and agent == self.receiver)


class GrantUse(Frozen):
    """One use of a grant."""

    grant: str = Field(description="The id of the grant.")
    agent: str = Field(description="The agent that used it.")
    action: str = Field(description="The operation: recall, get, list, suggest, check, export or merge.")
    at: Moment = Field(description="Time of the use.")
    count: int = Field(description="Number of memories, episodes or patterns used.")
    memories: tuple[str, ...] = Field(default=(), description="Ids of the first memories that were returned.")


class Revocation(Frozen):
    """Result of ending a grant, with the memories withdrawn from its receivers."""

    grant: Grant = Field(description="The grant after the change.")
    quarantined: tuple[str, ...] = Field(default=(), description="Memories derived from it that were quarantined.")
    copies: int = Field(default=0, description="Number of copies that were quarantined.")


class Source(Frozen):
    """An agent or import whose knowledge is used, with the trust it has earned."""

    name: str = Field(description="The owner of the knowledge.")
    kind: Literal["grant", "import"] = Field(description="A grant or an import.")
    id: str = Field(description="The id of the grant or import.")
    trust: float = Field(ge=0, le=1, description="Estimated from how often it helped; low at first.")
    helped: float = Field(default=0, description="Number of times it helped.")
    hindered: float = Field(default=0, description="Number of times it did not help.")
    memories: int | None = Field(default=None, description="Number of its memories, if counted.")
