"""A query that nothing answers says so."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.model import Clean
from engram.ports import RankingInput, TermCounts
from engram.recall.features import Scene, scene
from engram.recall.rank import HALFWAY, WORDS_HALFWAY, confidence
from engram.recall.understand import ParsedQuery

NOW = datetime(2026, 3, 18, tzinfo=UTC)
ANYBODY = ParsedQuery(Clean("zebra"), ("zebra",), speaker=None, role=None, times=())
ANN = ParsedQuery(Clean("zebra"), ("zebra",), speaker="ann", role=None, times=())

shares = st.floats(0, 1)


def seen(similar: Mapping[str, float], neighbours: Mapping[str, float] | None = None) -> Scene:
    """Memories of these speakers, and neighbours that are no candidates, so similar to the query."""
    both = {**similar, **(neighbours or {})}
    rows = [
        RankingInput(name, n, None, name, None, NOW, Clean(name), 5, [0], 0.5, 1.0, 0.5)
        for n, name in enumerate(both, start=1)
    ]
    return scene(rows, frozenset(similar), both, ANYBODY, TermCounts(10, {}))


def sure(similar: Mapping[str, float], asked: ParsedQuery = ANYBODY) -> float:
    return confidence(seen(similar), asked, 0.0, by_words=False)


def test_halfway_one_is_as_sure_as_not() -> None:
    assert sure({"a": HALFWAY}) == pytest.approx(0.5)
    assert confidence(seen({"a": 0.0}), ANYBODY, WORDS_HALFWAY, by_words=True) == pytest.approx(0.5)


def test_something_similar_makes_sure_and_nothing_similar_does_not() -> None:
    assert sure({"a": 0.9, "b": 0.2}) > 0.9
    assert sure({"a": 0.3, "b": 0.2}) < 0.1


@given(
    st.dictionaries(st.sampled_from(["Ann", "Bob", "Eve"]), shares, min_size=1), shares, st.sampled_from([ANYBODY, ANN])
)
def test_it_is_a_share_and_never_none_at_all(similar: dict[str, float], cover: float, asked: ParsedQuery) -> None:
    for by_words in (True, False):
        assert 0 < confidence(seen(similar), asked, cover, by_words=by_words) < 1


@given(shares, shares, shares)
def test_the_more_similar_the_surer(one: float, other: float, rest: float) -> None:
    low, high = sorted((one, other))
    assert sure({"a": high, "b": rest}) >= sure({"a": low, "b": rest})
    assert sure({"Ann": high, "Bob": rest}, ANN) >= sure({"Ann": low, "Bob": rest}, ANN)


@given(shares, shares, shares)
def test_what_somebody_else_said_never_makes_surer(one: float, other: float, own: float) -> None:
    low, high = sorted((one, other))
    assert sure({"Ann": own, "Bob": high}, ANN) <= sure({"Ann": own, "Bob": low}, ANN)


def test_it_counts_against_an_answer_that_only_somebody_else_has_given_it() -> None:
    assert sure({"Ann": 0.9, "Bob": 0.5}, ANN) > 0.9
    assert sure({"Ann": 0.5, "Bob": 0.9}, ANN) < 0.1
    assert sure({"Bob": 0.9}, ANN) < 0.1


def test_neighbours_that_are_no_candidates_do_not_count() -> None:
    assert confidence(seen({"a": 0.3}, {"b": 0.99}), ANYBODY, 0.0, by_words=False) == sure({"a": 0.3})


@given(shares, shares)
def test_without_vectors_the_share_of_telling_words_decides(one: float, other: float) -> None:
    low, high = sorted((one, other))
    made = seen({"a": 0.0})
    by_low, by_high = (confidence(made, ANYBODY, cover, by_words=True) for cover in (low, high))
    assert by_low <= by_high
    assert confidence(made, ANYBODY, 1.0, by_words=True) > 0.8
