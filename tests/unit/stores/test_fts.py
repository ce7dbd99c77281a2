"""Shortcuts of the index of words: whatever is left out, nothing that there is gets lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engram.clock import Sources
from engram.model import Clean
from engram.ports import Filter, Query, Scope
from engram.stores import fts, rules
from engram.stores.fts import counter_of
from engram.stores.memory import InMemoryStore
from engram.stores.rows import scope_term
from engram.stores.sqlite import SqliteStore
from engram.stores.vectors.exact import ExactVectors
from engram.testing import Maker
from engram.testing.factories import FixedSources
from engram.text.terms import index_terms

AGENTS = tuple(f"agent{n}" for n in range(12))
QUERY = Query(words=Clean("deploy the zebra"), limit=10)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a handful of rows is too many to be scored."""
    monkeypatch.setattr(rules, "MOST_SCORED", 5)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "engram.db", ExactVectors(), Sources(), durable=False)
    yield store
    store.close()


def fill(store: SqliteStore | InMemoryStore, sizes: dict[str, int]) -> dict[str, list[str]]:
    """So many memories of each agent that deploy something; every seventh a zebra, every fifth with a tag."""
    sources, ids = FixedSources(), dict[str, list[str]]()
    for agent, size in sizes.items():
        make = Maker(agent, sources)
        entries = [
            make.event(
                f"deploy number {n}" + (" of the zebra" if n % 7 == 3 else ""),
                tags=["fifth"] if n % 5 == 0 else [],
                session=f"s{n % 3}",
            )
            for n in range(size)
        ]
        store.add(Scope(agent), entries)
        ids[agent] = [entry.memory.id for entry in entries]
    return ids


def found(store: SqliteStore | InMemoryStore, agent: str, query: Query) -> list[str]:
    return [match.id for match in store.search(Scope(agent), query)]


SIZES = {
    "alone": {"agent0": 60},
    "majority": {"agent0": 100, "agent1": 20, "agent2": 20},
    "even": dict.fromkeys(AGENTS, 30),
    "small among many": {**dict.fromkeys(AGENTS[1:], 60), "agent0": 9},
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize("limit", [1, 4, 10, 200])
def test_results_never_starve_and_rare_words_win(store: SqliteStore, sizes: dict[str, int], limit: int) -> None:
    ids = fill(store, sizes)
    for agent in list(sizes)[:3]:
        matches = store.search(Scope(agent), replace(QUERY, limit=limit))
        zebras = {id for n, id in enumerate(ids[agent]) if n % 7 == 3}
        got = [match.id for match in matches]
        assert len(got) == len(set(got)) == min(limit, len(ids[agent]))
        assert set(got) <= set(ids[agent])
        assert set(got[: len(zebras)]) <= zebras
        assert len(zebras & set(got)) == min(limit, len(zebras))
        assert [match.score for match in matches] == sorted((match.score for match in matches), reverse=True)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize(
    "where", [Filter(tags=frozenset({"fifth"})), Filter(session="s1"), Filter(session="s1", tags=frozenset({"fifth"}))]
)
@pytest.mark.parametrize("limit", [1, 3, 200])
def test_filters_hold_and_let_everything_through_that_passes(
    store: SqliteStore, sizes: dict[str, int], where: Filter, limit: int
) -> None:
    specification = InMemoryStore(ExactVectors())
    fill(store, sizes)
    fill(specification, sizes)
    for agent in list(sizes)[:3]:
        every = set(found(specification, agent, replace(QUERY, where=where, limit=500)))
        got = found(store, agent, replace(QUERY, where=where, limit=limit))
        assert len(got) == min(limit, len(every))
        assert set(got) <= every


def test_those_searched_among_are_found_however_common_their_words_are(store: SqliteStore) -> None:
    ids = fill(store, {"agent0": 80, "agent1": 80})["agent0"]
    some = frozenset({ids[0], ids[1], ids[3]})
    assert set(found(store, "agent0", replace(QUERY, among=some, limit=3))) == some
    assert found(store, "agent0", replace(QUERY, among=some, limit=1)) == [ids[3]]


@pytest.mark.parametrize("share", [0.0, 2.0], ids=["as a majority", "as a minority"])
@pytest.mark.parametrize("most", [5, 2_500])
@pytest.mark.parametrize("limit", [3, 10, 200])
def test_both_paths_find_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, most: int, limit: int
) -> None:
    specification = InMemoryStore(ExactVectors())
    monkeypatch.setattr(fts, "MAJORITY", share)
    monkeypatch.setattr(rules, "MOST_SCORED", most)
    store = SqliteStore(tmp_path / "engram.db", ExactVectors(), Sources(), durable=False)
    sizes = {"agent0": 50, "agent1": 45, "agent2": 5}
    fill(store, sizes)
    fill(specification, sizes)
    for agent in sizes:
        for words in ("zebra", "deploy", "deploy zebra", "number", "nobody says this"):
            query = Query(words=Clean(words), limit=limit)
            expected = found(specification, agent, replace(query, limit=500))
            got = found(store, agent, query)
            assert len(got) == min(limit, len(expected))
            assert set(got) <= set(expected)
            if "zebra" in words:
                zebras = set(found(specification, agent, Query(words=Clean("zebra"), limit=500)))
                assert len(zebras & set(got)) == min(limit, len(zebras))
    store.close()


def test_a_word_that_is_common_elsewhere_is_found_here(store: SqliteStore) -> None:
    make, others = Maker("agent0"), Maker("agent1")
    store.add(Scope("agent1"), [others.event(f"lunch number {n}") for n in range(90)])
    pasta = [make.event(f"the pasta of day {n}") for n in range(9)]
    lunch = make.event("lunch")
    store.add(Scope("agent0"), [*pasta, lunch])
    assert found(store, "agent0", Query(words=Clean("lunch"), limit=5)) == [lunch.memory.id]
    assert len(found(store, "agent0", Query(words=Clean("lunch pasta"), limit=10))) == 10


def test_what_is_written_after_the_sizes_were_counted_is_found_and_what_is_forgotten_is_not(store: SqliteStore) -> None:
    ids = fill(store, {"agent0": 30, "agent1": 100})
    assert len(found(store, "agent0", replace(QUERY, limit=200))) == 30
    make = Maker("agent2", FixedSources())
    new = make.event("deploy the zebra")
    assert found(store, "agent2", QUERY) == []
    store.add(Scope("agent2"), [new])  # fewer than a tenth: sizes are not counted anew
    assert found(store, "agent2", QUERY) == [new.memory.id]
    store.forget(Scope("agent0"), ids["agent0"][1:])
    assert found(store, "agent0", QUERY) == ids["agent0"][:1]


def test_a_growing_scope_is_counted_anew(store: SqliteStore) -> None:
    term = index_terms("zebra")[0]
    assert store.term_counts(Scope("agent0"), [term]).rows == 0
    make = Maker("agent0")
    for size in (5, 50, 500):
        before = store.term_counts(Scope("agent0"), [term]).rows
        store.add(Scope("agent0"), [make.event("zebra") for _ in range(size)])
        spread = store.term_counts(Scope("agent0"), [term])
        assert spread.rows == spread.holders[term] == before + size


def test_terms_are_counted_in_the_order_they_are_asked_for() -> None:
    count = counter_of(["b", "a", "z"])
    assert count("a b a c") == (4, [1, 2, 0])
    assert count("") == (0, [0, 0, 0])


def test_no_text_has_the_term_of_a_scope() -> None:
    terms = {scope_term(agent) for agent in ("a", "A", "ab", "a b", "'", '"', "")}
    assert len(terms) == 7
    assert all(term.isalnum() for term in terms)
    assert not {scope_term("zebra")} & set(index_terms(" zebra s" + "0" * 32))
