"""Situations, as people look at them."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from engram.model.content import Frozen


class Situation(Frozen):
    """A kind of context that decisions were taken in, however it was worded."""

    id: str
    name: str = Field(description="What a person called it, else its commonest wording.")
    pinned: bool = Field(default=False, description="Arranged by a person; nothing is merged into it by itself.")
    decisions: int = Field(default=0, description="Taken in it.")
    wordings: int = Field(default=0, description="Texts of contexts that belong to it, ids and numbers aside.")
    contexts: tuple[str, ...] = Field(default=(), description="Some of its contexts, the commonest wording first.")
    actions: Mapping[str, int] = Field(default_factory=dict, description="Actions taken in it, and how often.")
