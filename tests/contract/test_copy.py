"""Moving between databases loses nothing, and can be stopped and gone on with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import redis
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from psycopg import sql
from pydantic import JsonValue

import engram
from engram.clock import Sources
from engram.errors import Conflict, StoreCorrupt, Unsupported
from engram.model import Clean
from engram.ports import FORGOTTEN, LONG_TERM, Copies, Credit, Entry, Event, MemoryStore, Query, Scope
from engram.stores.postgres import PostgresStore
from engram.stores.redis import RedisStore
from engram.stores.redis.batch import Batch
from engram.stores.redis.layout import RedisKeys
from engram.stores.sqlite import SqliteStore
from engram.stores.vectors.exact import ExactVectors
from engram.testing import FixedSources, Maker
from engram.testing.factories import EMBEDDER, START, placed
from engram.upkeep.copying import STAYS_BEHIND, copy
from support.redis_server import redis_url, started, started_cluster

__all__ = ["redis_url"]  # a fixture is used by its name
pytest_plugins = ["support.postgres_server"]

ALICE, BOB = Scope("alice"), Scope("bob")
OpenRedis = Callable[..., RedisStore]

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=40)
drafts = st.lists(
    st.fixed_dictionaries(
        {"text": words},
        optional={
            "kind": st.sampled_from(["knowledge", "observation", "plan"]),
            "tags": st.lists(words, max_size=3),
            "key": words,
            "session": words,
            "context": words,
            "importance": st.floats(0, 1),
            "metadata": st.dictionaries(
                words, st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words
            ),
            "at": st.datetimes(),
        },
    ),
    max_size=12,
)


NOTES: list[dict[str, object]] = [{"text": f"note {n} of the day"} for n in range(600)]


ONLY_IN_DATABASES = {*STAYS_BEHIND, "agent_keys"}


def fill(path: Path, some: list[dict[str, object]] = NOTES) -> None:
    with engram.open(path) as brain:
        for agent in ("alice", "b'ob%"):
            receipts = brain.agent(agent).remember(some)
            stored = [receipt.id for receipt in receipts if receipt.id]
            for id in stored[::5]:
                brain.agent(agent).forget(id)
            brain.agent(agent).recall("note")


@contextmanager
def new_database(admin: str) -> Iterator[str]:
    name = sql.Identifier(f"engram_copy_{os.getpid()}_{time.monotonic_ns()}")
    with psycopg.connect(admin, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {}").format(name))
        yield admin.rpartition("/")[0] + "/" + name.as_string(None).strip('"')
        conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


@contextmanager
def new_prefix(url: str) -> Iterator[str]:
    """A store of its own on a Redis server, with everything in it removed at the end."""
    prefix = f"engram-copy-{uuid.uuid4().hex[:12]}"
    yield f"{url}?prefix={prefix}"
    with redis.Redis.from_url(url) as client:
        for key in client.scan_iter(match=f"{prefix}:*", count=1000):
            client.delete(key)


@pytest.fixture
def on_redis(redis_url: str) -> Iterator[OpenRedis]:
    """Opens a new store on Redis at each call."""
    with ExitStack() as opened:

        def open_one(**options: object) -> RedisStore:
            url = opened.enter_context(new_prefix(redis_url))
            url += "".join(f"&{name}={value}" for name, value in options.items())
            return opened.enter_context(closing(RedisStore(url, ExactVectors(), Sources())))

        yield open_one


def told(entry: Entry, *names: str) -> Entry:
    """The entry with events about its memory."""
    at = entry.memory.created_at
    body: dict[str, JsonValue] = {"é": [1, 0.1 + 0.2, None, True, "\n"]}
    return replace(entry, events=tuple(Event(name, "outcome", at, entry.memory.id, f"t{name}", body) for name in names))


def variety(store: MemoryStore) -> None:
    """Some of everything that a store keeps."""
    assert isinstance(store, SqliteStore | RedisStore)
    store.set_embedder("small@1")
    for name in ("alice", "b'ob%", "{}", "z\u00e9\U0001f680"):
        make, scope = Maker(name), Scope(name)
        notes = [make.event(f"note {n} of {name}", key=f"k{n}", tags=["x", f"t{n}"]) for n in range(7)]
        entries = [told(note, f"{note.memory.id}:a", f"{n}") for n, note in enumerate(notes)]
        entries += [
            make.fact(text, key=f"{text} {n}") for n in range(3) for text in ("The sky is blue", "Snow is cold")
        ]
        ids = [str(receipt.id) for receipt in store.add(scope, entries)]
        store.place([(scope, id, placed(1, n, 2, namespace=name)) for n, id in enumerate(ids[:7])])
        store.place([(scope, id, placed(1, n, embedder="other@1")) for n, id in enumerate(ids[:3])])
        for count in (4, 3):
            passages = [replace(placed(n, 1, embedder="long@1"), passage=n) for n in range(count)]
            store.place([(scope, id, each) for id in ids[3:6] for each in passages])
        store.append(scope, [Event(f"late {n}", "check", START, "no memory", name) for n in range(3)])
        store.forget(scope, [ids[5], ids[6]])
        store.touch(scope, ids[:2], Sources().now())
        store.touch(scope, ids[1:3], Sources().now())
        credit = {"last_accessed": None, "access_count": 0, "helped": 0.1 + 0.2, "hindered": 1.0}
        store.take("memory_stats", [{"agent": name, "memory_id": ids[4], **credit}])
        store.take("recall_events", [{"agent": name, "id": f"r{n}", "at": n, "detail": '{"q":"é"}'} for n in range(3)])
    if isinstance(store, SqliteStore):
        store.set_embedder("small@1")  # the counts go with the next write


def tallies(store: Copies) -> dict[str, object]:
    return {table: store.tally(table) for table in store.tables() if table not in ONLY_IN_DATABASES}


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Callable[[str], SqliteStore]]:
    opened: list[SqliteStore] = []

    def open_store(name: str) -> SqliteStore:
        opened.append(SqliteStore(tmp_path / name, ExactVectors(), Sources()))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


@pytest.mark.slow
@settings(max_examples=10, phases=[Phase.explicit, Phase.generate])
@given(some=drafts)
def test_to_postgresql_and_back_everything_is_the_same(
    some: list[dict[str, object]], postgres_admin: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("copy")
    fill(folder / "one.db", some)
    with (
        new_database(postgres_admin) as url,
        closing(SqliteStore(folder / "one.db", ExactVectors(), Sources())) as first,
        closing(PostgresStore(url, Sources())) as middle,
        closing(SqliteStore(folder / "two.db", ExactVectors(), Sources())) as last,
    ):
        copy(first, middle, "one")
        copy(middle, last, "middle")
        assert tallies(first) == tallies(middle) == tallies(last)
        assert middle.check() == []
        assert last.check() == []


def test_a_copy_that_was_stopped_goes_on(path: Path, sqlite: Callable[[str], SqliteStore]) -> None:
    fill(path)
    source, target = sqlite("team.db"), sqlite("copy.db")

    def stop(done: int, total: int) -> None:
        if done > 900:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy(source, target, "team", stop)
    with pytest.raises(Conflict, match="not empty"):
        copy(source, target, "another")
    copied = copy(source, target, "team")
    assert copied["memories"] == 960
    assert tallies(source) == tallies(target)
    assert target.check() == []


def test_the_copy_is_a_database_like_any_other(
    path: Path, tmp_path: Path, sqlite: Callable[[str], SqliteStore]
) -> None:
    fill(path)
    target = sqlite("copy.db")
    copy(sqlite("team.db"), target, "team")
    with engram.open(tmp_path / "copy.db") as brain:
        alice = brain.agent("alice")
        assert alice.recall("note 7 of the day")[0].why["found_by"] == "both"
        assert alice.remember("and on it goes").status == "stored"
        assert alice.list(limit=1)[0].text == "and on it goes"
        assert brain.upkeep.database.check() == []


@pytest.mark.slow
@settings(max_examples=15, phases=[Phase.explicit, Phase.generate])
@given(some=drafts)
def test_to_redis_and_back_everything_is_the_same(
    some: list[dict[str, object]], redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("copy")
    fill(folder / "one.db", some)
    with (
        new_prefix(redis_url) as url,
        new_prefix(redis_url) as other,
        closing(SqliteStore(folder / "one.db", ExactVectors(), Sources())) as first,
        closing(RedisStore(url, ExactVectors(), Sources())) as middle,
        closing(RedisStore(other, ExactVectors(), Sources())) as next_,
        closing(SqliteStore(folder / "two.db", ExactVectors(), Sources())) as last,
    ):
        copy(first, middle, "one")
        copy(middle, next_, "middle")
        copy(next_, last, "next")
        assert tallies(first) == tallies(middle) == tallies(next_) == tallies(last)
        assert last.check() == []


def test_everything_a_store_keeps_arrives_in_redis_and_comes_back(
    on_redis: OpenRedis, sqlite: Callable[[str], SqliteStore]
) -> None:
    source, middle, last = sqlite("one.db"), on_redis(), sqlite("two.db")
    variety(source)
    copied = copy(source, middle, "one")
    assert min(copied.values()) > 0, "every table has rows"
    copy(middle, last, "two")
    assert last.check() == []
    for table in middle.tables():
        for store in (middle, last):
            assert sorted(map(repr, all_rows(store, table))) == sorted(map(repr, all_rows(source, table)))


def all_rows(store: Copies, table: str, size: int = 3) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    last = None
    while rows := store.page(table, last, size):
        found += [{name: row[name] for name in sorted(row)} for row in rows]
        last = rows[-1]
    return found


@pytest.mark.parametrize("size", [1, 2, 500])
def test_pages_of_any_size_have_each_row_once(on_redis: OpenRedis, size: int) -> None:
    store = on_redis()
    variety(store)
    for table in store.tables():
        rows = [repr(row) for row in all_rows(store, table, size)]
        assert len(rows) == len(set(rows)) == store.tally(table).rows > 0


def test_what_was_born_in_redis_goes_to_a_database(on_redis: OpenRedis, sqlite: Callable[[str], SqliteStore]) -> None:
    source, target, back = on_redis(), sqlite("copy.db"), on_redis()
    variety(source)
    copy(source, target, "redis")
    copy(target, back, "copy")
    assert tallies(source) == tallies(target) == tallies(back)
    assert target.check() == []
    assert target.rebuild()["words"] == source.tally("memories").rows


@pytest.mark.slow
def test_between_redis_and_postgresql_everything_is_the_same(postgres_admin: str, on_redis: OpenRedis) -> None:
    source, back = on_redis(), on_redis()
    variety(source)
    with new_database(postgres_admin) as url, closing(PostgresStore(url, Sources())) as middle:
        copy(source, middle, "redis")
        copy(middle, back, "middle")
        assert tallies(source) == tallies(middle) == tallies(back)
        assert middle.check() == []


@pytest.mark.slow
def test_a_cluster_is_copied_like_a_server(sqlite: Callable[[str], SqliteStore]) -> None:
    source, last = sqlite("one.db"), sqlite("two.db")
    variety(source)
    with started_cluster(3) as servers:
        url = f"{servers[1].url}?cluster=yes"
        with closing(RedisStore(url, ExactVectors(), Sources())) as middle:
            copy(source, middle, "one")
            copy(middle, last, "two")
            assert tallies(source) == tallies(middle) == tallies(last)


def test_no_number_is_given_to_two_agents(on_redis: OpenRedis) -> None:
    """SQLite finds words by the number of a memory; others may write at any moment."""
    store, given = on_redis(), list[int]()

    def first(batch: Batch, _: list[object]) -> None:
        store._transactions.write(BOB, [], second, numbers=3)
        given.extend(batch.number() for _ in range(100_000))

    def second(batch: Batch, _: list[object]) -> None:
        given.extend(batch.number() for _ in range(3))

    store._transactions.write(ALICE, [], first, numbers=100_000)
    assert len(given) == len(set(given)) == 100_003


def test_the_copy_in_redis_is_a_store_like_any_other(on_redis: OpenRedis, sqlite: Callable[[str], SqliteStore]) -> None:
    source, target = sqlite("one.db"), on_redis()
    variety(source)
    copy(source, target, "one")
    for query in (
        Query(limit=99),
        Query(words=Clean("note 2 sky"), limit=99),
        Query(near=placed(1, 2, 2, namespace="alice"), limit=99),
        Query(near=placed(2, 1, embedder="long@1"), limit=99),
    ):
        found = [(match.id, match.passage) for match in target.search(ALICE, query)]
        assert found == [(match.id, match.passage) for match in source.search(ALICE, query)] != []
    ids = [match.id for match in source.search(ALICE, Query(limit=99))]
    assert target.get(ALICE, ids) == source.get(ALICE, ids)
    make = Maker("alice", FixedSources(START + timedelta(days=1)))
    again = make.fact("The sky is blue")
    key = make.event("note 0 of alice", key="k0", tags=["x", "t0"])
    receipts = [(r.id, r.status, r.code) for r in target.add(ALICE, [again, key])]
    assert receipts == [(r.id, r.status, r.code) for r in source.add(ALICE, [again, key])]
    new = make.event("and on it goes")
    target.add(ALICE, [new])
    rows = all_rows(target, "memories")
    assert max(rows, key=lambda row: int(str(row["seq"])))["id"] == new.memory.id
    before = target.events_after(ALICE, 0, 99)
    assert before == source.events_after(ALICE, 0, 99)
    assert [event.id for event in target.events_by_topic(ALICE, "alice", 9)] == ["late 0", "late 1", "late 2"]
    assert target.events_of(ALICE, ids) == source.events_of(ALICE, ids) != []
    assert target.append(ALICE, [before[0], Event("new", "check", START, "x")]) == [False, True]
    assert [event.id for event in target.events_after(ALICE, before[-1].seq, 9)] == ["new"]
    (one,), (other,) = target.forget(ALICE, ids[:1]), source.forget(ALICE, ids[:1])
    assert one == other


class Stops:
    """Stops a copy once so many rows are done."""

    def __init__(self, after: int) -> None:
        self.after = after

    def __call__(self, done: int, total: int) -> None:
        if done > self.after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [0, 300, 900, 2000])
def test_a_copy_to_or_from_redis_that_was_stopped_goes_on(
    path: Path, sqlite: Callable[[str], SqliteStore], on_redis: OpenRedis, after: int
) -> None:
    fill(path)
    source, middle, last = sqlite("team.db"), on_redis(), sqlite("copy.db")
    for one, other in ((source, middle), (middle, last)):
        with pytest.raises(KeyboardInterrupt):
            copy(one, other, "team", Stops(after))
        if after:
            with pytest.raises(Conflict, match="not empty"):
                copy(one, other, "another")
        copy(one, other, "team")
        assert tallies(one) == tallies(other)
    assert last.check() == []


COPIER = """
import sys
from engram.clock import Sources
from engram.stores.redis import RedisStore
from engram.stores.sqlite import SqliteStore
from engram.upkeep import copy
from engram.stores.vectors.exact import ExactVectors
source, target = SqliteStore(sys.argv[1], ExactVectors(), Sources()), RedisStore(sys.argv[2], ExactVectors(), Sources())
copy(source, target, "team", lambda done, total: print(done, flush=True))
"""


@pytest.mark.slow
def test_a_copy_to_redis_whose_process_is_killed_goes_on(path: Path, sqlite: Callable[[str], SqliteStore]) -> None:
    fill(path)
    with started() as server:
        for rows in (1, 3, 5):
            command = [sys.executable, "-c", COPIER, str(path), server.url]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                for _ in range(rows):
                    process.stdout.readline()
                process.send_signal(signal.SIGKILL)
        source = sqlite("team.db")
        with closing(RedisStore(server.url, ExactVectors(), Sources())) as target:
            copy(source, target, "team")
            assert tallies(source) == tallies(target)


def test_taking_rows_twice_changes_nothing(on_redis: OpenRedis, sqlite: Callable[[str], SqliteStore]) -> None:
    source, target = sqlite("one.db"), on_redis()
    variety(source)
    for _ in range(2):
        for table in target.tables():
            target.take(table, source.page(table, None, 500))
    assert tallies(source) == tallies(target)
    for row in source.page("memories", None, 500):
        scope, id = Scope(str(row["agent"])), str(row["id"])
        assert target.indexes(scope, id) == source.indexes(scope, id)


@pytest.mark.parametrize("what", ["text", "lost", "count", "vector", "evidence", "key", "agent", "event"])
def test_a_copy_that_differs_is_an_error(
    redis_url: str, on_redis: OpenRedis, sqlite: Callable[[str], SqliteStore], what: str
) -> None:
    source, target = sqlite("one.db"), on_redis()
    variety(source)
    total = sum(source.tally(table).rows for table in target.tables())
    prefix = target._address.prefix
    keys, id = RedisKeys(prefix, ALICE), str(source.search(ALICE, Query(limit=1))[0].id)

    def tamper(done: int, _: int) -> None:
        if done < total:
            return
        with redis.Redis.from_url(redis_url) as client:
            body = client.get(keys.memory(id))
            assert isinstance(body, bytes)
            space = keys.vectors(("alice", EMBEDDER))
            forge: dict[str, Callable[[], object]] = {
                "text": lambda: client.set(keys.memory(id), body.replace(b"Snow", b"Show").replace(b"sky", b"ski")),
                "lost": lambda: client.delete(keys.memory(id)),
                "count": lambda: client.hincrby(keys.counts, str(client.hkeys(keys.counts)[0].decode()), 1),
                "vector": lambda: client.hdel(space, client.hkeys(space)[0]),
                "evidence": lambda: client.zremrangebyrank(keys.evidence, 0, 0),
                "key": lambda: client.hdel(keys.keys, "k1"),
                "event": lambda: client.hdel(keys.events, "late 1"),
                "agent": lambda: client.hincrby(f"{prefix}:enrolled", "alice", 1),
            }
            assert forge[what]()

    with pytest.raises(Conflict, match="differs from the source"):
        copy(source, target, "one", tamper)


def test_a_source_that_somebody_writes_to_is_an_error(
    on_redis: OpenRedis, sqlite: Callable[[str], SqliteStore]
) -> None:
    source, target = on_redis(), sqlite("copy.db")
    variety(source)

    def write(done: int, total: int) -> None:
        if "bob" not in source.agents():
            source.add(BOB, [Maker("bob").event("meanwhile")])

    with pytest.raises(Conflict, match="nothing may be written to the source"):
        copy(source, target, "redis", write)


def test_a_damaged_row_is_not_taken(on_redis: OpenRedis, sqlite: Callable[[str], SqliteStore]) -> None:
    source, target = sqlite("one.db"), on_redis()
    variety(source)
    (row,) = source.page("memories", None, 1)
    target.take("agents", source.page("agents", None, 9))
    with pytest.raises(StoreCorrupt):
        target.take("memories", [row | {"text": "forged"}])
    assert target.tally("memories").rows == 0
    sound, damaged = source.page("events", None, 2)
    with pytest.raises(StoreCorrupt):
        target.take("events", [sound, damaged | {"topic": "forged"}])
    assert target.tally("events").rows == 0


def test_what_was_credited_is_the_same_wherever_it_was(
    on_redis: OpenRedis, sqlite: Callable[[str], SqliteStore]
) -> None:
    one, two, source, target, make = on_redis(), sqlite("one.db"), on_redis(), sqlite("two.db"), Maker("alice")
    entries = [make.event(f"note {n}") for n in range(4)]
    ids = [entry.memory.id for entry in entries]
    credits = [Credit(f"r{n}", START + timedelta(days=n), tuple(ids), frozenset({ids[n]})) for n in (2, 0, 1)]
    for store in (one, two, source):
        store.add(ALICE, entries)
        store.touch(ALICE, ids[:1], START)
        assert [store.credit(ALICE, credit) for credit in (*credits, credits[0])] == [True, True, True, False]
    two.set_embedder("small@1")  # the counts go with the next write
    copy(source, target, "redis")
    for table in ("memory_stats", "recall_events"):
        assert one.tally(table) == two.tally(table) == source.tally(table) == target.tally(table)
    back = on_redis()
    copy(target, back, "two")
    assert back.credits(ALICE, 2) == target.credits(ALICE, 2) == [credits[2], credits[0]]


def test_a_redis_store_with_memories_is_no_target(on_redis: OpenRedis, sqlite: Callable[[str], SqliteStore]) -> None:
    source, target = sqlite("one.db"), on_redis()
    variety(source)
    variety(target)
    before = tallies(target)
    with pytest.raises(Conflict, match="the target is not empty"):
        copy(source, target, "one")
    assert tallies(target) == before


def test_what_expired_is_not_copied_and_what_is_copied_expires_where_it_is(
    redis_url: str, on_redis: OpenRedis, sqlite: Callable[[str], SqliteStore]
) -> None:
    brief, target, short, make = on_redis(ttl=0.5), sqlite("copy.db"), on_redis(ttl=4), Maker("alice")
    expiring = told(make.fact("The sky is blue", key="k1", tags=["x"]), "a", "b")
    brief.add(ALICE, [expiring, make.fact("The sky is blue")])
    time.sleep(0.6)
    lasting = [told(make.event(f"note {n}"), f"c{n}") for n in range(3)]
    url = f"{redis_url}?prefix={brief._address.prefix}&ttl=600"
    with closing(RedisStore(url, ExactVectors(), Sources())) as source:
        source.add(ALICE, lasting)
        copied = copy(source, target, "redis")
    assert (copied["memories"], copied["memory_keys"], copied["memory_evidence"]) == (3, 0, 0)
    assert [event.kind for event in target.events_after(ALICE, 0, 9)] == [FORGOTTEN, "outcome", "outcome", "outcome"]
    assert target.check() == []
    copy(target, short, "copy")
    assert len(short.search(ALICE, Query())) == 3
    time.sleep(4.1)
    assert short.search(ALICE, Query()) == []
    assert [event.kind for event in short.events_after(ALICE, 0, 9)] == [FORGOTTEN] * 4
    assert short.agents() == target.agents() == ["alice"]


def test_what_belongs_to_a_memory_lives_as_long_as_the_memory(redis_url: str, on_redis: OpenRedis) -> None:
    store, make = on_redis(ttl=100), Maker("alice")
    fact = make.fact("The sky is blue", key="k1")
    store.add(ALICE, [fact, make.fact("The sky is blue")])
    store.place([(ALICE, fact.memory.id, placed(1, 0))])
    store.touch(ALICE, [fact.memory.id], Sources().now())
    keys = RedisKeys(store._address.prefix, ALICE)
    store.append(ALICE, [Event("e", "check", START, fact.memory.id, "t")])
    store.credit(ALICE, Credit("r", START, (fact.memory.id,), frozenset({fact.memory.id})))
    belonging = [keys.keys, keys.evidence, keys.counts, keys.seen, keys.vectors((LONG_TERM, EMBEDDER))]
    belonging += [keys.events, keys.feed, keys.topics, keys.subjects, keys.helped, keys.recalls, keys.recalled]
    with redis.Redis.from_url(redis_url) as client:
        for key in belonging:
            assert client.pexpire(key, 5000)
        store.add(ALICE, [make.fact("The sky is blue")])
        assert all(int(str(client.pttl(key))) > 100_000 for key in belonging)


def test_only_databases_can_be_copied(sqlite: Callable[[str], SqliteStore]) -> None:
    with engram.open(":memory:") as brain:
        for source, target in ((brain.store, sqlite("copy.db")), (sqlite("copy.db"), brain.store)):
            with pytest.raises(Unsupported, match="this store cannot be copied"):
                copy(source, target, "memory")


def test_a_target_that_cannot_keep_everything_gets_nothing(
    sqlite: Callable[[str], SqliteStore], on_redis: OpenRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = sqlite("one.db"), on_redis()
    variety(source)
    some = [table for table in target.tables() if table != "events"]
    monkeypatch.setattr(target, "tables", lambda: some)
    with pytest.raises(Unsupported, match="does not support events"):
        copy(source, target, "one")
    with pytest.raises(Unsupported, match="no table patterns"):
        target.page("patterns", None, 1)
    assert target.agents() == []
