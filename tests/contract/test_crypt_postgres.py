"""A PostgreSQL database whose fields are sealed keeps the same contract as a plain one, and shows nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import psycopg
import pytest

from engram.clock import Sources
from engram.errors import StoreError
from engram.model import Clean
from engram.ports import Query, Scope
from engram.privacy.cipher import MasterKey
from engram.stores.postgres import GUARDS, PostgresStore
from engram.stores.vectors.exact import ExactVectors
from engram.testing import DurableStoreContract, FixedSources, Maker, MemoryStoreContract
from engram.testing.factories import passages, placed
from support.postgres_server import beside, command, empty

pytest_plugins = ["support.postgres_server"]
Open = Callable[..., PostgresStore]
KEY = MasterKey(bytes(range(32)))
ALICE = Scope("alice")
CANARY = "zqcanaryvorm"


@pytest.fixture(scope="module")
def database(postgres_admin: str) -> Iterator[str]:
    """A database of our own: its tables refuse plain rows afterwards."""
    name = f"engram_sealed_{os.getpid()}"
    command(postgres_admin, "CREATE DATABASE {}", name)
    PostgresStore(beside(postgres_admin, name), Sources()).close()
    yield beside(postgres_admin, name)
    command(postgres_admin, "DROP DATABASE {} WITH (FORCE)", name)


@pytest.fixture
def url(database: str) -> str:
    empty(database)
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("TRUNCATE agent_keys")
        for table in GUARDS:
            admin.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS sealed_{table}")
    return database


@pytest.fixture
def open_it(url: str) -> Iterator[Open]:
    with ExitStack() as opened:

        def open_one(encryption: str = "fields", cipher: MasterKey | None = KEY) -> PostgresStore:
            store = PostgresStore(url, Sources(), cipher=cipher, encryption=encryption, opened=ExactVectors())
            return opened.enter_context(closing(store))

        yield open_one


@pytest.mark.slow
class TestASealedServerKeepsTheContract(MemoryStoreContract):
    backend, verified = "PostgreSQL 18, fields sealed", "a real server from a package"

    @pytest.fixture
    def store(self, open_it: Open) -> PostgresStore:
        return open_it()


@pytest.mark.slow
class TestASealedServerOutlivesItsClients(DurableStoreContract):
    backend, verified = "PostgreSQL 18, fields sealed", "a real server from a package"

    @pytest.fixture
    def open_store(self, open_it: Open) -> Open:
        open_it().close()
        return lambda: open_it("none")


def fill(store: PostgresStore, count: int = 5) -> None:
    make = Maker("alice", FixedSources())
    entries = [
        make.event(f"{CANARY} deploy {n}", tags=[CANARY], session=CANARY, key=f"{CANARY}{n}") for n in range(count)
    ]
    store.add(ALICE, [replace(entry, vectors=(placed(9, n, 1),)) for n, entry in enumerate(entries)])
    store.set_setting("learned:x", CANARY)


def texts(store: PostgresStore) -> list[list[str]]:
    ways = (Query(), Query(words=Clean("deploy")), Query(near=placed(9, 1, 1)))
    ids = [[match.id for match in store.search(ALICE, query)] for query in ways]
    return [[memory.text for memory in store.get(ALICE, some) if memory is not None] for some in ids]


def dump(url: str) -> str:
    """Every row of every table as text."""
    with psycopg.connect(url) as conn:
        named = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        tables = [name for (name,) in conn.execute(named).fetchall()]
        conn.execute("SELECT set_config('engram.everyone', 'on', false)")
        return "\n".join(str(row) for table in tables for row in conn.execute(f'SELECT * FROM "{table}"').fetchall())


def test_nothing_is_readable_on_the_server(open_it: Open, url: str) -> None:
    store = open_it()
    fill(store)
    assert "v1.d1." in dump(url)
    assert CANARY not in dump(url)
    assert [len(found) for found in texts(store)] == [5, 5, 5]


def test_a_plain_server_is_encrypted(open_it: Open, url: str) -> None:
    plain = open_it("none", None)
    fill(plain)
    before = texts(plain)
    assert CANARY in dump(url)
    with pytest.raises(StoreError, match="crypt init"):
        open_it("fields")
    converting = open_it("converting")
    assert converting.encrypt() > 5
    assert CANARY not in dump(url)
    store = open_it("none")
    assert [sorted(found) for found in texts(store)] == [sorted(found) for found in before]
    assert store.check() == []
    assert store.setting("learned:x") == CANARY
    with pytest.raises(StoreError):
        fill(plain)
    with pytest.raises(StoreError, match="key_file"):
        open_it("none", None)
    with pytest.raises(StoreError, match="another key"):
        open_it("none", MasterKey(bytes(32)))


@pytest.mark.parametrize("index", [False, True])
def test_keys_are_changed_and_others_take_them_up(open_it: Open, url: str, index: bool) -> None:
    store, other = open_it(), open_it("none")
    fill(store)
    before = texts(other)
    store.rekey(index=index)
    assert texts(other) == before == texts(store)
    assert store.check() == []
    assert "v1.d1." not in dump(url)
    new = MasterKey(bytes(32))
    store.rotate(new)
    with pytest.raises(StoreError, match="master key"):
        texts(other)
    assert texts(open_it("none", new)) == before


def test_an_agent_goes_with_its_keys(open_it: Open) -> None:
    store, other = open_it(), open_it("none")
    fill(store)
    assert texts(other)[2]
    assert store.destroy(ALICE)["memories"] == 5
    assert texts(other) == texts(store) == [[], [], []]
    assert store.agents() == []
    fill(other, 2)
    assert [len(found) for found in texts(store)] == [2, 2, 2]
    assert store.check() == []


def test_fewer_passages_are_noticed_by_others(open_it: Open) -> None:
    store, other = open_it(), open_it("none")
    entry = Maker("alice", FixedSources()).event("long")
    store.add(ALICE, [replace(entry, vectors=passages((1, 0, 0), (0, 1, 0)))])
    near = Query(near=placed(0, 1, 0))
    assert other.search(ALICE, near)[0].passage == 1
    store.place([(ALICE, entry.memory.id, placed(1, 0, 0))])
    assert other.search(ALICE, near)[0].passage == 0
