"""Consent: who may see and use what of whose knowledge, for what, and until when."""

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
    """What a grant allows."""

    READ = "read"
    LEARN = "learn"
    RESHARE = "reshare"


class GrantState(StrEnum):
    """Where a grant stands."""

    REQUESTED = "requested"
    OFFERED = "offered"
    GRANTED = "granted"
    DENIED = "denied"
    REVOKED = "revoked"
    EXPIRED = "expired"


class Subject(Frozen):
    """What is shared: these memories, these patterns, all with one of these tags or of these domains, or everything."""

    memories: tuple[str, ...] = Field(default=(), description="Ids of memories.")
    patterns: tuple[Clean, ...] = Field(default=(), description="Names or ids of learned patterns.")
    domains: tuple[Clean, ...] = Field(default=(), description="Fields of knowledge, such as auth or db.")
    tags: tuple[Clean, ...] = Field(default=(), description="Tags; a memory with any of them is shared.")
    everything: bool = Field(default=False, description="All that the owner remembers, now and later.")

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
    """A permission, asked for or given. Nothing is shared without one that is granted."""

    id: str = Field(description="Its id.")
    owner: str = Field(description="The agent whose knowledge it is about.")
    receiver: str = Field(description="The agent or group that may use it; `everyone` for all.")
    audience: Literal["agent", "group", "everyone"] = Field(default="agent", description="What the receiver is.")
    subject: Subject = Field(description="What is shared.")
    rights: tuple[Right, ...] = Field(default=(Right.READ, Right.LEARN), description="What may be done with it.")
    purpose: Clean = Field(default=Clean(""), description="What it is for.")
    state: GrantState = Field(description="Where it stands.")
    made_by: str = Field(description="Who asked for it or offered it.")
    made_at: Moment = Field(description="When that was.")
    decided_at: Moment | None = Field(default=None, description="When it was approved, denied or revoked.")
    expires_at: Moment | None = Field(default=None, description="When it ends by itself.")
    via: str = Field(default="", description="The grant under which it is shared on, if the owner did not give it.")
    version: int = Field(default=1, description="Counts its changes.")

    def at(self, now: datetime) -> GrantState:
        """Where it stands at a time: one that has run out is expired."""
        over = self.expires_at is not None and self.expires_at <= now
        return GrantState.EXPIRED if over and self.state == GrantState.GRANTED else self.state

    def concerns(self, agent: str) -> bool:
        """Whether an agent is one of its parties by name."""
        return agent in {self.owner, self.made_by} or (self.audience == "agent" and agent == self.receiver)


class GrantUse(Frozen):
    """One use of a grant: who did what, when, with how many memories."""

    grant: str = Field(description="The id of the grant.")
    agent: str = Field(description="Who used it.")
    action: str = Field(description="What was done: recall, get, list, suggest, check, export or merge.")
    at: Moment = Field(description="When.")
    count: int = Field(description="How many memories, episodes or patterns were used.")
    memories: tuple[str, ...] = Field(default=(), description="Ids of what was seen, the first few.")


class Revocation(Frozen):
    """What ended with a grant, and what was taken back at its receivers."""

    grant: Grant = Field(description="The grant as it is now.")
    quarantined: tuple[str, ...] = Field(default=(), description="Memories derived from it that were set apart.")
    copies: int = Field(default=0, description="Copies that were set apart.")


class Source(Frozen):
    """Somebody whose knowledge an agent uses, and how far the agent has reason to trust it."""

    name: str = Field(description="Whose knowledge it is.")
    kind: Literal["grant", "import"] = Field(description="How it came.")
    id: str = Field(description="The grant, or the import.")
    trust: float = Field(ge=0, le=1, description="From how often it helped; low at first.")
    helped: float = Field(default=0, description="How often it helped.")
    hindered: float = Field(default=0, description="How often it did not.")
    memories: int | None = Field(default=None, description="How many memories it has, if they were counted.")
