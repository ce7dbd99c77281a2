"""Facts: who or what, in which relation, to what, and when that holds."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from engram.model.clean import Clean
from engram.model.content import Frozen
from engram.model.memory import Moment, Share


class Statement(Frozen):
    """What a text states, before it is learned: what extractors give. A missing time is not known."""

    subject: str
    predicate: str
    object: str
    negated: bool = False
    valid_from: Moment | None = None
    valid_until: Moment | None = None
    replaces: bool | None = Field(default=None, description="Whether it ends other values; else the predicate decides.")
    quote: str = Field(default="", description="The words that state it.")


class Fact(Frozen):
    """A subject, a predicate and an object, valid from a time on and until another; `id` is that of its memory."""

    id: str
    subject: Clean
    predicate: Clean
    object: Clean
    negated: bool = Field(default=False, description="Whether it says that this is not so.")
    text: Clean = Field(description="The same as a sentence.")
    valid_from: Moment
    valid_until: Moment | None = None
    confidence: Share = 1.0
    evidence: int = Field(default=1, description="How often it was learned.")
    sources: tuple[str, ...] = ()
    replaces: bool | None = None
    recorded_at: Moment

    @property
    def order(self) -> tuple[datetime, datetime, str]:
        """Which of two facts is the newer one: what began later, else what was learned later."""
        return self.valid_from, self.recorded_at, self.id


class Learned(Frozen):
    """What became of a fact: the fact, those that it ended, and those that it contradicts."""

    fact: Fact | None
    status: Literal["stored", "merged", "rejected"]
    reason: str | None = None
    superseded: tuple[Fact, ...] = ()
    contradicts: tuple[Fact, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the fact is now known."""
        return self.fact is not None


class Contradiction(Frozen):
    """Two facts that cannot both hold, the newer one last, and the time for which both claim to."""

    subject: Clean
    predicate: Clean
    reason: Literal["two values", "denied"]
    facts: tuple[Fact, Fact]
    since: Moment
    until: Moment | None = None


class Edge(Frozen):
    """A fact as a line of the graph, from its subject to its object."""

    subject: str
    predicate: str
    object: str
    fact: str = Field(description="The id of the fact.")


class ConceptPath(Frozen):
    """A way through the graph: the concepts it passes, and the facts between them, whichever way these point."""

    names: tuple[str, ...]
    edges: tuple[Edge, ...]


class Concept(Frozen):
    """Something that facts are about: how it is written, what is known of it, what refers to it, what is near."""

    name: str
    spellings: tuple[str, ...]
    facts: tuple[Fact, ...]
    mentions: tuple[Fact, ...]
    related: tuple[str, ...]
