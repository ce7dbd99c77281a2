"""Row-level security is a second wall: a statement that forgets the scope finds nothing. How a database is opened."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import LiteralString
from urllib.parse import urlsplit

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from test_migrations import in_children

import engram
from engram.clock import Sources
from engram.errors import EngramError, InvalidInput, NewerSchema, StoreAway, StoreError, Unsupported
from engram.ports import Query, Scope
from engram.stores import migrate
from engram.stores.postgres import PostgresStore, PostgresTables, open_store
from engram.stores.schema import REVISION
from engram.stores.vectors.exact import ExactVectors
from engram.testing import Maker
from engram.testing.events import event
from engram.testing.factories import passages, placed
from support.postgres_server import beside, command, started_postgres

pytest_plugins = ["support.postgres_server"]

ALICE, BOB = Scope("alice"), Scope("bob")
SECRET = "hunter2-very-secret"
SCOPED = [
    "agents",
    "memories",
    "memory_tags",
    "memory_keys",
    "memory_evidence",
    "memory_stats",
    "memory_index",
    "memory_words",
    "tombstones",
    "recall_events",
    "events",
]
NASTY_NAMES = [
    "a'b",
    "a''b",
    '"a"',
    "a%b",
    "%s",
    "%(agent)s",
    ":agent",
    "a\\",
    "\\'",
    "$$",
    "é🚀",
    "a\nb",
    "on",
    "''; --",
]


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(postgres_url, Sources())) as store:
        yield store


def fill(store: PostgresStore, scope: Scope) -> None:
    """Something of every kind, in every table."""
    make = Maker(scope.agent)
    first = make.fact(tags=["t"], key="k")
    store.add(scope, [first, make.event("to be forgotten")])
    store.add(scope, [make.fact(), make.event("another")])
    store.place([(scope, first.memory.id, placed(1, 0))])
    store.touch(scope, [first.memory.id], first.memory.created_at)
    store.forget(scope, [match.id for match in store.search(scope, Query())[:1]])
    store.take("recall_events", [{"agent": scope.agent, "id": "r", "at": 1, "detail": "{}"}])
    store.append(scope, [event("e")])


@contextmanager
def connected(
    url: str, agent: str | None = None, role: LiteralString | None = "engram_app"
) -> Iterator[psycopg.Cursor]:
    """A transaction by hand, past the store, rolled back at the end."""
    with psycopg.connect(url) as conn:
        if role is not None:
            conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        if agent is not None:
            conn.execute("SELECT set_config('engram.agent', %s, true)", [agent])
        with conn.cursor() as cursor:
            yield cursor
        conn.rollback()


def owners(cursor: psycopg.Cursor, table: str) -> list[str]:
    """The agents of all rows that a statement without a scope sees."""
    rows = cursor.execute(sql.SQL("SELECT agent FROM {}").format(sql.Identifier(table)))
    return sorted({row[0] for row in rows})


# The wall ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", SCOPED)
def test_a_select_that_forgets_the_scope_sees_only_the_scope_that_was_set(
    store: PostgresStore, postgres_url: str, table: str
) -> None:
    fill(store, ALICE)
    fill(store, BOB)
    with connected(postgres_url, role=None) as cursor:
        assert owners(cursor, table) == ["alice", "bob"], "the administrator sees everybody"
    with connected(postgres_url) as cursor:
        assert owners(cursor, table) == []
    with connected(postgres_url, "") as cursor:
        assert owners(cursor, table) == []
    with connected(postgres_url, "alice") as cursor:
        assert owners(cursor, table) == ["alice"]
    with connected(postgres_url, "Alice") as cursor:
        assert owners(cursor, table) == []


def test_every_table_with_an_agent_is_behind_the_wall(postgres_url: str) -> None:
    with connected(postgres_url, role=None) as cursor:
        tables = cursor.execute(
            "SELECT relname, relrowsecurity AND relforcerowsecurity FROM pg_class JOIN pg_attribute ON attrelid = oid "
            "WHERE attname = 'agent' AND relkind IN ('r', 'p', 'v', 'm') ORDER BY relname"
        ).fetchall()
    assert tables == [(table, True) for table in sorted({*SCOPED, "audit", "agent_keys"})]


def test_nobody_writes_for_another_agent(store: PostgresStore, postgres_url: str) -> None:
    fill(store, ALICE)
    fill(store, BOB)
    for statement in (
        "INSERT INTO agents (agent, created_at) VALUES ('carol', 0)",
        "UPDATE memories SET agent = 'bob'",
        "UPDATE memory_tags SET agent = 'bob'",
        "INSERT INTO memory_words SELECT 'bob', 1, words, length FROM memory_words",
        "INSERT INTO tombstones VALUES ('bob', 'x', 1, 1)",
        "INSERT INTO recall_events VALUES ('bob', 'x', 1, '{}')",
        "UPDATE events SET agent = 'bob'",
    ):
        with connected(postgres_url, "alice") as cursor, pytest.raises(psycopg.errors.InsufficientPrivilege):
            cursor.execute(statement)
    with connected(postgres_url, "alice") as cursor:
        assert cursor.execute("DELETE FROM memories WHERE agent = 'bob'").rowcount == 0
        assert cursor.execute("UPDATE memories SET text = '' WHERE agent = 'bob'").rowcount == 0


def test_the_application_role_owns_nothing_and_passes_no_wall(store: PostgresStore, postgres_url: str) -> None:
    assert store.info()["role"] == "engram_app"
    with connected(postgres_url, role=None) as cursor:
        rights = "SELECT rolsuper, rolbypassrls, rolcanlogin, rolcreaterole FROM pg_roles WHERE rolname = 'engram_app'"
        assert cursor.execute(rights).fetchone() == (False, False, False, False)
        owned = "SELECT count(*) FROM pg_class WHERE relowner = 'engram_app'::regrole"
        assert cursor.execute(owned).fetchone() == (0,)
    for statement in ("DROP TABLE memories", "ALTER TABLE memories DISABLE ROW LEVEL SECURITY", "TRUNCATE memories"):
        with connected(postgres_url, "alice") as cursor, pytest.raises(psycopg.errors.InsufficientPrivilege):
            cursor.execute(statement)


def test_a_scope_does_not_stay_on_a_pooled_connection(postgres_url: str) -> None:
    with closing(PostgresStore(postgres_url, Sources(), pool_size=1, max_overflow=0)) as store:
        for use in (lambda: fill(store, ALICE), lambda: store.search(ALICE, Query()), store.agents, store.info):
            use()
            with store._tables.engine.connect() as conn:
                assert conn.exec_driver_sql("SELECT agent FROM memories").all() == []
                left = "SELECT current_setting('engram.agent', true), current_setting('engram.everyone', true)"
                assert [value or "" for value in conn.exec_driver_sql(left).one()] == ["", ""]
                assert conn.exec_driver_sql("SELECT current_user").scalar() == "engram_app"
        with pytest.raises(Exception, match="ZeroDivision"), store._tables.write(ALICE):
            raise RuntimeError("ZeroDivision")
        with store._tables.engine.connect() as conn:
            assert conn.exec_driver_sql("SELECT agent FROM memories").all() == []


@pytest.mark.parametrize("name", NASTY_NAMES, ids=ascii)
def test_a_name_is_only_ever_itself(store: PostgresStore, postgres_url: str, name: str) -> None:
    fill(store, ALICE)
    fill(store, Scope(name))
    with connected(postgres_url, name) as cursor:
        assert {agent for table in SCOPED for agent in owners(cursor, table)} == {name}
    assert store.agents() == sorted(["alice", name])
    assert store.search(Scope(name), Query(near=placed(1, 0)))
    assert store.check() == []


@pytest.mark.parametrize("name", NASTY_NAMES, ids=ascii)
def test_a_namespace_and_an_embedder_may_have_any_name(store: PostgresStore, name: str) -> None:
    place, other = placed(1, 0, namespace=name, embedder=f"{name}@1"), placed(1, 0, namespace=name, embedder="2")
    entry = Maker("alice").event()
    store.add(ALICE, [entry])
    assert store.place([(ALICE, entry.memory.id, place)]) == 1
    assert [match.id for match in store.search(ALICE, Query(near=place))] == [entry.memory.id]
    assert store.search(ALICE, Query(near=other)) == []
    with store._tables.engine.connect() as conn:
        (made,) = conn.scalars(sa.text("SELECT indexdef FROM pg_indexes WHERE indexname ^@ 'near_'"))
    quoted = name.replace("'", "''")
    assert f"'{quoted}'" in made


# Who logs in ---------------------------------------------------------------------------------------------


@pytest.fixture
def login(postgres_admin: str) -> Iterator[Callable[..., str]]:
    """Makes a role with a database of its own, in which pgvector is there; gives the URL to log in with."""
    name = f"engram_login_{os.getpid()}_{time.monotonic_ns()}"

    def make(extension: bool = True) -> str:
        command(postgres_admin, f"CREATE ROLE {{}} LOGIN PASSWORD '{SECRET}'", name)
        command(postgres_admin, "CREATE DATABASE {} OWNER {}", name, name)
        if extension:
            command(beside(postgres_admin, name), "CREATE EXTENSION vector")
        return as_user(beside(postgres_admin, name), name)

    yield make
    command(postgres_admin, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)
    command(postgres_admin, "DROP ROLE IF EXISTS {}", name)


def as_user(url: str, name: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{name}:{SECRET}@{parts.hostname}:{parts.port or 5432}").geturl()


def role_of(url: str) -> str:
    return str(urlsplit(url).username)


def exercise(url: str) -> str:
    """Everything works; the role that the store works as."""
    with engram.open(url) as brain:
        alice = brain.agent("alice")
        receipt = alice.remember("Staging runs PostgreSQL 15", key="k")
        assert [hit.id for hit in alice.recall("staging")] == [receipt.id]
        assert brain.agent("bob").recall("staging") == []
        assert brain.upkeep.database.check() == []
        return str(brain.upkeep.database.info()["role"])


def test_whoever_owns_the_tables_is_behind_the_wall_too(login: Callable[..., str]) -> None:
    url = login()
    role = exercise(url)
    assert role == role_of(url), "without the right to make or join roles, it works as itself"
    for table in SCOPED:
        with connected(url, role=None) as cursor:
            assert owners(cursor, table) == []
    with connected(url, "bob", role=None) as cursor:
        assert owners(cursor, "memories") == []
    with connected(url, "alice", role=None) as cursor:
        assert owners(cursor, "memories") == ["alice"]
    with connected(url, "alice", role=None) as cursor, pytest.raises(psycopg.errors.InsufficientPrivilege):
        cursor.execute("INSERT INTO agents VALUES ('bob', 0)")


def test_a_login_that_was_let_into_the_role_before_opens_and_works(
    login: Callable[..., str], postgres_admin: str, postgres_database: str
) -> None:
    url = login()
    command(postgres_admin, "GRANT engram_app TO {}", role_of(url))
    exercise(url)
    with connected(url, role=None) as cursor:
        assert owners(cursor, "memories") == []


def test_a_login_that_owns_nothing_works_once_it_is_let_into_the_role(
    login: Callable[..., str], postgres_admin: str, postgres_url: str
) -> None:
    url = login()
    guest = as_user(postgres_url, role_of(url))
    with pytest.raises(StoreError, match="permission denied"):
        PostgresStore(guest, Sources())
    command(postgres_admin, "GRANT engram_app TO {}", role_of(url))
    assert exercise(guest) == "engram_app"


@pytest.mark.slow
def test_a_login_that_may_make_roles_makes_the_role_and_works_as_it() -> None:
    with started_postgres() as server:  # one that has never seen Engram
        command(server.url(), "CREATE ROLE maker LOGIN CREATEROLE")
        command(server.url(), "CREATE DATABASE first OWNER maker")
        command(server.url("first"), "CREATE EXTENSION vector")
        assert exercise(server.url("first", "maker")) == "engram_app"
        assert exercise(server.url("first", "postgres")) == "engram_app"
        command(server.url(), "CREATE ROLE second LOGIN")
        command(server.url(), "CREATE DATABASE second OWNER second")
        command(server.url("second"), "CREATE EXTENSION vector")
        assert exercise(server.url("second", "second")) == "second"


# Opening -------------------------------------------------------------------------------------------------


def test_processes_that_open_an_empty_database_at_once_migrate_it_once(empty_postgres_url: str) -> None:
    def work() -> None:
        agent = f"agent{os.getpid()}"
        with closing(PostgresStore(empty_postgres_url, Sources())) as store:
            store.add(Scope(agent), [Maker(agent).event()])

    assert in_children(4, work) == [0] * 4
    with closing(PostgresStore(empty_postgres_url, Sources())) as store:
        assert len(store.agents()) == 4
        assert store.info()["schema"] == REVISION
        assert store.check() == []


def test_threads_that_open_an_empty_database_at_once_migrate_it_once(
    empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrades: list[object] = []

    def counted(conn: object) -> None:
        upgrades.append(conn)
        migrate.upgrade(conn)  # type: ignore[arg-type]

    monkeypatch.setattr("engram.stores.postgres.upgrade", counted)
    stores: list[PostgresStore] = []
    threads = [
        threading.Thread(target=lambda: stores.append(PostgresStore(empty_postgres_url, Sources()))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    assert (len(stores), len(upgrades)) == (4, 1)


def test_a_database_of_the_schema_before_keeps_its_vectors_and_gets_the_new_key(
    empty_postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = tmp_path / "scripts"
    shutil.copytree(
        migrate.SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__", "0003_*", "0004_*", "0005_*")
    )
    entry = Maker("alice").event("deploy")
    with monkeypatch.context() as patch:
        patch.setattr("engram.stores.postgres.REVISION", "0002")
        patch.setattr("engram.stores.postgres.upgrade", partial(migrate.upgrade, scripts=scripts))
        patch.setattr(PostgresTables, "append_audit", lambda *given: None)
        with closing(PostgresStore(empty_postgres_url, Sources())) as old:
            old.add(ALICE, [entry])
    with psycopg.connect(empty_postgres_url) as conn:
        own = [entry.memory.id]
        conn.execute("INSERT INTO memory_index VALUES ('alice', %s, 'long-term', 'fixed@1', 7, 2, '[1,0]')", own)
        conn.execute("INSERT INTO memory_stats VALUES ('alice', %s, 1, 3)", own)
        conn.execute("INSERT INTO tombstones VALUES ('alice', 'gone', 1, 1)")
    with closing(PostgresStore(empty_postgres_url, Sources())) as store:
        assert store.info()["schema"] == REVISION
        assert [match.id for match in store.search(ALICE, Query(near=placed(1, 0)))] == [entry.memory.id]
        vectors = passages((0, 1), (1, 0))
        assert store.place([(ALICE, entry.memory.id, vector) for vector in vectors]) == 2
        assert store.search(ALICE, Query(near=placed(1, 0)))[0].passage == 1
        assert store.check() == []
        assert [row["passages"] for row in store.page("tombstones", None, 9)] == [1]
        assert [(row["helped"], row["hindered"]) for row in store.page("memory_stats", None, 9)] == [(0.0, 0.0)]


def test_a_newer_schema_is_refused_and_left_alone(empty_postgres_url: str) -> None:
    PostgresStore(empty_postgres_url, Sources()).close()
    command(empty_postgres_url, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(NewerSchema, match="schema 9999"):
        PostgresStore(empty_postgres_url, Sources())


def test_a_migration_that_fails_leaves_nothing_behind(empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(conn: object) -> None:
        migrate.upgrade(conn)  # type: ignore[arg-type]
        raise StoreError("the power went")

    with monkeypatch.context() as patch:
        patch.setattr("engram.stores.postgres.upgrade", broken)
        with pytest.raises(StoreError, match="the power went"):
            PostgresStore(empty_postgres_url, Sources())
    with connected(empty_postgres_url, role=None) as cursor:
        assert cursor.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
    exercise(empty_postgres_url)


def test_a_database_without_pgvector_says_what_to_do(login: Callable[..., str]) -> None:
    url = login(extension=False)
    with pytest.raises(StoreError, match="CREATE EXTENSION vector as a superuser") as caught:
        PostgresStore(url, Sources())
    assert SECRET not in str(caught.value)


def test_a_pgvector_that_is_too_old_says_what_to_do(empty_postgres_url: str) -> None:
    command(empty_postgres_url, "CREATE EXTENSION vector")
    command(empty_postgres_url, "UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'")
    with pytest.raises(StoreError, match=r"has pgvector 0\.7\.4; 0\.8 or newer"):
        PostgresStore(empty_postgres_url, Sources())


@pytest.mark.parametrize(
    "odd", ["pool_size=many", "pool_size=-3", "colour=blue", "max_overflow=%20", "connect_timeout=soon"]
)
def test_an_option_that_cannot_be_used_is_refused(postgres_url: str, odd: str) -> None:
    with pytest.raises(InvalidInput, match=odd.partition("=")[0]):
        engram.open(f"{postgres_url}?{odd}")


@pytest.mark.parametrize(
    "url", ["postgresql://", "postgresql://me:hunter2-very-secret@[bad/x", "postgresql://h:port/x"]
)
def test_a_url_that_cannot_be_read_is_refused_without_the_password(url: str) -> None:
    with pytest.raises(EngramError) as caught:
        engram.open(url, busy_seconds=1)
    assert SECRET not in str(caught.value)


def test_the_pool_is_set_in_the_url(postgres_url: str) -> None:
    store = open_store(f"{postgres_url}?pool_size=3&max_overflow=2", ExactVectors(), Sources(), {"busy_seconds": 5.0})
    with closing(store):
        assert store._tables.engine.pool.size() == 3  # type: ignore[attr-defined]
        assert store.agents() == []


def test_the_options_of_the_url_are_kept(postgres_url: str) -> None:
    url = f"{postgres_url}?options=-c%20work_mem%3D7MB&application_name=mine"
    with closing(PostgresStore(url, Sources())) as store, store._tables.engine.connect() as conn:
        shown = [conn.exec_driver_sql(f"SHOW {name}").scalar() for name in ("work_mem", "application_name")]
        assert shown == ["7MB", "mine"]
        assert conn.exec_driver_sql("SHOW statement_timeout").scalar() == "30s"


# Through the engine and the command ----------------------------------------------------------------------


def test_the_engine_works_on_a_server(postgres_url: str) -> None:
    with engram.open(postgres_url, embedder="hashing") as brain:
        alice = brain.agent("alice")
        note = alice.remember("The staging cluster runs PostgreSQL 15", tags=["ops"])
        for outcome in ("failure", "success", "success"):
            alice.record_decision(context="release", action="deploy on Friday", outcome=outcome)
        (hit, *_) = alice.recall("which PostgreSQL does staging run?")
        assert (hit.id, hit.why["found_by"]) == (note.id, "both")
        assert alice.suggest(context="release").actions[0].attempts == 3
        assert alice.forget(note.id or "").forgotten
        assert alice.recall("staging cluster", tags="ops") == []
        assert brain.upkeep.database.rebuild()["words"] == 3
        with pytest.raises(Unsupported, match="pg_dump"):
            brain.upkeep.database.backup(None)  # type: ignore[arg-type]
    with engram.open(postgres_url, embedder="hashing") as brain:
        assert brain.agents() == ["alice"]
        assert len(brain.agent("alice").list()) == 3
        assert brain.upkeep.database.info()["memory_index"] == 6  # each also by its context


def run(*arguments: str) -> tuple[int, str]:
    """Run the command; its exit code and everything it printed."""
    done = subprocess.run([sys.executable, "-m", "engram", *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def secret_url(postgres_url: str, login: Callable[..., str], postgres_admin: str) -> str:
    name = role_of(login())
    command(postgres_admin, "GRANT engram_app TO {}", name)
    return as_user(postgres_url, name)


@pytest.mark.slow
def test_the_command_works_on_a_server_and_never_prints_the_password(secret_url: str) -> None:
    said = {}
    for name, arguments in {
        "add": ["memory", "add", "The staging cluster runs PostgreSQL 15"],
        "search": ["memory", "search", "staging"],
        "info": ["--json", "db", "info"],
        "check": ["db", "check"],
        "doctor": ["doctor"],
    }.items():
        code, said[name] = run("--db", secret_url, *arguments)
        assert code == 0, said[name]
        assert SECRET not in said[name]
    assert "PostgreSQL 15" in said["search"]
    assert json.loads(said["info"])["role"] == "engram_app"
    assert "No problems" in said["check"]
    assert "1 memory" in said["doctor"]


@pytest.mark.slow
def test_the_command_never_prints_the_password_of_a_server_that_is_away() -> None:
    code, told = run("--db", f"postgresql://me:{SECRET}@127.0.0.1:1/x", "doctor")
    assert code == 1
    assert "127.0.0.1:1/x does not answer" in told
    assert SECRET not in told


def test_a_password_among_the_options_is_not_shown_either() -> None:
    with pytest.raises(StoreAway, match=r"127\.0\.0\.1:1/x does not answer") as caught:
        engram.open(f"postgresql://me@127.0.0.1:1/x?password={SECRET}")
    assert SECRET not in str(caught.value)
