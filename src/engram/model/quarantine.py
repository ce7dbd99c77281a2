"""Memories that are set apart for review."""

from __future__ import annotations

from pydantic import Field

from engram.model.content import Frozen
from engram.model.memory import Memory, Moment


class Quarantined(Frozen):
    """A memory that is kept, but that nothing finds until it is released."""

    id: str = Field(description="The id of the memory.")
    memory: Memory = Field(description="The memory as it would be.")
    reason: str = Field(description="Why it was set apart.")
    at: Moment = Field(description="When that was.")
