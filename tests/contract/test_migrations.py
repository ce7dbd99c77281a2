from __future__ import annotations

import gzip
import json
import os
import random
import runpy
import shutil
import signal
import sqlite3
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from engram.clock import Sources
from engram.errors import StoreError
from engram.learning.events import episodes, topic
from engram.model import Memory
from engram.ports import Event, Query, Scope
from engram.stores import migrate, sqlite
from engram.stores.schema import APPLICATION_ID, CANONICAL, DERIVED, REVISION, metadata
from engram.stores.sqlite import SqliteStore
from engram.stores.vectors.exact import ExactVectors
from engram.testing import FixedSources, Maker
from engram.testing.factories import START
from support.template_schema import upgrade_from_template

GOLDEN = Path(__file__).parents[1] / "golden"
ALICE = Scope("alice")
NOT_IN_METADATA = {"counter", "alembic_version"}

Open = Callable[[Path], SqliteStore]

pytestmark = pytest.mark.usefixtures("real_migrations")


@pytest.fixture
def open_at() -> Iterator[Open]:
    with ExitStack() as opened:

        def open_one(path: Path) -> SqliteStore:
            return opened.enter_context(closing(SqliteStore(path, ExactVectors(), Sources(), durable=False)))

        yield open_one


def test_the_template_of_the_other_tests_is_what_the_migrations_make(open_at: Open, tmp_path: Path) -> None:
    contents = []
    for name, upgrade in [("migrated", migrate.upgrade), ("template", upgrade_from_template)]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(migrate, "upgrade", upgrade)
            open_at(tmp_path / name)
        with closing(sqlite3.connect(tmp_path / name)) as conn:
            schema = conn.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()
            tables = [name for kind, name, _, _ in schema if kind == "table" and name != "counter"]
            rows = {table: conn.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
            (counter,) = conn.execute("SELECT length(epoch), seq FROM counter")
        contents.append((schema, rows, counter))
    assert contents[0] == contents[1]


def in_children(count: int, work: Callable[[], object]) -> list[int]:
    """Run `work` in so many processes at once; their exit codes, 0 for done."""
    children = []
    for _ in range(count):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # this process may have threads; none has our locks
            child = os.fork()
        if child == 0:
            try:
                work()
                os._exit(0)
            except BaseException:  # noqa: BLE001 - the parent sees the exit code, a person the trace
                traceback.print_exc()
            finally:
                os._exit(1)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


# The schema ----------------------------------------------------------------------------------------------


def test_the_migrated_database_has_the_tables_that_the_code_describes(tmp_path: Path, open_at: Open) -> None:
    open_at(tmp_path / "engram.db").close()
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'engram.db'}")
    with engine.connect() as conn:
        context = MigrationContext.configure(conn, opts={"include_name": described, "compare_type": True})
        differences = compare_metadata(context, metadata)
    engine.dispose()
    assert differences == []


def described(name: str | None, kind: str, parents: object) -> bool:
    return kind != "table" or not (name in NOT_IN_METADATA or str(name).startswith("memory_words"))


def test_every_table_is_either_canonical_or_derived() -> None:
    assert sorted(CANONICAL + DERIVED) == sorted([*metadata.tables, "memory_words"])


def test_the_code_knows_the_newest_migration_and_they_form_one_line() -> None:
    scripts = ScriptDirectory(str(migrate.SCRIPTS))
    assert scripts.get_heads() == [REVISION]
    revisions = [script.revision for script in scripts.walk_revisions()]
    assert revisions == sorted(revisions, reverse=True), "a newer schema is told by its name"


# Opening at the same time, and being killed --------------------------------------------------------------


def test_processes_that_open_a_new_file_at_once_all_succeed(tmp_path: Path, open_at: Open) -> None:
    for round_ in range(8):
        path = tmp_path / f"{round_}.db"

        def work(path: Path = path) -> None:
            with closing(SqliteStore(path, ExactVectors(), Sources(), durable=False)) as store:
                store.add(ALICE, [Maker("alice", FixedSources(START + timedelta(seconds=os.getpid()))).event("x")])

        assert in_children(4, work) == [0] * 4
        store = open_at(path)
        assert len(store.search(ALICE, Query())) == 4
        assert store.check() == []


@pytest.mark.slow
def test_a_creation_that_is_killed_never_leaves_a_file_that_cannot_be_opened(tmp_path: Path, open_at: Open) -> None:
    chance = random.Random(7)
    for round_ in range(1000 if "ENGRAM_LONG" in os.environ else 20):
        path = tmp_path / f"{round_}.db"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                SqliteStore(path, ExactVectors(), Sources())
            finally:
                os._exit(0)
        time.sleep(chance.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        store = open_at(path)
        store.add(ALICE, [Maker("alice").event("after the crash")])
        assert store.check() == []
        store.close()
        with closing(sqlite3.connect(path)) as conn:
            assert conn.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert conn.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


def test_a_mark_that_a_crash_took_back_is_set_again(tmp_path: Path, open_at: Open) -> None:
    """A creation killed between writing the file and dropping its journal is undone by whoever opens it next."""
    path = tmp_path / "engram.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    numbers = (0, 1, 0, 512, 4096)  # no saved pages, a nonce, the file was empty, sector size, page size
    header = bytes.fromhex("d9d505f920a163d7") + b"".join(number.to_bytes(4, "big") for number in numbers)
    path.with_name(path.name + "-journal").write_bytes(header.ljust(512, b"\x00"))
    open_at(path).close()
    assert int.from_bytes(path.read_bytes()[68:72], "big") == APPLICATION_ID
    assert open_at(path).check() == []
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA journal_mode").fetchone() == ("wal",)


# Upgrading -----------------------------------------------------------------------------------------------

NEWER = f"{int(REVISION) + 1:04d}"
NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "{next}"
down_revision = "{present}"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("notes", sa.Column("id", sa.Text, primary_key=True))
    op.execute("INSERT INTO notes SELECT id FROM memories")
    op.add_column("agents", sa.Column("note", sa.Text))
    {rest}
"""

Release = Callable[[str], None]


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    """Makes the code of today one schema newer, by a migration that ends with the given statement."""

    def new_schema(rest: str = "pass") -> None:
        scripts = tmp_path / "scripts"
        shutil.copytree(migrate.SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
        text = NEXT.replace("{next}", NEWER).replace("{present}", REVISION).replace("{rest}", rest)
        (scripts / "versions" / f"{NEWER}_next.py").write_text(text)
        monkeypatch.setattr(migrate, "upgrade", partial(migrate.upgrade, scripts=scripts))
        monkeypatch.setattr(sqlite, "REVISION", NEWER)

    return new_schema


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A database of the first schema, with memories."""
    path = tmp_path / "engram.db"
    path.write_bytes(gzip.decompress((GOLDEN / "0001.db.gz").read_bytes()))
    return path


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as conn:
        return {name for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def version(path: Path) -> str:
    with closing(sqlite3.connect(path)) as conn:
        return str(conn.execute("SELECT version_num FROM alembic_version").fetchone()[0])


def expected(revision: str) -> dict[str, object]:
    """What a database of this schema must give; fields that came later have their defaults."""
    given: dict[str, Any] = json.loads((GOLDEN / f"{revision}.json").read_text(encoding="utf-8"))
    for name, memories in given["memories"].items():
        given["memories"][name] = [Memory.model_validate(memory).model_dump(mode="json") for memory in memories]
    return given


def contents(store: SqliteStore) -> dict[str, object]:
    found: dict[str, object] = runpy.run_path(str(GOLDEN / "make.py"))["contents"](store)
    return found


def test_an_older_database_is_upgraded_when_it_is_opened_and_nothing_is_lost(
    old: Path, open_at: Open, release: Release
) -> None:
    release("pass")
    store = open_at(old)
    assert contents(store) == expected("0001")
    assert store.check() == []
    assert "notes" in tables(old)
    assert version(old) == NEWER


def test_an_upgrade_makes_a_backup_first(old: Path, open_at: Open, release: Release, tmp_path: Path) -> None:
    release("pass")
    open_at(old).add(ALICE, [Maker("alice", FixedSources(START + timedelta(days=9))).event("later")])
    backup = tmp_path / "engram.db.schema-0001.bak"
    assert version(backup) == "0001"
    assert "notes" not in tables(backup)
    (tmp_path / "copy.db").write_bytes(backup.read_bytes())
    assert contents(open_at(tmp_path / "copy.db")) == expected("0001")


def test_a_new_database_needs_no_backup(open_at: Open, tmp_path: Path) -> None:
    open_at(tmp_path / "new.db")
    assert not list(tmp_path.glob("*.bak"))


@pytest.mark.parametrize(
    ("rest", "error"),
    [("raise RuntimeError('no')", RuntimeError), ("op.execute('INSERT INTO nowhere VALUES (1)')", StoreError)],
    ids=["python", "sql"],
)
def test_a_migration_that_fails_is_undone_as_a_whole(
    old: Path, open_at: Open, release: Release, rest: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    release(rest)
    before = tables(old)
    for _ in range(2):
        with pytest.raises(error):
            open_at(old)
        assert tables(old) == before
        assert version(old) == "0001"
    monkeypatch.undo()
    store = open_at(old)
    assert contents(store) == expected("0001")
    assert store.check() == []


def test_processes_that_upgrade_at_once_do_it_once_and_keep_the_backup(
    old: Path, open_at: Open, release: Release, tmp_path: Path
) -> None:
    release("pass")

    def work() -> None:
        SqliteStore(old, ExactVectors(), Sources()).close()

    assert in_children(4, work) == [0] * 4
    assert version(old) == NEWER
    assert version(tmp_path / "engram.db.schema-0001.bak") == "0001"
    assert open_at(old).check() == []


def test_an_upgrade_that_is_killed_is_done_by_the_next_one_who_opens(
    old: Path, open_at: Open, release: Release
) -> None:
    release("pass")
    before, chance = old.read_bytes(), random.Random(7)
    for _ in range(10):
        for suffix in ("-wal", "-shm"):
            old.with_name(old.name + suffix).unlink(missing_ok=True)
        old.write_bytes(before)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                SqliteStore(old, ExactVectors(), Sources())
            finally:
                os._exit(0)
        time.sleep(chance.uniform(0, 0.04))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        store = open_at(old)
        assert version(old) == NEWER
        assert store.check() == []
        store.close()


# What was released ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("golden", sorted(GOLDEN.glob("*.db.gz")), ids=lambda golden: golden.name)
def test_a_database_of_every_released_schema_opens_and_gives_what_was_stored(
    tmp_path: Path, open_at: Open, golden: Path
) -> None:
    path = tmp_path / "engram.db"
    path.write_bytes(gzip.decompress(golden.read_bytes()))
    store = open_at(path)
    assert contents(store) == expected(golden.name.removesuffix(".db.gz"))
    assert store.check() == []
    memories = store.search(ALICE, Query())
    store.rebuild()
    assert store.search(ALICE, Query()) == memories
    assert contents(store) == expected(golden.name.removesuffix(".db.gz"))


def test_decisions_and_failures_of_an_older_database_are_learned_from(tmp_path: Path, open_at: Open) -> None:
    path = tmp_path / "engram.db"
    path.write_bytes(gzip.decompress((GOLDEN / "0003.db.gz").read_bytes()))
    store = open_at(path)
    events = store.events_after(ALICE, 0, 100)
    assert [(event.kind, event.subject == event.id) for event in events] == [
        ("decision", True),
        ("failure", True),
        ("decision", True),
    ]
    (episode,) = episodes(store.events_by_topic(ALICE, topic("deploy"), 9), "alice")
    assert (episode.action, episode.quality, episode.context) == ("roll back", 0.0, "deploy")
    assert store.append(ALICE, [event_like(events[-1])]) == [True]
    assert store.events_after(ALICE, events[-1].seq, 9)[0].id == "later"


def event_like(event: Event) -> Event:
    return replace(event, id="later")


def test_the_present_schema_has_its_golden_database() -> None:
    assert (GOLDEN / f"{REVISION}.db.gz").exists(), "run tests/golden/make.py before the schema is released"
