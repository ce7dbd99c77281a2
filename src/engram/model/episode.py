"""Interactions between a user and an agent: turns, episodes, tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import Field, JsonValue

from engram.model.clean import Clean
from engram.model.content import Frozen
from engram.model.memory import Moment, Share

OutcomeName = Literal["success", "partial", "failure"]


class Turn(Frozen):
    """One message of a session, as working memory holds it."""

    id: str
    role: Clean
    content: Clean
    at: Moment
    speaker: Clean | None = None

    def __str__(self) -> str:
        return f"{self.role}: {self.content}"


class Handover(Frozen):
    """Result of moving turns out of working memory: the memories they became, in order, and their summary."""

    messages: tuple[str, ...]
    summary: str
    """The id of the summary, whose sources are the messages and the summary before it."""


class Episode(Frozen):
    """One interaction: input, output, participants, time and outcome (seed 003)."""

    id: str
    agent: str
    at: Moment
    user: Clean | None = None
    input: Clean = Clean("")
    output: Clean = Clean("")
    outcome: Share | None = None
    tags: tuple[Clean, ...] = ()
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    session: Clean | None = None

    @property
    def timestamp(self) -> datetime:
        """Seed 003's name for `at`."""
        return self.at

    @property
    def user_id(self) -> Clean | None:
        """Seed 003's name for `user`."""
        return self.user

    @property
    def agent_id(self) -> str:
        """Seed 003's name for `agent`."""
        return self.agent

    @property
    def went(self) -> OutcomeName | None:
        """The outcome as a word: the nearest of success, partial and failure; `None` if there is none."""
        if self.outcome is None:
            return None
        return "success" if self.outcome > 0.75 else "failure" if self.outcome < 0.25 else "partial"


class ToolCall(Frozen):
    """One call of a tool, with its arguments and its result."""

    id: str
    at: Moment
    tool: str
    arguments: JsonValue = None
    result: Clean = Clean("")
    ok: bool | None = None
    error: Clean | None = None
