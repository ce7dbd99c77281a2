from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import InvalidInput
from engram.ports import Match
from engram.stores.rules import nearest, owner, stacked, vector_key
from engram.testing.factories import unit

ids = st.text(st.sampled_from("ab#01 "), min_size=1, max_size=6)
numbers = st.integers(0, 70)


@given(ids, numbers)
def test_the_name_of_a_vector_tells_its_memory_and_passage(id: str, passage: int) -> None:
    assert owner(vector_key(id, passage)) == (id, passage)


@given(ids, numbers, ids, numbers)
def test_no_two_vectors_have_the_same_name(one: str, first: int, two: str, second: int) -> None:
    assert (vector_key(one, first) == vector_key(two, second)) == ((one, first) == (two, second))


def test_the_first_passage_has_the_name_of_its_memory() -> None:
    id = "01jq3m8e4v6x7y8z9a0b1c2d3e"
    assert [vector_key(id, passage) for passage in range(3)] == [id, f"{id}#1", f"{id}#2"]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), numbers), unique=True), st.integers(0, 8), st.integers(1, 3))
def test_the_nearest_memories_are_those_with_the_nearest_passages(
    keys: list[tuple[str, int]], wanted: int, factor: int
) -> None:
    ranked = [Match(vector_key(id, passage), 1 / (1 + n)) for n, (id, passage) in enumerate(keys)]
    best: dict[str, Match] = {}
    for n, (id, passage) in enumerate(keys):
        best.setdefault(id, Match(id, 1 / (1 + n), passage))
    found, everything = nearest(lambda count: ranked[:count], wanted, wanted * factor)
    assert found == list(islice(best.values(), len(found)))
    assert len(found) >= min(wanted, len(best))
    assert not everything or len(found) == len(best)


def test_vectors_of_different_lengths_are_no_matrix() -> None:
    assert stacked([unit(1, 0), unit(0, 1)]).shape == (2, 2)
    with pytest.raises(InvalidInput):
        stacked([unit(1, 0), unit(0, 1, 0)])
