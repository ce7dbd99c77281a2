from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test
from redis.crc import key_slot
from test_store_machine import ALL, LONG, WORDS, StoreMachine, moments, texts, which, whose

from engram.clock import Sources
from engram.errors import InvalidInput, StoreAway, StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreReadOnly
from engram.model import Clean, Memory
from engram.ports import FORGOTTEN, LONG_TERM, Changes, Credit, Entry, Event, Filter, MemoryStore, Query, Scope
from engram.stores.memory import InMemoryStore
from engram.stores.redis import RedisExpiring, RedisStore, open_store, parse
from engram.stores.redis.layout import (
    ID_AT,
    MOMENT,
    EvidenceRow,
    MemoryTrace,
    Posting,
    RecallRow,
    RedisKeys,
    event_members,
    read_place,
    read_vector_space,
)
from engram.stores.redis.transactions import GRACE_MS
from engram.stores.rows import to_event, to_memory
from engram.stores.rules import memory_terms, vector_key
from engram.stores.vectors.exact import ExactVectors
from engram.testing import DurableStoreContract, FixedSources, Maker, MemoryStoreContract
from engram.testing.events import event
from engram.testing.expiring import ExpiringStoreContract
from engram.testing.factories import EMBEDDER, START, placed
from support.ports import nobody_listens
from support.redis_server import SLOTS, RedisServer, redis_url, started, started_cluster

__all__ = ["redis_url"]  # a fixture is used by its name

ALICE, BOB = Scope("alice"), Scope("bob")
NEWEST = Query(limit=ALL)
DEPLOY = Query(words=Clean("deploy"), limit=ALL)
NEAR = Query(near=placed(1, 0, 0), limit=ALL)
WAYS = {"newest": NEWEST, "words": DEPLOY, "vector": NEAR}
SECRET = "hunter2-very-secret"
NASTY_NAMES = ["{", "}", "{}", "{x}", "}{", "a:b", "a:", ":meta", "*", "a\nb", "a\r\n", "?[a]", "%7B", "é🚀", "a b"]

COMMON = ("agents", "enrolled", "numbers")  # keys that belong to all agents

Open = Callable[..., RedisStore]


def join(url: str, **options: object) -> str:
    """The URL with more options."""
    return url + ("&" if "?" in url else "?") + "&".join(f"{name}={value}" for name, value in options.items())


@contextmanager
def raw(url: str) -> Iterator[Any]:
    """A client of the driver, past the store."""
    parts = urlsplit(url)
    with redis.Redis(
        host=str(parts.hostname),
        port=parts.port or 6379,
        db=int(parts.path.strip("/") or 0),
        username=parts.username,
        password=parts.password,
    ) as client:
        yield client


def names(url: str, prefix: str) -> set[str]:
    """The names of all keys with this prefix; only tests may look for them."""
    with raw(url) as client:
        return {key.decode() for key in client.scan_iter(match=f"{prefix}:*", count=1000)}


@contextmanager
def own_prefix(url: str) -> Iterator[str]:
    """A prefix that nobody else uses, with everything under it removed at the end."""
    prefix = f"engram-test-{uuid.uuid4().hex[:12]}"
    yield prefix
    with raw(url) as client:
        for key in names(url, prefix):
            client.delete(key)


@pytest.fixture
def prefix(redis_url: str) -> Iterator[str]:
    with own_prefix(redis_url) as prefix:
        yield prefix


@pytest.fixture
def open_at(redis_url: str, prefix: str) -> Iterator[Open]:
    with ExitStack() as opened:

        def open_one(url: str = redis_url, **options: object) -> RedisStore:
            store = RedisStore(join(url, **{"prefix": prefix} | options), ExactVectors(), Sources())
            return opened.enter_context(closing(store))

        yield open_one


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A server that this test alone uses, and may mistreat."""
    with started() as server:
        yield server


class TestRedisStoreKeepsTheContract(MemoryStoreContract):
    backend = "Redis / Valkey"
    verified = "a real Valkey server from a package"

    @pytest.fixture
    def store(self, open_at: Open) -> RedisStore:
        return open_at()


class TestRedisStoreOutlivesItsProcess(DurableStoreContract):
    backend = "Redis / Valkey"
    verified = "a real Valkey server from a package"

    @pytest.fixture
    def open_store(self, open_at: Open) -> Open:
        return open_at


class TestRedisExpiringKeepsTheContract(ExpiringStoreContract):
    backend = "Redis / Valkey"
    verified = "a real Valkey server from a package"

    @pytest.fixture
    def expiring(self, redis_url: str, prefix: str) -> Iterator[RedisExpiring]:
        with closing(RedisExpiring(join(redis_url, prefix=prefix))) as store:
            yield store


def events(count: int, make: Maker | None = None) -> list[Entry]:
    make = make or Maker("alice")
    return [replace(make.event(f"deploy number {i}", tags=["x"]), vectors=(placed(9, i, 1),)) for i in range(count)]


def told(entry: Entry, *names: str, topic: str = "t") -> Entry:
    """The entry with events about its memory."""
    return replace(entry, events=tuple(event(name, subject=entry.memory.id, topic=topic) for name in names))


def plain(found: Sequence[Event]) -> list[object]:
    """Events without what a store makes up: numbers, and when something was forgotten."""
    known = (None if each.kind == FORGOTTEN else (each.id, each.at) for each in found)
    return [(one, each.kind, each.subject, each.topic, each.body) for one, each in zip(known, found, strict=True)]


def answers(store: MemoryStore, scope: Scope = ALICE) -> dict[str, list[str]]:
    return {name: [match.id for match in store.search(scope, way)] for name, way in WAYS.items()}


def assert_sound(url: str, prefix: str, scope: Scope) -> None:
    """Every index holds what follows from the memories, and nothing else."""
    keys = RedisKeys(prefix, scope)
    with raw(url) as client:
        ids = [id.decode() for id in client.hkeys(keys.cards)]
        rows = {id: json.loads(client.get(keys.memory(id)) or "null") for id in ids}
        assert None not in rows.values()
        assert {id.decode() for id in client.hkeys(keys.traces)} == set(ids)
        assert {id.decode() for id in client.zrange(keys.age, 0, -1)} == set(ids)
        assert {id.decode() for id in client.zrange(keys.ids, 0, -1)} == set(ids)
        assert {member.decode()[ID_AT:] for member in client.zrange(keys.newest, 0, -1)} == set(ids)
        said = Counter(EvidenceRow.read(member).memory_id for member in client.zrange(keys.evidence, 0, -1))
        assert said == Counter({id: row["evidence"] - 1 for id, row in rows.items() if row["evidence"] > 1})
        memories = [to_memory(row | {"last_accessed": None, "access_count": 0}) for row in rows.values()]
        assert_postings(client, names(url, prefix), keys, {memory.id: memory for memory in memories})
        owners = [json.loads(owner)[0] for owner in client.hgetall(keys.keys).values()]
        statements = [id.decode() for id in client.hgetall(keys.merges).values()]
        assert set(owners) | set(statements) <= set(ids)
        assert sorted(statements) == sorted(id for id, row in rows.items() if row["merge_key"] is not None)
        counts = {read_place(name): read_vector_space(value)[1] for name, value in client.hgetall(keys.spaces).items()}
        traces = {id: MemoryTrace.read(client.hget(keys.traces, id)) for id in ids}
        assert counts == Counter(place for trace in traces.values() for place in trace.places)
        for place in counts:
            passages = {id: trace.places.get(place, {}) for id, trace in traces.items()}
            expected = {vector_key(id, passage) for id, several in passages.items() for passage in several}
            assert {name.decode() for name in client.hkeys(keys.vectors(place))} == expected
        assert_history(client, keys)


def assert_history(client: Any, keys: RedisKeys) -> None:
    kept = [json.loads(body) for body in client.hvals(keys.events)]
    assert all(to_event(row) for row in kept)
    for key in (keys.feed, keys.topics, keys.subjects):
        expected = sorted(event_members(keys, row)[key] for row in kept)
        assert sorted(member.decode() for member in client.zrange(key, 0, -1)) == expected
    recalls = [RecallRow.read(member).id for member in client.zrange(keys.recalls, 0, -1)]
    assert sorted(member.decode()[MOMENT:] for member in client.zrange(keys.recalled, 0, -1)) == recalls


def assert_postings(client: Any, found: set[str], keys: RedisKeys, memories: dict[str, Memory]) -> None:
    words = {name: client.hgetall(name) for name in found if name.startswith(keys.word(""))}
    terms = {id: Counter(memory_terms(memory)) for id, memory in memories.items()}
    indexed = {(name, id.decode()): int(value.split()[0]) for name, ids in words.items() for id, value in ids.items()}
    assert indexed == {(keys.word(term), id): n for id, counted in terms.items() for term, n in counted.items()}
    lengths = {id.decode(): int(value.split()[1]) for ids in words.values() for id, value in ids.items()}
    assert lengths == {id: counted.total() for id, counted in terms.items() if counted}
    total = sum(counted.total() for counted in terms.values())
    assert int(client.hget(keys.meta, "length") or 0) == total


# The same as the specification ---------------------------------------------------------------------------


class RedisMachine(StoreMachine):
    """One store in memory, and two on one Redis, as two processes would have it open."""

    url = ""

    def __init__(self) -> None:
        self.prefix = f"engram-test-{uuid.uuid4().hex[:12]}"
        super().__init__()

    def open(self) -> RedisStore:  # type: ignore[override]
        return RedisStore(join(self.url, prefix=self.prefix), ExactVectors(), Sources())

    @rule(one=which, who=whose, words=st.sampled_from(WORDS) | texts)
    def words_have_the_same_scores(self, one: int, who: int, words: str) -> None:
        query = Query(words=Clean(words), limit=ALL)
        assert self.stores[one].search(self.scopes[who], query) == self.spec.search(self.scopes[who], query)

    @rule(
        one=which,
        who=whose,
        names=st.lists(st.integers(0, 30).map(str), max_size=4),
        topic=st.sampled_from(["", "t", "t%", "🚀"]),
        data=st.data(),
    )
    def append(self, one: int, who: int, names: list[str], topic: str, data: st.DataObject) -> None:
        given = [event(name, data.draw(self.known), topic) for name in names]
        self.write(one, lambda store: store.append(self.scopes[who], given))

    @rule(one=which, who=whose, name=st.integers(0, 30).map(str))
    def add_with_an_event(self, one: int, who: int, name: str) -> None:
        scope = self.scopes[who]
        entry = told(Maker(scope.agent, self.sources).fact("The sky is blue"), name, f"{name}!")
        self.ids.append(entry.memory.id)
        self.write(one, lambda store: store.add(scope, [entry]))

    @rule(one=which, who=whose, limit=st.integers(1, 9), data=st.data())
    def read_events(self, one: int, who: int, limit: int, data: st.DataObject) -> None:
        scope, subjects = self.scopes[who], data.draw(st.lists(self.known, max_size=3))
        for topic in ("", "t", "t%", "🚀"):
            expected, found = (
                self.spec.events_by_topic(scope, topic, limit),
                self.stores[one].events_by_topic(scope, topic, limit),
            )
            assert plain(found) == plain(expected)
        assert plain(self.stores[one].events_of(scope, subjects)) == plain(self.spec.events_of(scope, subjects))
        seen, after = list[Event](), 0
        while some := self.stores[one].events_after(scope, after, limit):
            seen, after = seen + some, some[-1].seq
        assert plain(seen) == plain(self.spec.events_after(scope, 0, ALL))

    @rule(one=which, who=whose, name=st.integers(0, 9).map(str), helps=st.booleans(), at=moments, data=st.data())
    def credit(self, one: int, who: int, name: str, helps: bool, at: datetime, data: st.DataObject) -> None:
        scope, order = self.scopes[who], tuple(data.draw(st.lists(self.known, max_size=4, unique=True)))
        given = Credit(name, at, order, frozenset(order[1:2] if helps else ()))
        self.write(one, lambda store: store.credit(scope, given))
        assert self.stores[one].credits(scope, 5) == self.spec.credits(scope, 5)

    def rebuild(self, one: int) -> None:
        """Nothing to be rebuilt here."""

    def teardown(self) -> None:
        self.folder.cleanup()
        for store in self.stores:
            store.close()
        for scope in self.scopes:
            assert_sound(self.url, self.prefix, scope)
        with raw(self.url) as client:
            for key in names(self.url, self.prefix):
                client.delete(key)


@pytest.mark.slow
def test_redis_does_what_the_store_in_memory_does(redis_url: str) -> None:
    examples, steps = (400, 100) if LONG else (40, 40)
    machine = type("Machine", (RedisMachine,), {"url": redis_url})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=steps))


def test_words_are_scored_as_by_the_specification(open_at: Open) -> None:
    chance, make = random.Random(7), Maker("alice")
    vocabulary = [f"word{i}" for i in range(40)]
    entries = [
        make.event(" ".join(chance.choices(vocabulary, weights=range(1, 41), k=chance.randint(1, 30))), tags=["t"])
        for _ in range(400)
    ]
    store, spec = open_at(), InMemoryStore(ExactVectors())
    store.add(ALICE, entries)
    spec.add(ALICE, entries)
    for _ in range(30):
        query = Query(words=Clean(" ".join(chance.choices(vocabulary, k=4))), limit=chance.choice([1, 5, ALL]))
        assert store.search(ALICE, query) == spec.search(ALICE, query)
    for where in (Filter(since=START + timedelta(seconds=390)), Filter(tags=frozenset({"t"})), Filter(session="s")):
        query = Query(words=Clean("word1 word39"), where=where, limit=20)
        assert store.search(ALICE, query) == spec.search(ALICE, query)


def test_lists_of_common_words_are_not_read_when_rare_words_decide(
    open_at: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, make, store, spec = random.Random(5), Maker("alice"), open_at(), InMemoryStore(ExactVectors())
    entries = [make.event(f"deploy the cluster {'again ' * chance.randint(0, 9)} group{i % 9}") for i in range(300)]
    entries += [make.event(f"rare{i} deploy {'cluster ' * chance.randint(0, 3)}") for i in range(8) for _ in range(4)]
    for each in (store, spec):
        each.add(ALICE, entries)
    spared, read = set[str](), store._finder._postings_of

    def spare(keys: RedisKeys, term: str, ids: Sequence[bytes]) -> dict[bytes, Posting]:
        spared.add(term)
        return read(keys, term, ids)

    monkeypatch.setattr(store._finder, "_postings_of", spare)
    for n in range(8):
        for limit, offset in ((1, 0), (3, 1), (4, 0), (5, 0), (50, 0), (0, 0), (0, 3)):
            words = Clean(f"rare{n} deploy cluster again group{n}")
            for where in (
                Filter(),
                Filter(until=START + timedelta(days=9)),
                Filter(until=START + timedelta(minutes=3)),
            ):
                query = Query(words=words, where=where, limit=limit, offset=offset)
                assert store.search(ALICE, query) == spec.search(ALICE, query)
    assert {"deploy", "cluster"} <= spared


def test_times_are_ordered_to_the_microsecond_from_the_first_year_to_the_last(open_at: Open) -> None:
    store, make = open_at(), Maker("alice")
    ends = [START.replace(year=1), START.replace(year=9999)]
    moments = [end + timedelta(microseconds=n) for end in ends for n in range(3)]
    entries = [make.event(f"{at}", at=at) for at in moments]
    store.add(ALICE, random.Random(1).sample(entries, len(entries)))
    newest = [entry.memory.id for entry in reversed(entries)]
    assert answers(store)["newest"] == newest
    where = Filter(since=moments[1], until=moments[5])
    assert [match.id for match in store.search(ALICE, Query(where=where))] == newest[1:5]


def test_filters_find_the_few_among_many_without_reading_all(open_at: Open) -> None:
    store, spec, make = open_at(), InMemoryStore(ExactVectors()), Maker("alice")
    entries = [make.event(f"deploy {i}", session="rare" if i % 300 == 7 else "common") for i in range(1300)]
    for each in (store, spec):
        each.add(ALICE, entries)
    for where in (Filter(session="rare"), Filter(session="common"), Filter(session="nobody")):
        for query in (Query(where=where, limit=3), Query(where=where, limit=ALL), Query(where=where, offset=2)):
            assert store.search(ALICE, query) == spec.search(ALICE, query)


# Time to live --------------------------------------------------------------------------------------------

SHORT = 2.5
"""Seconds that a memory lives which is to be seen before they are over, and not after them: a few calls take less."""


def pass_time(since: float, seconds: float) -> None:
    """Wait until so many seconds have passed since a moment of the clock."""
    time.sleep(max(0.0, since + seconds - time.monotonic()))


def test_what_expired_is_gone_from_every_answer_and_every_index(open_at: Open, redis_url: str, prefix: str) -> None:
    store, make = open_at(ttl=SHORT), Maker("alice")
    fact = make.fact("The sky is blue", key="k1")
    store.add(ALICE, [*events(5, make), fact])
    assert {name: len(found) for name, found in answers(store).items()} == {"newest": 6, "words": 5, "vector": 5}
    time.sleep(SHORT + 0.1)
    assert store.get(ALICE, [fact.memory.id]) == [None]
    assert answers(store) == {"newest": [], "words": [], "vector": []}
    assert store.count_unembedded(LONG_TERM, EMBEDDER) == 0
    left = names(redis_url, prefix)
    own = {f"{prefix}:{{alice}}:{name}" for name in ("meta", "log", "done")}
    assert left == own | {f"{prefix}:{name}" for name in COMMON}
    assert store.agents() == ["alice"]


def test_keys_and_statements_are_free_again_when_their_memory_expired(open_at: Open) -> None:
    store, make = open_at(ttl=0.3), Maker("alice")
    first = make.fact("The sky is blue", key="k1")
    store.add(ALICE, [first])
    time.sleep(0.4)
    (receipt,) = store.add(ALICE, [make.fact("The sky is blue", key="k1", tags=["other"])])
    assert receipt.status == "stored"
    assert receipt.id != first.memory.id
    assert store.add(ALICE, [replace(first, key=None, merge_key=None)])[0].status == "stored"


def test_scores_are_those_of_a_store_that_never_had_what_expired(open_at: Open) -> None:
    short, long, spec, make = open_at(ttl=0.4), open_at(), InMemoryStore(ExactVectors()), Maker("alice")
    kept = [make.event("deploy the blue cluster"), make.event("water the plants"), make.event("a third thing")]
    short.add(ALICE, [make.event("deploy deploy " + "words " * 50) for _ in range(7)])
    long.add(ALICE, kept)
    spec.add(ALICE, kept)
    time.sleep(0.5)
    for store in (long, short):
        assert store.search(ALICE, DEPLOY) == spec.search(ALICE, DEPLOY)


def test_another_process_notices_what_expired(open_at: Open) -> None:
    one, two = open_at(ttl=SHORT), open_at()
    one.add(ALICE, events(3))
    assert len(answers(two)["vector"]) == 3
    time.sleep(SHORT + 0.1)
    assert answers(two) == {"newest": [], "words": [], "vector": []}


def test_the_time_starts_again_with_each_write_of_a_memory_but_not_with_reading(open_at: Open) -> None:
    store, make = open_at(ttl=2 * SHORT), Maker("alice")
    merged, annotated, read = (make.fact(text) for text in ("The sky is blue", "Grass is green", "Snow is white"))
    store.add(ALICE, [merged, annotated, read])
    written = time.monotonic()
    pass_time(written, SHORT)
    store.add(ALICE, [make.fact("The sky is blue")])
    store.annotate(ALICE, annotated.memory.id, Changes(importance=0.9), None)
    store.touch(ALICE, [read.memory.id], START)
    pass_time(written, 2 * SHORT + 0.1)
    found = store.get(ALICE, [entry.memory.id for entry in (merged, annotated, read)])
    assert [memory is not None for memory in found] == [True, True, False]
    assert set(answers(store)["newest"]) == {merged.memory.id, annotated.memory.id}


def test_nothing_is_left_for_ever_of_memories_that_expire(open_at: Open, redis_url: str, prefix: str) -> None:
    store = open_at(ttl=100)
    store.add(ALICE, [*events(3), Maker("alice", FixedSources(START + timedelta(1))).fact("The sky", key="k")])
    store.touch(ALICE, answers(store)["newest"], START)
    with raw(redis_url) as client:
        common = {f"{prefix}:{name}" for name in COMMON}
        left = {name: client.pttl(name) for name in names(redis_url, prefix) - common}
    bodies = {ms for name, ms in left.items() if ":memory:" in name}
    indexes = {ms for name, ms in left.items() if ":memory:" not in name}
    assert 90_000 < min(bodies) <= max(bodies) <= 100_000
    assert 150_000 < min(indexes) <= max(indexes) <= 100_000 + GRACE_MS


def test_an_index_outlives_every_memory_in_it(open_at: Open, redis_url: str, prefix: str) -> None:
    short, long, lasting, make = open_at(ttl=1), open_at(ttl=1000), open_at(), Maker("alice")
    word, other = f"{prefix}:{{alice}}:word:deploy", f"{prefix}:{{alice}}:word:short"
    with raw(redis_url) as client:
        short.add(ALICE, [make.event("deploy short")])
        assert client.pttl(word) <= 1000 + GRACE_MS
        long.add(ALICE, [make.event("deploy")])
        short.add(ALICE, [make.event("deploy short")])
        assert client.pttl(word) > 900_000
        lasting.add(ALICE, [make.event("deploy")])
        assert client.pttl(word) == -1
        assert client.pttl(other) > 0
        short.add(ALICE, [make.event("deploy short")])
        assert client.pttl(word) == client.pttl(other) == -1
    time.sleep(1.1)
    assert len(answers(short)["words"]) == 2


def test_events_go_with_the_memory_that_expired_and_an_event_says_so(
    open_at: Open, redis_url: str, prefix: str
) -> None:
    short, lasting, make = open_at(ttl=SHORT), open_at(), Maker("alice")
    one, two, three = (make.event(f"deploy {i}") for i in range(3))
    lasting.add(ALICE, [told(three, "d")])
    short.add(ALICE, [told(one, "a"), two])
    short.append(ALICE, [event("b", one.memory.id), event("c", "no memory")])
    after = lasting.events_after(ALICE, 0, 9)[-1].seq
    time.sleep(SHORT + 0.1)
    (news,) = lasting.events_after(ALICE, after, 9)
    assert (news.kind, news.body) == (FORGOTTEN, {"id": one.memory.id})
    assert [each.id for each in lasting.events_after(ALICE, 0, 9)] == ["d", "c", news.id]
    assert [each.id for each in lasting.events_by_topic(ALICE, "t", 9)] == ["d", "c"]
    assert lasting.events_of(ALICE, [one.memory.id, two.memory.id]) == []
    assert_sound(redis_url, prefix, ALICE)


@pytest.mark.parametrize("read", ["feed", "about", "events_of"])
def test_events_go_with_a_memory_of_which_nothing_else_is_left(
    open_at: Open, redis_url: str, prefix: str, read: str
) -> None:
    store, keys = open_at(ttl=SHORT), RedisKeys(prefix, ALICE)
    entry = told(Maker("alice").event("deploy"), "a")
    store.add(ALICE, [entry])
    time.sleep(0.2)
    store.append(ALICE, [event("b", entry.memory.id)])
    with raw(redis_url) as client:
        assert client.pttl(keys.expiry) >= client.pttl(keys.events) - 1
        assert client.pttl(keys.expiry) >= client.pttl(keys.subjects) - 1
        client.delete(keys.traces, keys.cards)
        time.sleep(SHORT + 0.1)
        found = {
            "feed": lambda: store.events_after(ALICE, 0, 9),
            "about": lambda: store.events_by_topic(ALICE, "t", 9),
            "events_of": lambda: store.events_of(ALICE, [entry.memory.id]),
        }[read]()
        assert [each.kind for each in found] == ([FORGOTTEN] if read == "feed" else [])
        assert client.zcard(keys.expiry) == 0
        assert_history(client, keys)


def test_events_of_a_store_where_memories_expire_are_not_left_for_ever(
    open_at: Open, redis_url: str, prefix: str
) -> None:
    store, keys = open_at(ttl=100), RedisKeys(prefix, ALICE)
    common = {f"{prefix}:{name}" for name in COMMON}
    store.append(ALICE, [event("a")])
    assert store.agents() == ["alice"]
    writes: list[Callable[[], object]] = [
        lambda: store.append(ALICE, [event("a")]),
        lambda: store.credit(ALICE, Credit("1", START, ("nobody",), frozenset({"nobody"}))),
    ]
    with raw(redis_url) as client:
        for write in writes:
            for key in names(redis_url, prefix) - common:
                client.delete(key)
            assert write()
            left = {key: client.pttl(key) for key in names(redis_url, prefix) - common}
            assert 150_000 < min(left.values()) <= max(left.values()) <= 100_000 + GRACE_MS
        open_at().append(ALICE, [event("b")])
        assert {client.pttl(key) for key in (keys.events, keys.feed, keys.topics, keys.subjects)} == {-1}


def test_a_text_that_was_evicted_takes_its_events_with_it_when_it_is_said_again(
    open_at: Open, redis_url: str, prefix: str
) -> None:
    store, make = open_at(), Maker("alice")
    fact = told(make.fact("The sky is blue"), "a", "b")
    store.add(ALICE, [fact])
    with raw(redis_url) as client:
        client.delete(f"{prefix}:{{alice}}:memory:{fact.memory.id}")
    again = told(make.fact("The sky is blue"), "b", "c")
    assert store.add(ALICE, [again])[0].id == again.memory.id
    assert plain(store.events_of(ALICE, [again.memory.id])) == plain(again.events)
    assert [each.kind for each in store.events_after(ALICE, 0, 9)] == [FORGOTTEN, "decision", "decision"]
    assert_sound(redis_url, prefix, ALICE)


# Events --------------------------------------------------------------------------------------------------


def test_more_events_than_one_command_takes_are_written_read_and_forgotten(
    open_at: Open, redis_url: str, prefix: str
) -> None:
    store = open_at()
    entry = told(Maker("alice").event("deploy"), *(f"e{i}" for i in range(700)))
    store.add(ALICE, [entry])
    assert store.append(ALICE, [event(f"e{i}", f"m{i}") for i in range(600, 1300)]) == [False] * 100 + [True] * 600
    every = [f"e{i}" for i in range(1300)]
    assert [each.id for each in store.events_after(ALICE, 0, 2000)] == every
    assert [each.id for each in store.events_after(ALICE, 0, 1100)] == every[:1100]
    assert [each.id for each in store.events_by_topic(ALICE, "t", 1100)] == every[-1100:]
    subjects = [entry.memory.id, *(f"m{i}" for i in range(1300))]
    assert [each.id for each in store.events_of(ALICE, subjects)] == every
    assert store.forget(ALICE, [entry.memory.id])[0].removed["events"] == 700
    assert [each.id for each in store.events_after(ALICE, 0, 2000)][:-1] == every[700:]
    assert_sound(redis_url, prefix, ALICE)


@pytest.mark.parametrize("after", [-(10**30), -1, 10**18, 10**19, 10**30])
def test_a_reader_may_begin_at_any_number(open_at: Open, after: int) -> None:
    store = open_at()
    store.append(ALICE, [event("a")])
    assert len(store.events_after(ALICE, after, 9)) == (after < 0)
    assert store.events_after(ALICE, 0, 0) == store.events_by_topic(ALICE, "t", 0) == []


def test_events_forgotten_while_they_are_read_do_not_end_the_feed(
    open_at: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other, make = open_at(), open_at(), Maker("alice")
    entry = told(make.event("deploy"), "a", "b")
    store.add(ALICE, [entry])
    store.append(ALICE, [event("c")])
    read = store._transactions.events

    def meanwhile(keys: RedisKeys, ids: Sequence[str]) -> Iterator[dict[str, Any]]:
        other.forget(ALICE, [entry.memory.id])
        return read(keys, ids)

    monkeypatch.setattr(store._transactions, "events", meanwhile)
    assert [each.id for each in store.events_after(ALICE, 0, 1)] == ["c"]


def test_readers_and_writers_in_many_processes_miss_no_event(open_at: Open) -> None:
    stores, seen, done = [open_at() for _ in range(4)], list[str](), threading.Event()

    def read() -> None:
        after, last = 0, False
        while not last:
            last = done.is_set()
            while some := stores[3].events_after(ALICE, after, 3):
                assert [each.seq for each in some] == sorted(each.seq for each in some)
                seen.extend(each.id for each in some)
                after = some[-1].seq

    def write(number: int) -> None:
        make = Maker("alice", FixedSources(START + timedelta(days=number)))
        for i in range(15):
            stores[number].append(ALICE, [event(f"{number}-{i}"), event("shared")])
            stores[number].add(ALICE, [told(make.event("deploy"), f"{number}+{i}")])

    reader = threading.Thread(target=read)
    reader.start()
    in_threads(3, write)
    done.set()
    reader.join()
    own = [f"{number}{sign}{i}" for number in range(3) for sign in "+-" for i in range(15)]
    assert sorted(seen) == sorted([*own, "shared"])


def test_an_event_that_is_not_what_was_written_is_damaged(open_at: Open, redis_url: str, prefix: str) -> None:
    store, keys = open_at(), RedisKeys(prefix, ALICE)
    store.append(ALICE, [event("a")])
    with raw(redis_url) as client:
        body = json.loads(client.hget(keys.events, "a"))
        for forged in (json.dumps(body | {"body": '{"name":"forged"}'}), "no json", "{}"):
            client.hset(keys.events, "a", forged)
            for call in (partial(store.events_after, ALICE, 0, 9), partial(store.events_of, ALICE, ["m1"])):
                with pytest.raises(StoreCorrupt):
                    call()


def test_an_event_and_a_credit_whose_answers_were_lost_are_kept_once(server: RedisServer) -> None:
    with closing(Proxy(server.port)) as proxy:
        store = RedisStore(f"redis://127.0.0.1:{proxy.port}", ExactVectors(), Sources())
        entry = Maker("alice").event("deploy")
        store.add(ALICE, [entry])
        proxy.cut_next = True
        assert store.append(ALICE, [event("a")]) == [True]
        proxy.cut_next = True
        assert store.credit(ALICE, Credit("1", START, (entry.memory.id,), frozenset({entry.memory.id})))
        assert proxy.cuts == 2
        assert [each.id for each in store.events_after(ALICE, 0, 9)] == ["a"]
        assert [row["helped"] for row in store.page("memory_stats", None, 9)] == [1.0]
        store.close()


def test_credits_at_once_count_each_once(open_at: Open, redis_url: str, prefix: str) -> None:
    stores, entry = [open_at() for _ in range(3)], Maker("alice").event("deploy")
    stores[0].add(ALICE, [entry])
    counted: list[bool] = []

    def work(number: int) -> None:
        for i in range(12):
            given = Credit(str(i), START, (entry.memory.id,), frozenset({entry.memory.id} if i % 3 else ()))
            counted.append(stores[number].credit(ALICE, given))
            stores[number].touch(ALICE, [entry.memory.id], START)

    in_threads(3, work)
    assert sum(counted) == 12
    (row,) = stores[0].page("memory_stats", None, 9)
    assert (row["helped"], row["hindered"], row["access_count"]) == (8.0, 4.0, 36)
    assert_sound(redis_url, prefix, ALICE)


# Names ---------------------------------------------------------------------------------------------------


def test_every_key_of_a_scope_lies_in_one_slot_and_in_no_other_scope(
    open_at: Open, redis_url: str, prefix: str
) -> None:
    store, known = open_at(), {f"{prefix}:{name}" for name in COMMON}
    working = RedisExpiring(join(redis_url, prefix=prefix))
    for name in NASTY_NAMES:
        scope, make = Scope(name), Maker(name)
        entries = [replace(make.fact(f"{name} deploy {i}", key=name, tags=[name], session=name)) for i in range(2)]
        store.add(scope, [replace(entry, vectors=(placed(1, 0, namespace=name),)) for entry in entries])
        store.append(scope, [event(name, name, name)])
        store.credit(scope, Credit(name, START, (name,), frozenset()))
        store.touch(scope, answers(store, scope)["newest"], START)
        working.put(scope, {name: 1}, 100)
        fresh = names(redis_url, prefix) - known
        known |= fresh
        assert len(fresh) > 15
        assert len({key_slot(key.encode()) for key in fresh}) == 1
    working.close()
    for name in NASTY_NAMES:
        memories = store.get(Scope(name), answers(store, Scope(name))["newest"])
        assert {memory.agent for memory in memories if memory} == {name}
        assert [each.subject for each in store.events_by_topic(Scope(name), name, 9)] == [name]
    assert store.agents() == sorted(NASTY_NAMES)


def test_stores_with_different_prefixes_share_nothing(open_at: Open, prefix: str) -> None:
    one, two = open_at(), open_at(prefix=f"{prefix}:two")
    one.add(ALICE, events(2))
    one.set_embedder("small@1")
    assert answers(two) == {"newest": [], "words": [], "vector": []}
    assert two.agents() == []
    assert two.embedder() is None


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis:///0",
        "http://localhost",
        "redis://localhost:notaport",
        "redis://localhost/notanumber",
        "redis://localhost/-1",
        "redis://localhost?colour=red",
        "redis://localhost?ttl=soon",
        "redis://localhost?ttl=0",
        "redis://localhost?ttl=nan",
        "redis://localhost?timeout=0",
        "redis://localhost?prefix={x}",
        "redis://localhost?prefix=",
        "redis://localhost?cluster=maybe",
        "redis://localhost/3?cluster=yes",
    ],
)
def test_a_url_that_makes_no_sense_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(url.replace("://", f"://user:{SECRET}@", 1))
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("sign", ["?", "#", "/"])
def test_a_password_that_was_not_encoded_is_not_shown(sign: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(f"redis://user:12{sign}{SECRET}@localhost")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_url_says_everything() -> None:
    address = parse("rediss://us%40er:p%3Aw@[::1]:7000/3?ttl=1.5&prefix=a.b:c-d_e&timeout=2&cluster=no&ca=/ca.pem")
    assert (address.host, address.port, address.db, address.tls, address.ca) == ("::1", 7000, 3, True, "/ca.pem")
    assert (address.user, address.password) == ("us@er", "p:w")
    assert (address.ttl_ms, address.prefix, address.timeout, address.cluster) == (1500, "a.b:c-d_e", 2.0, False)
    assert parse("valkey://h") == parse("redis://h:6379/0?prefix=engram&timeout=5")


def test_options_of_other_stores_are_ignored(redis_url: str, prefix: str) -> None:
    url = join(redis_url, prefix=prefix)
    with closing(open_store(url, ExactVectors(), Sources(), {"durable": True, "busy_seconds": 3})) as store:
        assert store.agents() == []


# Errors --------------------------------------------------------------------------------------------------


def calls(store: RedisStore) -> dict[str, Callable[[], object]]:
    return {
        "add": lambda: store.add(ALICE, events(1)),
        "get": lambda: store.get(ALICE, ["x"]),
        **{name: partial(store.search, ALICE, way) for name, way in WAYS.items()},
        "forget": lambda: store.forget(ALICE, ["x"]),
        "append": lambda: store.append(ALICE, [event("e")]),
        "feed": lambda: store.events_after(ALICE, 0, 9),
        "credits": lambda: store.credits(ALICE, 9),
        "agents": store.agents,
        "embedder": store.embedder,
    }


def test_a_server_that_is_away_is_a_clear_error_and_the_store_works_again_when_it_is_back(server: RedisServer) -> None:
    store = RedisStore(server.url, ExactVectors(), Sources())
    working = RedisExpiring(server.url)
    store.add(ALICE, events(3))
    server.kill()
    everywhere: list[Callable[[], object]] = [*calls(store).values(), partial(working.fetch, ALICE, ["k"])]
    for call in everywhere:
        with pytest.raises(StoreAway, match=rf"127.0.0.1:{server.port} does not answer; start it"):
            call()
    server.start()
    assert answers(store) == {"newest": [], "words": [], "vector": []}
    store.add(ALICE, events(2))
    assert len(answers(store)["vector"]) == 2
    assert working.fetch(ALICE, ["k"]) == [None]
    working.close()
    store.close()


def test_opening_a_server_that_is_away_is_a_clear_error() -> None:
    with nobody_listens() as port:
        for url in (f"redis://127.0.0.1:{port}", f"redis://127.0.0.1:{port}?cluster=yes"):
            with pytest.raises(StoreAway, match="does not answer; start it"):
                RedisStore(url, ExactVectors(), Sources())
            with pytest.raises(StoreAway, match="does not answer; start it"):
                RedisExpiring(url)


def test_a_server_that_takes_the_connection_and_says_nothing_is_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        for url in (f"rediss://{where}?timeout=0.2", f"rediss://{where}?timeout=0.2&cluster=yes"):
            with pytest.raises(StoreAway, match=f"{where} does not answer; start it, or check the address"):
                RedisStore(url, ExactVectors(), Sources())


def test_a_server_that_takes_no_more_connections_is_busy(server: RedisServer) -> None:
    with raw(server.url) as client:
        client.config_set("maxclients", 1)
        with pytest.raises(StoreBusy, match="takes no more connections; close some, or raise its maxclients"):
            RedisStore(server.url, ExactVectors(), Sources())
        client.config_set("maxclients", 100)


def test_a_single_server_opened_as_a_cluster_says_what_to_do(server: RedisServer) -> None:
    with pytest.raises(StoreError, match="is no cluster; take cluster=yes out of the URL"):
        RedisStore(join(server.url, cluster="yes"), ExactVectors(), Sources())


@pytest.mark.parametrize(
    "call", ["add", "get", "newest", "words", "vector", "forget", "append", "feed", "credits", "agents", "embedder"]
)
def test_a_restart_between_calls_goes_unnoticed(server: RedisServer, call: str) -> None:
    with closing(RedisStore(server.url, ExactVectors(), Sources())) as store:
        store.add(ALICE, events(1))
        server.restart()
        calls(store)[call]()


def test_a_slow_server_is_a_clear_error_in_time_and_the_store_goes_on(server: RedisServer) -> None:
    store = RedisStore(join(server.url, timeout=1.5), ExactVectors(), Sources())
    store.add(ALICE, events(1))
    with server.asleep():
        for name in ("newest", "add"):
            began = time.monotonic()
            with pytest.raises(StoreBusy, match=r"did not answer within 1.5 s; try again, or give timeout="):
                calls(store)[name]()
            assert time.monotonic() - began < 10
    assert len(answers(store)["newest"]) == 1
    store.close()


def test_a_write_that_timed_out_can_be_repeated_under_its_key(server: RedisServer) -> None:
    store = RedisStore(join(server.url, timeout=1.5), ExactVectors(), Sources())
    store.search(ALICE, NEWEST)
    entry = Maker("alice").event("deploy", key="k1")
    server.command("CLIENT", "PAUSE", "600000", "WRITE")
    with pytest.raises(StoreBusy):
        store.add(ALICE, [entry])
    server.command("CLIENT", "UNPAUSE")
    again = Maker("alice", FixedSources(START + timedelta(1))).event("deploy", key="k1")
    assert store.add(ALICE, [again])[0].status == "stored"
    assert len(answers(store)["newest"]) == 1
    assert_sound(server.url, "engram", ALICE)
    store.close()


def test_everything_flushed_while_open_is_an_empty_store_that_works(server: RedisServer) -> None:
    one = RedisStore(server.url, ExactVectors(), Sources())
    two = RedisStore(server.url, ExactVectors(), Sources())
    one.add(ALICE, events(3))
    assert len(answers(one)["vector"]) == len(answers(two)["vector"]) == 3
    server.command("FLUSHALL")
    server.command("SCRIPT", "FLUSH")
    assert answers(one) == {"newest": [], "words": [], "vector": []}
    (entry,) = events(1)
    assert one.add(ALICE, [entry])[0].status == "stored"
    for store in (one, two):
        assert answers(store) == {name: [entry.memory.id] for name in WAYS}
        assert store.agents() == ["alice"]
        store.close()


@pytest.mark.parametrize(
    "name", ["meta", "cards", "newest", "expiry", "log", "done", "events", "feed", "word:deploy", "group:kind:message"]
)
def test_something_else_at_a_key_is_said_and_nothing_of_the_batch_is_written(
    open_at: Open, redis_url: str, prefix: str, name: str
) -> None:
    store, make = open_at(ttl=100), Maker("alice")
    store.add(ALICE, [make.event("first")])
    with raw(redis_url) as client:
        client.delete(f"{prefix}:{{alice}}:{name}")
        client.set(f"{prefix}:{{alice}}:{name}", "something else")
        kept = names(redis_url, prefix) - {f"{prefix}:numbers"}  # a number that was not used is no harm
        before = {key: client.dump(key) for key in kept}
        with pytest.raises(StoreCorrupt, match="use another prefix for Engram"):
            store.add(ALICE, [told(make.event("deploy", kind="message"), "a"), make.event("another")])
        assert names(redis_url, prefix) == kept | {f"{prefix}:numbers"}
        assert {key: client.dump(key) for key in kept} == before


@pytest.mark.parametrize("content", [b"{}", b"no json", b'"text"'])
def test_a_memory_that_is_not_what_was_written_is_damaged(
    open_at: Open, redis_url: str, prefix: str, content: bytes
) -> None:
    store = open_at()
    (entry,) = events(1)
    store.add(ALICE, [entry])
    key = f"{prefix}:{{alice}}:memory:{entry.memory.id}"
    with raw(redis_url) as client:
        forged = json.loads(client.get(key)) | {"text": "forged"}
        for body in (content, json.dumps(forged)):
            client.set(key, body)
            with pytest.raises(StoreCorrupt):
                store.get(ALICE, [entry.memory.id])


def test_a_full_server_says_so_and_can_still_be_read_and_made_to_forget(server: RedisServer) -> None:
    store = RedisStore(server.url, ExactVectors(), Sources())
    entries = [told(entry, f"e{i}") for i, entry in enumerate(events(20))]
    store.add(ALICE, entries)
    server.command("CONFIG", "SET", "maxmemory", "1mb")
    with pytest.raises(StoreFull, match="no memory left"):
        store.add(ALICE, [Maker("alice", FixedSources(START + timedelta(1))).event("new", key="new")])
    with pytest.raises(StoreFull, match="no memory left"):
        store.append(ALICE, [event("new")])
    assert len(answers(store)["words"]) == 20
    store.touch(ALICE, [entries[0].memory.id], START)
    assert store.forget(ALICE, [entries[0].memory.id])[0].removed["events"] == 1
    assert len(answers(store)["vector"]) == 19
    server.command("CONFIG", "SET", "maxmemory", "0")
    assert_sound(server.url, "engram", ALICE)
    store.close()


def test_a_replica_can_be_read_and_says_that_it_takes_no_writes(server: RedisServer) -> None:
    store = RedisStore(join(server.url, ttl=SHORT), ExactVectors(), Sources())
    store.add(ALICE, events(3))
    with nobody_listens() as primary:
        server.command("REPLICAOF", "127.0.0.1", str(primary))
        with pytest.raises(StoreReadOnly, match="give the address of the primary"):
            store.add(ALICE, [Maker("alice", FixedSources(START + timedelta(1))).event("new")])
        assert {len(found) for found in answers(store).values()} == {3}
        store.touch(ALICE, answers(store)["newest"], START)
        time.sleep(SHORT + 0.1)
        assert {len(found) for found in answers(store).values()} == {0}
    store.close()


def test_the_password_is_never_shown(tmp_path: Any) -> None:
    with started(password=SECRET) as server:
        store = RedisStore(server.url, ExactVectors(), Sources())
        store.add(ALICE, events(1))
        shown = [repr(store), repr(RedisExpiring(server.url)), repr(parse(server.url)), str(parse(server.url))]
        wrong, without = server.url.replace(SECRET, f"x{SECRET}"), server.url.replace(f":{SECRET}@", "")
        refused = "refuses this user; check name and password"
        asked = "asks for a password; put it into the URL"
        for url, said in ((wrong, refused), (without, asked)):
            for one in (url, url + "?cluster=yes"):
                with pytest.raises(StoreAway, match=said) as caught:
                    RedisStore(one, ExactVectors(), Sources())
                shown += traceback.format_exception(caught.value)
        server.kill()
        with pytest.raises(StoreAway) as caught_later:
            store.add(ALICE, events(1))
        shown += traceback.format_exception(caught_later.value)
        store.close()
    assert [line for line in shown if SECRET in line] == []


def test_the_documented_rights_are_enough_and_fewer_are_a_clear_error(server: RedisServer) -> None:
    page = (Path(__file__).parents[2] / "docs" / "redis.md").read_text(encoding="utf-8")
    rights = " ".join(page.split()).split("`ACL SETUSER engram on >password ")[1].split("`")[0].split()
    server.command("ACL", "SETUSER", "engram", "on", ">password", *rights)
    url = server.url.replace("redis://", "redis://engram:password@")
    with closing(RedisStore(join(url, ttl=100), ExactVectors(), Sources())) as store:
        store.set_embedder("small@1")
        store.add(ALICE, [*events(3), Maker("alice", FixedSources(START + timedelta(1))).fact("The sky", key="k")])
        assert {name: len(found) for name, found in answers(store).items()} == {"newest": 4, "words": 3, "vector": 3}
        store.touch(ALICE, answers(store)["newest"], START)
        store.append(ALICE, [event("a")])
        store.credit(ALICE, Credit("1", START, ("x",), frozenset({"x"})))
        read = (store.events_after(ALICE, 0, 9), store.events_by_topic(ALICE, "t", 9), store.events_of(ALICE, ["m1"]))
        assert (*map(len, read), len(store.credits(ALICE, 9))) == (1, 1, 1, 1)
        store.unembedded(LONG_TERM, EMBEDDER, 5)
        store.discard_vectors(LONG_TERM, "another@1")
        store.forget(ALICE, answers(store)["newest"][1:])
        server.command("ACL", "SETUSER", "engram", "-time")
        with pytest.raises(StoreAway, match="does not let this user do that; give it more rights with ACL SETUSER"):
            store.search(ALICE, NEWEST)
    with closing(RedisExpiring(url)) as working:
        working.put(ALICE, {"k": 1}, 100)
        assert (working.fetch(ALICE, ["k"]), working.drop(ALICE, ["k"])) == ([1], 1)


def test_without_the_driver_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['redis'] = None\n"
        "from engram.errors import MissingExtra\n"
        "try:\n    import engram.stores.redis\n"
        "except MissingExtra as error:\n    print(error)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "engram-learning[redis]" in told


def test_the_server_is_never_asked_for_all_its_keys(server: RedisServer) -> None:
    with closing(RedisStore(join(server.url, ttl=0.2), ExactVectors(), Sources())) as store:
        store.add(ALICE, events(5))
        answers(store)
        time.sleep(0.3)
        answers(store)
        store.add(ALICE, [told(Maker("alice").fact("The sky is blue"), "a")])
        assert store.events_after(ALICE, 0, 9) == store.events_by_topic(ALICE, "t", 9)
        store.unembedded(LONG_TERM, EMBEDDER, 5)
        store.discard_vectors(LONG_TERM, "another@1")
        store.forget(ALICE, answers(store)["newest"])
    used = server.command("INFO", "commandstats")
    assert {"cmdstat_keys", "cmdstat_scan"} & set(used) == set()
    assert "cmdstat_hmget" in used


# Kills and lost answers ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_server_killed_in_the_middle_of_a_batch_keeps_all_of_it_or_nothing() -> None:
    chance = random.Random(3)
    with started(aof=True) as server:
        store = RedisStore(join(server.url, timeout=2), ExactVectors(), Sources())
        make, batches, acknowledged = Maker("alice"), list[list[Entry]](), set[int]()
        for _ in range(25 if LONG else 6):
            killer = threading.Timer(chance.uniform(0.02, 0.2), server.kill)
            killer.start()
            while killer.is_alive():
                number = len(batches)
                texts = [f"deploy b{number} n{i}" for i in range(20)]
                batches.append([replace(make.event(text, key=text), vectors=(placed(1, 2, 3),)) for text in texts])
                try:
                    store.add(ALICE, batches[-1])
                    acknowledged.add(number)
                except (StoreAway, StoreBusy):
                    break
            killer.join()
            server.start()
            assert_sound(server.url, "engram", ALICE)
            there = Counter(memory.text.split()[1] for memory in everything(store))
            assert set(there.values()) <= {20}
            assert {f"b{number}" for number in acknowledged} <= set(there)
        for batch in batches:
            assert {receipt.status for receipt in store.add(ALICE, batch)} == {"stored"}
        assert len(everything(store)) == 20 * len(batches)
        store.close()


def everything(store: RedisStore) -> list[Memory]:
    ids = [match.id for match in store.search(ALICE, Query(limit=10**6))]
    return [memory for memory in store.get(ALICE, ids) if memory is not None]


class Proxy:
    """Stands before a server and, when asked to, cuts the connection after a script was sent, before the answer."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.cut_next = False
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, suppress(OSError):  # until one of them has hung up
            while data := client.recv(1 << 20):
                server.sendall(data)
                answer = server.recv(1 << 20)
                if self.cut_next and b"EVALSHA" in data:
                    self.cut_next, self.cuts = False, self.cuts + 1
                    return
                client.sendall(answer)

    def close(self) -> None:
        self._listening.close()


def test_a_write_whose_answer_was_lost_is_done_once(server: RedisServer) -> None:
    make = Maker("alice")
    with closing(Proxy(server.port)) as proxy:
        store = RedisStore(f"redis://127.0.0.1:{proxy.port}", ExactVectors(), Sources())
        fact = make.fact("The sky is blue")
        store.add(ALICE, [fact])
        for entry in (make.fact("The sky is blue"), make.event("without a key")):
            proxy.cut_next = True
            assert store.add(ALICE, [entry])[0].ok
        proxy.cut_next = True
        assert store.forget(ALICE, [make.memory().id, fact.memory.id])[1].forgotten
        assert proxy.cuts == 3
        (left,) = everything(store)
        assert left.text == "without a key"
        store.close()


def test_a_merge_whose_answer_was_lost_is_counted_once(server: RedisServer) -> None:
    make = Maker("alice")
    with closing(Proxy(server.port)) as proxy:
        store = RedisStore(f"redis://127.0.0.1:{proxy.port}", ExactVectors(), Sources())
        store.add(ALICE, [make.fact("The sky is blue")])
        proxy.cut_next = True
        assert store.add(ALICE, [make.fact("The sky is blue")])[0].status == "merged"
        assert everything(store)[0].evidence == 2
        store.close()


# Many at once --------------------------------------------------------------------------------------------


def in_threads(count: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - shown by the thread that waits
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("shared", [True, False], ids=["one store", "a store each"])
def test_threads_with_one_key_make_one_memory(open_at: Open, redis_url: str, prefix: str, shared: bool) -> None:
    stores = [open_at()] * 8 if shared else [open_at() for _ in range(8)]
    ids: list[str | None] = []

    def work(number: int) -> None:
        make = Maker("alice", FixedSources(START + timedelta(days=number)))
        for i in range(10):
            (one, two) = stores[number].add(ALICE, [make.event("deploy", key=f"k{i}"), make.fact("The sky is blue")])
            ids.append(one.id)
            assert two.ok

    in_threads(8, work)
    assert len(set(ids)) == 10
    memories = everything(stores[0])
    assert len(memories) == 11
    assert max(memory.evidence for memory in memories) == 80
    assert_sound(redis_url, prefix, ALICE)


WORKER = """
import sys
from datetime import timedelta
from engram.clock import Sources
from engram.model import Clean
from engram.ports import Query, Scope
from engram.stores.redis import RedisStore
from engram.testing import FixedSources, Maker
from engram.testing.factories import START, placed
from engram.stores.vectors.exact import ExactVectors
from dataclasses import replace

url, number = sys.argv[1], int(sys.argv[2])
scope, make = Scope("alice"), Maker("alice", FixedSources(START + timedelta(days=number)))
store = RedisStore(url, ExactVectors(), Sources())
for i in range(40):
    mine = replace(make.event(f"deploy w{number}n{i}"), vectors=(placed(1, number, i),))
    store.add(scope, [mine, make.event("shared", key=f"k{i}"), make.fact("The sky is blue")])
    found = {match.id for match in store.search(scope, Query(near=placed(1, number, i), limit=1000))}
    assert mine.memory.id in found
    if i % 4 == 0:
        assert store.forget(scope, [mine.memory.id])[0].forgotten
store.close()
"""


def test_processes_lose_and_double_nothing(open_at: Open, redis_url: str, prefix: str) -> None:
    command = [sys.executable, "-c", WORKER, join(redis_url, prefix=prefix)]
    workers = [subprocess.Popen([*command, str(n)], stderr=subprocess.PIPE, text=True) for n in range(4)]
    assert [worker.communicate()[1] for worker in workers] == [""] * 4
    store = open_at()
    counted = Counter(memory.text.split()[0] for memory in everything(store))
    assert counted == {"deploy": 4 * 30, "shared": 40, "The": 1}
    assert len(answers(store)["vector"]) == len(answers(store)["words"]) == 4 * 30
    assert max(memory.evidence for memory in everything(store)) == 160
    assert_sound(redis_url, prefix, ALICE)


def test_a_reader_that_is_far_behind_reads_the_shelf_anew(open_at: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engram.stores.redis.batch.LOG_LENGTH", 10)
    one, two, make = open_at(), open_at(), Maker("alice")
    first = events(8, make)
    one.add(ALICE, first)
    assert len(answers(two)["vector"]) == 8
    one.forget(ALICE, [first[0].memory.id, first[5].memory.id])
    one.add(ALICE, events(12, make))
    one.forget(ALICE, [first[1].memory.id])
    assert answers(two)["vector"] == answers(open_at())["vector"]
    assert len(answers(two)["vector"]) == 17


def test_a_text_that_was_evicted_takes_its_place_with_it_when_it_is_said_again(
    open_at: Open, redis_url: str, prefix: str
) -> None:
    store, make = open_at(), Maker("alice")
    fact = make.fact("The sky is blue", key="k1")
    store.add(ALICE, [replace(fact, vectors=(placed(1, 0, 0),))])
    with raw(redis_url) as client:
        client.delete(f"{prefix}:{{alice}}:memory:{fact.memory.id}")
    again = make.fact("The sky is blue", key="k2")
    assert store.add(ALICE, [again])[0].id == again.memory.id
    assert answers(store)["newest"] == [again.memory.id]
    assert_sound(redis_url, prefix, ALICE)


# Clusters ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Sequence[RedisServer]]:
    with started_cluster(3) as servers:
        yield servers


class TestRedisStoreOnAClusterKeepsTheContract(MemoryStoreContract):
    backend = "Redis Cluster"
    verified = "real Valkey servers as a cluster"

    @pytest.fixture
    def store(self, cluster: Sequence[RedisServer]) -> Iterator[RedisStore]:
        url = join(cluster[0].url, cluster="yes", prefix=uuid.uuid4().hex, ttl=600)
        with closing(RedisStore(url, ExactVectors(), Sources())) as store:
            yield store


class TestRedisExpiringOnAClusterKeepsTheContract(ExpiringStoreContract):
    backend = "Redis Cluster"
    verified = "real Valkey servers as a cluster"

    @pytest.fixture
    def expiring(self, cluster: Sequence[RedisServer]) -> Iterator[RedisExpiring]:
        with closing(RedisExpiring(join(cluster[1].url, cluster="yes", prefix=uuid.uuid4().hex))) as store:
            yield store


def test_agents_are_spread_over_a_cluster(cluster: Sequence[RedisServer]) -> None:
    with closing(RedisStore(join(cluster[0].url, cluster="yes", prefix="spread"), ExactVectors(), Sources())) as store:
        for n in range(12):
            store.add(Scope(f"agent{n}"), [Maker(f"agent{n}").event("deploy")])
        assert len(store.agents()) == 12
    assert all(server.command("DBSIZE") > 0 for server in cluster)


def test_a_cluster_opened_as_a_single_server_says_what_to_do(cluster: Sequence[RedisServer]) -> None:
    elsewhere = next(name for name in map(str, range(99)) if key_slot(f"{{{name}}}".encode()) > SLOTS // 2)
    with closing(RedisStore(cluster[0].url, ExactVectors(), Sources())) as store:
        for call in (lambda: store.get(Scope(elsewhere), ["x"]), lambda: store.search(Scope(elsewhere), NEWEST)):
            with pytest.raises(StoreError, match="cluster=yes"):
                call()
