"""The graph of facts: what is near, how to get there, and what belongs together."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.memories.facts.graph import Graph, build_graph, edges, find_mentions, neighbours, paths, related, subgraph
from engram.memories.facts.names import concept_key, is_value
from engram.model import Clean
from engram.model.fact import Fact

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEAM = [
    ("Alice", "works on", "Billing"),
    ("Billing", "uses", "PostgreSQL"),
    ("the billing", "depends on", "Ledger"),
    ("Ledger", "uses", "PostgreSQL"),
    ("Bob", "works on", "Ledger"),
    ("Billing", "port", "8080"),
    ("Wiki", "port", "8080"),
    ("Zoe", "likes", "tea"),
]


def fact(n: int, subject: str, predicate: str, object: str, *, negated: bool = False) -> Fact:
    return Fact(
        id=f"f{n}",
        subject=Clean(subject),
        predicate=Clean(predicate),
        object=Clean(object),
        negated=negated,
        text=Clean(f"{subject} {predicate} {object}"),
        valid_from=NOW,
        recorded_at=NOW,
    )


def joined(triples: list[tuple[str, str, str]]) -> Graph:
    return build_graph(fact(n, *triple) for n, triple in enumerate(triples))


def test_names_that_mean_the_same_are_one_concept() -> None:
    assert len({concept_key(name) for name in ("The Servers", "server", "a  server", '"Server"')}) == 1
    assert concept_key("Redis") == "redis"
    assert concept_key("libraries") == "library"
    assert concept_key("glass") == "glass"
    assert concept_key("Postgres 15") != concept_key("Postgres 16")
    assert concept_key("the") == "the"


@given(st.text(min_size=1).filter(str.strip))
def test_a_key_is_never_empty_and_a_fixed_point_for_case(name: str) -> None:
    assert concept_key(name)


def test_neighbours_go_both_ways_or_one() -> None:
    team = joined(TEAM)
    assert neighbours(team, "billing") == ["Alice", "PostgreSQL", "Ledger", "8080"]
    assert neighbours(team, "billing", direction="in") == ["Alice"]
    assert neighbours(team, "Billing", "uses") == ["PostgreSQL"]
    assert neighbours(team, "nobody") == []


def test_paths_are_the_shortest_first_and_never_pass_a_value() -> None:
    team = joined(TEAM)
    found = paths(team, "Alice", "Ledger")
    assert [path.names for path in found] == [
        ("Alice", "Billing", "Ledger"),
        ("Alice", "Billing", "PostgreSQL", "Ledger"),
    ]
    assert [edge.predicate for edge in found[0].edges] == ["works on", "depends on"]
    assert paths(team, "Alice", "Wiki") == []
    assert [path.names for path in paths(team, "Alice", "8080")] == [("Alice", "Billing", "8080")]
    assert paths(team, "Alice", "Zoe") == paths(team, "Alice", "Alice") == paths(team, "Alice", "nobody") == []
    assert paths(team, "Alice", "Ledger", longest=1) == []
    assert len(paths(team, "Alice", "Ledger", most=1)) == 1


def test_paths_through_a_dense_graph_are_bounded() -> None:
    names = [f"n{i}" for i in range(40)]
    dense = joined([(a, "knows", b) for a in names for b in names if a < b])
    assert [len(path.edges) for path in paths(dense, "n0", "n39", most=5, longest=8)] == [1, 2, 2, 2, 2]


def test_a_subgraph_has_the_edges_between_what_is_near() -> None:
    team = joined(TEAM)
    assert [(edge.subject, edge.object) for edge in subgraph(team, "Alice")] == [("Alice", "Billing")]
    assert ("Billing", "PostgreSQL") in [(edge.subject, edge.object) for edge in subgraph(team, "Alice", 2)]
    assert {edge.subject for edge in subgraph(team, ["Zoe", "Bob"], 1)} == {"Zoe", "Bob"}
    assert "Wiki" not in {edge.subject for edge in subgraph(team, "Alice", 9)}
    assert subgraph(team, "nobody", 3) == []


def test_related_concepts_are_the_nearest_ones() -> None:
    team = joined(TEAM)
    near = dict(related(team, ["Alice"], 10))
    assert next(iter(near)) == "Billing"
    assert near["PostgreSQL"] > near["Bob"]
    assert not {"Alice", "Zoe", "tea", "8080", "Wiki"} & near.keys()
    assert related(team, ["nobody"]) == related(joined([]), ["Alice"]) == []


def test_denials_join_nothing() -> None:
    assert edges(build_graph([fact(1, "Alice", "uses", "Java", negated=True)])) == []


def test_edges_name_their_facts_and_write_a_concept_one_way() -> None:
    found = edges(joined(TEAM))
    assert [edge.fact for edge in found] == [f"f{n}" for n in range(len(TEAM))]
    assert {edge.subject for edge in found if concept_key(edge.subject) == "billing"} == {"Billing"}


def test_a_text_names_concepts_the_longest_first() -> None:
    known = joined([("New York", "is in", "America"), ("York", "is in", "England"), ("x", "uses", "15")])
    assert find_mentions(known, "Is New York's mayor from York, or 15?") == ["New York", "York"]
    assert find_mentions(known, "") == []


@pytest.mark.parametrize(("name", "value"), [("8080", True), ("2026-01-01", True), ("true", True), ("db-01", False)])
def test_mere_values_are_told_from_things(name: str, value: bool) -> None:
    assert is_value(name) is value


TRIPLES = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.just("uses"), st.sampled_from("abcdefgh")), max_size=20)


@given(TRIPLES)
def test_related_weights_are_shares_and_the_same_each_time(triples: list[tuple[str, str, str]]) -> None:
    team = joined(triples)
    found = related(team, ["a"], 100)
    assert sum(weight for _, weight in found) <= 1 + 1e-9
    assert [weight for _, weight in found] == sorted((weight for _, weight in found), reverse=True)
    assert found == related(joined(triples), ["a"], 100)


@given(TRIPLES)
def test_every_path_is_simple_and_made_of_edges(triples: list[tuple[str, str, str]]) -> None:
    team = joined(triples)
    known = {(edge.subject, edge.object) for edge in edges(team)}
    found = paths(team, "a", "b", most=50, longest=5)
    for path in found:
        assert len(set(path.names)) == len(path.names)
        for (one, other), edge in zip(zip(path.names, path.names[1:], strict=False), path.edges, strict=True):
            assert {one, other} == {edge.subject, edge.object}
            assert (edge.subject, edge.object) in known
    assert [len(path.edges) for path in found] == sorted(len(path.edges) for path in found)
