"""Copy a Redis store to or from another store, table by table, in the rows of the SQL schema."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import numpy as np

from engram.errors import Conflict, StoreCorrupt, Unsupported
from engram.ports import Cells, Scope, TableChecksum
from engram.stores.redis.address import RedisAddress
from engram.stores.redis.batch import Batch, Pending
from engram.stores.redis.layout import (
    EvidenceRow,
    MemoryTrace,
    RecallRow,
    RedisKeys,
    Tombstone,
    VectorPlace,
    agents_key,
    enrolled_key,
    event_id,
    events_after,
    members_of,
    read_row,
    settings_key,
)
from engram.stores.redis.server import CHUNK, Command, Server
from engram.stores.redis.transactions import Transactions
from engram.stores.rows import Row, to_event, to_json, to_memory
from engram.stores.rules import tally, vector_key

COPYING = "copying"
_KEYS = {
    "settings": ("name",),
    "agents": ("agent",),
    "memories": ("agent", "id"),
    "memory_tags": ("agent", "memory_id", "tag"),
    "memory_keys": ("agent", "memory_id", "key"),
    "memory_evidence": ("agent", "memory_id", "seq"),
    "memory_stats": ("agent", "memory_id"),
    "memory_index": ("agent", "memory_id", "namespace", "embedder", "passage"),
    "tombstones": ("agent", "memory_id"),
    "recall_events": ("agent", "id"),
    "events": ("agent", "seq"),
}
"""The tables of the SQL schema, in an order in which they can be filled, with the columns their rows are sorted by."""


class RedisCopying:
    """Read a whole store in the order of agents and memories, and fill an empty one.

    The sets are sorted in this order, so that reading a page costs only its own size.
    """

    def __init__(self, server: Server, transactions: Transactions, address: RedisAddress) -> None:
        self._server = server
        self._transactions = transactions
        self._ttl = address.ttl_ms
        self._agents = agents_key(address.prefix)
        self._enrolled = enrolled_key(address.prefix)
        self._settings = settings_key(address.prefix)
        self._read: dict[str, Callable[[RedisKeys, Cells | None], Iterator[Row]]] = {
            "memories": self._memories,
            "memory_tags": self._tags,
            "memory_keys": self._keys,
            "memory_evidence": self._evidence,
            "memory_stats": self._stats,
            "memory_index": self._vectors,
            "tombstones": self._tombstones,
            "recall_events": self._recalls,
            "events": self._events,
        }
        self._take: dict[str, Callable[[Scope, Sequence[Row]], None]] = {
            "memories": self._take_memories,
            "memory_tags": lambda scope, rows: None,  # they are written with the memories
            "memory_keys": self._take_keys,
            "memory_evidence": self._take_evidence,
            "memory_stats": self._take_stats,
            "memory_index": self._take_vectors,
            "tombstones": self._take_tombstones,
            "recall_events": self._take_recalls,
            "events": self._take_events,
        }

    def tables(self) -> list[str]:
        """Return the tables to copy, in an order in which they can be filled."""
        return list(_KEYS)

    def tally(self, table: str) -> TableChecksum:
        """Return the number of rows of a table and their checksum."""
        return tally(self._rows(table, None))

    def page(self, table: str, after: Cells | None, limit: int) -> list[Cells]:
        """Return the next rows of a table that have not expired, after a row or from the start."""
        return list(islice(self._rows(table, after), limit))

    def begin(self, source: str) -> None:
        """Begin or continue a copy of `source`. Raises `Conflict` if the target has other data."""
        begun, agents = self._server.ask(("HGET", self._settings, COPYING), ("ZCARD", self._agents))
        if agents and (begun is None or begun.decode() != source):
            raise Conflict("the target is not empty; name a new database, or continue the copy that was begun there")
        self._server.ask(("HSET", self._settings, COPYING, source))

    def end(self) -> None:
        """Finish the copy; new writes already have higher numbers."""
        self._server.ask(("HDEL", self._settings, COPYING))

    # Reading -----------------------------------------------------------------------------------------

    def _rows(self, table: str, after: Cells | None) -> Iterator[Cells]:
        """Yield the rows of a table in order, read in pages."""
        order = _known(table)
        passed = None if after is None else tuple(cast(Any, after[name]) for name in order)
        for row in self._all_rows(table, after):
            if passed is None or tuple(row[name] for name in order) > passed:
                yield row

    def _all_rows(self, table: str, after: Cells | None) -> Iterator[Row]:
        """Yield the rows of a table in order, perhaps beginning before `after`."""
        if table == "settings":
            (found,) = self._server.ask(("HGETALL", self._settings))
            pairs = sorted((name.decode(), value.decode()) for name, value in found.items())
            yield from ({"name": name, "value": value} for name, value in pairs if name != COPYING)
            return
        first = "" if after is None else str(after["agent"])
        for agent, created in self._agents_from(first):
            if table == "agents":
                yield {"agent": agent, "created_at": created}
                continue
            scope = Scope(agent)
            self._transactions.fresh(scope)
            for row in self._read[table](self._transactions.keys(scope), after if agent == first else None):
                yield {"agent": agent} | row

    def _agents_from(self, first: str) -> Iterator[tuple[str, int]]:
        for names in self._members(self._agents, "[" + first):
            (times,) = self._server.ask(("HMGET", self._enrolled, *names))
            yield from ((name.decode(), int(at or 0)) for name, at in zip(names, times, strict=True))

    def _members(self, key: str, first: str) -> Iterator[list[bytes]]:
        """Yield the members of a sorted set in the order of their bytes, in pages."""
        while True:
            (members,) = self._server.ask(("ZRANGEBYLEX", key, first, "+", "LIMIT", 0, CHUNK))
            if not members:
                return
            yield members
            first = "(" + members[-1].decode()

    def _living(self, keys: RedisKeys, after: Cells | None) -> Iterator[list[str]]:
        """Yield the ids of memories in order, in pages, from that of a row on, without those that have expired."""
        first = "" if after is None else str(after.get("memory_id", after.get("id")))
        for members in self._members(keys.ids, "[" + first):
            if living := self._alive(keys, [member.decode() for member in members]):
                yield living

    def _alive(self, keys: RedisKeys, ids: Sequence[str]) -> list[str]:
        if not ids:
            return []
        there = self._server.ask(*(("EXISTS", keys.memory(id)) for id in ids))
        return [id for id, found in zip(ids, there, strict=True) if found]

    def _memories(self, keys: RedisKeys, after: Cells | None) -> Iterator[Row]:
        for ids in self._living(keys, after):
            (bodies,) = self._server.ask(("MGET", *(keys.memory(id) for id in ids)))
            yield from (read_row(body) for body in bodies if body is not None)

    def _tags(self, keys: RedisKeys, after: Cells | None) -> Iterator[Row]:
        """Return the rows of the table of tags."""
        for row in self._memories(keys, after):
            yield from ({"memory_id": row["id"], "tag": tag} for tag in sorted(set(json.loads(row["tags"]))))

    def _keys(self, keys: RedisKeys, after: Cells | None) -> Iterator[Row]:
        for ids in self._living(keys, after):
            pairs = [(id, key) for id, t in self._transactions.traces(keys, ids).items() for key in sorted(t.keys)]
            if pairs:
                (owners,) = self._server.ask(("HMGET", keys.keys, *(key for _, key in pairs)))
                for (id, key), owner in zip(pairs, owners, strict=True):
                    if owner is not None:
                        yield {"memory_id": id, "key": key, "fingerprint": json.loads(owner)[1]}

    def _evidence(self, keys: RedisKeys, after: Cells | None) -> Iterator[Row]:
        first = "-" if after is None else members_of(str(after["memory_id"]))[0]
        for members in self._members(keys.evidence, first):
            found = [EvidenceRow.read(member) for member in members]
            living = set(self._alive(keys, list(dict.fromkeys(each.memory_id for each in found))))
            yield from (each._asdict() for each in found if each.memory_id in living)

    def _stats(self, keys: RedisKeys, after: Cells | None) -> Iterator[Row]:
        for ids in self._living(keys, after):
            hashes = (keys.counts, keys.seen, keys.helped)
            answers = self._server.ask(*(("HMGET", key, *ids) for key in hashes))
            for id, count, at, credit in zip(ids, *answers, strict=True):
                if count is not None or credit is not None:
                    last = None if at is None else int(at)
                    helped, hindered = (0.0, 0.0) if credit is None else json.loads(credit)
                    counted = {"memory_id": id, "last_accessed": last, "access_count": int(count or 0)}
                    yield counted | {"helped": helped, "hindered": hindered}

    def _vectors(self, keys: RedisKeys, after: Cells | None) -> Iterator[Row]:
        for ids in self._living(keys, after):
            traces = self._transactions.traces(keys, ids)
            wanted = sorted(
                (id, place, passage, seq)
                for id, trace in traces.items()
                for place, passages in trace.places.items()
                for passage, seq in passages.items()
            )
            reads = [("HGET", keys.vectors(place), vector_key(id, passage)) for id, place, passage, _ in wanted]
            found = self._server.ask(*reads) if reads else []
            for (id, place, passage, seq), vector in zip(wanted, found, strict=True):
                if vector is not None:
                    where = {"memory_id": id, "namespace": place[0], "embedder": place[1], "passage": passage}
                    yield where | {"seq": seq, "dim": len(vector) // 4, "vector": vector}

    def _tombstones(self, keys: RedisKeys, after: Cells | None) -> Iterator[Row]:
        first = "-" if after is None else members_of(str(after["memory_id"]))[0]
        for members in self._members(keys.tombstones, first):
            yield from (Tombstone.read(member)._asdict() for member in members)

    def _recalls(self, keys: RedisKeys, after: Cells | None) -> Iterator[Row]:
        first = "-" if after is None else members_of(str(after["id"]))[0]
        for members in self._members(keys.recalls, first):
            yield from (RecallRow.read(member)._asdict() for member in members)

    def _events(self, keys: RedisKeys, after: Cells | None) -> Iterator[Row]:
        first = "-" if after is None else events_after(int(cast(int, after["seq"])))[0]
        for members in self._members(keys.feed, first):
            yield from self._transactions.events(keys, [event_id(member, in_feed=True) for member in members])

    # Writing -----------------------------------------------------------------------------------------

    def take(self, table: str, rows: Sequence[Cells]) -> None:
        """Insert the rows that are missing, in one write for each agent.

        Rows of a memory that does not exist are left out; `tally` then shows the difference.
        """
        _known(table)
        if table == "settings":
            self._ask_all([("HSETNX", self._settings, row["name"], row["value"]) for row in rows])
        elif table == "agents":
            self._ask_all([("HSETNX", self._enrolled, row["agent"], row["created_at"]) for row in rows])
            self._ask_all([("ZADD", self._agents, 0, row["agent"]) for row in rows])
        else:
            by_agent: defaultdict[str, list[Row]] = defaultdict(list)
            for row in rows:
                by_agent[str(row["agent"])].append(dict(row))
            for agent, some in by_agent.items():
                self._take[table](Scope(agent), some)

    def _ask_all(self, commands: Sequence[Command]) -> None:
        if commands:
            self._server.ask(*commands)

    def _write(
        self, scope: Scope, rows: Sequence[Row], reads: Sequence[Command], plan: Callable[[Batch, list[Any]], None]
    ) -> None:
        above = max(row.get("seq", 0) for row in rows)
        self._transactions.write(scope, reads, plan, renews=True, above=above)

    def _take_memories(self, scope: Scope, rows: Sequence[Row]) -> None:
        def plan(batch: Batch, answers: list[Any]) -> None:
            for row, card in zip(rows, answers[0], strict=True):
                if card is None:
                    memory = to_memory({**row, "last_accessed": None, "access_count": 0})
                    batch.store(Pending(memory, row["seq"], row["merge_key"]), self._ttl, row)

        keys = self._transactions.keys(scope)
        self._write(scope, rows, [("HMGET", keys.cards, *(row["id"] for row in rows))], plan)

    def _take_belongings(
        self, scope: Scope, rows: Sequence[Row], put: Callable[[Batch, MemoryTrace, Row], bool]
    ) -> None:
        """Write rows that belong to memories; `put` returns False if there was nothing to do."""
        keys = self._transactions.keys(scope)

        def plan(batch: Batch, _: list[Any]) -> None:
            traces = self._transactions.traces(keys, [row["memory_id"] for row in rows])
            present = [(row["memory_id"], row) for row in rows if row["memory_id"] in traces]
            for id in dict.fromkeys([id for id, row in present if put(batch, traces[id], row)]):
                batch.trace(id, traces[id])

        self._write(scope, rows, [], plan)

    def _take_keys(self, scope: Scope, rows: Sequence[Row]) -> None:
        keys = self._transactions.keys(scope)

        def put(batch: Batch, trace: MemoryTrace, row: Row) -> bool:
            fresh = row["key"] not in trace.keys
            if fresh:
                trace.keys.append(row["key"])
                batch.put("h", "HSET", keys.keys, row["key"], to_json([row["memory_id"], row["fingerprint"]]))
            return fresh

        self._take_belongings(scope, rows, put)

    def _take_vectors(self, scope: Scope, rows: Sequence[Row]) -> None:
        def put(batch: Batch, trace: MemoryTrace, row: Row) -> bool:
            id, vector, place, passage = row["memory_id"], row["vector"], _place(row), row["passage"]
            there = trace.places.setdefault(place, {})
            fresh = passage not in there
            if fresh:
                if len(vector) != 4 * row["dim"]:
                    raise StoreCorrupt(
                        f"the vector of memory {id} is damaged; run `engram upkeep rebuild` to compute it again"
                    )
                batch.place(id, place, {passage: np.frombuffer(vector, dtype="<f4")}, new=not there)
                there[passage] = row["seq"]
            return fresh

        self._take_belongings(scope, rows, put)

    def _take_evidence(self, scope: Scope, rows: Sequence[Row]) -> None:
        keys = self._transactions.keys(scope)

        def plan(batch: Batch, answers: list[Any]) -> None:
            for row, card in zip(rows, answers[0], strict=True):
                if card is not None:
                    said = EvidenceRow(**{name: row[name] for name in EvidenceRow._fields})
                    batch.put("z", "ZADD", keys.evidence, 0, said.written())

        self._write(scope, rows, [("HMGET", keys.cards, *(row["memory_id"] for row in rows))], plan)

    def _take_stats(self, scope: Scope, rows: Sequence[Row]) -> None:
        keys, ids = self._transactions.keys(scope), [row["memory_id"] for row in rows]

        def plan(batch: Batch, answers: list[Any]) -> None:
            for row, card, count in zip(rows, *answers, strict=True):
                if card is not None and count is None:
                    batch.put("h", "HSET", keys.counts, row["memory_id"], row["access_count"])
                    if row["last_accessed"] is not None:
                        batch.put("h", "HSET", keys.seen, row["memory_id"], row["last_accessed"])
                    if row["helped"] or row["hindered"]:
                        batch.help(row["memory_id"], row["helped"], row["hindered"])

        self._write(scope, rows, [("HMGET", keys.cards, *ids), ("HMGET", keys.counts, *ids)], plan)

    def _take_tombstones(self, scope: Scope, rows: Sequence[Row]) -> None:
        def plan(batch: Batch, _: list[Any]) -> None:
            for row in rows:
                batch.bury(Tombstone(**{name: row[name] for name in Tombstone._fields}))

        self._write(scope, rows, [], plan)

    def _take_recalls(self, scope: Scope, rows: Sequence[Row]) -> None:
        def plan(batch: Batch, _: list[Any]) -> None:
            for row in rows:
                batch.recall(RecallRow(row["id"], row["at"], row["detail"]))

        self._write(scope, rows, [], plan)

    def _take_events(self, scope: Scope, rows: Sequence[Row]) -> None:
        keys = self._transactions.keys(scope)

        def plan(batch: Batch, answers: list[Any]) -> None:
            for row, known in zip(rows, answers[0], strict=True):
                to_event(row)  # raises if the row is damaged
                if known is None:
                    batch.record(row)

        self._write(scope, rows, [("HMGET", keys.events, *(row["id"] for row in rows))], plan)


def _known(table: str) -> tuple[str, ...]:
    if table not in _KEYS:
        raise Unsupported(f"a Redis store has no table {table}, so it cannot be copied")
    return _KEYS[table]


def _place(row: Mapping[str, Any]) -> VectorPlace:
    return row["namespace"], row["embedder"]
