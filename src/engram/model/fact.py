"""Facts: subject, predicate, object, and the time for which they hold."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from engram.model.clean import Clean
from engram.model.content import Frozen
from engram.model.memory import Moment, Share


class Statement(Frozen):
    """A statement found in a text by an extractor, not yet stored. A missing time is unknown."""

    subject: str
    predicate: str
    object: str
    negated: bool = False
    valid_from: Moment | None = None
    valid_until: Moment | None = None
    replaces: bool | None = Field(
        default=None, description="Whether it replaces other values; if missing, the predicate decides."
    )
    quote: str = Field(default="", description="The words of the text that state it.")


class Fact(Frozen):
    """A subject, a predicate and an object, valid for a period; `id` is that of its memory."""

    id: str
    subject: Clean
    predicate: Clean
    object: Clean
    negated: bool = Field(default=False, description="Whether it denies the statement.")
    text: Clean = Field(description="The fact as a sentence.")
    valid_from: Moment
    valid_until: Moment | None = None
    confidence: Share = 1.0
    evidence: int = Field(default=1, description="Number of times it was learned.")
    sources: tuple[str, ...] = ()
    replaces: bool | None = None
    recorded_at: Moment

    @property
    def order(self) -> tuple[datetime, datetime, str]:
        """Sort key from older to newer: by start of validity, then by time of recording."""
        return self.valid_from, self.recorded_at, self.id


class FactReceipt(Frozen):
    """Result of storing a fact: the fact, the facts it superseded, and those it contradicts."""

    fact: Fact | None
    status: Literal["stored", "merged", "rejected"]
    reason: str | None = None
    superseded: tuple[Fact, ...] = ()
    contradicts: tuple[Fact, ...] = ()

    @property
    def ok(self) -> bool:
        """Return true if the fact is stored."""
        return self.fact is not None


class Contradiction(Frozen):
    """Two facts that cannot both hold, the newer one last, and the period in which both claim to."""

    subject: Clean
    predicate: Clean
    reason: Literal["two values", "denied"]
    facts: tuple[Fact, Fact]
    since: Moment
    until: Moment | None = None


class Edge(Frozen):
    """A fact as an edge of the graph, from its subject to its object."""

    subject: str
    predicate: str
    object: str
    fact: str = Field(description="The id of the fact.")


class ConceptPath(Frozen):
    """A path through the graph: its concepts, and the facts between them, in either direction."""

    names: tuple[str, ...]
    edges: tuple[Edge, ...]


class Concept(Frozen):
    """An entity of the graph: its spellings, facts about it, facts that mention it, and related entities."""

    name: str
    spellings: tuple[str, ...]
    facts: tuple[Fact, ...]
    mentions: tuple[Fact, ...]
    related: tuple[str, ...]
