"""Optimistic transactions on a scope: read a state, plan writes, and commit them in one script, or try again."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import count as counting
from typing import Any, TypeVar

from engram.clock import Sources, micros
from engram.errors import StoreBusy, StoreReadOnly
from engram.ports import Scope
from engram.stores.redis.address import RedisAddress
from engram.stores.redis.batch import COMMIT, Batch, ScopeState
from engram.stores.redis.layout import (
    MemoryTrace,
    RedisKeys,
    agents_key,
    enrolled_key,
    event_id,
    events_with,
    numbers_key,
    read_place,
    read_row,
    read_scored,
    read_vector_space,
)
from engram.stores.redis.server import CHUNK, Command, Server, chunks
from engram.stores.rows import Row, to_event_row
from engram.stores.rules import forgotten

T = TypeVar("T")

PATIENCE = 30.0
GRACE_MS = 60_000  # an index lives longer than its last memory, so that it never expires first

_LOOK = """
local meta = redis.call('HMGET', KEYS[1], 'clock', 'length', 'floor')
local time = redis.call('TIME')
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
return {meta[1], meta[2], meta[3], time[1], time[2], first[2] or false, redis.call('PTTL', KEYS[1])}
"""

# Write numbers are unique across all scopes. They follow the server's clock, so that they rise even after a flush.
# A full server accepts a SET only after a DEL.
_DRAW = """
local time = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[1]) or '0')
last = string.format('%.0f', math.max(last, time[1] * 1000000 + time[2], tonumber(ARGV[2])) + tonumber(ARGV[1]))
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], last)
return last
"""


class Locks:
    """A fixed number of locks, shared by hash; a forked child has its own, as its parent's threads are missing."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._make()

    def _make(self) -> None:
        self._pid = os.getpid()
        self._locks = [threading.RLock() for _ in range(self._number)]

    def of(self, what: Hashable) -> AbstractContextManager[object]:
        """Return the lock of an object, which it may share with others."""
        if self._pid != os.getpid():
            self._make()
        return self._locks[hash(what) % self._number]


class Transactions:
    """Read and write scopes, and remove expired memories from the indexes."""

    def __init__(self, server: Server, address: RedisAddress, sources: Sources) -> None:
        self._server = server
        self._address = address
        self._sources = sources
        self._writing = Locks(16)  # otherwise threads that write to one scope would cause each other's retries

    def keys(self, scope: Scope) -> RedisKeys:
        """Return the keys of a scope. Raises `StoreClosed` after `close`."""
        self._server.guard()
        return RedisKeys(self._address.prefix, scope)

    def look(self, scope: Scope, *reads: Command) -> tuple[ScopeState, list[Any]]:
        """Read the state of a scope, with the answers to further commands."""
        keys = self.keys(scope)
        head, *answers = self._server.ask(("EVAL", _LOOK, 2, keys.meta, keys.expiry), *reads)
        clock, length, floor, seconds, rest, first, left = head
        now = int(seconds) * 1_000_000 + int(rest)
        expiry = None if first is None else float(first)
        return ScopeState(int(clock or 0), int(length or 0), int(floor or 0), now, expiry, int(left)), answers

    def fresh(self, scope: Scope, *reads: Command) -> tuple[ScopeState, list[Any]]:
        """Read the same after removing expired memories from the indexes."""
        state, answers = self.look(scope, *reads)
        while state.expired:
            try:
                self._purge(scope)
            except StoreReadOnly:
                break  # searches skip expired memories by their cards anyway
            state, answers = self.look(scope, *reads)
        return state, answers

    def _purge(self, scope: Scope) -> None:
        """Remove expired memories from the indexes, as many as fit into one write."""
        keys = self.keys(scope)

        def plan(batch: Batch, answers: list[Any]) -> None:
            expired = [id.decode() for id, at in read_scored(answers[0]) if at <= batch.state.now_ms]
            self.erase(batch, keys, self.traces(keys, expired), expired)
            for id in expired:
                batch.put("z", "ZREM", keys.expiry, id)

        first = ("ZRANGE", keys.expiry, 0, CHUNK - 1, "WITHSCORES")
        self.write(scope, [first], plan, purge=False, numbers=CHUNK)

    def traces(self, keys: RedisKeys, ids: Sequence[str]) -> dict[str, MemoryTrace]:
        """Return the traces of these memories, in order; without missing ones."""
        traces = {}
        for some in chunks(list(dict.fromkeys(ids))):
            (found,) = self._server.ask(("HMGET", keys.traces, *some))
            traces.update(
                {id: MemoryTrace.read(text) for id, text in zip(some, found, strict=True) if text is not None}
            )
        return traces

    def events(self, keys: RedisKeys, ids: Sequence[str]) -> Iterator[Row]:
        """Yield the rows of these events, in order; without missing ones."""
        for some in chunks(ids):
            (found,) = self._server.ask(("HMGET", keys.events, *some))
            yield from (read_row(body) for body in found if body is not None)

    def events_of(self, keys: RedisKeys, subjects: Sequence[str]) -> list[Row]:
        """Return the rows of all events about these subjects, in any order."""
        ids: list[str] = []
        for some in chunks(list(dict.fromkeys(subjects))):
            for members in self._server.ask(*(("ZRANGEBYLEX", keys.subjects, *events_with(each)) for each in some)):
                ids += [event_id(member, in_feed=False) for member in members]
        return list(self.events(keys, ids))

    def erase(
        self, batch: Batch, keys: RedisKeys, traces: Mapping[str, MemoryTrace], ids: Sequence[str] | None = None
    ) -> dict[str, int]:
        """Delete memories and the events about them, and record that in an event; return the number of events of each.

        Takes up to one number for each memory. `ids` are the memories whose events are deleted, if some have no trace.
        """
        batch.erase(traces)
        rows = self.events_of(keys, list(traces) if ids is None else ids)
        batch.delete_events(rows)
        counts = Counter[str](row["subject"] for row in rows)
        for id in counts:
            seq = batch.number()
            batch.record(to_event_row(keys.scope, forgotten(id, seq, self._sources.now()), seq))
        return counts

    def delete_events(self, batch: Batch, keys: RedisKeys, ids: Sequence[str]) -> int:
        """Delete events by id, and record that in others; return how many. Takes up to one number for each."""
        rows = list(self.events(keys, ids))
        batch.delete_events(rows)
        for row in rows:
            seq = batch.number()
            batch.record(to_event_row(keys.scope, forgotten(row["id"], seq, self._sources.now()), seq))
        return len(rows)

    def enrol(self, scope: Scope) -> None:
        """Add an agent to the list before its first write; an agent without memories does no harm."""
        self._server.ask(
            ("HSETNX", enrolled_key(self._address.prefix), scope.agent, micros(self._sources.now())),
            ("ZADD", agents_key(self._address.prefix), 0, scope.agent),
        )

    def write(
        self,
        scope: Scope,
        reads: Sequence[Command],
        plan: Callable[[Batch, list[Any]], T],
        *,
        purge: bool = True,
        renews: bool = False,
        numbers: int = 0,
        above: int = 0,
    ) -> T:
        """Plan writes from the answers to `reads` and commit them at once; retry if there was another write meanwhile.

        `renews` extends the time to live of the indexes, since memories are written; `numbers` is the most numbers that
        the plan needs, all higher than `above`.
        """
        keys, until = self.keys(scope), time.monotonic() + PATIENCE
        drawn = numbers_key(self._address.prefix)
        look = self.fresh if purge else self.look
        with self._writing.of(scope):
            for attempt in counting():
                draw = [("EVAL", _DRAW, 1, drawn, numbers + 1, above)] if numbers or above else []
                state, (spaces, *answers) = look(scope, ("HGETALL", keys.spaces), *reads, *draw)
                last = int(answers.pop()) if draw else max(state.clock, state.now) + 1
                given = range(last - numbers, last + 1)
                if given[0] > state.clock:
                    places = {read_place(name): read_vector_space(value) for name, value in spaces.items()}
                    batch = Batch(keys, state, places, given)
                    answer = plan(batch, answers)
                    if not batch or self._commit(keys, batch, renews):
                        break
                above = max(above, state.clock)  # in a cluster, others may write in between
                if time.monotonic() > until:
                    raise StoreBusy(f"too many writers use the memory of {scope.agent!r} at once; try again")
                time.sleep(self._sources.random.random() * min(0.05, 0.001 * 2**attempt))
        return answer

    def _commit(self, keys: RedisKeys, batch: Batch, renews: bool) -> bool:
        """Write the batch; `False` if there was another write since the state was read."""
        token = uuid.uuid4().hex  # not from `sources`: two stores with the same seed must still differ
        if self._server.run(COMMIT, *batch.call(self._keep(batch.state, renews), token)):
            return True
        # The driver may have repeated a command that was executed before the connection broke.
        (done,) = self._server.ask(("LRANGE", keys.done, 0, -1))
        return token.encode() in done

    def _keep(self, state: ScopeState, renews: bool) -> int:
        """Return the time to live of the indexes in milliseconds: as long as any memory in them, -1 for ever."""
        ttl = self._address.ttl_ms
        if not renews or state.left == -1:
            return max(state.left, -1)
        return -1 if ttl is None else max(state.left, ttl + GRACE_MS)
