"""Events in Redis, in the order of recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from engram.ports import Event, Scope
from engram.stores.redis.batch import Batch
from engram.stores.redis.layout import RedisKeys, event_id, events_after, events_with
from engram.stores.redis.server import CHUNK, Command, chunks
from engram.stores.redis.transactions import Transactions
from engram.stores.rows import to_event


class RedisEvents:
    """Store and read events; writes of a scope are serialized, so that numbers rise in the order of writes."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def append(self, scope: Scope, events: Sequence[Event]) -> list[bool]:
        """Store events in one write; return for each, in order, `False` if its id is known already."""
        keys, ids = self._transactions.keys(scope), list(dict.fromkeys(event.id for event in events))
        if not ids:
            return []

        def plan(batch: Batch, answers: list[Any]) -> list[bool]:
            bodies = [body for some in answers for body in some]
            fresh = batch.append(events, {id for id, body in zip(ids, bodies, strict=True) if body is not None})
            if batch and batch.state.clock == 0:
                self._transactions.enrol(scope)
            return fresh

        reads = [("HMGET", keys.events, *some) for some in chunks(ids)]
        return self._transactions.write(scope, reads, plan, renews=True, numbers=len(ids))

    def delete_events(self, scope: Scope, ids: Sequence[str]) -> int:
        """Delete events by id in one write, and record an event about it; return how many."""
        keys, chosen = self._transactions.keys(scope), list(dict.fromkeys(ids))
        if not chosen:
            return 0

        def plan(batch: Batch, _: list[Any]) -> int:
            return self._transactions.delete_events(batch, keys, chosen)

        return self._transactions.write(scope, [], plan, numbers=len(chosen))

    def events_after(self, scope: Scope, after: int, limit: int) -> list[Event]:
        """Return the events numbered higher than `after`, the oldest first."""
        keys, (first, last) = self._transactions.keys(scope), events_after(after)

        def page(passed: bytes | None, size: int) -> Command:
            return ("ZRANGEBYLEX", keys.feed, _beyond(passed, first), last, "LIMIT", 0, size)

        return self._paged(keys, page, limit)

    def events_by_topic(self, scope: Scope, topic: str, limit: int) -> list[Event]:
        """Return the newest events of a topic, the oldest of them first."""
        keys, (first, last) = self._transactions.keys(scope), events_with(topic)

        def page(passed: bytes | None, size: int) -> Command:
            return ("ZREVRANGEBYLEX", keys.topics, _beyond(passed, last), first, "LIMIT", 0, size)

        return self._paged(keys, page, limit)[::-1]

    def _paged(self, keys: RedisKeys, page: Callable[[bytes | None, int], Command], limit: int) -> list[Event]:
        """Read up to `limit` events from pages of an index, skipping those that are deleted meanwhile."""
        found: list[Event] = []
        passed: bytes | None = None
        while len(found) < limit:
            command = page(passed, min(CHUNK, limit - len(found)))
            _, (members,) = self._transactions.fresh(keys.scope, command)
            if not members:
                break
            ids = [event_id(member, in_feed=command[1] == keys.feed) for member in members]
            found += map(to_event, self._transactions.events(keys, ids))
            passed = members[-1]
        return found

    def events_of(self, scope: Scope, subjects: Sequence[str]) -> list[Event]:
        """Return all events about these subjects, the oldest first."""
        keys = self._transactions.keys(scope)
        if not subjects:
            return []
        self._transactions.fresh(scope)
        rows = self._transactions.events_of(keys, subjects)
        return [to_event(row) for row in sorted(rows, key=lambda row: row["seq"])]


def _beyond(passed: bytes | None, start: str) -> str | bytes:
    """Return the lower bound of the next page: the start, or after the last member."""
    return start if passed is None else b"(" + passed
