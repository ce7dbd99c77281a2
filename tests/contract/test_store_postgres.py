"""PostgreSQL keeps every contract that SQLite keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
import psycopg
import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from test_store_machine import LONG, StoreMachine

import engram
from engram.clock import Sources
from engram.errors import Conflict, StoreBusy
from engram.model import Clean, MemoryType
from engram.ports import LONG_TERM, Filter, Match, Placed, Query, Scope
from engram.stores import postgres, rules
from engram.stores.memory import InMemoryStore
from engram.stores.postgres import PostgresStore, PostgresTables, _TermStatistics
from engram.stores.schema import agents
from engram.stores.sql import LATER
from engram.stores.vectors.exact import ExactVectors
from engram.testing import DurableStoreContract, FixedSources, Maker, MemoryStoreContract
from engram.testing.factories import START, passages, placed, unit
from support.postgres_server import beside, command, empty

pytest_plugins = ["support.postgres_server"]


def statistics(store: PostgresStore) -> dict[Scope, _TermStatistics]:
    """Return the word statistics that the store keeps for large scopes."""
    assert isinstance(store._tables, PostgresTables)
    return store._tables.known


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
                vectors = [unit(*values) for values in chance.standard_normal((4 if n % 5 == 0 else 1, DIM))]
                placed = tuple(Placed(LONG_TERM, "random@1", vector, p) for p, vector in enumerate(vectors))
                entries.append(replace(entry, vectors=placed))
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

    sa.event.listen(store._tables.engine, "before_cursor_execute", explain)
    try:
        store.search(SCOPES[0], query)
    finally:
        sa.event.remove(store._tables.engine, "before_cursor_execute", explain)
    return "\n".join(lines)


# A vector database beside it ------------------------------------------------------------------------------


def test_a_vector_database_is_told_of_passages_that_came_and_went(postgres_url: str) -> None:
    outside, alice, make = ExactVectors(), Scope("alice"), Maker("alice")
    with closing(PostgresStore(postgres_url, Sources(), remote=outside)) as store:
        long = replace(make.event("long"), vectors=passages((0, 1, 0), (0, 0, 1), (1, 0, 0)))
        short = replace(make.event("short"), vectors=passages((0, 1, 0)))
        store.add(alice, [long, short])
        query = Query(near=passages((1, 0, 0))[0])
        assert [(match.id, match.passage) for match in store.search(alice, query)][:1] == [(long.memory.id, 2)]
        (rows,) = outside._vector_spaces.values()
        assert len(rows._position) == 4
        store.place([(alice, long.memory.id, vector) for vector in long.vectors[:2]])
        assert [match.score for match in store.search(alice, query)] == pytest.approx([0, 0])
        (rows,) = outside._vector_spaces.values()
        assert len(rows._position) == 3
        store.forget(alice, [long.memory.id])
        assert list(rows._position) == [short.memory.id]


# Partitions ----------------------------------------------------------------------------------------------


def test_on_partitions_of_any_name_a_taken_id_is_a_conflict_and_twins_merge(empty_postgres_url: str) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "scale.md").read_text()
    (partition,) = (part for part in guide.split("```") if part.startswith("sql\nDO"))
    named = partition.removeprefix("sql").replace("'p' || part || '_' || name", "name || '_No ' || part")
    assert named.count("_No ") == 1
    PostgresStore(empty_postgres_url, Sources()).close()
    command(empty_postgres_url, named)
    alice, make = Scope("alice"), Maker("alice")
    with closing(PostgresStore(empty_postgres_url, Sources())) as store:
        event, fact = make.event("note"), make.fact("The sky is blue", key="k")
        store.add(alice, [event, fact])
        with pytest.raises(Conflict, match="a memory with this id exists; nothing was stored"):
            store.add(alice, [make.event("another"), event])
        assert store.add(alice, [make.fact("the sky is blue")])[0].status == "merged"
        assert store.add(alice, [fact])[0].code == "replayed"
        assert [match.id for match in store.search(alice, Query(words=Clean("blue")))] == [fact.memory.id]
        assert len(store.search(alice, Query())) == 2
        assert store.check() == []


# Waiting for the server ----------------------------------------------------------------------------------


def test_one_memory_and_one_recall_wait_for_the_server_only_so_often(postgres_url: str) -> None:
    asked: list[str] = []

    def ask(conn: object, cursor: object, statement: str, given: object, context: Any, many: bool) -> None:
        if "engram_later" not in context.execution_options:
            asked.append(statement)

    with engram.open(postgres_url, embedder="hashing") as brain:
        alice, database = brain.agent("alice"), cast(PostgresStore, brain.store)._tables.engine
        alice.remember("Staging runs PostgreSQL 15")
        assert alice.recall("staging")
        sa.event.listen(database, "before_cursor_execute", ask)
        sa.event.listen(database, "commit", lambda conn: asked.append("COMMIT"))
        alice.remember("Production runs PostgreSQL 16", tags=["ops"])
        assert len(asked) == 4, asked
        assert len(alice.recall("PostgreSQL")) == 2
    assert len(asked) == 4 + 11 + 3, asked  # a recall also looks at the grants; closing writes the access counts


def test_what_was_put_off_is_sent_before_the_commit(postgres_url: str) -> None:
    with closing(PostgresStore(postgres_url, Sources())) as store:
        with store._tables.write(None) as conn:
            conn.execute(agents.insert(), {"agent": "alice", "created_at": 1}, execution_options=LATER)
        assert store.agents() == ["alice"]
        with pytest.raises(StoreBusy, match="the same thing at the same time"), store._tables.write(None) as conn:
            conn.execute(agents.insert(), {"agent": "alice", "created_at": 1}, execution_options=LATER)
        with pytest.raises(ZeroDivisionError), store._tables.write(None) as conn:
            _break(conn.execute(agents.insert(), {"agent": "bob", "created_at": 1}, execution_options=LATER))
        assert store.agents() == ["alice"]


def _break(result: object) -> None:
    raise ZeroDivisionError


def test_an_old_driver_that_cannot_put_off_works_too(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psycopg.Pipeline, "is_supported", lambda: False)
    with engram.open(postgres_url, embedder="hashing") as brain:
        alice = brain.agent("alice")
        note = alice.remember("Staging runs PostgreSQL 15", tags=["ops"])
        assert [hit.id for hit in alice.recall("staging", tags="ops")] == [note.id]
        assert alice.forget(note.id or "").forgotten
        assert brain.agent("bob").recall("staging") == []


# Words of many memories ----------------------------------------------------------------------------------

ZEBRA = Query(words=Clean("deploy the zebra"), limit=10)


@pytest.fixture
def crowd(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[PostgresStore, list[str]]]:
    """A scope that is too large to count everything in it each time: all deploy something, every seventh a zebra."""
    for name, value in {"FEW": 20, "COMMON": 15, "MOST_SCORED": 10}.items():
        monkeypatch.setattr(postgres, name, value)
    monkeypatch.setattr(rules, "MOST_SCORED", 10)
    make = Maker("alice")
    entries = [
        make.event(
            f"deploy number {100 + n}" + (" of the zebra" if n % 7 == 3 else ""), tags=["tenth"] if n % 10 == 0 else []
        )
        for n in range(70)
    ]
    with closing(PostgresStore(postgres_url, Sources(), durable=False)) as store:
        store.add(Scope("alice"), entries)
        yield store, [entry.memory.id for entry in entries]


def found(store: PostgresStore, query: Query) -> list[str]:
    return [match.id for match in store.search(Scope("alice"), query)]


def test_common_words_are_counted_once_and_rare_ones_choose(crowd: tuple[PostgresStore, list[str]]) -> None:
    store, ids = crowd
    first = found(store, ZEBRA)
    zebras = [id for n, id in enumerate(ids) if n % 7 == 3]
    assert sorted(first) == zebras
    known = statistics(store)[Scope("alice")]
    assert (known.rows, known.holders) == (70, {"deploy": 70})
    assert found(store, ZEBRA) == first
    assert found(store, replace(ZEBRA, limit=15)) == [*first, *(ids[n] for n in (69, 68, 67, 65, 64))]
    assert found(store, Query(words=Clean("deploy"), limit=4)) == [ids[n] for n in (69, 68, 67, 65)]  # short ones first
    assert store.term_counts(Scope("alice"), ["deploy", "zebra", "none"]).holders == {
        "deploy": 70,
        "zebra": 10,
        "none": 0,
    }


def test_a_filter_that_lets_few_through_finds_them_all(crowd: tuple[PostgresStore, list[str]]) -> None:
    store, ids = crowd
    tenth = replace(ZEBRA, where=Filter(tags=frozenset({"tenth"})), limit=5)
    wanted = [ids[10], *(ids[n] for n in (60, 50, 40, 30))]
    assert [found(store, tenth) for _ in range(2)] == [wanted, wanted]
    assert found(store, replace(tenth, limit=2, offset=1)) == wanted[1:3]


def test_nothing_is_found_by_words_that_nothing_holds(crowd: tuple[PostgresStore, list[str]]) -> None:
    store, _ = crowd
    assert [found(store, Query(words=Clean("giraffe"))) for _ in range(2)] == [[], []]
    assert store.search(Scope("bob"), ZEBRA) == []


def test_after_many_writes_words_are_counted_anew(crowd: tuple[PostgresStore, list[str]]) -> None:
    store, _ = crowd
    found(store, ZEBRA)
    make = Maker("alice", FixedSources(START + timedelta(days=1)))
    store.add(Scope("alice"), [make.event(f"another zebra {n}") for n in range(10)])
    found(store, ZEBRA)
    assert statistics(store)[Scope("alice")].rows == 80
    assert statistics(store)[Scope("alice")].holders == {"deploy": 70, "zebra": 20}


def test_only_so_many_scopes_are_known(crowd: tuple[PostgresStore, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = crowd
    monkeypatch.setattr(postgres, "MOST_SCOPES", 1)
    for make in (Maker("bob"), Maker("carol")):
        store.add(Scope(make.agent), [make.event(f"deploy {n}") for n in range(30)])
        store.search(Scope(make.agent), ZEBRA)
    assert list(statistics(store)) == [Scope("carol")]


# One moment ----------------------------------------------------------------------------------------------


def test_within_a_snapshot_all_is_of_one_moment(postgres_url: str) -> None:
    alice, make = Scope("alice"), Maker("alice")
    one, two = (PostgresStore(postgres_url, Sources()) for _ in range(2))
    with closing(one) as store, closing(two):
        two.add(alice, [make.event("deploy one")])
        with store.snapshot(alice):
            assert len(store.search(alice, ZEBRA)) == 1
            two.add(alice, [make.event("deploy two")])
            assert len(store.search(alice, ZEBRA)) == len(store.search(alice, Query())) == 1
            assert store.term_counts(alice, ["deploy"]).rows == 1
            assert len(store.search(Scope("bob"), ZEBRA)) == 0
        assert len(store.search(alice, ZEBRA)) == 2
        assert store.term_counts(alice, ["deploy"]).rows == 2


def test_an_exact_search_leaves_the_indexes_to_what_follows(postgres_url: str) -> None:
    alice, make = Scope("alice"), Maker("alice")
    entry = replace(make.event("deploy one"), vectors=(placed(1, 0, 0),))
    with closing(PostgresStore(postgres_url, Sources())) as store:
        store.add(alice, [entry])
        with store.snapshot(alice):
            assert store.search(alice, Query(near=placed(1, 0, 0)))
            assert store._tables.look(alice, lambda conn: conn.scalar(sa.text("SHOW enable_indexscan"))) == "on"
