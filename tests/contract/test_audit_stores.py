"""Every store that keeps an audit trail keeps the same one."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engram
from engram import audit
from engram.clock import Sources
from engram.errors import Conflict, EngramError, NotFound, StoreReadOnly, Unsupported
from engram.model import Checkpoint
from engram.ports import AuditAction, Changes, Credit, Event, KeepsAudit, MemoryStore, Scope
from engram.privacy.cipher import MasterKey
from engram.stores.memory import InMemoryStore
from engram.stores.postgres import PostgresStore
from engram.stores.redis import RedisStore
from engram.stores.sqlite import SqliteStore, restore
from engram.stores.vectors.exact import ExactVectors
from engram.testing.audit import AuditContract, trail
from engram.testing.factories import START, FixedSources, Maker, placed
from engram.upkeep.copying import copy
from support.redis_server import redis_url

__all__ = ["redis_url"]  # a fixture is used by its name
pytest_plugins = ["support.postgres_server"]

ALICE = Scope("alice")
WRITER = Path(__file__).parents[1] / "support" / "crash_writer.py"
KILLS = 100 if os.environ.get("ENGRAM_LONG") else 8

_RENEW = """
TRUNCATE audit, audit_checkpoints;
INSERT INTO audit VALUES (1, 0, '', '', 'genesis', '', '', '', 0, '{}', '',
  encode(sha256('{"action":"genesis","actor":"","agent":"","at":0,"count":0,"detail":{},"grant":"","prev":"",'
                '"principal":"","seq":1,"target":""}'), 'hex'))
"""


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a database without memories: quicker to copy than to make."""
    path = tmp_path_factory.mktemp("empty") / "engram.db"
    sqlite_at(path).close()
    return path.read_bytes()


@pytest.fixture
def fresh_url(postgres_url: str) -> str:
    """A database on PostgreSQL with an empty trail."""
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(_RENEW)
    return postgres_url


def sqlite_at(path: Path) -> SqliteStore:
    return SqliteStore(path, ExactVectors(), Sources(), durable=False)


class TestSqlite(AuditContract):
    @pytest.fixture
    def store(self, path: Path, empty_database: bytes) -> Iterator[SqliteStore]:
        path.write_bytes(empty_database)
        with closing(sqlite_at(path)) as store:
            yield store


class TestEncrypted(AuditContract):
    @pytest.fixture(params=["fields", "file"])
    def store(self, path: Path, request: pytest.FixtureRequest) -> Iterator[SqliteStore]:
        how = {"cipher": MasterKey(bytes(32)), "encryption": request.param}
        with closing(SqliteStore(path, ExactVectors(), Sources(), durable=False, **how)) as store:
            yield store


class TestInMemory(AuditContract):
    @pytest.fixture
    def store(self) -> Iterator[InMemoryStore]:
        with closing(InMemoryStore(ExactVectors())) as store:
            yield store


class TestPostgres(AuditContract):
    @pytest.fixture
    def store(self, fresh_url: str) -> Iterator[PostgresStore]:
        with closing(PostgresStore(fresh_url, Sources())) as store:
            yield store


def test_redis_keeps_no_trail_and_says_so(redis_url: str) -> None:
    with closing(RedisStore(redis_url, ExactVectors(), Sources())) as store:
        assert not isinstance(store, KeepsAudit)
        with pytest.raises(Unsupported, match="keeps no audit trail"):
            audit.audited(store)


# Exactly one entry for each call ---------------------------------------------------------------------------------

steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "forget", "annotate", "append", "credit", "set", "place", "discard", "note", "touch"]),
        st.integers(0, 5),
    ),
    max_size=25,
)


def do(store: SqliteStore | InMemoryStore, maker: Maker, ids: list[str], step: str, number: int) -> int:
    """Take a step; how many entries it must have added."""
    id = ids[number % len(ids)] if ids else "unknown"
    at = maker.sources.now()
    if step == "add":
        entries = [maker.fact(f"fact {n % 3}") if n % 2 else maker.event(f"event {n}") for n in range(number)]
        ids += [receipt.id for receipt in store.add(ALICE, entries) if receipt.status == "stored" and receipt.id]
        return int(bool(entries))
    if step == "forget":
        store.forget(ALICE, [id] * number)
        return int(number > 0)
    if step == "annotate":
        try:
            store.annotate(ALICE, id, Changes(importance=number / 5), 1 if number == 3 else None)
        except (NotFound, Conflict):
            return 0
    elif step == "append":
        store.append(ALICE, [Event(f"e{n}", "outcome", at, id) for n in range(number)])
        return int(number > 0)
    elif step == "credit":
        store.credit(ALICE, Credit(f"r{number}", at, (id,), frozenset({id})))
    elif step == "set":
        store.set_setting(["policy", "learned:x", "pushed:x", "forgetting:last"][number % 4], "x")
        return int(number % 4 == 0)
    elif step == "place":
        store.place([(ALICE, id, placed(1, 0, 0))] * min(number, 1))
        return min(number, 1)
    elif step == "discard":
        store.discard_vectors("long-term", "nobody's")
    elif step == "note":
        store.note([AuditAction("use", "bob", "alice", grant="g", count=number)] * number)
        return number
    else:
        store.touch(ALICE, [id], at)
        return 0
    return 1


def length(store: KeepsAudit) -> int:
    head = store.head()
    return 0 if head is None else head.seq


@settings(max_examples=200 if os.environ.get("ENGRAM_LONG") else 25)
@given(steps)
def test_two_stores_put_the_same_on_record_whatever_is_done(
    tmp_path_factory: pytest.TempPathFactory, empty_database: bytes, given_steps: list[tuple[str, int]]
) -> None:
    sources, twin = FixedSources(), FixedSources()
    file = tmp_path_factory.mktemp("audit") / "engram.db"
    file.write_bytes(empty_database)
    with (
        closing(SqliteStore(file, ExactVectors(), sources, durable=False)) as one,
        closing(InMemoryStore(ExactVectors(), twin)) as two,
    ):
        first, second = Maker("alice", FixedSources()), Maker("alice", FixedSources())
        ids: list[str] = []
        more: list[str] = []
        for step, number in given_steps:
            before = length(one), length(two)
            expected = do(one, first, ids, step, number)
            assert do(two, second, more, step, number) == expected
            assert (length(one) - before[0], length(two) - before[1]) == (expected, expected)
        assert list(audit.AuditTrail(one).export()) == list(audit.AuditTrail(two).export())
        assert audit.AuditTrail(one).verify().ok


def test_every_sentence_of_the_engine_is_on_record(path: Path) -> None:
    with engram.open(path, embedder="hashing", durable=False) as brain:
        alice, kept = brain.agent("alice"), trail(brain.store)
        stored = alice.remember("The deploy failed")
        decision = alice.record_decision(context="c", action="a")
        alice.outcome(str(decision.id), "success")
        alice.forget(str(stored.id))
        assert [entry.action for entry in kept.trail()][:3] == ["genesis", "setting", "write"]
        assert {entry.agent for entry in kept.trail(2)} == {"alice"}
        assert [entry.action for entry in kept.trail(agent="alice")][-1] == "forget"
        assert audit.AuditTrail(kept).verify().ok
        brain.upkeep.database.rebuild()
        head = kept.head()
        assert head is not None
        assert head.action == "rebuild"


# Triggers, pruning, restoring, copying ---------------------------------------------------------------------------

CHANGES = ["UPDATE audit SET count = 7", "DELETE FROM audit WHERE seq = 2", "DELETE FROM audit"]
CHECKPOINT_CHANGES = ["UPDATE audit_checkpoints SET hash = 'x'", "DELETE FROM audit_checkpoints"]


def used(store: SqliteStore | PostgresStore) -> None:
    store.add(ALICE, [Maker("alice").event("a memory")])
    head = store.head()
    assert head is not None
    store.checkpoint(Checkpoint(seq=head.seq, at=START, hash=head.hash))


@pytest.mark.parametrize("change", CHANGES + CHECKPOINT_CHANGES)
def test_sqlite_refuses_to_change_the_trail(path: Path, change: str) -> None:
    with closing(sqlite_at(path)) as store:
        used(store)
        with closing(sqlite3.connect(path)) as raw, pytest.raises(sqlite3.IntegrityError, match="never changed"):
            raw.execute(change)
        assert audit.AuditTrail(store).verify().ok


@pytest.mark.parametrize("change", CHANGES + CHECKPOINT_CHANGES)
def test_postgres_refuses_to_change_the_trail(fresh_url: str, change: str) -> None:
    with closing(PostgresStore(fresh_url, Sources())) as store:
        used(store)
        with psycopg.connect(fresh_url, autocommit=True) as owner:
            with pytest.raises(psycopg.Error, match="never changed"):
                owner.execute(change.encode())
            owner.execute("SET ROLE engram_app")
            owner.execute("SET engram.everyone = 'on'")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
                owner.execute(change.encode())
        assert audit.AuditTrail(store).verify().ok


def test_pruning_leaves_no_way_open(path: Path) -> None:
    with closing(sqlite_at(path)) as store:
        used(store)
        store.note([AuditAction("use"), AuditAction("use")])
        assert store.prune(2) == 2
        with closing(sqlite3.connect(path)) as raw, pytest.raises(sqlite3.IntegrityError, match="never changed"):
            raw.execute("DELETE FROM audit WHERE seq = 3")
        assert store.setting("audit_pruning") is None


def test_a_restored_database_says_so_and_an_anchor_says_what_went(path: Path, tmp_path: Path) -> None:
    with closing(sqlite_at(path)) as store:
        used(store)
        store.backup(tmp_path / "saved.db")
        store.note([AuditAction("use")] * 5)
        anchor = audit.AuditTrail(store).head(now=START)
    restore(tmp_path / "saved.db", path, Sources())
    with closing(sqlite_at(path)) as store:
        head = store.head()
        assert head is not None
        assert (head.action, head.target) == ("restore", "saved.db")
        assert audit.AuditTrail(store).verify().ok
        assert not audit.AuditTrail(store).verify([anchor]).ok


def test_a_copied_database_has_the_same_trail_and_goes_on_with_it(path: Path, tmp_path: Path) -> None:
    with closing(sqlite_at(path)) as source, closing(sqlite_at(tmp_path / "copy.db")) as target:
        used(source)
        copy(source, target, "source")
        assert target.trail()[: len(source.trail())] == source.trail()
        target.note([AuditAction("use")])
        assert audit.AuditTrail(target).verify().ok
        assert target.checkpoints() == source.checkpoints()


def test_a_database_whose_trail_has_begun_is_no_target_for_a_copy(path: Path, tmp_path: Path) -> None:
    with closing(sqlite_at(path)) as source, closing(sqlite_at(tmp_path / "copy.db")) as target:
        used(source)
        target.note([AuditAction("use")])
        with pytest.raises(Conflict):
            copy(source, target, "source")


def test_a_file_that_cannot_be_written_shows_its_trail(path: Path) -> None:
    with closing(sqlite_at(path)) as store:
        used(store)
    path.chmod(0o444)
    with closing(sqlite_at(path)) as store:
        assert audit.AuditTrail(store).verify().ok
        if os.geteuid():
            with pytest.raises(StoreReadOnly):
                store.note([AuditAction("use")])


# At once, and killed ---------------------------------------------------------------------------------------------


def write_at_once(open_store: Callable[[], MemoryStore], writers: int, writes: int) -> None:
    barrier, failed = threading.Barrier(writers), list[EngramError]()

    def work(number: int) -> None:
        maker = Maker(f"agent{number % 3}", Unique())
        scope = Scope(maker.agent)
        store = open_store()
        barrier.wait()
        for turn in range(writes):
            event = Event(f"{number}-{turn}", "outcome", START, "m", str(number))
            entry = maker.event(f"writer {number} turn {turn}")
            try:
                store.add(scope, [entry])
                store.append(scope, [event])  # type: ignore[attr-defined]
            except EngramError as error:
                failed.append(error)
        store.close()

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(work, range(writers)))
    assert failed == []


class Unique(FixedSources):
    """Ids that no other writer has."""

    def new_id(self) -> str:
        return Sources().new_id()


def test_eight_writers_on_postgres_make_one_chain_without_gaps(fresh_url: str) -> None:
    write_at_once(lambda: PostgresStore(fresh_url, Sources(), durable=False), 8, 25)
    with closing(PostgresStore(fresh_url, Sources())) as store:
        found = audit.AuditTrail(store).verify()
        assert found.ok
        assert (found.first, found.last, found.entries) == (1, 401, 401)
        actions = [entry.action for entry in store.trail(1)]
        assert (actions.count("write"), actions.count("event")) == (200, 200)


def test_eight_writers_on_sqlite_make_one_chain_without_gaps(path: Path) -> None:
    sqlite_at(path).close()
    write_at_once(lambda: sqlite_at(path), 8, 10)
    with closing(sqlite_at(path)) as store:
        found = audit.AuditTrail(store).verify()
        assert (found.ok, found.entries) == (True, 161)


@pytest.mark.slow
def test_whoever_is_killed_has_written_both_or_neither(path: Path) -> None:
    dice = random.Random(5)
    for round_ in range(KILLS):
        with subprocess.Popen(
            [sys.executable, str(WRITER), str(path), str(round_)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            killer = threading.Timer(dice.uniform(0, 0.25), writer.kill)
            killer.start()
            writer.stdout.read()
            killer.join()
        with closing(sqlite_at(path)) as store:
            assert audit.AuditTrail(store).verify().ok
            on_record = sum(entry.count for entry in audit.AuditTrail(store).entries() if entry.action == "write")
            assert on_record == maintained_memories(store)


def maintained_memories(store: SqliteStore) -> int:
    return int(store.info()["memories"] or 0)
