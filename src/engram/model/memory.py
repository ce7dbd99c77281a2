"""Memories, the drafts they are made from, and what the calls about them return."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, ValidationError

from engram.clock import aware
from engram.errors import InvalidInput
from engram.model.clean import Clean
from engram.model.content import Content, Frozen, MemoryType


def _in_utc(moment: datetime) -> datetime:
    try:
        return aware(moment)
    except OverflowError:
        raise ValueError("the time lies outside of the years 1 to 9999") from None


Moment = Annotated[datetime, AfterValidator(_in_utc)]
"""A time in UTC; a naive one is taken as UTC."""

Share = Annotated[float, Field(ge=0, le=1)]
"""A number from 0 to 1."""


class Origin(StrEnum):
    """Where a memory came from: the agent itself, a tool or page it read, another agent, or a file."""

    SELF = "self"
    TOOL = "tool"
    SHARED = "shared"
    IMPORTED = "imported"


class Provenance(Frozen):
    """Who said it, in which session, and which memories it was derived from."""

    author: Clean
    session: Clean | None = None
    role: Clean | None = None
    speaker: Clean | None = None
    sources: tuple[str, ...] = ()
    origin: Origin = Origin.SELF


class Memory(Frozen):
    """One remembered thing: the union of the seeds' `AgentMemory` and `MemoryRecord`.

    Text, content, context and provenance never change after the memory is stored.
    """

    id: str
    agent: str
    kind: MemoryType
    text: Clean
    content: Content
    context: Clean = Clean("")
    tags: tuple[Clean, ...] = ()
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    provenance: Provenance
    importance: Share = 0.5
    confidence: Share = 1.0
    trust: Share = 1.0
    created_at: Moment
    happened_at: Moment
    valid_from: Moment
    valid_until: Moment | None = None
    last_accessed: Moment | None = None
    access_count: int = 0
    success_rate: Share | None = None
    evidence: int = 1
    version: int = 1

    @property
    def session(self) -> Clean | None:
        """The session it was recorded in."""
        return self.provenance.session

    @property
    def role(self) -> Clean | None:
        """The role of the speaker, such as user or assistant."""
        return self.provenance.role

    @property
    def speaker(self) -> Clean | None:
        """Who said it."""
        return self.provenance.speaker

    @property
    def at(self) -> datetime:
        """When it happened; `Draft.at` under the same name."""
        return self.happened_at

    @property
    def agent_id(self) -> str:
        """Seed 001's name for `agent`."""
        return self.agent

    @property
    def memory_type(self) -> MemoryType:
        """Seed 001's name for `kind`."""
        return self.kind

    @property
    def confidence_score(self) -> float:
        """Seed 001's name for `confidence`."""
        return self.confidence


AgentMemory = Memory
"""Seed 001's name for `Memory`."""

MemoryRecord = Memory
"""Seed 004's name for `Memory`."""


class Draft(Frozen):
    """Something to remember, as the caller says it: not yet redacted, not yet stored."""

    text: str
    kind: MemoryType = MemoryType.OBSERVATION
    tags: tuple[str, ...] = ()
    at: Moment | None = None
    session: str | None = None
    role: str | None = None
    speaker: str | None = None
    importance: Share = 0.5
    confidence: Share = 1.0
    key: str | None = None
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict)
    context: str = ""
    content: Mapping[str, JsonValue] = Field(default_factory=dict)
    sources: tuple[str, ...] = ()
    valid_from: Moment | None = None
    valid_until: Moment | None = None
    origin: Origin = Origin.SELF
    trust: Share | None = None

    def __init__(self, text: str, **fields: Any) -> None:
        try:
            super().__init__(**{"text": text, **fields})
        except ValidationError as error:
            raise InvalidInput(explain(error)) from None


class MemoryIndex(Frozen):
    """Where one memory has vectors: the namespace, the embedder that made them, one for each passage (seed 004)."""

    memory_id: str
    namespace: str
    embedder: str
    dim: int
    passages: int = 1


class Receipt(Frozen):
    """What became of one draft; given only after the commit."""

    id: str | None
    status: Literal["stored", "merged", "rejected", "quarantined"]
    reason: str | None = None
    code: str | None = None
    redacted: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the draft is now remembered; one that is set apart is not, until somebody releases it."""
        return self.status in {"stored", "merged"}


class ForgetReceipt(Frozen):
    """Everything that went when a memory was forgotten; `id` no longer answers anywhere.

    `lingers` says that what went can still be read in the log of the database, since somebody reads from it; the next
    write after that, or upkeep, empties it.
    """

    id: str
    forgotten: bool
    removed: Mapping[str, int] = Field(default_factory=dict)
    lingers: bool = False


class Hit(Frozen):
    """One recalled memory with its score in [0, 1], higher is better, and the parts of that score."""

    id: str
    memory: Memory
    score: Share
    why: Mapping[str, int | float | str] = Field(default_factory=dict)
    session: Clean | None = None
    recall: str | None = Field(default=None, description="The id of the recall, by which its outcome can be told.")

    @property
    def text(self) -> Clean:
        """The text of the memory."""
        return self.memory.text


class Recall(list[Hit]):
    """The hits of one recall, best first, and the id by which its outcome can be told."""

    def __init__(self, id: str, hits: Iterable[Hit] = ()) -> None:
        super().__init__(hit.model_copy(update={"recall": id}) for hit in hits)
        self.id = id


def explain(error: ValidationError) -> str:
    """What was wrong with the input, one phrase per field, in the caller's words."""
    phrases = []
    for problem in error.errors(include_url=False):
        name = ".".join(str(part) for part in problem["loc"])
        if not name and problem["type"] == "value_error":
            phrases.append(problem["msg"].removeprefix("Value error, "))
            continue
        name = name or "value"
        phrases.append(f"{name}: {problem['msg']} (got {_shorten(problem['input'])})")
    return "; ".join(phrases)


def _shorten(value: object) -> str:
    shown = reprlib.repr(value).encode("ascii", "backslashreplace").decode()
    return shown if len(shown) <= 60 else shown[:57] + "..."
