"""A scope at one moment, and everything a call writes at once: all of it, or nothing and again from the start."""

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
GRACE_MS = 60_000  # an index outlives the last memory in it, so that it never goes first

_LOOK = """
local meta = redis.call('HMGET', KEYS[1], 'clock', 'length', 'floor')
local time = redis.call('TIME')
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
return {meta[1], meta[2], meta[3], time[1], time[2], first[2] or false, redis.call('PTTL', KEYS[1])}
"""

# No two writes have a number in common, whoever they are for, as in a database. Numbers follow the clock of the
# server, so that they rise even after everything was flushed. A full server takes something only after something went.
_DRAW = """
local time = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[1]) or '0')
last = string.format('%.0f', math.max(last, time[1] * 1000000 + time[2], tonumber(ARGV[2])) + tonumber(ARGV[1]))
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], last)
return last
"""


class Locks:
    """Locks for whatever needs one; a forked child has its own, since it must not wait for its parent's threads."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._make()

    def _make(self) -> None:
        self._pid = os.getpid()
        self._locks = [threading.RLock() for _ in range(self._number)]

    def of(self, what: Hashable) -> AbstractContextManager[object]:
        """The lock of one thing, which it may share with others."""
        if self._pid != os.getpid():
            self._make()
        return self._locks[hash(what) % self._number]


class Transactions:
    """Looks at scopes, and writes to them; what has expired leaves the indexes on the way."""

    def __init__(self, server: Server, address: RedisAddress, sources: Sources) -> None:
        self._server = server
        self._address = address
        self._sources = sources
        self._writing = Locks(16)  # threads that write to one scope would only make each other try again

    def keys(self, scope: Scope) -> RedisKeys:
        """The names of everything in a scope. Raises `StoreClosed` after `close`."""
        self._server.guard()
        return RedisKeys(self._address.prefix, scope)

    def look(self, scope: Scope, *reads: Command) -> tuple[ScopeState, list[Any]]:
        """The scope as it is, with the answers to some commands that are sent along."""
        keys = self.keys(scope)
        head, *answers = self._server.ask(("EVAL", _LOOK, 2, keys.meta, keys.expiry), *reads)
        clock, length, floor, seconds, rest, first, left = head
        now = int(seconds) * 1_000_000 + int(rest)
        expiry = None if first is None else float(first)
        return ScopeState(int(clock or 0), int(length or 0), int(floor or 0), now, expiry, int(left)), answers

    def fresh(self, scope: Scope, *reads: Command) -> tuple[ScopeState, list[Any]]:
        """The same after everything that has expired left the indexes."""
        state, answers = self.look(scope, *reads)
        while state.expired:
            try:
                self._purge(scope)
            except StoreReadOnly:
                break  # a card says when it expires, so that nothing expired is found anyway
            state, answers = self.look(scope, *reads)
        return state, answers

    def _purge(self, scope: Scope) -> None:
        """Take what expired out of the indexes, as much as fits into one write."""
        keys = self.keys(scope)

        def plan(batch: Batch, answers: list[Any]) -> None:
            expired = [id.decode() for id, at in read_scored(answers[0]) if at <= batch.state.now_ms]
            self.erase(batch, keys, self.traces(keys, expired), expired)
            for id in expired:
                batch.put("z", "ZREM", keys.expiry, id)

        first = ("ZRANGE", keys.expiry, 0, CHUNK - 1, "WITHSCORES")
        self.write(scope, [first], plan, purge=False, numbers=CHUNK)

    def traces(self, keys: RedisKeys, ids: Sequence[str]) -> dict[str, MemoryTrace]:
        """Return the traces of these memories, in order; without those that are not there."""
        traces = {}
        for some in chunks(list(dict.fromkeys(ids))):
            (found,) = self._server.ask(("HMGET", keys.traces, *some))
            traces.update(
                {id: MemoryTrace.read(text) for id, text in zip(some, found, strict=True) if text is not None}
            )
        return traces

    def events(self, keys: RedisKeys, ids: Sequence[str]) -> Iterator[Row]:
        """The rows that keep these events, in order; without those that are not there."""
        for some in chunks(ids):
            (found,) = self._server.ask(("HMGET", keys.events, *some))
            yield from (read_row(body) for body in found if body is not None)

    def events_of(self, keys: RedisKeys, subjects: Sequence[str]) -> list[Row]:
        """The rows that keep all events about these subjects, in any order."""
        ids: list[str] = []
        for some in chunks(list(dict.fromkeys(subjects))):
            for members in self._server.ask(*(("ZRANGEBYLEX", keys.subjects, *events_with(each)) for each in some)):
                ids += [event_id(member, in_feed=False) for member in members]
        return list(self.events(keys, ids))

    def erase(
        self, batch: Batch, keys: RedisKeys, traces: Mapping[str, MemoryTrace], ids: Sequence[str] | None = None
    ) -> dict[str, int]:
        """Remove memories with all they left and the events about them, and say so in an event; how many each had.

        Takes up to one number for each memory. `ids` are those whose events go, if some of them left no trace.
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
        """Remove events by id, and say so in others; how many there were. Takes up to one number for each."""
        rows = list(self.events(keys, ids))
        batch.delete_events(rows)
        for row in rows:
            seq = batch.number()
            batch.record(to_event_row(keys.scope, forgotten(row["id"], seq, self._sources.now()), seq))
        return len(rows)

    def enrol(self, scope: Scope) -> None:
        """Put an agent on the list before it has anything: one without memories does no harm."""
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
        """Plan on what was read and write it all at once; again from the start if somebody else wrote meanwhile.

        `renews` says that memories are written, whose time to live the indexes must outlast; `numbers` how many
        numbers the plan needs at most, and `above` which of them are taken.
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
                above = max(above, state.clock)  # in a cluster, others may draw and write before we look
                if time.monotonic() > until:
                    raise StoreBusy(f"too many writers use the memory of {scope.agent!r} at once; try again")
                time.sleep(self._sources.random.random() * min(0.05, 0.001 * 2**attempt))
        return answer

    def _commit(self, keys: RedisKeys, batch: Batch, renews: bool) -> bool:
        """Write the batch; `False` if there was another write since the state was read."""
        token = uuid.uuid4().hex  # not from the sources: two stores that draw the same ids must still differ
        if self._server.run(COMMIT, *batch.call(self._keep(batch.state, renews), token)):
            return True
        # The connection may have broken after the first of two tries had come through.
        (done,) = self._server.ask(("LRANGE", keys.done, 0, -1))
        return token.encode() in done

    def _keep(self, state: ScopeState, renews: bool) -> int:
        """For how many milliseconds the indexes are kept: as long as anything in them, -1 for ever."""
        ttl = self._address.ttl_ms
        if not renews or state.left == -1:
            return max(state.left, -1)
        return -1 if ttl is None else max(state.left, ttl + GRACE_MS)
