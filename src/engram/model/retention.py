"""Retention policies, legal holds, and reports of deletions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Literal, Self

from pydantic import Field, model_validator

from engram.model.clean import Clean
from engram.model.content import Frozen, MemoryType
from engram.model.episode import OutcomeName
from engram.model.memory import Moment, Share

Action = Literal["forget", "archive"]


class RetentionPolicy(Frozen):
    """A rule for automatic deletion or archiving of the memories that meet all its conditions."""

    name: Clean = Field(description="Its name.")
    action: Action = Field(
        description="`forget` deletes them for good; `archive` moves them to a file, from which they can be restored."
    )
    agent: str | None = Field(default=None, description="Only memories of this agent; of all agents, if left out.")
    kinds: tuple[MemoryType, ...] = Field(default=(), description="Only memories of one of these kinds.")
    tags: tuple[Clean, ...] = Field(default=(), description="Only memories that have all of these tags.")
    older_than: timedelta | None = Field(default=None, description="Only memories stored longer ago than this.")
    weaker_than: Share | None = Field(default=None, description="Only memories whose strength is below this.")
    outcome: OutcomeName | None = Field(default=None, description="Only memories with this outcome.")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.kinds or self.tags or self.older_than or self.weaker_than is not None or self.outcome):
            raise ValueError(
                "a policy needs a kind, a tag, an age, a strength or an outcome; erasing an agent deletes all"
            )
        if self.older_than is not None and self.older_than <= timedelta():
            raise ValueError("the age must be above 0")
        return self


class LegalHold(Frozen):
    """A ban on deleting an agent's memories, or those it names, until it is released."""

    id: str = Field(description="Its id.")
    reason: Clean = Field(description="Reason for the hold.")
    at: Moment = Field(description="Start of the hold.")
    agent: str | None = Field(default=None, description="Only memories of this agent; of all agents, if left out.")
    memories: tuple[str, ...] = Field(default=(), description="Only these, by id.")
    tags: tuple[Clean, ...] = Field(default=(), description="Only those with one of these tags.")
    sessions: tuple[Clean, ...] = Field(default=(), description="Only those of one of these sessions.")
    released_at: Moment | None = Field(default=None, description="Time of its release.")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.agent is None and self.whole:
            raise ValueError("a hold needs an agent, a memory, a tag or a session")
        return self

    @property
    def whole(self) -> bool:
        """Return true if it covers everything its agent has."""
        return not (self.memories or self.tags or self.sessions)


class Retained(Frozen):
    """Number of memories that one policy deleted or archived for one agent, or would."""

    policy: str = Field(description="The name of the policy.")
    agent: str = Field(description="Whose it is.")
    action: Action = Field(description="What was done, or is to be done.")
    memories: int = Field(description="Memories that met the policy and were deleted or archived.")
    removed: Mapping[str, int] = Field(default_factory=dict, description="Rows deleted with them, by place.")


class RetentionReport(Frozen):
    """Result of running all policies: counts only, no content."""

    dry_run: bool = Field(default=False, description="Whether nothing went.")
    gone: tuple[Retained, ...] = Field(default=(), description="What went, or would go, by agent and policy.")
    kept: Mapping[str, int] = Field(
        default_factory=dict, description="Number of memories that meet a policy and are kept, by the reason."
    )
    archive: str | None = Field(default=None, description="The file with the archived memories.")


class ErasureReceipt(Frozen):
    """Counts of everything deleted with an agent, by place; `lingers` as in `ForgetReceipt`."""

    agent: str
    removed: Mapping[str, int] = Field(default_factory=dict)
    lingers: bool = False
