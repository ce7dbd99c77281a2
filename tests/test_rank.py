"""Two lists of matches become one ranking."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.ports import Match
from engram.retrieve.rank import Weights, fuse

ids = st.sampled_from("abcdefgh")
words = st.lists(st.builds(Match, ids, st.floats(0, 50)), unique_by=lambda m: m.id)
near = st.lists(st.builds(Match, ids, st.floats(0, 1)), unique_by=lambda m: m.id)


@given(words, near)
def test_every_candidate_is_ranked_once_with_a_score_from_0_to_1(a: list[Match], b: list[Match]) -> None:
    ranked = fuse(a, b, Weights())
    assert sorted(r.id for r in ranked) == sorted({m.id for m in (*a, *b)})
    assert all(0 <= r.score <= 1 for r in ranked)
    assert [r.score for r in ranked] == sorted((r.score for r in ranked), reverse=True)


@given(words, near)
def test_the_order_of_the_lists_does_not_matter(a: list[Match], b: list[Match]) -> None:
    assert fuse(a, b, Weights()) == fuse(a[::-1], b[::-1], Weights())


@given(words, near)
def test_a_better_match_in_both_never_ranks_lower(a: list[Match], b: list[Match]) -> None:
    by_words, by_vector = {m.id: m.score for m in a}, {m.id: m.score for m in b}
    place = {r.id: i for i, r in enumerate(fuse(a, b, Weights()))}
    for x in by_words.keys() & by_vector.keys():
        for y in by_words.keys() & by_vector.keys():
            if by_words[x] > by_words[y] * 1.001 + 1e-6 and by_vector[x] > by_vector[y] + 1e-6:
                assert place[x] < place[y]


def test_why_names_the_parts_and_the_list_that_found_it() -> None:
    ranked = {r.id: r for r in fuse([Match("a", 4.0), Match("b", 2.0)], [Match("a", 0.8), Match("c", 0.4)], Weights())}
    assert ranked["a"].why == {"words": 1.0, "vector": pytest.approx(0.8), "found_by": "both"}
    assert ranked["b"].why == {"words": 0.5, "vector": 0.0, "found_by": "words"}
    assert ranked["c"].why["found_by"] == "vector"


def test_words_alone_can_give_a_full_score() -> None:
    assert fuse([Match("a", 3.0)], [], Weights())[0].score == 1.0
