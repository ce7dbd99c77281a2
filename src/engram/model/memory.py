"""Memories, drafts, and the results of calls about them."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, ValidationError

from engram.clock import aware
from engram.errors import Hint, InvalidInput, Naming, join_hint
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

QUALITIES = {"success": 1.0, "partial": 0.5, "failure": 0.0}


def quality(outcome: str | float) -> float:
    """Convert an outcome to a number in [0, 1]: success is 1, partial 0.5, failure 0, a number is itself."""
    if isinstance(outcome, bool) or not isinstance(outcome, str | int | float):
        outcome = -1.0
    if isinstance(outcome, str):
        if outcome in QUALITIES:
            return QUALITIES[outcome]
        try:
            outcome = float(outcome)
        except ValueError:
            outcome = -1.0
    if not 0 <= outcome <= 1:
        raise InvalidInput("outcome must be success, failure, partial, or a number from 0 to 1")
    return float(outcome)


class Origin(StrEnum):
    """Source of a memory: the agent itself, a tool or page it read, another agent, or a file."""

    SELF = "self"
    TOOL = "tool"
    SHARED = "shared"
    IMPORTED = "imported"


class Provenance(Frozen):
    """Author, session, speaker and source memories of a memory."""

    author: Clean = Field(description="The agent that remembered it.")
    session: Clean | None = Field(default=None, description="The session it belongs to.")
    role: Clean | None = Field(default=None, description="The role of the speaker, such as user or assistant.")
    speaker: Clean | None = Field(default=None, description="Who said it.")
    sources: tuple[str, ...] = Field(default=(), description="The ids of the memories it was derived from.")
    origin: Origin = Field(default=Origin.SELF, description="Where it came from.")


class Memory(Frozen):
    """A stored memory: the union of the seeds' `AgentMemory` and `MemoryRecord`.

    Text, content, context and provenance never change after the memory is stored.
    """

    id: str = Field(description="Its id.")
    agent: str = Field(description="Whose it is.")
    kind: MemoryType = Field(description="Which kind it is.")
    text: Clean = Field(description="What it says.")
    content: Content = Field(description="The typed fields of its kind.")
    context: Clean = Field(default=Clean(""), description="The situation.")
    tags: tuple[Clean, ...] = Field(default=(), description="Labels to find it by.")
    metadata: Mapping[str, JsonValue] = Field(default_factory=dict, description="More facts, as JSON.")
    provenance: Provenance = Field(description="Who said it, where, and from which memories it was derived.")
    importance: Share = Field(default=0.5, description="How much it matters.")
    confidence: Share = Field(default=1.0, description="How sure it is.")
    trust: Share = Field(default=1.0, description="How far it can be believed, from 0 to 1.")
    created_at: Moment = Field(description="When it was stored.")
    happened_at: Moment = Field(description="When it happened.")
    valid_from: Moment = Field(description="Since when it is so.")
    valid_until: Moment | None = Field(default=None, description="Until when it is so; none if that is not known.")
    last_accessed: Moment | None = Field(default=None, description="When it was last recalled.")
    access_count: int = Field(default=0, description="How often it was recalled.")
    success_rate: Share | None = Field(
        default=None, description="How often it goes well, from 0 to 1; none if that is not known."
    )
    evidence: int = Field(default=1, description="How often it was said.")
    version: int = Field(default=1, description="Its version, which changes when it does.")

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
        """The speaker."""
        return self.provenance.speaker

    @property
    def at(self) -> datetime:
        """The time it happened; the same as `Draft.at`."""
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
    """A memory as the caller gives it: not yet redacted, not yet stored."""

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
            raise InvalidInput(describe_error(error)) from None


class MemoryIndex(Frozen):
    """The vectors of one memory: namespace, embedder, dimensions, number of passages (seed 004)."""

    memory_id: str
    namespace: str
    embedder: str
    dim: int
    passages: int = 1


WITHOUT_VECTOR = "stored without a vector"
"""Beginning of a receipt's reason if the memory could not be embedded."""


class Receipt(Frozen):
    """Result of storing one draft; returned only after the commit."""

    id: str | None = Field(description="The id of the memory; none if it was not stored.")
    status: Literal["stored", "merged", "rejected", "quarantined"] = Field(
        description="Whether it was stored, joined with one that says the same, set apart, or refused."
    )
    reason: str | None = Field(default=None, description="Why.")
    code: str | None = Field(default=None, description="A word for the reason, for programs.")
    redacted: tuple[str, ...] = Field(default=(), description="The rules that took secrets out.")

    @property
    def ok(self) -> bool:
        """Return true if the draft is stored as a memory; a quarantined one is not until it is released."""
        return self.status in {"stored", "merged"}

    @property
    def hint(self) -> Hint | None:
        """The next step for a memory that is quarantined or has no vector."""
        if self.status == "quarantined":
            return Hint("quarantine list", "shows what waits")
        return Hint("upkeep reembed", "adds it") if (self.reason or "").startswith(WITHOUT_VECTOR) else None

    def worded(self, naming: Naming) -> Receipt:
        """The receipt with its hint in the words of an interface."""
        if self.reason is None or self.hint is None:
            return self
        return self.model_copy(update={"reason": join_hint(self.reason, self.hint, naming)})


class ForgetReceipt(Frozen):
    """Counts of all that was deleted with a memory; `id` is no longer found anywhere.

    `lingers` is true if deleted data is still in the database's log because a reader holds it open; the next write or
    upkeep after that clears it.
    """

    id: str = Field(description="The id of the memory, which answers nowhere any more.")
    forgotten: bool = Field(description="Whether there was such a memory.")
    removed: Mapping[str, int] = Field(default_factory=dict, description="How many rows of each kind went.")
    lingers: bool = Field(
        default=False,
        description="Whether it can still be read in the log of the database, until whoever reads there ends.",
    )


class Hit(Frozen):
    """One recalled memory with its score in [0, 1], higher is better, and the parts of that score."""

    id: str = Field(description="The id of the memory.")
    memory: Memory = Field(description="The memory.")
    score: Share = Field(description="How well it matches; higher is better.")
    why: Mapping[str, int | float | str] = Field(default_factory=dict, description="The parts of the score.")
    session: Clean | None = Field(default=None, description="The session it belongs to.")
    recall: str | None = Field(default=None, description="The id of the recall, to report its outcome by.")

    @property
    def text(self) -> Clean:
        """The text of the memory."""
        return self.memory.text


class Recall(list[Hit]):
    """The hits of one recall, best first, with the id to report its outcome by."""

    def __init__(self, id: str, hits: Iterable[Hit] = ()) -> None:
        super().__init__(hit.model_copy(update={"recall": id}) for hit in hits)
        self.id = id


class Quarantined(Frozen):
    """A stored memory that no search returns until it is released."""

    id: str = Field(description="The id of the memory.")
    memory: Memory = Field(description="The memory as it would be after release.")
    reason: str = Field(description="Reason for the quarantine.")
    at: Moment = Field(description="Time of the quarantine.")


def describe_error(error: ValidationError) -> str:
    """Describe a validation error, one phrase per field, in the caller's terms."""
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
