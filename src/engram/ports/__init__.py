"""What the engine asks of the outside: small protocols, batch first, order kept, missing is `None`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from engram.errors import InvalidInput
from engram.model import AuditEntry, Checkpoint, Clean, ForgetReceipt, Memory, MemoryIndex, MemoryType, Receipt
from engram.model.api_key import ApiKey

Vector = NDArray[np.float32]
"""One embedding of length 1, shape (dim,)."""

Matrix = NDArray[np.float32]
"""Embeddings of length 1, one a row, shape (n, dim)."""


def units(matrix: Matrix) -> NDArray[np.bool_]:
    """Which rows are vectors of length 1."""
    with np.errstate(all="ignore"):  # what is no number is no vector
        length = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
        return np.asarray(np.abs(length - 1) < 0.01, dtype=np.bool_)


def is_unit(matrix: Matrix) -> bool:
    """Whether every row is a vector of length 1."""
    return bool(units(matrix).all())


LONG_TERM = "long-term"
"""The namespace that recall searches."""

MAX_NAME = 255


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory a call is about. Matched exactly: `a` is not `A`, nor `ab`, nor `a%`."""

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
    """Whether a scope's name is one that no agent can have."""
    return agent.startswith(RESERVED)


def unstorable(text: str) -> str | None:
    """Why no store can keep this text unchanged, or `None` if all can."""
    if "\x00" in text:
        return f"it has a NUL character at position {text.index(chr(0))}; remove it"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"it has half of a surrogate pair at position {error.start}; decode it properly first"
    return None


@dataclass(frozen=True, slots=True)
class Shelf:
    """Vectors that may be compared with each other: one scope, one namespace, one embedder."""

    scope: Scope
    namespace: str
    embedder: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A vector, the shelf position it belongs to, and which passage of the text it stands for, the first being 0."""

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


@dataclass(frozen=True, slots=True)
class Filter:
    """Which memories are looked at. Empty fields do not restrict; `tags` must all be there.

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


class Glimpse(NamedTuple):
    """What ranking sees of a memory: enough to compare it with others."""

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


class Spread(NamedTuple):
    """How many memories a scope has, and how many of them hold each term."""

    rows: int
    holders: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Credit:
    """What became of one recall: what it showed, best first, and which of that helped. Numbers and ids, no text."""

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
        """How much each memory helped and hindered."""
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


@runtime_checkable
class Redactor(Protocol):
    """Takes secrets out of text. The only maker of `Clean`."""

    def clean(self, texts: Sequence[str]) -> list[Cleaned]:
        """One answer per text, in order. Cleaning twice changes nothing more."""
        ...


Purpose = Literal["document", "query"]


@runtime_checkable
class Embedder(Protocol):
    """Turns clean text into vectors of length 1."""

    @property
    def identity(self) -> str:
        """Names the model and its weights: two embedders with one identity give the same vectors."""
        ...

    @property
    def dim(self) -> int:
        """The length of every vector."""
        ...

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        """One row per text, in order; no texts give no rows. Raises `ModelError`."""
        ...


@runtime_checkable
class VectorStore(Protocol):
    """Nearest neighbours, derived from the mirrored vectors: may be thrown away at any time."""

    def add(self, shelf: Shelf, ids: Sequence[str], vectors: Matrix) -> None:
        """Put vectors in; an id that is there already is replaced."""
        ...

    def search(self, shelf: Shelf, vector: Vector, k: int, among: frozenset[str] | None = None) -> list[Match]:
        """The k most similar, best first, similarity in [0, 1]; only `among` these ids if given."""
        ...

    def remove(self, shelf: Shelf, ids: Sequence[str]) -> None:
        """Take vectors out; unknown ids are ignored."""
        ...

    def clear(self, shelf: Shelf) -> None:
        """Forget a whole shelf; it can be filled again from the mirrored vectors."""
        ...

    def close(self) -> None:
        """Release everything; calling it twice is harmless."""
        ...


@runtime_checkable
class MemoryStore(Protocol):
    """Keeps memories. Every call names its scope; what is outside it does not exist."""

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Store all entries in one durable transaction; one receipt per entry, in order.

        An entry whose key is known answers with the first receipt's id; if it says something else it is
        rejected. An entry whose `merge_key` is known counts as evidence for the memory that has it. Raises
        `Conflict` for an id that is taken and `InvalidInput` for a vector of another length; then nothing is stored.
        """
        ...

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        """One answer per id, in order; `None` for an id that is not in this scope."""
        ...

    def search(self, scope: Scope, query: Query) -> list[Match]:
        """Best first (newest first without words and vector), filtered before the limit is applied."""
        ...

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Remove memories and all that belongs to them, in one transaction; unknown ids say so."""
        ...

    def close(self) -> None:
        """Release everything; calling it twice is harmless."""
        ...


@dataclass(frozen=True, slots=True)
class Changes:
    """New values for what may change about a memory; `None` leaves it as it is."""

    tags: tuple[Clean, ...] | None = None
    importance: float | None = None
    confidence: float | None = None
    trust: float | None = None
    valid_until: datetime | None = None


@runtime_checkable
class Foresees(Protocol):
    """Can tell beforehand what a write would do."""

    def foresee(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """The receipts that `add` would give now, in order, if no id is taken; nothing is stored."""
        ...


@runtime_checkable
class Annotates(Protocol):
    """Can change what surrounds a memory, never what it says."""

    def annotate(self, scope: Scope, id: str, changes: Changes, expected_version: int | None) -> Memory:
        """The changed memory, one version on. Raises `NotFound`, or `Conflict` if the version differs."""
        ...


@runtime_checkable
class Versions(Protocol):
    """Tells at little cost what has changed, whoever changed it."""

    def versions(self, scope: Scope, where: Filter) -> Mapping[str, int]:
        """The id of every memory that passes, and its version: one that was read in the same version is unchanged."""
        ...


@runtime_checkable
class CountsAccess(Protocol):
    """Keeps count of what was recalled; a statistic, written with the next commit."""

    def touch(self, scope: Scope, ids: Sequence[str], at: datetime) -> None:
        """Note that these memories were recalled."""
        ...


@runtime_checkable
class CreditsRecalls(Protocol):
    """Keeps what became of recalls, and counts for each memory how often it helped."""

    def credit(self, scope: Scope, credit: Credit) -> bool:
        """Keep a credit and count it, in one transaction; `False`, and nothing is counted, if its id is known.

        Memories that are gone are not counted. An agent who has stored nothing has nothing to credit: `False`.
        """
        ...

    def credits(self, scope: Scope, limit: int) -> list[Credit]:
        """The newest credits, the oldest of them first."""
        ...


@dataclass(frozen=True, slots=True)
class Shown:
    """What a recall or a suggestion showed, under the id by which its outcome is told later."""

    id: str
    at: datetime
    order: tuple[str, ...]
    """The memories, best first."""
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    about: Mapping[str, JsonValue] = field(default_factory=dict)
    """What a suggestion was about; empty for a recall."""
    told: bool = False
    """Whether its outcome is known."""


@runtime_checkable
class RemembersShown(Protocol):
    """Keeps what was shown for a week, so that its outcome can be told; written with the next commit."""

    def show(self, scope: Scope, shown: Shown) -> None:
        """Note what was shown."""
        ...

    def shown(self, scope: Scope, id: str) -> Shown | None:
        """What was shown under an id, also if its outcome was told; `None` if it was not, or too long ago."""
        ...


@runtime_checkable
class KeepsEvents(Protocol):
    """Keeps what is learned from, in the order of recording: whoever has read up to a number misses nothing."""

    def append(self, scope: Scope, events: Sequence[Event]) -> list[bool]:
        """Keep events in one durable transaction; for each, in order, `False` if there is one with its id already."""
        ...

    def feed(self, scope: Scope, after: int, limit: int) -> list[Event]:
        """The events numbered higher than `after`, the oldest of them first."""
        ...

    def about(self, scope: Scope, topic: str, limit: int) -> list[Event]:
        """The newest events of a topic, the oldest of them first."""
        ...

    def events_of(self, scope: Scope, subjects: Sequence[str]) -> list[Event]:
        """All events about these subjects, the oldest first."""
        ...


@runtime_checkable
class FindsDerived(Protocol):
    """Knows what was derived from what."""

    def derived(self, ids: Collection[str]) -> list[tuple[Scope, str]]:
        """The memories of any scope that name one of these as a source."""
        ...


@runtime_checkable
class ErasesEvents(Protocol):
    """Can take away events that are about no memory."""

    def unrecord(self, scope: Scope, ids: Sequence[str]) -> int:
        """Remove events by id in one transaction, and say so to whoever has learned from them; how many there were."""
        ...


@runtime_checkable
class ErasesShown(Protocol):
    """Can take away what was shown."""

    def unshow(self, scope: Scope, chosen: Callable[[Shown], bool]) -> int:
        """Remove what was shown and whose outcome nobody has told, if it is chosen; how many there were."""
        ...


@runtime_checkable
class Vacates(Protocol):
    """Can give up a whole scope."""

    def vacate(self, scope: Scope) -> Mapping[str, int]:
        """Remove all that is kept of a scope, its keys and its name too, in one transaction; how many of each."""
        ...


@runtime_checkable
class Scrubs(Protocol):
    """Keeps files in which what was removed may be readable for a while."""

    def scrub(self) -> bool:
        """Make what was removed unreadable; `False` if somebody who reads holds it up, and it is done later."""
        ...


@runtime_checkable
class KeepsSettings(Protocol):
    """Keeps what Engram itself has to remember about a database."""

    def setting(self, name: str) -> str | None:
        """The value of a setting, or `None`."""
        ...

    def set_setting(self, name: str, value: str) -> None:
        """Keep a value, instead of the one that was there."""
        ...


@runtime_checkable
class KeepsKeys(Protocol):
    """Keeps callers' keys, each with the hash of its secret, which is not kept."""

    def add_key(self, key: ApiKey, hash: str) -> bool:
        """Keep a key, durably; `False` if its id is taken."""
        ...

    def key(self, id: str) -> tuple[ApiKey, str] | None:
        """The key with this id and the hash of its secret, or `None`."""
        ...

    def keys(self) -> list[ApiKey]:
        """All keys, the oldest first."""
        ...

    def note_key(self, id: str, *, revoked_at: datetime | None = None, last_used: datetime | None = None) -> bool:
        """Say when a key was revoked, of which the first time counts, or used; `False` if there is none."""
        ...


@runtime_checkable
class ClosesKeys(Protocol):
    """Can take an agent out of callers' keys."""

    def close_keys(self, agent: str, at: datetime) -> int:
        """Take an agent out of all keys, and revoke those that open nothing else; how many keys named it."""
        ...


class Change(NamedTuple):
    """A memory that came or went, and its place in the order of writes."""

    seq: int
    what: Literal["stored", "forgotten"]
    id: str
    at: datetime


@runtime_checkable
class TellsChanges(Protocol):
    """Knows which memories came and went, in the order of writes that events are numbered in, too."""

    def changes(self, scope: Scope, after: int, limit: int) -> list[Change]:
        """What came and went after a number, the oldest of it first."""
        ...

    def newest(self, scope: Scope) -> int:
        """The number of the newest write, of an event, too; 0 if there is none."""
        ...

    def lag(self) -> int:
        """How far below a higher one a number may be that shows up after it."""
        ...


@runtime_checkable
class Surveys(Protocol):
    """Knows what surrounds its memories, which recall ranks by. Without it, words and vectors alone decide."""

    def speakers(self, scope: Scope) -> list[str]:
        """Whose words are remembered; the first few hundred, if there are more."""
        ...

    def around(self, scope: Scope, ids: Sequence[str], reach: int, terms: Sequence[str]) -> list[Glimpse]:
        """These memories, and those up to `reach` before and after each in its session, each once, in any order."""
        ...

    def spread(self, scope: Scope, terms: Sequence[str]) -> Spread:
        """How common the terms are."""
        ...


@runtime_checkable
class Snapshots(Protocol):
    """Can show one state of a scope to several calls, which spares each of them a transaction."""

    def snapshot(self, scope: Scope) -> AbstractContextManager[None]:
        """Within it, all that this thread reads of the scope is of one moment. No model may be asked meanwhile."""
        ...


@runtime_checkable
class ListsAgents(Protocol):
    """Knows who has memories here."""

    def agents(self) -> list[str]:
        """Every agent that ever stored something, by name."""
        ...


@runtime_checkable
class MirrorsVectors(Protocol):
    """Mirrors vectors beside the rows, for any number of embedders (seed 004's `MemoryIndex`)."""

    def embedder(self) -> str | None:
        """The identity of the embedder this store was last embedded with, if any."""
        ...

    def set_embedder(self, identity: str) -> None:
        """Remember the embedder in use."""
        ...

    def unembedded(self, namespace: str, embedder: str, limit: int) -> list[Memory]:
        """Memories of any agent without a vector of this embedder, oldest first."""
        ...

    def count_unembedded(self, namespace: str, embedder: str) -> int:
        """How many memories have no vector of this embedder."""
        ...

    def indexes(self, scope: Scope, id: str) -> list[MemoryIndex]:
        """Where a memory has vectors, by namespace and embedder; none if it is not in this scope."""
        ...

    def place(self, vectors: Sequence[tuple[Scope, str, Placed]]) -> int:
        """Give vectors to memories that still exist, in one transaction; how many of those given were added.

        They replace all that a memory had in the same namespace by the same embedder: give all its passages at once.
        """
        ...

    def discard_vectors(self, namespace: str, keep: str) -> int:
        """Drop the vectors of every other embedder; how many went."""
        ...


@runtime_checkable
class Store(
    MemoryStore,
    Foresees,
    Annotates,
    Versions,
    CountsAccess,
    CreditsRecalls,
    KeepsEvents,
    ErasesEvents,
    Vacates,
    KeepsSettings,
    ListsAgents,
    MirrorsVectors,
    Protocol,
):
    """All that the engine relies on. A plugin with the methods of `MemoryStore` alone is completed, see `Completed`."""


@runtime_checkable
class ExpiringStore(Protocol):
    """Keeps values for a while: the state of a session, not its memories."""

    def put(self, scope: Scope, values: Mapping[str, JsonValue], ttl: float) -> None:
        """Keep each value under its key for `ttl` seconds from now; what was there is replaced."""
        ...

    def fetch(self, scope: Scope, keys: Sequence[str]) -> list[JsonValue]:
        """One answer per key, in order; `None` for a key that is not there, or no longer."""
        ...

    def drop(self, scope: Scope, keys: Sequence[str]) -> int:
        """Remove keys; how many were there."""
        ...

    def close(self) -> None:
        """Release everything; calling it twice is harmless."""
        ...


@runtime_checkable
class ClearsSessions(Protocol):
    """Can let go of all that is held for one agent."""

    def clear(self, scope: Scope) -> int:
        """Remove every value of a scope; how many there were."""
        ...


@runtime_checkable
class Volatile(Protocol):
    """A store whose values end with this process: whoever closes it saves before what must stay."""

    volatile: Literal[True]


class Problem(NamedTuple):
    """Something an integrity check found."""

    where: str
    what: str


@runtime_checkable
class SyncsVectors(Protocol):
    """Keeps an outside vector database in step with its own mirror."""

    def sync(self, *, anew: bool = False, progress: Callable[[int, int], None] | None = None) -> int:
        """Hand over what the vector database lacks, or everything `anew`; how many vectors. Raises `StoreError`."""
        ...


Cells = dict[str, str | int | float | bytes | None]
"""One row of a table, as plain values."""


class Tally(NamedTuple):
    """How many rows a table has, and a checksum of all of them that does not depend on their order."""

    rows: int
    checksum: str


@runtime_checkable
class Copies(Protocol):
    """Can hand over all it keeps, table by table, to another one that can."""

    def tables(self) -> list[str]:
        """The tables to copy, in an order in which they can be filled."""
        ...

    def page(self, table: str, after: Cells | None, limit: int) -> list[Cells]:
        """The next rows of a table in the order of its key, after a row or from the start."""
        ...

    def begin_copy(self, source: str) -> None:
        """Get ready for a copy of `source`. Raises `Conflict` if anything else is here."""
        ...

    def take(self, table: str, rows: Sequence[Cells]) -> None:
        """Insert the rows that are not there yet, in one transaction."""
        ...

    def end_copy(self) -> None:
        """Go on from where the copied database was."""
        ...

    def tally(self, table: str) -> Tally:
        """Count and sum up a table."""
        ...


@runtime_checkable
class Maintains(Protocol):
    """A database that can describe, check, copy and rebuild itself."""

    def info(self) -> Mapping[str, str | int | float | None]:
        """Facts about the database: where, how large, which schema, how many rows."""
        ...

    def check(self) -> list[Problem]:
        """Everything wrong with the file, the rows and the derived indexes; empty when all is well."""
        ...

    def backup(self, target: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """Write a consistent copy while others go on reading and writing; all or nothing."""
        ...

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> Mapping[str, int]:
        """Make every derived index again from the canonical rows; how many rows went into each."""
        ...


principal: ContextVar[str] = ContextVar("engram_principal", default="")
"""On whose behalf calls are made: the id of a key, `cli:` and a user's name, or nobody in particular."""


@dataclass(frozen=True, slots=True)
class Deed:
    """Something to put on record: who did what to whose memory. Ids, counts and hashes, never content."""

    action: str
    actor: str = ""
    agent: str = ""
    target: str = ""
    grant: str = ""
    count: int = 1
    detail: Mapping[str, JsonValue] = field(default_factory=dict)


doing: ContextVar[Deed | None] = ContextVar("engram_doing", default=None)
"""What the calls of a thread or task are part of, if somebody has said so; see `acting`."""


@contextmanager
def acting(actor: str, action: str = "", *, agent: str = "", grant: str = "") -> Iterator[None]:
    """Say who does what the calls inside put on record; without it, the agent whose scope it is.

    `actor` is empty for whoever looks after the database, `action` if the calls themselves say what is done; `agent` is
    whose memory a reserved scope belongs to. Within another one, the actor is that of the outermost.
    """
    outer = doing.get()
    if outer is not None:
        actor, action = outer.actor, action or outer.action
        agent, grant = agent or outer.agent, grant or outer.grant
    token = doing.set(Deed(action, actor, agent, grant=grant))
    try:
        yield
    finally:
        doing.reset(token)


@contextmanager
def by_themselves() -> Iterator[None]:
    """Put on record what agents did before, and is only written now, as their own deeds, whoever is acting."""
    token = doing.set(None)
    try:
        yield
    finally:
        doing.reset(token)


@runtime_checkable
class KeepsAudit(Protocol):
    """Puts on record what was done, in a chain that cannot be changed unseen.

    Every call that changes something adds one entry by itself, in its own transaction: both are there, or neither.
    """

    def note(self, deeds: Sequence[Deed]) -> None:
        """Add entries for what no other call of the store does, in one durable transaction."""
        ...

    def head(self) -> AuditEntry | None:
        """The newest entry; `None` only if somebody has removed them all."""
        ...

    def trail(
        self,
        after: int = 0,
        limit: int = 1000,
        *,
        agent: str | None = None,
        grant: str | None = None,
        since: datetime | None = None,
        newest: bool = False,
    ) -> list[AuditEntry]:
        """Entries numbered higher than `after`, in order: the first of them, or the last if `newest`."""
        ...

    def checkpoint(self, checkpoint: Checkpoint) -> bool:
        """Keep a checkpoint for good, and note that; `False` if there is one of that entry already."""
        ...

    def checkpoints(self) -> list[Checkpoint]:
        """All checkpoints, in order."""
        ...

    def prune(self, through: int) -> int:
        """Remove the entries up to a checkpoint, and note that; how many. Raises `NotFound` without a checkpoint."""
        ...


class Seal(Protocol):
    """One key that data is sealed with. `about` says what a sealed value belongs to: elsewhere it does not open."""

    def seal(self, data: bytes, about: bytes) -> bytes:
        """The data, unreadable, and different each time."""
        ...

    def unseal(self, data: bytes, about: bytes) -> bytes:
        """The inverse of `seal`. Raises `StoreCorrupt` if it is not what was sealed, or belongs to something else."""
        ...

    def mask(self, text: str, about: bytes) -> str:
        """The text, unreadable, and each time the same, so that it can be looked for."""
        ...

    def unmask(self, masked: str, about: bytes) -> str:
        """The inverse of `mask`. Raises `StoreCorrupt` like `unseal`."""
        ...

    def blind(self, term: str) -> str:
        """What stands for a word in an index: the same for the same word, in small letters and digits."""
        ...

    def sign(self, data: bytes) -> str:
        """A digest that nobody can make without the key."""
        ...


class Cipher(Protocol):
    """The master key of a database: it opens the keys that the data is sealed with, and never touches the data."""

    @property
    def identity(self) -> str:
        """Tells one master key from another, and tells nothing about it."""
        ...

    def wrap(self, key: bytes, about: bytes) -> str:
        """A key as it can be kept beside the data."""
        ...

    def unwrap(self, wrapped: str, about: bytes) -> bytes:
        """The inverse of `wrap`. Raises `StoreCorrupt` if it is not what was wrapped, or not by this master key."""
        ...

    def lock(self, key: bytes) -> Seal:
        """What a key can do."""
        ...

    def derive(self, purpose: str) -> bytes:
        """A key of 32 bytes that is always the same for one purpose, such as to encrypt a whole file."""
        ...


@runtime_checkable
class Encrypts(Protocol):
    """A database whose rows can be sealed, each agent's with keys of its own."""

    def encryption(self) -> Mapping[str, str | int]:
        """How it is encrypted (`mode`: none, fields, file), by which master key, and with how many keys."""
        ...

    def encrypt(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Seal every row of a database that was opened to be encrypted, or go on with that; how many rows."""
        ...

    def rekey(
        self, agent: str | None = None, *, index: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Seal the rows of all agents, or of one, with new keys, or go on with that; how many were looked at."""
        ...

    def rotate(self, cipher: Cipher) -> int:
        """Put the database under another master key, in one transaction; how many keys it opens."""
        ...

    def destroy(self, scope: Scope) -> Mapping[str, int]:
        """Remove an agent's keys and all its rows, in one transaction; how many of each table."""
        ...
