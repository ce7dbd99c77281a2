"""Situations: kinds of contexts that decisions are grouped by."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from engram.model.content import Frozen


class Situation(Frozen):
    """A group of contexts with the same meaning, however they are worded."""

    id: str
    name: str = Field(description="The name given by a user, or else its commonest wording.")
    pinned: bool = Field(default=False, description="Arranged by a user; it is never merged automatically.")
    decisions: int = Field(default=0, description="Number of decisions in it.")
    wordings: int = Field(default=0, description="Number of distinct context texts in it, ids and numbers aside.")
    contexts: tuple[str, ...] = Field(default=(), description="Some of its contexts, the commonest wording first.")
    actions: Mapping[str, int] = Field(default_factory=dict, description="Actions taken in it, with their counts.")
