"""Values that the engine and its stores exchange: scopes, entries, queries, matches, events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.model import Clean, Memory, MemoryType
from engram.model.bundle import MAX_NAME
from engram.ports.arguments import unstorable
from engram.ports.embedding import Vector

LONG_TERM = "long-term"
"""The namespace that recall searches."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The agent whose memory a call is about. Matched exactly: `a` is not `A`, nor `ab`, nor `a%`."""

    agent: str

    def __post_init__(self) -> None:
        if not isinstance(self.agent, str) or not self.agent.strip():
            raise InvalidInput("an agent needs a name, such as alice")
        if len(self.agent) > MAX_NAME:
            raise InvalidInput(f"an agent's name may have {MAX_NAME} characters at most, not {len(self.agent)}")
        if reason := unstorable(self.agent):
            raise InvalidInput(f"an agent's name must be plain text: {reason}")


@dataclass(frozen=True, slots=True)
class Placed:
    """A vector with its namespace, its embedder and the number of the passage it was made from, beginning at 0."""

    namespace: str
    embedder: str
    vector: Vector
    passage: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """An immutable record to learn from: a decision, its outcome, a failure, the result of a check.

    `subject` is the memory it is about, with which it is deleted; `topic` is a key to find it by, such as a context.
    """

    id: str
    kind: str
    at: datetime
    subject: str
    topic: str = ""
    body: Mapping[str, JsonValue] = field(default_factory=dict)
    seq: int = 0
    """Its number in the order of recording, which the store assigns; 0 before that."""


FORGOTTEN = "forgotten"
"""The kind of event that a store adds when it deletes a memory that had events."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One memory to store, with its vectors and the keys that detect duplicates.

    `key` makes the write idempotent; `merge_key` merges it with a memory of the same statement. A long text has a
    vector for each of its passages, numbered from 0 in each namespace and for each embedder. `events` are stored in
    the same transaction if the memory is new.
    """

    memory: Memory
    key: Clean | None = None
    merge_key: str | None = None
    vectors: tuple[Placed, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of memories. Empty fields do not restrict; `tags` must all be there.

    `since` (inclusive) and `until` (exclusive) are about the time of the event; `as_of` selects memories valid at that
    time, `current` those valid now, even if the clock was set back since they were stored.
    """

    kinds: frozenset[MemoryType] = frozenset()
    tags: frozenset[str] = frozenset()
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    current: datetime | None = None
    session: str | None = None
    context_key: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A search by `words`, `near` a vector, or, with neither, newest first; restricted to the ids `among`, if given."""

    words: Clean | None = None
    near: Placed | None = None
    where: Filter = field(default_factory=Filter)
    among: frozenset[str] | None = None
    limit: int = 50
    offset: int = 0


class RankingInput(NamedTuple):
    """The fields of a memory that ranking compares."""

    id: str
    seq: int
    session: str | None
    speaker: str | None
    role: str | None
    at: datetime
    text: Clean
    length: int
    """The length of the text in terms."""
    counts: Sequence[int]
    """The count of each query term in the text."""
    importance: float
    trust: float
    usefulness: float
    """The share of recalls in which it helped, as a posterior mean; 0.5 without reports."""


class TermCounts(NamedTuple):
    """The number of memories in a scope, and of those that hold each term."""

    rows: int
    holders: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Credit:
    """The outcome of one recall: its memories, best first, and those that helped. Numbers and ids, no text."""

    id: str
    at: datetime
    order: tuple[str, ...]
    helped: frozenset[str]
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The parts of each score, before learned weights; a missing part is 0."""
    shares: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The amounts by which each memory helped and hindered, if several share an outcome; otherwise each counts 1."""
    about: Mapping[str, JsonValue] = field(default_factory=dict)
    """Further data of the report, which can be made only once. No text."""

    @property
    def counts(self) -> Mapping[str, tuple[float, float]]:
        """The amounts by which each memory helped and hindered."""
        whole = dict.fromkeys(self.helped, (1.0, 0.0)) | dict.fromkeys(self.hindered, (0.0, 1.0))
        return self.shares or whole

    @property
    def hindered(self) -> frozenset[str]:
        """Memories that did not help: all ranked above the last that helped, or all if none did.

        Those below it do not count, since they were perhaps not read.
        """
        last = max((n for n, id in enumerate(self.order) if id in self.helped), default=len(self.order))
        return frozenset(self.order[:last]) - self.helped


class Match(NamedTuple):
    """An id and its score: BM25 for words, similarity in [0, 1] for vectors, 0 for newest.

    A memory with several vectors has the score of the best one, that of `passage`.
    """

    id: str
    score: float
    passage: int = 0


class MirrorMatch(Match):
    """A match from the local copy of the vectors, because the vector database is unavailable."""

    __slots__ = ()


class Cleaned(NamedTuple):
    """Redacted text and the names of the rules that matched, in order; `personal:…` stands for personal data."""

    text: Clean
    found: tuple[str, ...]

    @property
    def secrets(self) -> tuple[str, ...]:
        """The rules that found a secret; text with a secret is refused as a name."""
        return secrets_among(self.found)


def secrets_among(found: Iterable[str]) -> tuple[str, ...]:
    """Return the names of rules for secrets, without those for personal data."""
    return tuple(name for name in found if not name.startswith("personal:"))


@dataclass(frozen=True, slots=True)
class Changes:
    """New values for the metadata of a memory; `None` leaves a field unchanged."""

    tags: tuple[Clean, ...] | None = None
    importance: float | None = None
    confidence: float | None = None
    trust: float | None = None
    valid_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class LoggedRecall:
    """The memories that a recall or a suggestion returned, under the id by which its outcome is reported later."""

    id: str
    at: datetime
    order: tuple[str, ...]
    """The memories, best first."""
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    about: Mapping[str, JsonValue] = field(default_factory=dict)
    """The request of a suggestion; empty for a recall."""
    told: bool = False
    """True if its outcome is known."""


class MemoryChange(NamedTuple):
    """A memory that was stored or deleted, and the number of that write."""

    seq: int
    what: Literal["stored", "forgotten"]
    id: str
    at: datetime


class IntegrityProblem(NamedTuple):
    """A problem found by an integrity check."""

    where: str
    what: str


Cells = dict[str, str | int | float | bytes | None]
"""One row of a table, as plain values."""


class TableChecksum(NamedTuple):
    """The number of rows of a table, and a checksum that does not depend on their order."""

    rows: int
    checksum: str
