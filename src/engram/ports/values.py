"""The values that the engine and its stores exchange."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.model import Clean, Memory, MemoryType
from engram.model.bundle import MAX_NAME
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


RESERVED = "\x1f"
"""How the names of scopes begin that no agent can have: annexes, quarantines, the ledger of grants."""


def reserved(agent: str) -> bool:
    """Tell whether a scope's name is reserved, so that no agent can have it."""
    return agent.startswith(RESERVED)


def unstorable(text: str) -> str | None:
    """Return the reason why no store can keep this text unchanged, or `None` if all can."""
    if "\x00" in text:
        return f"it has a NUL character at position {text.index(chr(0))}; remove it"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"it has half of a surrogate pair at position {error.start}; decode it properly first"
    return None


@dataclass(frozen=True, slots=True)
class Placed:
    """A vector, the space position it belongs to, and which passage of the text it stands for, the first being 0."""

    namespace: str
    embedder: str
    vector: Vector
    passage: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """Something to learn from: a decision, its outcome, a failure, what a check said. Never rewritten.

    `subject` is the memory it is about, with which it goes; `topic` is what it is found by, such as a context.
    """

    id: str
    kind: str
    at: datetime
    subject: str
    topic: str = ""
    body: Mapping[str, JsonValue] = field(default_factory=dict)
    seq: int = 0
    """Its place in the order of recording, which the store gives; 0 before."""


FORGOTTEN = "forgotten"
"""The kind of event that a store adds when a memory goes that others were about."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One memory to store, with its vectors and the keys that make it the same as another one.

    `key` makes the write idempotent; `merge_key` joins it with a memory that says the same. A long text has a vector
    for each of its passages, numbered from 0 in each namespace and for each embedder. `events` are kept with a memory
    that is new, in the same transaction.
    """

    memory: Memory
    key: Clean | None = None
    merge_key: str | None = None
    vectors: tuple[Placed, ...] = ()
    events: tuple[Event, ...] = ()


def refuse_foreign(scope: Scope, entries: Iterable[Entry]) -> None:
    """Raise `InvalidInput` if an entry belongs to another scope than the one it is stored in."""
    for entry in entries:
        if entry.memory.agent != scope.agent:
            raise InvalidInput(f"a memory of {entry.memory.agent!r} cannot be stored in the scope of {scope.agent!r}")


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of memories. Empty fields do not restrict; `tags` must all be there.

    `since` is inclusive, `until` exclusive, both about when it happened; `as_of` keeps what was valid then,
    `current` what is valid now, whatever clocks have done since it was stored.
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
    """One search: by `words`, or `near` a vector, or, with neither, the newest first; `among` all, or these ids."""

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
    """In terms."""
    counts: Sequence[int]
    """How often it has each of the terms that were asked about."""
    importance: float
    trust: float
    usefulness: float
    """How often it helped when it was recalled, as a posterior mean; a half if nobody has said."""


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
    """What each score was made of, before anything was learned from credits; a part that is not there is 0."""
    shares: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """How much each memory helped and hindered, if one outcome is shared by several; otherwise each counts as one."""
    about: Mapping[str, JsonValue] = field(default_factory=dict)
    """What was told, as far as it can be told once only. No text."""

    @property
    def counts(self) -> Mapping[str, tuple[float, float]]:
        """The amounts by which each memory helped and hindered."""
        whole = dict.fromkeys(self.helped, (1.0, 0.0)) | dict.fromkeys(self.hindered, (0.0, 1.0))
        return self.shares or whole

    @property
    def hindered(self) -> frozenset[str]:
        """Those that were looked at in vain: all above the last that helped, or all, if none did.

        Nobody knows about those below it: who has found what he needs looks no further.
        """
        last = max((n for n, id in enumerate(self.order) if id in self.helped), default=len(self.order))
        return frozenset(self.order[:last]) - self.helped


class Match(NamedTuple):
    """An id and how well it matches: BM25 for words, similarity in [0, 1] for vectors, 0 for newest.

    A memory with several vectors matches as well as the best of them does, which is that of `passage`.
    """

    id: str
    score: float
    passage: int = 0


class MirrorMatch(Match):
    """A match that the local mirror gave because the vector database is away."""

    __slots__ = ()


class Cleaned(NamedTuple):
    """Redacted text and the names of the rules that found something, in order; `personal:…` are no secrets."""

    text: Clean
    found: tuple[str, ...]

    @property
    def secrets(self) -> tuple[str, ...]:
        """The rules that found a secret: what must not even be a name."""
        return secrets_among(self.found)


def secrets_among(found: Iterable[str]) -> tuple[str, ...]:
    """Of the names of what was found, those of secrets; the others are personal data."""
    return tuple(name for name in found if not name.startswith("personal:"))


@dataclass(frozen=True, slots=True)
class Changes:
    """New values for what may change about a memory; `None` leaves it as it is."""

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
    """What a suggestion was about; empty for a recall."""
    told: bool = False
    """Whether its outcome is known."""


class MemoryChange(NamedTuple):
    """A memory that came or went, and its place in the order of writes."""

    seq: int
    what: Literal["stored", "forgotten"]
    id: str
    at: datetime


class IntegrityProblem(NamedTuple):
    """Something an integrity check found."""

    where: str
    what: str


Cells = dict[str, str | int | float | bytes | None]
"""One row of a table, as plain values."""


class TableChecksum(NamedTuple):
    """The number of rows of a table, and a checksum that does not depend on their order."""

    rows: int
    checksum: str
