"""Knowledge in a file, as it was written there: what one installation hands to another, not redacted, not believed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue, TypeAdapter, model_validator

from engram.model.content import Content, Frozen, MemoryType
from engram.model.memory import Memory, Moment, Share

VERSION = 1
"""The version of the file that is written, and the newest that is read."""

MAX_TEXT = 1_000_000
MAX_LABEL = 400
MAX_NAME = 255
MAX_LIST = 100
MAX_HANDS = 32

_CONTROL = re.compile("[\x00-\x1f\x7f]")
_content: TypeAdapter[Content] = TypeAdapter(Content)


def _plain(name: str) -> str:
    if not name.strip():
        raise ValueError("it is blank")
    if _CONTROL.search(name):
        raise ValueError("it has a control character")
    return name


def _written(moment: object) -> object:
    """A time as text; pydantic would also take a number for one."""
    if isinstance(moment, datetime):
        return moment
    if not isinstance(moment, str) or len(moment) > 40:
        raise ValueError("a time is written such as 2026-01-31T14:00:00Z")
    return datetime.fromisoformat(moment)


Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME), AfterValidator(_plain)]
"""The name of an agent or an installation: one line, nothing that cannot be seen."""

Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL), AfterValidator(_plain)]
"""An id, a tag, a session: one line."""

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Written = Annotated[Moment, Field(strict=False), BeforeValidator(_written)]
Labels = Annotated[tuple[Label, ...], Field(strict=False, max_length=MAX_LIST)]
Hex16 = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Hex64 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Hex128 = Annotated[str, Field(pattern="^[0-9a-f]{128}$")]
Count = Annotated[int, Field(ge=0, le=2**53)]


class Exact(Frozen):
    """A value of the file: a number is no text, and `true` is no number."""

    model_config = ConfigDict(strict=True)


class Source(Exact):
    """Who wrote the file, when, and under which restrictions and grants."""

    agent: Name
    installation: Name
    made_at: Written
    domain: Label | None = None
    tags: Labels = ()
    grants: Labels = ()
    program: Label | None = Field(default=None, description="What wrote it, such as `engram 1.0`.")


class Hand(Exact):
    """Somebody through whose hands a record went after its author's."""

    agent: Name
    installation: Name
    at: Written
    grant: Label | None = None


class Lineage(Exact):
    """Where a record began, under which id, and who passed it on, in this order; the last is the file's source."""

    agent: Name
    installation: Name
    id: Label
    hands: Annotated[tuple[Hand, ...], Field(strict=False, max_length=MAX_HANDS)] = ()


class CarriedMemory(Exact):
    """A memory in a file. Without `lineage` it is the source's own."""

    id: Label
    kind: Annotated[MemoryType, Field(strict=False)]
    text: Annotated[Text, Field(min_length=1)]
    content: Mapping[str, JsonValue] = Field(default_factory=dict)
    context: Text = ""
    tags: Labels = ()
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    author: Text = ""
    session: Label | None = None
    role: Label | None = None
    speaker: Label | None = None
    sources: Labels = ()
    importance: Share = 0.5
    confidence: Share = 1.0
    trust: Share = Field(default=1.0, description="What the source thought of it; the receiver decides for itself.")
    created_at: Written
    happened_at: Written
    valid_from: Written
    valid_until: Written | None = None
    evidence: Annotated[int, Field(ge=1, le=2**53)] = 1
    version: Annotated[int, Field(ge=1, le=2**53)] = 1
    lineage: Lineage | None = None

    @model_validator(mode="after")
    def _content_fits(self) -> CarriedMemory:
        kind = self.content.get("kind", self.kind)
        if kind != self.kind:
            raise ValueError("the content is of another kind than the memory")
        _content.validate_python({**self.content, "kind": self.kind})
        if self.valid_until is not None and self.valid_until <= self.valid_from:
            raise ValueError("valid_until must lie after valid_from")
        return self


class CarriedEvent(Exact):
    """Something that was learned from: a decision, its outcome, a failure, a solution."""

    id: Label
    kind: Label
    at: Written
    subject: Label
    topic: Annotated[str, Field(max_length=MAX_LABEL)] = ""
    body: Mapping[str, JsonValue] = Field(default_factory=dict)
    lineage: Lineage | None = None


class CarriedPattern(Exact):
    """A pattern as the source saw it, for readers; the receiver finds its own from the events."""

    kind: Literal["failure", "success", "template", "solution"]
    id: Label
    name: Text
    evidence: Count = Field(default=0, description="The episodes behind it.")
    detail: Mapping[str, JsonValue] = Field(default_factory=dict)


class CarriedRate(Exact):
    """How often an action went well for the source, as counts, for readers; the receiver counts the events."""

    action: Text
    context: Text = ""
    attempts: Count
    quality: Annotated[float, Field(ge=0)] = Field(description="The sum of the qualities of all attempts.")


Carried = CarriedMemory | CarriedEvent | CarriedPattern | CarriedRate


class Signature(Exact):
    """Who vouches for the digest of a file; `key` is the beginning of the hash of `public_key`."""

    algorithm: Literal["ed25519"] = "ed25519"
    key: Hex16
    public_key: Hex64
    value: Hex128


class End(Exact):
    """What a file closes with, so that a file that was cut short is known by its missing."""

    memories: Count | None = None
    events: Count | None = None
    patterns: Count | None = None
    rates: Count | None = None
    digest: Hex64 | None = None
    signature: Signature | None = None


class Verification(Frozen):
    """What the signature of a file is worth. Only `valid` means: unchanged, and by one who is trusted."""

    status: Literal["valid", "invalid", "unsigned", "unknown"]
    key: str | None = Field(default=None, description="The id of the key it was signed with.")
    signer: str | None = Field(default=None, description="The installation for which that key is trusted.")
    reason: str = ""


class Finding(Frozen):
    """Something about a record that the receiver should know before it believes it; no `record` means the file."""

    code: Literal["forged-origin", "hidden-characters", "markup", "instructions", "without-memory"]
    record: str | None = None
    reason: str


class Bundle(Frozen):
    """A whole file in memory."""

    source: Source
    memories: tuple[CarriedMemory, ...] = ()
    events: tuple[CarriedEvent, ...] = ()
    patterns: tuple[CarriedPattern, ...] = ()
    rates: tuple[CarriedRate, ...] = ()
    end: End = End()
    verification: Verification = Verification(status="unsigned")
    findings: tuple[Finding, ...] = ()

    @property
    def records(self) -> tuple[Carried, ...]:
        """All records, in the order of the file."""
        return (*self.memories, *self.events, *self.patterns, *self.rates)


class Incoming(Frozen):
    """A memory from another program's file; the same `original_id` of the same `source` is the same memory."""

    text: str
    source: str
    original_id: str
    kind: MemoryType = MemoryType.KNOWLEDGE
    tags: tuple[str, ...] = ()
    at: Moment | None = None
    session: str | None = None
    role: str | None = None
    speaker: str | None = None
    context: str = ""
    content: Mapping[str, JsonValue] = Field(default_factory=dict)
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)


def carried(memory: Memory, lineage: Lineage | None = None) -> CarriedMemory:
    """A memory as it goes into a file: everything that is needed to make it again, without vectors and statistics."""
    content: dict[str, Any] = memory.content.model_dump(mode="json", exclude={"kind"}, exclude_defaults=True)
    return CarriedMemory(
        id=memory.id,
        kind=memory.kind,
        text=memory.text,
        content=content,
        context=memory.context,
        tags=memory.tags,
        metadata=memory.metadata,
        author=memory.provenance.author,
        session=memory.session,
        role=memory.role,
        speaker=memory.speaker,
        sources=memory.provenance.sources,
        importance=memory.importance,
        confidence=memory.confidence,
        trust=memory.trust,
        created_at=memory.created_at,
        happened_at=memory.happened_at,
        valid_from=memory.valid_from,
        valid_until=memory.valid_until,
        evidence=memory.evidence,
        version=memory.version,
        lineage=lineage,
    )
