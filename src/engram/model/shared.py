"""Patterns and checks of other agents, with their source and the receiver's own results."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engram.model.content import Frozen
from engram.model.failure import FailurePattern, PreventionCheck
from engram.model.source import OwnRecord, PatternSource
from engram.model.success import DecisionTemplate, SuccessPattern


class SharedPattern(Frozen):
    """A failure pattern, success pattern or decision template of another agent."""

    type: Literal["failure", "success", "decision"]
    source: PatternSource
    pattern: FailurePattern | SuccessPattern | DecisionTemplate = Field(description="With the owner's own figures.")
    own: OwnRecord | None = Field(default=None, description="Missing if it has no action that could be rated.")


class SharedCheck(Frozen):
    """A prevention check of another agent."""

    source: PatternSource
    check: PreventionCheck
