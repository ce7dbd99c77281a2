"""API keys: the agents a key may act for, and its rights."""

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
"""All agents, including those created later."""


class ApiKey(Frozen):
    """Public data of an API key; the secret itself is never stored."""

    id: str = Field(description="The public part of the key.")
    name: str = Field(description="Name given to the key, such as its purpose.")
    agents: tuple[str, ...] = Field(description="The agents it may act for; `*` means all.")
    rights: tuple[Right, ...] = Field(description="The rights it has for these agents.")
    created_at: Moment = Field(description="Time of creation.")
    expires_at: Moment | None = Field(
        default=None, description="The key is refused from this time on; never, if missing."
    )
    revoked_at: Moment | None = Field(default=None, description="The key is refused since this time.")
    last_used: Moment | None = Field(default=None, description="Time of the last accepted use, to the minute.")

    def is_active(self, now: datetime) -> bool:
        """Return true if the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def has_right(self, right: Right) -> bool:
        """Return true if the key has a right."""
        return right in self.rights or "admin" in self.rights

    def may_act_for(self, agent: str) -> bool:
        """Return true if the key may act for an agent."""
        return EVERYONE in self.agents or agent in self.agents
