"""Moving between databases loses nothing, and can be stopped and gone on with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from psycopg import sql

import engram
from engram.errors import Conflict, Unsupported
from engram.ids import Sources
from engram.ports import Copies
from engram.stores.postgres import PostgresStore
from engram.stores.sqlite import SqliteStore
from engram.upkeep import copy, maintained
from engram.vectors.exact import ExactVectors

pytest_plugins = ["postgres_server"]

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


def tallies(store: Copies) -> dict[str, object]:
    return {table: store.tally(table) for table in store.tables()}


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
        assert maintained(brain).check() == []


def test_only_databases_can_be_copied(sqlite: Callable[[str], SqliteStore]) -> None:
    with engram.open(":memory:") as brain, pytest.raises(Unsupported, match="SQLite and PostgreSQL"):
        copy(brain.store, sqlite("copy.db"), "memory")
