"""How long memories are kept: policies, legal holds, and what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal, Self

from pydantic import Field, model_validator

from engram.model.clean import Clean
from engram.model.content import Frozen, MemoryType
from engram.model.memory import Moment, Share

Action = Literal["forget", "archive"]
Went = Literal["success", "partial", "failure"]


class RetentionPolicy(Frozen):
    """Which memories go by themselves: those that fulfil everything it says."""

    name: Clean = Field(description="What it is called.")
    action: Action = Field(
        description="`forget` leaves nothing of them; `archive` moves them to a file, from which they can come back."
    )
    agent: str | None = Field(default=None, description="Whose memories; those of all agents, if left out.")
    kinds: tuple[MemoryType, ...] = Field(default=(), description="Only memories of one of these kinds.")
    tags: tuple[Clean, ...] = Field(default=(), description="Only memories that have all of these tags.")
    older_than: timedelta | None = Field(default=None, description="Only what was stored longer ago than this.")
    weaker_than: Share | None = Field(default=None, description="Only what has faded below this strength.")
    outcome: Went | None = Field(default=None, description="Only what went like this.")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.kinds or self.tags or self.older_than or self.weaker_than is not None or self.outcome):
            raise ValueError("a policy needs a kind, a tag, an age, a strength or an outcome; `agent erase` takes all")
        if self.older_than is not None and self.older_than <= timedelta():
            raise ValueError("the age must be above 0")
        return self


class LegalHold(Frozen):
    """What may not be forgotten until somebody releases it: all of an agent, or what it says besides."""

    id: str = Field(description="By which it is released.")
    reason: Clean = Field(description="Why it is held, in the words of whoever holds it.")
    at: Moment = Field(description="Since when.")
    agent: str | None = Field(default=None, description="Whose memories; those of all agents, if left out.")
    memories: tuple[str, ...] = Field(default=(), description="Only these, by id.")
    tags: tuple[Clean, ...] = Field(default=(), description="Only those with one of these tags.")
    sessions: tuple[Clean, ...] = Field(default=(), description="Only those of one of these sessions.")
    released_at: Moment | None = Field(default=None, description="When it ended.")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.agent is None and self.whole:
            raise ValueError("a hold needs an agent, a memory, a tag or a session")
        return self

    @property
    def whole(self) -> bool:
        """Whether it holds everything that its agent has."""
        return not (self.memories or self.tags or self.sessions)


class Retained(Frozen):
    """How much went, or would go, of one agent by one policy."""

    policy: str
    agent: str
    action: Action
    memories: int = Field(description="Memories that fulfilled the policy and went.")
    removed: Mapping[str, int] = Field(default_factory=dict, description="What went with them, by place.")


class RetentionReport(Frozen):
    """What a run of all policies did, or would do: numbers, and nothing of what was said."""

    dry_run: bool = False
    gone: tuple[Retained, ...] = ()
    kept: Mapping[str, int] = Field(
        default_factory=dict, description="How many fulfil a policy and stay, by what keeps them."
    )
    archive: str | None = Field(default=None, description="The file with what was archived.")


class ErasureReceipt(Frozen):
    """Everything that went when an agent was erased, by place; `lingers` as for a `ForgetReceipt`."""

    agent: str
    removed: Mapping[str, int] = Field(default_factory=dict)
    lingers: bool = False
