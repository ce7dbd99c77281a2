"""The Redis store: memories shared by many processes, with a time to live if one is given."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count as counting
from itertools import islice
from typing import Any

from engram.clock import Sources, micros
from engram.errors import Conflict, Hint, NotFound, StoreFull, StoreReadOnly
from engram.model import ForgetReceipt, Memory, MemoryIndex, Receipt
from engram.ports import (
    Changes,
    Entry,
    Filter,
    Placed,
    Query,
    Scope,
    VectorStore,
)
from engram.stores.redis.adding import Adding
from engram.stores.redis.address import parse
from engram.stores.redis.batch import Batch, Pending
from engram.stores.redis.copying import RedisCopying
from engram.stores.redis.events import RedisEvents
from engram.stores.redis.layout import (
    MemoryTrace,
    RedisKeys,
    Tombstone,
    VectorPlace,
    agents_key,
    enrolled_key,
    read_place,
    read_row,
    read_scored,
    read_vector_space,
    settings_key,
)
from engram.stores.redis.recalls import RecallLog
from engram.stores.redis.search import Finder
from engram.stores.redis.server import CHUNK, Server, chunks
from engram.stores.redis.transactions import Transactions
from engram.stores.rows import Row, to_memory
from engram.stores.rules import annotated, by_place, owner, refuse_foreign, vector_key
from engram.text.terms import digest

_Decide = Callable[[Batch, Adding, Mapping[str, MemoryTrace], Mapping[str, bytes]], list[Receipt]]
"""Decide about entries, given the batch, the memories to compare with, traces of expired ones, and known events."""

_TOUCH = """
for i = 2, #ARGV do
  if redis.call('HEXISTS', KEYS[2], ARGV[i]) == 1 then
    redis.call('HINCRBY', KEYS[3], ARGV[i], 1)
    local seen = redis.call('HGET', KEYS[4], ARGV[i])
    if not seen or tonumber(seen) < tonumber(ARGV[1]) then redis.call('HSET', KEYS[4], ARGV[i], ARGV[1]) end
  end
end
local left = redis.call('PTTL', KEYS[1])
for n = 3, 4 do
  if left < 0 then redis.call('PERSIST', KEYS[n]) else redis.call('PEXPIRE', KEYS[n], left) end
end
"""


class RedisStore:
    """A `Store` in Redis or Valkey that many processes can use at once; with `ttl`, memories expire.

    Writes are as durable as Redis is configured to make them.
    """

    def __init__(self, location: str, vectors: VectorStore, sources: Sources) -> None:
        self._address = parse(location)
        self._server = Server(self._address)
        self._sources = sources
        self._transactions = Transactions(self._server, self._address, sources)
        self._finder = Finder(self._server, self._transactions, vectors)
        self.search = self._finder.find

        recalls = RecallLog(self._server, self._transactions, self._address)
        self.credit = recalls.credit
        self.credits = recalls.credits

        events = RedisEvents(self._transactions)
        self.append = events.append
        self.delete_events = events.delete_events
        self.events_after = events.events_after
        self.events_by_topic = events.events_by_topic
        self.events_of = events.events_of

        copying = RedisCopying(self._server, self._transactions, self._address)
        self.tables = copying.tables
        self.page = copying.page
        self.begin_copy = copying.begin
        self.take = copying.take
        self.end_copy = copying.end
        self.tally = copying.tally

    def __repr__(self) -> str:
        return f"RedisStore({self._address})"

    def close(self) -> None:
        """Close all connections; calling it twice is harmless."""
        self._server.close()

    def get(self, scope: Scope, ids: Sequence[str]) -> list[Memory | None]:
        """Return one memory per id, in order; `None` for an id that is not in this scope, or has expired."""
        keys = self._transactions.keys(scope)
        found: dict[str, Memory] = {}
        for some in chunks(list(dict.fromkeys(ids))):
            found.update({id: memory for id, (memory, _) in self._bodies(keys, some).items()})
        return [found.get(id) for id in ids]

    def _bodies(self, keys: RedisKeys, ids: Sequence[str]) -> dict[str, tuple[Memory, Row]]:
        """Return the existing memories, each with its row."""
        bodies, counts, seen = self._server.ask(
            ("MGET", *(keys.memory(id) for id in ids)), ("HMGET", keys.counts, *ids), ("HMGET", keys.seen, *ids)
        )
        rows = {
            id: read_row(body) | {"access_count": int(count or 0), "last_accessed": None if at is None else int(at)}
            for id, body, count, at in zip(ids, bodies, counts, seen, strict=True)
            if body is not None
        }
        return {id: (to_memory(row), row) for id, row in rows.items()}

    def versions(self, scope: Scope, where: Filter) -> Mapping[str, int]:
        """Return the version of every memory that passes the filter, by id."""
        keys, found = self._transactions.keys(scope), dict[str, int]()
        for some in chunks([match.id for match in self.search(scope, Query(where=where, limit=sys.maxsize))]):
            (bodies,) = self._server.ask(("MGET", *(keys.memory(id) for id in some)))
            pairs = zip(some, bodies, strict=True)
            found |= {id: read_row(body)["version"] for id, body in pairs if body is not None}
        return found

    def agents(self) -> list[str]:
        """Return every agent that ever stored something, by name."""
        (names,) = self._server.ask(("ZRANGE", agents_key(self._address.prefix), 0, -1))
        return [name.decode() for name in names]

    def add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Store all entries in one write, all or nothing; return one receipt per entry, in order."""

        def keep(
            batch: Batch, adding: Adding, lost: Mapping[str, MemoryTrace], events: Mapping[str, bytes]
        ) -> list[Receipt]:
            self._transactions.erase(batch, self._transactions.keys(scope), lost)
            receipts = [adding.decide(entry) for entry in entries]
            for each in adding.pending.values():
                if each.changed:
                    batch.store(each, self._address.ttl_ms)
            batch.append(adding.events, {id for id, body in events.items() if read_row(body)["subject"] not in lost})
            if batch and batch.state.clock == 0:
                self._transactions.enrol(scope)
            return receipts

        return self._compared(scope, entries, keep, renews=True)

    def preview_add(self, scope: Scope, entries: Sequence[Entry]) -> list[Receipt]:
        """Return the receipts that `add` would give now, in order, if no id is taken; store nothing."""

        def decide(_: Batch, adding: Adding, *__: object) -> list[Receipt]:
            return [adding.decide(entry) for entry in entries]

        return self._compared(scope, entries, decide)

    def _compared(
        self, scope: Scope, entries: Sequence[Entry], decide: _Decide, *, renews: bool = False
    ) -> list[Receipt]:
        """Compare entries with stored memories, and decide about them in one write."""
        keys = self._transactions.keys(scope)
        if not entries:
            return []
        refuse_foreign(scope, entries)
        hashes = _looked_up(keys, entries)
        reads = [("HMGET", key, *fields) for key, fields in hashes if fields]

        def plan(batch: Batch, answers: list[Any]) -> list[Receipt]:
            return decide(batch, *self._adding(keys, hashes, batch, answers))

        return self._transactions.write(scope, reads, plan, renews=renews, numbers=_numbers(entries))

    def _adding(
        self, keys: RedisKeys, hashes: Sequence[tuple[str, list[str]]], batch: Batch, answers: list[Any]
    ) -> tuple[Adding, dict[str, MemoryTrace], dict[str, bytes]]:
        """Return the memories that entries are compared with, traces of expired ones, and the known events."""
        rest = iter(answers)
        cards, owners, twins, events = (_found(fields, next(rest)) if fields else {} for _, fields in hashes)
        pending, lost = self._pending(keys, [id.decode() for id in twins.values()])
        adding = Adding(
            batch,
            pending,
            taken=set(cards) - set(lost),
            owners={key: owner for key, owner in _decoded(owners).items() if owner[0] not in lost},
            twins={statement: id.decode() for statement, id in twins.items() if id.decode() not in lost},
        )
        return adding, lost, events

    def _pending(self, keys: RedisKeys, ids: Sequence[str]) -> tuple[dict[str, Pending], dict[str, MemoryTrace]]:
        """Return memories, and the traces of those whose text has just expired or was evicted."""
        pending, traces = {}, self._transactions.traces(keys, ids)
        for some in chunks(list(traces)):
            for id, (memory, row) in self._bodies(keys, some).items():
                pending[id] = Pending(memory, row["seq"], row["merge_key"], traces.pop(id), changed=False)
        return pending, traces

    def forget(self, scope: Scope, ids: Sequence[str]) -> list[ForgetReceipt]:
        """Delete memories and all that belongs to them in one write; return one receipt per id, in order."""
        keys = self._transactions.keys(scope)

        def plan(batch: Batch, _: list[Any]) -> dict[str, dict[str, int]]:
            traces = self._transactions.traces(keys, ids)
            told = self._transactions.erase(batch, keys, traces)
            for id in traces:
                passages = max((max(seqs) + 1 for seqs in traces[id].places.values()), default=1)
                batch.bury(Tombstone(id, batch.number(), at, passages))
            events = {id: {"events": number} for id, number in told.items()}
            return {id: trace.belongings() | events.get(id, {}) for id, trace in traces.items()}

        at = micros(self._sources.now())
        gone = self._transactions.write(scope, [], plan, numbers=2 * len(ids))
        return [ForgetReceipt(id=id, forgotten=id in gone, removed=gone.pop(id, {})) for id in ids]

    def delete_scope(self, scope: Scope) -> Mapping[str, int]:
        """Delete all data of a scope, and its name; return how many of each kind. Repeat it after an interruption."""
        keys = self._transactions.keys(scope)
        counts = self._server.ask(("ZCARD", keys.ids), ("HLEN", keys.events), ("ZCARD", keys.recalls))
        self._server.remove(keys.memory("").removesuffix("memory:"))
        own = ":" + digest(scope.agent)
        kept = settings_key(self._address.prefix)
        names = [name for found in self._server.scan(kept) for name in found if name.decode().endswith(own)]
        if names:
            self._server.ask(("HDEL", kept, *names))
        self._server.ask(
            ("ZREM", agents_key(self._address.prefix), scope.agent),
            ("HDEL", enrolled_key(self._address.prefix), scope.agent),
        )
        return dict(zip(("memories", "events", "recall_events"), map(int, counts), strict=True))

    def annotate(self, scope: Scope, id: str, changes: Changes, expected_version: int | None) -> Memory:
        """Change a memory's metadata and return the memory. Raises `NotFound`, or `Conflict` if the version differs."""
        keys = self._transactions.keys(scope)
        update = {name: getattr(changes, name) for name in changes.__slots__}
        update = {name: value for name, value in update.items() if value is not None}

        def plan(batch: Batch, answers: list[Any]) -> Memory:
            pending, _ = self._pending(keys, [id])
            if id not in pending:
                raise NotFound(f"there is no memory {id}", hint=Hint("memory list"))
            known = pending[id].memory
            if expected_version is not None and expected_version != known.version:
                raise Conflict(f"memory {id} is at version {known.version}, not {expected_version}; read it again")
            changed = annotated(known, update)
            batch.store(replace(pending[id], memory=changed), self._address.ttl_ms)
            return changed

        return self._transactions.write(scope, [], plan, renews=True)

    def touch(self, scope: Scope, ids: Sequence[str], at: datetime) -> None:
        """Note that these memories were recalled; a server that takes no writes keeps no count."""
        keys = self._transactions.keys(scope)
        try:
            for some in chunks(ids):
                names = [keys.meta, keys.cards, keys.counts, keys.seen]
                self._server.run(_TOUCH, names, [micros(at), *some])
        except (StoreReadOnly, StoreFull):
            return  # a recall must not fail because of statistics

    # Vectors -----------------------------------------------------------------------------------------

    def embedder(self) -> str | None:
        """Return the identity of the embedder this store was last embedded with, if any."""
        return self.setting("embedder")

    def set_embedder(self, identity: str) -> None:
        """Store the identity of the embedder in use."""
        self.set_setting("embedder", identity)

    def setting(self, name: str) -> str | None:
        """Return the value of a setting, or `None`."""
        (value,) = self._server.ask(("HGET", settings_key(self._address.prefix), name))
        return None if value is None else str(value.decode())

    def set_setting(self, name: str, value: str) -> None:
        """Set the value of a setting."""
        self._server.ask(("HSET", settings_key(self._address.prefix), name, value))

    def count_unembedded(self, namespace: str, embedder: str) -> int:
        """Count the memories without a vector of this embedder."""
        scopes = [Scope(name) for name in self.agents()]
        return sum(self._missing(scope, (namespace, embedder)) for scope in scopes)

    def _missing(self, scope: Scope, place: VectorPlace) -> int:
        keys = self._transactions.keys(scope)
        _, (total, space) = self._transactions.fresh(
            scope, ("HLEN", keys.cards), ("HGET", keys.spaces, json.dumps(place))
        )
        return int(total) - (0 if space is None else read_vector_space(space)[1])

    def unembedded(self, namespace: str, embedder: str, limit: int) -> list[Memory]:
        """Return memories of any agent without a vector of this embedder, oldest first."""
        place, found = (namespace, embedder), []
        for scope in [Scope(name) for name in self.agents()]:
            missing = min(limit, self._missing(scope, place))
            found += [(seq, scope, id) for seq, id in islice(self._without(scope, place), missing)]
        found.sort(key=lambda each: each[0])
        memories = [self.get(scope, [id])[0] for _, scope, id in found[:limit]]
        return [memory for memory in memories if memory is not None]

    def _without(self, scope: Scope, place: VectorPlace) -> Iterator[tuple[float, str]]:
        """Return the numbers and ids of the memories without a vector in a space, oldest first."""
        keys = self._transactions.keys(scope)
        for start in counting(0, CHUNK):
            (flat,) = self._server.ask(("ZRANGE", keys.age, start, start + CHUNK - 1, "WITHSCORES"))
            if not (some := read_scored(flat)):
                return
            first = [vector_key(id.decode(), 0) for id, _ in some]
            (vectors,) = self._server.ask(("HMGET", keys.vectors(place), *first))
            yield from ((seq, id.decode()) for (id, seq), vector in zip(some, vectors, strict=True) if vector is None)

    def indexes(self, scope: Scope, id: str) -> list[MemoryIndex]:
        """List the vectors of a memory by namespace and embedder; none if it is not in this scope."""
        keys = self._transactions.keys(scope)
        _, (text, spaces) = self._transactions.fresh(scope, ("HGET", keys.traces, id), ("HGETALL", keys.spaces))
        places = {} if text is None else MemoryTrace.read(text).places
        dims = {read_place(name): read_vector_space(value)[0] for name, value in spaces.items()}
        return [
            MemoryIndex(memory_id=id, namespace=ns, embedder=by, dim=dims[ns, by], passages=len(places[ns, by]))
            for ns, by in sorted(places)
        ]

    def place(self, vectors: Sequence[tuple[Scope, str, Placed]]) -> int:
        """Replace the vectors of memories that still exist, in a write for each scope; return how many were added."""
        self._server.guard()
        by_scope: defaultdict[Scope, defaultdict[str, list[Placed]]] = defaultdict(lambda: defaultdict(list))
        for scope, id, placed in vectors:
            by_scope[scope][id].append(placed)
        return sum(self._place_all(scope, given) for scope, given in by_scope.items())

    def _place_all(self, scope: Scope, given: Mapping[str, Sequence[Placed]]) -> int:
        keys = self._transactions.keys(scope)

        def plan(batch: Batch, _: list[Any]) -> int:
            traces = self._transactions.traces(keys, list(given))
            for id, trace in traces.items():
                for place, passages in by_place(given[id]).items():
                    before = trace.places.get(place, {})
                    batch.place(id, place, passages, new=not before)
                    batch.displace(id, place, before.keys() - passages.keys(), all_of_them=False)
                    trace.places[place] = batch.numbered(passages)
                batch.trace(id, trace)
            return sum(len(given[id]) for id in traces)

        return self._transactions.write(scope, [], plan, numbers=sum(map(len, given.values())))

    def discard_vectors(self, namespace: str, keep: str) -> int:
        """Delete the vectors of all other embedders, in batches; return how many."""
        gone = 0
        for scope in [Scope(name) for name in self.agents()]:
            keys = self._transactions.keys(scope)
            (spaces,) = self._server.ask(("HKEYS", keys.spaces))
            for place in [read_place(name) for name in spaces]:
                if place[0] == namespace and place[1] != keep:
                    for found in self._server.scan(keys.vectors(place)):
                        gone += self._discard(scope, place, [owner(key.decode())[0] for key in found])
        return gone

    def _discard(self, scope: Scope, place: VectorPlace, ids: Sequence[str]) -> int:
        keys = self._transactions.keys(scope)

        def plan(batch: Batch, _: list[Any]) -> int:
            traces = {id: trace for id, trace in self._transactions.traces(keys, ids).items() if place in trace.places}
            gone = {id: trace.places.pop(place) for id, trace in traces.items()}
            for id, passages in gone.items():
                batch.trace(id, traces[id])
                batch.displace(id, place, passages)
            return sum(map(len, gone.values()))

        return self._transactions.write(scope, [], plan)


def open_store(location: str, vectors: VectorStore, sources: Sources, options: Mapping[str, Any]) -> RedisStore:
    """Open the store at a Redis URL; options of other stores, such as `durable`, are ignored."""
    return RedisStore(location, vectors, sources)


def _looked_up(keys: RedisKeys, entries: Sequence[Entry]) -> list[tuple[str, list[str]]]:
    """Return the hashes, and the fields in each, that show which entries are known."""
    ids = [entry.memory.id for entry in entries]
    known = [str(entry.key) for entry in entries if entry.key is not None]
    said = [digest(entry.merge_key) for entry in entries if entry.merge_key is not None]
    told = [event.id for entry in entries for event in entry.events]
    return [(keys.cards, ids), (keys.keys, known), (keys.merges, said), (keys.events, told)]


def _numbers(entries: Sequence[Entry]) -> int:
    """Return the most sequence numbers that a write of entries can take."""
    return 2 * len(entries) + sum(len(entry.vectors) + len(entry.events) for entry in entries)


def _found(fields: Sequence[str], answers: Sequence[bytes | None]) -> dict[str, bytes]:
    return {name: answer for name, answer in zip(fields, answers, strict=True) if answer is not None}


def _decoded(owners: Mapping[str, bytes]) -> dict[str, tuple[str, str]]:
    return {key: (id, print_) for key, (id, print_) in ((key, json.loads(text)) for key, text in owners.items())}
