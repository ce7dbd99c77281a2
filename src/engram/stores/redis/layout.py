"""Names of the Redis keys, and the format of their values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import quote

from engram.clock import from_micros
from engram.errors import StoreCorrupt
from engram.model import Memory, MemoryType, Provenance
from engram.ports import Filter, Scope
from engram.stores.rows import Row, to_json
from engram.stores.rules import accepts
from engram.text.terms import digest

VectorPlace = tuple[str, str]

MOMENT_ZERO = 10**17  # added to a time in microseconds, makes it a positive number of 18 digits
MOMENT = 18
ID_AT = MOMENT + 17
NUMBER = 19  # digits, enough for every 64-bit number


class RedisKeys:
    """The keys of a scope. Names are quoted, so that they cannot end the hash tag or the key."""

    def __init__(self, prefix: str, scope: Scope) -> None:
        self.scope = scope
        self._start = f"{prefix}:{{{quote(scope.agent, safe='')}}}:"
        self.meta = self._start + "meta"
        """Hash: the number of the last write, the number of terms, and the number from which on the log is complete."""
        self.log = self._start + "log"
        """Sorted set: the ids and passages whose vectors changed, by the number of the write."""
        self.done = self._start + "done"
        """List: the tokens of the last writes."""
        self.cards = self._start + "cards"
        """Hash: id to the fields that filters read (`Card`)."""
        self.traces = self._start + "traces"
        """Hash: id to all keys that refer to a memory (`MemoryTrace`)."""
        self.newest = self._start + "newest"
        """Sorted set: the time of the event, the number and the id of a memory, as text in this order."""
        self.ids = self._start + "ids"
        """Sorted set: ids as text."""
        self.age = self._start + "age"
        """Sorted set: ids by their number."""
        self.expiry = self._start + "expiry"
        """Sorted set: ids by the time when they expire."""
        self.keys = self._start + "keys"
        """Hash: idempotency key to id and fingerprint."""
        self.merges = self._start + "merges"
        """Hash: digest of a statement to its id."""
        self.spaces = self._start + "shelves"
        """Hash: namespace and embedder to the length of the vectors and the number of memories that have any."""
        self.evidence = self._start + "evidence"
        """Sorted set: id, number and repeated statement, as text in this order."""
        self.tombstones = self._start + "tombstones"
        """Sorted set: the ids of deleted memories, each with the number and the time of deletion."""
        self.recalls = self._start + "recalls"
        """Sorted set: the log of recalls by id."""
        self.recalled = self._start + "recalled"
        """Sorted set: the time when a recall was credited and its id, as text in this order."""
        self.counts = self._start + "counts"
        """Hash: id to how often it was recalled."""
        self.seen = self._start + "seen"
        """Hash: id to when it was last recalled."""
        self.helped = self._start + "helped"
        """Hash: id to how often it helped and hindered."""
        self.events = self._start + "events"
        """Hash: id to an event, as JSON."""
        self.feed = self._start + "feed"
        """Sorted set: the number and the id of every event, as text in this order."""
        self.topics = self._start + "topics"
        """Sorted set: the digest of the topic, then number and id."""
        self.subjects = self._start + "subjects"
        """Sorted set: the digest of the subject, then number and id."""

    def memory(self, id: str) -> str:
        """String: the memory itself, as JSON."""
        return f"{self._start}memory:{id}"

    def word(self, term: str) -> str:
        """Hash: id to how often it has the term, its length and its number."""
        return f"{self._start}word:{term}"

    def group(self, name: str) -> str:
        """Set: the ids that have a kind, a tag, a session or a context in common."""
        return f"{self._start}group:{name}"

    def vectors(self, place: VectorPlace) -> str:
        """Hash: id and passage to a vector, as 32-bit floats."""
        return f"{self._start}vectors:{quote(place[0], safe='')}:{place[1]}"

    def working(self, key: str) -> str:
        """String: a value of working memory, as JSON."""
        return f"{self._start}working:{key}"


def agents_key(prefix: str) -> str:
    """Sorted set: every agent that ever stored something, by name."""
    return f"{prefix}:agents"


def enrolled_key(prefix: str) -> str:
    """Hash: agent to when it first stored something."""
    return f"{prefix}:enrolled"


def numbers_key(prefix: str) -> str:
    """String: the last number that was given to a write of any agent."""
    return f"{prefix}:numbers"


def settings_key(prefix: str) -> str:
    """Hash: settings, such as the embedder in use, ranking weights, and the source of a copy in progress."""
    return f"{prefix}:settings"


class Posting(NamedTuple):
    """The count of a term in a memory, the length of the memory in terms, and its number."""

    times: int
    length: int
    seq: int

    @classmethod
    def read(cls, text: bytes) -> Posting:
        """Decode a posting."""
        return cls(*map(int, text.split()))

    def written(self) -> str:
        """Encode the posting."""
        return f"{self.times} {self.length} {self.seq}"


class Card(NamedTuple):
    """The fields of a memory that a filter reads."""

    seq: int
    kind: str
    tags: list[str]
    happened: int
    created: int
    valid_from: int
    valid_until: int | None
    session: str | None
    context_key: str
    expires: int | None

    @classmethod
    def of(cls, row: Row, memory: Memory, expires: int | None) -> Card:
        """Build the card of a memory."""
        return cls(
            seq=row["seq"],
            kind=row["kind"],
            tags=list(memory.tags),
            happened=row["happened_at"],
            created=row["created_at"],
            valid_from=row["valid_from"],
            valid_until=row["valid_until"],
            session=row["session"],
            context_key=row["context_key"],
            expires=expires,
        )

    @classmethod
    def read(cls, text: bytes) -> Card:
        """Decode a card."""
        return cls(*json.loads(text))

    def written(self) -> str:
        """Encode the card."""
        return to_json(self)

    def passes(self, where: Filter, now: int) -> bool:
        """Return True if the memory has not expired and passes the filter."""
        if self.expires is not None and self.expires <= now:
            return False
        if where == Filter():
            return True
        memory = Memory.model_construct(
            kind=MemoryType(self.kind),
            tags=tuple(self.tags),
            happened_at=from_micros(self.happened),
            created_at=from_micros(self.created),
            valid_from=from_micros(self.valid_from),
            valid_until=None if self.valid_until is None else from_micros(self.valid_until),
            provenance=Provenance.model_construct(session=self.session),
        )
        return accepts(where, memory, self.context_key)


@dataclass(slots=True)
class MemoryTrace:
    """All keys that refer to a memory: enough to delete it after its text has expired."""

    newest: str = ""
    length: int = 0
    evidence: int = 0
    merge: str | None = None
    keys: list[str] = field(default_factory=list)
    places: dict[VectorPlace, dict[int, int]] = field(default_factory=dict)
    """The spaces in which it has vectors, each with its passages and the numbers of their writes."""
    groups: list[str] = field(default_factory=list)
    terms: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, text: bytes) -> MemoryTrace:
        """Decode a trace."""
        fields = json.loads(text)
        return cls(**fields | {"places": {(namespace, by): dict(seqs) for namespace, by, seqs in fields["places"]}})

    def written(self) -> str:
        """Encode the trace."""
        places = [(*place, list(seqs.items())) for place, seqs in self.places.items()]
        return to_json({name: getattr(self, name) for name in self.__slots__} | {"places": places})

    def belongings(self) -> dict[str, int]:
        """Count what is deleted with the memory, by kind."""
        return {
            "memories": 1,
            "evidence": self.evidence,
            "keys": len(self.keys),
            "vectors": sum(map(len, self.places.values())),
            "words": 1,
        }


def moment(happened: int) -> str:
    """Encode a time as text that sorts by time."""
    return f"{happened + MOMENT_ZERO:0{MOMENT}d}"


def newest_member(happened: int, seq: int, id: str) -> str:
    """Return the member for a memory in the set ordered by time; the id begins at `ID_AT`."""
    return f"{moment(happened)}{seq:017d}{id}"


class EvidenceRow(NamedTuple):
    """A repeated statement that counts as evidence for a memory."""

    memory_id: str
    seq: int
    happened_at: int
    said: str | None
    detail: str

    @classmethod
    def read(cls, member: bytes) -> EvidenceRow:
        """Decode evidence."""
        id, _, rest = member.decode().rpartition("\0")
        return cls(id, int(rest[:NUMBER]), *json.loads(rest[NUMBER:]))

    def written(self) -> str:
        """Encode the evidence, to be sorted by memory and number."""
        return f"{self.memory_id}\0{self.seq:0{NUMBER}d}{to_json([self.happened_at, self.said, self.detail])}"


class Tombstone(NamedTuple):
    """The record of a deleted memory: its time, and the highest number of passages that had vectors."""

    memory_id: str
    seq: int
    at: int
    passages: int

    @classmethod
    def read(cls, member: bytes) -> Tombstone:
        """Decode a tombstone."""
        id, _, rest = member.decode().rpartition("\0")
        return cls(id, *map(int, rest.split()))

    def written(self) -> str:
        """Encode the tombstone, to be sorted by memory."""
        return f"{self.memory_id}\0{self.seq} {self.at} {self.passages}"


class RecallRow(NamedTuple):
    """The outcome of a recall, and the time of the report."""

    id: str
    at: int
    detail: str

    @classmethod
    def read(cls, member: bytes) -> RecallRow:
        """Decode a recall."""
        id, _, rest = member.decode().rpartition("\0")
        return cls(id, *json.loads(rest))

    def written(self) -> str:
        """Encode the recall, to be sorted by id."""
        return f"{self.id}\0{to_json([self.at, self.detail])}"


def event_members(keys: RedisKeys, row: Row) -> dict[str, str]:
    """Return the members for an event in the sorted sets that index it."""
    member = f"{row['seq']:0{NUMBER}d}{row['id']}"
    return {
        keys.feed: member,
        keys.topics: digest(row["topic"]) + member,
        keys.subjects: digest(row["subject"]) + member,
    }


def events_after(seq: int) -> tuple[str, str]:
    """Return the range of events numbered higher, in the order of recording."""
    return f"[{seq + 1:0{NUMBER}d}", "+"


def events_with(text: str) -> tuple[str, str]:
    """Return the range of events that have this topic, or this subject."""
    return f"[{digest(text)}", f"({digest(text)}:"


def event_id(member: bytes, *, in_feed: bool) -> str:
    """Return the event id in a member of the feed, or of an index that begins with a digest."""
    return member.decode()[NUMBER + (0 if in_feed else len(digest())) :]


def members_of(id: str) -> tuple[str, str]:
    """Return the range of members of one memory in a sorted set; stored texts have no NUL."""
    return f"[{id}\0", f"({id}\1"


def groups(
    kinds: Iterable[str], tags: Iterable[str] = (), session: str | None = None, context_key: str | None = None
) -> list[str]:
    """Return the names of the sets that a memory is in. They are digests, since a session may be as long as a text."""
    names = [f"kind:{kind}" for kind in kinds] + [f"tag:{digest(tag)}" for tag in dict.fromkeys(tags)]
    names += [] if session is None else [f"session:{digest(session)}"]
    return names + ([f"context:{digest(context_key)}"] if context_key else [])


def read_row(body: bytes) -> Row:
    """Decode the row of a memory or event. Raises `StoreCorrupt` if it is something else."""
    try:
        row = json.loads(body)
    except ValueError:
        row = None
    if not isinstance(row, dict) or "digest" not in row:
        raise StoreCorrupt("a key with the prefix of Engram has other data; use another prefix for Engram")
    return row


def read_place(name: bytes) -> VectorPlace:
    """Decode the namespace and the embedder of a space."""
    namespace, embedder = json.loads(name)
    return namespace, embedder


def read_vector_space(value: bytes) -> tuple[int, int]:
    """Return the dimensions of a vector space, and the number of its memories."""
    dim, number = value.split()
    return int(dim), int(number)


def read_scored(flat: Sequence[bytes]) -> list[tuple[bytes, float]]:
    """Pair the members and scores of a sorted set, which the server sends in one list."""
    return [(flat[i], float(flat[i + 1])) for i in range(0, len(flat), 2)]
