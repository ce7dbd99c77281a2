"""Callers' keys: who may come in through a door, for which agents, and what they may do there."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from engram.model.content import Frozen
from engram.model.memory import Moment

Right = Literal["read", "write", "share", "admin"]
"""`admin` includes all others; `write` does not include `read`."""

RIGHTS: tuple[Right, ...] = ("read", "write", "share", "admin")
EVERYONE = "*"
"""Stands for all agents, also those that come later."""


class ApiKey(Frozen):
    """What is known of a caller's key; the secret itself is known to nobody but the caller."""

    id: str = Field(description="The part of the key that is no secret.")
    name: str = Field(description="What it is for, in the words of whoever made it.")
    agents: tuple[str, ...] = Field(description="The agents it may act for; `*` stands for all.")
    rights: tuple[Right, ...] = Field(description="What it may do for them.")
    created_at: Moment = Field(description="When it was made.")
    expires_at: Moment | None = Field(default=None, description="From then on it is refused; never, if left out.")
    revoked_at: Moment | None = Field(default=None, description="Since then it is refused.")
    last_used: Moment | None = Field(default=None, description="When it was last accepted, to the minute.")

    def live(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def may(self, right: Right) -> bool:
        """Whether it has a right."""
        return right in self.rights or "admin" in self.rights

    def reaches(self, agent: str) -> bool:
        """Whether it may act for an agent."""
        return EVERYONE in self.agents or agent in self.agents
