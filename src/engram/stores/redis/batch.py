"""Collect the writes of one call, to execute them in one script."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engram.errors import InvalidInput
from engram.model import Memory
from engram.ports import Event, Vector
from engram.stores.redis.layout import (
    Card,
    EvidenceRow,
    MemoryTrace,
    Posting,
    RecallRow,
    RedisKeys,
    Tombstone,
    VectorPlace,
    event_members,
    groups,
    members_of,
    moment,
    newest_member,
)
from engram.stores.redis.server import CHUNK
from engram.stores.rows import Row, to_event_row, to_json, to_row
from engram.stores.rules import memory_terms, stacked, vector_key
from engram.text.terms import digest

LOG_LENGTH = 10_000  # length of the log of changed vectors; a reader further behind reads the whole space again

# ARGV: the clock that was read, the types of the keys, the time to live of the indexes, a token, the log's length, and
# the writes: command, number of the key, number of arguments, arguments. Redis does not roll back a script that fails,
# so the types of all keys are checked before the first write.
COMMIT = """
if (redis.call('HGET', KEYS[1], 'clock') or '0') ~= ARGV[1] then return 0 end
local names = {h = 'hash', z = 'zset', s = 'set', l = 'list', b = 'string'}
for n = 1, #KEYS do
  local found = redis.call('TYPE', KEYS[n]).ok
  if found ~= 'none' and found ~= names[ARGV[2]:sub(n, n)] then
    return redis.error_reply('WRONGTYPE a key holds a ' .. found)
  end
end
local i = 6
while i <= #ARGV do
  local count = tonumber(ARGV[i + 2])
  redis.call(ARGV[i], KEYS[tonumber(ARGV[i + 1])], unpack(ARGV, i + 3, i + 2 + count))
  i = i + 3 + count
end
redis.call('LPUSH', KEYS[3], ARGV[4])
redis.call('LTRIM', KEYS[3], 0, 255)
local over = redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[5])
if over > 0 then
  local last = redis.call('ZRANGE', KEYS[2], over - 1, over - 1, 'WITHSCORES')
  redis.call('HSET', KEYS[1], 'floor', last[2])
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, over - 1)
end
local keep = tonumber(ARGV[3])
for n = 1, #KEYS do
  if ARGV[2]:sub(n, n) ~= 'b' then
    if keep < 0 then redis.call('PERSIST', KEYS[n]) else redis.call('PEXPIRE', KEYS[n], keep) end
  end
end
return 1
"""


@dataclass(slots=True)
class Pending:
    """A memory as it will be after the batch, and its current trace."""

    memory: Memory
    seq: int
    merge_key: str | None
    before: MemoryTrace = field(default_factory=MemoryTrace)
    keys: dict[str, str] = field(default_factory=dict)
    vectors: dict[VectorPlace, dict[int, Vector]] = field(default_factory=dict)
    evidence: list[EvidenceRow] = field(default_factory=list)
    changed: bool = True


@dataclass(frozen=True, slots=True)
class ScopeState:
    """The state of a scope: number of its last write, length of all texts, the server's time, the next expiry."""

    clock: int
    length: int
    floor: int
    now: int
    first_expiry: float | None
    left: int

    @property
    def now_ms(self) -> int:
        """The server's time in milliseconds."""
        return self.now // 1000

    @property
    def expired(self) -> bool:
        """True if expired memories are still in the indexes."""
        return self.first_expiry is not None and self.first_expiry <= self.now_ms


class Batch:
    """The writes of one call, collected by command and key, in the order of their first use."""

    def __init__(
        self, keys: RedisKeys, state: ScopeState, spaces: dict[VectorPlace, tuple[int, int]], numbers: range
    ) -> None:
        self.state = state
        self._length = state.length
        self._vector_spaces = spaces
        self._rest = iter(numbers)
        self._first, self._last = next(self._rest), numbers[-1]
        self._keys = keys
        self._numbers = {keys.meta: 1, keys.log: 2, keys.done: 3}
        self._types = ["h", "z", "l"]
        self._writes: dict[tuple[str, str], list[list[Any]]] = {}

    def __bool__(self) -> bool:
        return bool(self._writes)

    def number(self) -> int:
        """Return a unique number, higher than all before it in this scope."""
        return next(self._rest)

    def numbered(self, passages: Iterable[int]) -> dict[int, int]:
        """Number passages."""
        return {passage: self.number() for passage in passages}

    def put(self, type: str, command: str, key: str, *arguments: Any) -> None:
        """Add a command; `type` is h for a hash, z a sorted set, s a set, b for a memory itself."""
        self.keep(type, key)
        portions = self._writes.setdefault((command, key), [[]])
        # Lua unpacks only some thousand arguments at once, and a range must not be split.
        if len(portions[-1]) >= 2 * CHUNK or (portions[-1] and command == "ZREMRANGEBYLEX"):
            portions.append([])
        portions[-1].extend(arguments)

    def keep(self, type: str, key: str) -> None:
        """Renew the time to live of a key along with those that are written."""
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            self._types.append(type)

    def store(self, each: Pending, ttl: int | None, row: Row | None = None) -> None:
        """Write a memory and its index entries, and remove its previous ones.

        If its `row` is given, it is written as it is.
        """
        keys, memory, id, before = self._keys, each.memory, each.memory.id, each.before
        row = row or to_row(memory, each.seq, each.merge_key)
        terms = Counter(memory_terms(memory))
        trace = MemoryTrace(
            newest=newest_member(row["happened_at"], each.seq, id),
            length=sum(terms.values()),
            evidence=memory.evidence - 1,
            merge=None if each.merge_key is None else digest(each.merge_key),
            keys=[*before.keys, *each.keys],
            places=before.places | {place: self.numbered(passages) for place, passages in each.vectors.items()},
            groups=groups([memory.kind], memory.tags, memory.session, row["context_key"]),
            terms=list(terms),
        )
        expires = None if ttl is None else self.state.now_ms + ttl
        self.put("b", "SET", keys.memory(id), to_json(row), *(() if ttl is None else ("PX", ttl)))
        self.put("h", "HSET", keys.cards, id, Card.of(row, memory, expires).written())
        self.trace(id, trace)
        self.put("z", "ZADD", keys.newest, 0, trace.newest)
        self.put("z", "ZADD", keys.ids, 0, id)
        self.put("z", "ZADD", keys.age, each.seq, id)
        self.put("z", *(("ZREM", keys.expiry, id) if expires is None else ("ZADD", keys.expiry, expires, id)))
        for key, print_ in each.keys.items():
            self.put("h", "HSET", keys.keys, key, to_json([id, print_]))
        if trace.merge is not None:
            self.put("h", "HSET", keys.merges, trace.merge, id)
        for said in each.evidence:
            self.put("z", "ZADD", keys.evidence, 0, said.written())
        for place, passages in each.vectors.items():
            self.place(id, place, passages, new=place not in before.places)
        for term, times in terms.items():
            self.put("h", "HSET", keys.word(term), id, Posting(times, trace.length, each.seq).written())
        for group in trace.groups:
            self.put("s", "SADD", keys.group(group), id)
        self._unindex(id, before, trace)
        # Keys that may have entries of the memory:
        for key in (keys.keys, keys.counts, keys.seen, keys.helped, keys.events, *map(keys.vectors, before.places)):
            self.keep("h", key)
        for key in (keys.evidence, keys.recalls, keys.recalled, keys.feed, keys.topics, keys.subjects):
            self.keep("z", key)

    def _unindex(self, id: str, before: MemoryTrace, after: MemoryTrace) -> None:
        """Remove a memory from the words and groups that it does not have any more."""
        for term in set(before.terms) - set(after.terms):
            self.put("h", "HDEL", self._keys.word(term), id)
        for group in set(before.groups) - set(after.groups):
            self.put("s", "SREM", self._keys.group(group), id)
        self._length += after.length - before.length

    def trace(self, id: str, trace: MemoryTrace) -> None:
        """Write the trace of a memory: all keys that refer to it."""
        self.put("h", "HSET", self._keys.traces, id, trace.written())

    def place(self, id: str, place: VectorPlace, passages: Mapping[int, Vector], *, new: bool) -> None:
        """Add vectors; `new` if the memory has none in this space. Raises `InvalidInput` for another length."""
        dim = stacked(list(passages.values())).shape[1]
        known, count = self._vector_spaces.get(place, (dim, 0))
        if count and known != dim:
            raise InvalidInput(f"vectors of {dim} dimensions do not fit those already stored, which have {known}")
        self._vector_spaces[place] = (dim, count + new)
        for passage, vector in passages.items():
            key = vector_key(id, passage)
            self.put("h", "HSET", self._keys.vectors(place), key, np.asarray(vector, dtype="<f4").tobytes())
            self.put("z", "ZADD", self._keys.log, self._first, key)

    def displace(self, id: str, place: VectorPlace, passages: Iterable[int], *, all_of_them: bool = True) -> None:
        """Remove some or all vectors of a memory from a space."""
        dim, count = self._vector_spaces.get(place, (0, 0))
        self._vector_spaces[place] = (dim, count - all_of_them)
        for passage in passages:
            self.put("h", "HDEL", self._keys.vectors(place), vector_key(id, passage))
            self.put("z", "ZADD", self._keys.log, self._first, vector_key(id, passage))

    def erase(self, traces: Mapping[str, MemoryTrace]) -> None:
        """Delete memories and all that refers to them; deletions go first, since a full server accepts only these."""
        keys = self._keys
        for id, trace in traces.items():
            self.put("b", "DEL", keys.memory(id))
            for key in (keys.cards, keys.traces, keys.counts, keys.seen, keys.helped):
                self.put("h", "HDEL", key, id)
            self.put("z", "ZREM", keys.newest, trace.newest)
            self.put("z", "ZREM", keys.ids, id)
            self.put("z", "ZREM", keys.age, id)
            self.put("z", "ZREM", keys.expiry, id)
            if trace.evidence:
                self.put("z", "ZREMRANGEBYLEX", keys.evidence, *members_of(id))
            if trace.keys:
                self.put("h", "HDEL", keys.keys, *trace.keys)
            if trace.merge is not None:
                self.put("h", "HDEL", keys.merges, trace.merge)
            for place, passages in trace.places.items():
                self.displace(id, place, passages)
            self._unindex(id, trace, MemoryTrace())

    def bury(self, tombstone: Tombstone) -> None:
        """Write a tombstone; an earlier one of the same id is replaced."""
        self.put("z", "ZREMRANGEBYLEX", self._keys.tombstones, *members_of(tombstone.memory_id))
        self.put("z", "ZADD", self._keys.tombstones, 0, tombstone.written())

    def recall(self, recall: RecallRow) -> None:
        """Write the outcome of a recall."""
        self.put("z", "ZADD", self._keys.recalls, 0, recall.written())
        self.put("z", "ZADD", self._keys.recalled, 0, f"{moment(recall.at)}{recall.id}")

    def help(self, id: str, helped: float, hindered: float) -> None:
        """Write how often a memory helped, and how often it did not."""
        self.put("h", "HSET", self._keys.helped, id, to_json([helped, hindered]))

    def append(self, events: Iterable[Event], known: Iterable[str]) -> list[bool]:
        """Number and write events; return for each, in order, `False` if its id is among the known."""
        taken, fresh = set(known), []
        for event in events:
            fresh.append(event.id not in taken)
            if fresh[-1]:
                taken.add(event.id)
                self.record(to_event_row(self._keys.scope, event, self.number()))
        return fresh

    def record(self, row: Row) -> None:
        """Write an event and its index entries."""
        self.put("h", "HSET", self._keys.events, row["id"], to_json(row))
        for key, member in event_members(self._keys, row).items():
            self.put("z", "ZADD", key, 0, member)
        self.keep("z", self._keys.expiry)  # the event expires with the memory that it is about

    def delete_events(self, rows: Iterable[Row]) -> None:
        """Delete events and their index entries."""
        for row in rows:
            self.put("h", "HDEL", self._keys.events, row["id"])
            for key, member in event_members(self._keys, row).items():
                self.put("z", "ZREM", key, member)

    def call(self, keep: int, token: str) -> tuple[list[str], list[Any]]:
        """Return the keys and the arguments of the script that executes the batch."""
        for place, (dim, count) in self._vector_spaces.items():
            name = json.dumps(place)
            if count > 0:
                self.put("h", "HSET", self._keys.spaces, name, f"{dim} {count}")
            else:
                self.put("h", "HDEL", self._keys.spaces, name)
        self.put("h", "HSET", self._keys.meta, "clock", self._last, "length", self._length)
        if self.state.clock == 0:
            self.put("h", "HSET", self._keys.meta, "floor", self._first)
        arguments = [self.state.clock, "".join(self._types), keep, token, LOG_LENGTH]
        for (command, key), portions in self._writes.items():
            for portion in portions:
                arguments += [command, self._numbers[key], len(portion), *portion]
        return list(self._numbers), arguments
