"""Records of a knowledge file as they are written there: neither redacted nor trusted yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue, TypeAdapter, model_validator

from engram.model.content import Content, Frozen, MemoryType
from engram.model.memory import Memory, Moment, Share

VERSION = 1
"""The version of the format that is written, and the newest that can be read."""

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
"""The name of an agent or an installation: one line without control characters."""

Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL), AfterValidator(_plain)]
"""An id, a tag or a session: one line without control characters."""

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Written = Annotated[Moment, Field(strict=False), BeforeValidator(_written)]
Labels = Annotated[tuple[Label, ...], Field(strict=False, max_length=MAX_LIST)]
Hex16 = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Hex64 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Hex128 = Annotated[str, Field(pattern="^[0-9a-f]{128}$")]
Count = Annotated[int, Field(ge=0, le=2**53)]


class Exact(Frozen):
    """A record of the file, parsed strictly: no numbers for text, no `true` for numbers."""

    model_config = ConfigDict(strict=True)


class FileSource(Exact):
    """Author, installation, time, restrictions and grants of a knowledge file."""

    agent: Name
    installation: Name
    made_at: Written
    domain: Label | None = None
    tags: Labels = ()
    grants: Labels = ()
    program: Label | None = Field(default=None, description="The program that wrote it, such as `engram 1.0`.")


Source = FileSource
"""Former name of `FileSource`."""


class Hand(Exact):
    """An agent that passed a record on after its author."""

    agent: Name
    installation: Name
    at: Written
    grant: Label | None = None


class Lineage(Exact):
    """Author and first id of a record, and the agents that passed it on, in order; the last is the file's source."""

    agent: Name
    installation: Name
    id: Label
    hands: Annotated[tuple[Hand, ...], Field(strict=False, max_length=MAX_HANDS)] = ()


class CarriedMemory(Exact):
    """A memory in a file. Without `lineage` its author is the source of the file."""

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
    trust: Share = Field(default=1.0, description="The source's trust in it; the receiver computes its own.")
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
    """An event in a file that others learn from: a decision, an outcome, a failure, a solution."""

    id: Label
    kind: Label
    at: Written
    subject: Label
    topic: Annotated[str, Field(max_length=MAX_LABEL)] = ""
    body: Mapping[str, JsonValue] = Field(default_factory=dict)
    lineage: Lineage | None = None


class CarriedPattern(Exact):
    """A pattern as the source saw it, for information; the receiver derives its own from the events."""

    kind: Literal["failure", "success", "template", "solution"]
    id: Label
    name: Text
    evidence: Count = Field(default=0, description="Number of episodes behind it.")
    detail: Mapping[str, JsonValue] = Field(default_factory=dict)


class CarriedRate(Exact):
    """Counts of how an action did for the source, for information; the receiver counts the events itself."""

    action: Text
    context: Text = ""
    attempts: Count
    quality: Annotated[float, Field(ge=0)] = Field(description="The sum of the qualities of all attempts.")


Carried = CarriedMemory | CarriedEvent | CarriedPattern | CarriedRate


class Signature(Exact):
    """An Ed25519 signature of the file's digest; `key` is the beginning of the hash of `public_key`."""

    algorithm: Literal["ed25519"] = "ed25519"
    key: Hex16
    public_key: Hex64
    value: Hex128


class End(Exact):
    """Last record of a file, with counts and digest; a truncated file lacks it."""

    memories: Count | None = None
    events: Count | None = None
    patterns: Count | None = None
    rates: Count | None = None
    digest: Hex64 | None = None
    signature: Signature | None = None


class Verification(Frozen):
    """Result of checking a file's signature. Only `valid` means: unchanged, and signed with a trusted key."""

    status: Literal["valid", "invalid", "unsigned", "unknown"] = Field(description="How it stands.")
    key: str | None = Field(default=None, description="The id of the signing key.")
    signer: str | None = Field(default=None, description="The installation for which that key is trusted.")
    reason: str = Field(default="", description="Why.")


class Finding(Frozen):
    """A warning about a record, or about the whole file if `record` is missing."""

    code: Literal["forged-origin", "hidden-characters", "markup", "instructions", "without-memory"] = Field(
        description="A word for the reason, for programs."
    )
    record: str | None = Field(
        default=None, description="The id of the record that it is about; none if it is about the whole file."
    )
    reason: str = Field(description="Why.")


class Bundle(Frozen):
    """The contents of a whole file, in memory."""

    source: FileSource
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
    """A memory from another program's file; `source` and `original_id` together identify it."""

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


def carried_memory(memory: Memory, lineage: Lineage | None = None) -> CarriedMemory:
    """Convert a memory to its record in a file, without vectors and statistics."""
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
