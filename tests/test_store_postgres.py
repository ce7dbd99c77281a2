"""PostgreSQL keeps every contract that SQLite keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from engram.ids import Sources
from engram.model import MemoryType
from engram.ports import LONG_TERM, Filter, Match, Placed, Query, Scope
from engram.stores import postgres
from engram.stores.memory import InMemoryStore
from engram.stores.postgres import PostgresStore
from engram.testing import DurableStoreContract, Maker, MemoryStoreContract
from engram.testing.making import START, unit
from engram.vectors.exact import ExactVectors
from postgres_server import beside, command, empty
from test_store_machine import LONG, StoreMachine

pytest_plugins = ["postgres_server"]


class TestPostgres(MemoryStoreContract):
    backend = "PostgreSQL 18 + pgvector"
    verified = "a real server from a package"

    @pytest.fixture
    def store(self, postgres_url: str) -> Iterator[PostgresStore]:
        store = PostgresStore(postgres_url, Sources())
        yield store
        store.close()


class TestPostgresReopened(DurableStoreContract):
    backend = "PostgreSQL 18 + pgvector"
    verified = "a real server from a package"

    @pytest.fixture
    def open_store(self, postgres_url: str) -> Iterator[Callable[[], PostgresStore]]:
        opened: list[PostgresStore] = []

        def open_again() -> PostgresStore:
            opened.append(PostgresStore(postgres_url, Sources()))
            return opened[-1]

        yield open_again
        for store in opened:
            store.close()


class PostgresMachine(StoreMachine):
    """One store in memory, and two on one PostgreSQL, as two processes would have it open."""

    url = ""

    def __init__(self) -> None:
        empty(self.url)
        super().__init__()

    def open(self) -> PostgresStore:
        return PostgresStore(self.url, Sources(), durable=False)


@pytest.mark.slow
def test_postgres_does_what_the_store_in_memory_does(postgres_url: str) -> None:
    examples, steps = (200, 100) if LONG else (15, 40)
    machine = type("Machine", (PostgresMachine,), {"url": postgres_url})
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=steps))


# Filters under the index ---------------------------------------------------------------------------------

DIM = 16
SCOPES = [Scope("alice"), Scope("bob"), Scope("carol")]
FILTERS = {
    "a rare tag": Filter(tags=frozenset({"rare"})),
    "a tag that nothing has": Filter(tags=frozenset({"none"})),
    "a short time": Filter(since=START + timedelta(days=3), until=START + timedelta(days=3, hours=1)),
    "a rare kind": Filter(kinds=frozenset({MemoryType.PROCEDURE})),
    "two at once": Filter(tags=frozenset({"rare"}), kinds=frozenset({MemoryType.OBSERVATION})),
}


@pytest.fixture(scope="module")
def many_vectors(postgres_admin: str) -> Iterator[tuple[PostgresStore, InMemoryStore]]:
    """The same few thousand vectors of three agents, in both stores."""
    name = "engram_many_vectors"
    command(postgres_admin, "CREATE DATABASE {}", name)
    chance, spec = np.random.default_rng(7), InMemoryStore(ExactVectors())
    with closing(PostgresStore(beside(postgres_admin, name), Sources(), durable=False)) as store:
        for scope, count in zip(SCOPES, (2000, 600, 20), strict=True):
            make, entries = Maker(scope.agent), []
            for n in range(count):
                entry = make.event(
                    f"note {n}",
                    kind=MemoryType.PROCEDURE if n % 401 == 7 else MemoryType.OBSERVATION,
                    tags=["rare"] if n % 97 == 5 else ["common"],
                    at=START + timedelta(minutes=7 * n),
                )
                vector = unit(*chance.standard_normal(DIM))
                entries.append(replace(entry, vectors=(Placed(LONG_TERM, "random@1", vector),)))
            store.add(scope, entries)
            spec.add(scope, entries)
        with psycopg.connect(beside(postgres_admin, name), autocommit=True) as admin:
            admin.execute("ANALYZE")
        yield store, spec
    command(postgres_admin, "DROP DATABASE {} WITH (FORCE)", name)


def near(seed: int, where: Filter | None = None, limit: int = 10) -> Query:
    place = Placed(LONG_TERM, "random@1", unit(*np.random.default_rng(seed).standard_normal(DIM)))
    return Query(near=place, where=where or Filter(), limit=limit)


@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.agent)
@pytest.mark.parametrize("where", FILTERS.values(), ids=FILTERS.keys())
def test_a_filtered_search_under_the_index_finds_all_that_an_exact_one_finds(
    many_vectors: tuple[PostgresStore, InMemoryStore],
    monkeypatch: pytest.MonkeyPatch,
    scope: Scope,
    where: Filter,
) -> None:
    monkeypatch.setattr(postgres, "EXACT_BELOW", 50)
    store, spec = many_vectors
    for seed in range(5):
        for limit in (5, 50):
            query = near(seed, where, limit)
            assert same(store.search(scope, query)) == same(spec.search(scope, query))


@pytest.mark.parametrize("where", FILTERS.values(), ids=FILTERS.keys())
def test_what_the_index_gives_up_on_is_found_all_the_same(
    many_vectors: tuple[PostgresStore, InMemoryStore], monkeypatch: pytest.MonkeyPatch, where: Filter
) -> None:
    monkeypatch.setattr(postgres, "EXACT_BELOW", 50)
    store, spec = many_vectors
    # Without sorting, the planner cannot get by without the index of vectors, however rare the filter.
    impatient = store.url.update_query_dict({"options": "-c hnsw.max_scan_tuples=100 -c enable_sort=off"})
    with closing(PostgresStore(impatient.render_as_string(hide_password=False), Sources())) as store:
        for seed in range(5):
            query = near(seed, where, 50)
            assert same(store.search(SCOPES[0], query)) == same(spec.search(SCOPES[0], query))


def same(matches: list[Match]) -> list[tuple[str, float]]:
    return [(match.id, round(match.score, 4)) for match in matches]


def test_a_search_under_the_index_is_nearly_as_good_as_an_exact_one(
    many_vectors: tuple[PostgresStore, InMemoryStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "EXACT_BELOW", 50)
    store, spec = many_vectors
    found, wanted = 0, 0
    for seed in range(40):
        scope = SCOPES[seed % 2]
        matches, best = store.search(scope, near(seed)), spec.search(scope, near(seed))
        assert len(matches) == len(best) == 10
        assert [match.score for match in matches] == sorted((match.score for match in matches), reverse=True)
        found, wanted = found + len(set(same(matches)) & set(same(best))), wanted + 10
    assert found >= 0.95 * wanted


def test_more_than_the_index_reaches_is_found_exactly(
    many_vectors: tuple[PostgresStore, InMemoryStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "EXACT_BELOW", 50)
    store, spec = many_vectors
    query = near(1, limit=1990)
    assert len(store.search(SCOPES[0], query)) == 1990
    rest = replace(query, limit=100, offset=1950)
    assert len(store.search(SCOPES[0], rest)) == len(spec.search(SCOPES[0], rest)) == 50


def test_the_index_is_used_for_many_vectors_and_not_for_few(
    many_vectors: tuple[PostgresStore, InMemoryStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = many_vectors
    assert "hnsw" not in plan(store, near(1)).lower()
    monkeypatch.setattr(postgres, "EXACT_BELOW", 50)
    assert "Index Scan using near_" in plan(store, near(1))


def plan(store: PostgresStore, query: Query) -> str:
    """How the server goes about a search."""
    lines: list[str] = []

    def explain(conn: sa.Connection, cursor: object, statement: str, given: Any, *rest: object) -> None:
        if "<=>" in statement and not statement.startswith("EXPLAIN"):
            lines.extend(row[0] for row in conn.exec_driver_sql(f"EXPLAIN {statement}", given))

    sa.event.listen(store._engine, "before_cursor_execute", explain)
    try:
        store.search(SCOPES[0], query)
    finally:
        sa.event.remove(store._engine, "before_cursor_execute", explain)
    return "\n".join(lines)
