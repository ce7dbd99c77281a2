"""Two lists of matches become candidates; features and circumstances become an order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.model import Clean
from engram.ports import Match, RankingInput, TermCounts
from engram.recall.features import NAMES, Scene, features, scene
from engram.recall.rank import Ranked, Trees, Weights, circumstances, corrections, fuse, grown, rank
from engram.recall.understand import ParsedQuery
from engram.text.terms import normal_form

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
    one, other = fuse(a, b, Weights()), fuse(a[::-1], b[::-1], Weights())
    assert [(r.id, r.score, r.why) for r in one] == [(r.id, r.score, r.why) for r in other]


@given(words, near)
def test_a_better_match_in_both_never_ranks_lower(a: list[Match], b: list[Match]) -> None:
    by_words, by_vector = {m.id: m.score for m in a}, {m.id: m.score for m in b}
    place = {r.id: i for i, r in enumerate(fuse(a, b, Weights()))}
    for x in by_words.keys() & by_vector.keys():
        for y in by_words.keys() & by_vector.keys():
            if by_words[x] > by_words[y] * 1.001 + 1e-6 and by_vector[x] > by_vector[y] + 1e-6:
                assert place[x] < place[y]


def test_the_parts_of_a_fused_score_are_those_of_each_list() -> None:
    ranked = {r.id: r for r in fuse([Match("a", 4.0), Match("b", 2.0)], [Match("a", 0.8), Match("c", 0.4)], Weights())}
    assert ranked["a"].why == {"words": 1.0, "similar": pytest.approx(0.8)}
    assert ranked["b"].why == {"words": 0.5}
    assert ranked["c"].why == {}


def test_words_alone_can_give_a_full_score() -> None:
    assert fuse([Match("a", 3.0)], [], Weights())[0].score == 1.0


# Ranking ---------------------------------------------------------------------------------------------

NOW = datetime(2026, 3, 18, tzinfo=UTC)
QUERY = ParsedQuery(Clean("zebra"), ("zebra",), speaker="ann", role=None, times=())


def glimpse(id: str, seq: int = 1, session: str | None = None, **fields: Any) -> RankingInput:
    given: dict[str, Any] = {"speaker": None, "role": None, "at": NOW, "text": Clean(id), "length": 10, "counts": [0]}
    given |= {"importance": 0.5, "trust": 1.0, "usefulness": 0.5}
    return RankingInput(id=id, seq=seq, session=session, **given | fields)


def seen(glimpses: Sequence[RankingInput], **similar: float) -> Scene:
    return scene(glimpses, frozenset(row.id for row in glimpses), similar, QUERY, TermCounts(100, {"zebra": 9}))


def order(
    made: Scene, weights: Weights | None = None, *, ranker: Trees | None = None, sure: float = 0.8
) -> list[Ranked]:
    return rank(made, features(made, QUERY), weights or Weights(), ranker, sure)


def ids_of(ranked: Sequence[Ranked]) -> list[str]:
    return [one.id for one in ranked]


def a_ranker(feature: str, *, at: float = 0.0, worth: float = 1.0) -> Trees:
    """One tree with one split."""
    leaves = {"left_child": {"leaf_value": 0.0}, "right_child": {"leaf_value": worth}}
    return grown(NAMES, [{"split_feature": NAMES.index(feature), "threshold": at, **leaves}])


rows = st.builds(
    glimpse,
    id=st.sampled_from("abcdefghijkl"),
    seq=st.integers(1, 99),
    session=st.sampled_from([None, "s", "t"]),
    counts=st.lists(st.integers(0, 3), min_size=1, max_size=1),
    speaker=st.sampled_from(["Ann", "Bob", None]),
    text=st.sampled_from([Clean("one"), Clean("One."), Clean("two"), Clean("three")]),
    at=st.integers(-900, 900).map(lambda days: NOW + timedelta(days=days)),
    importance=st.floats(0, 1),
    trust=st.floats(0, 1),
    usefulness=st.floats(0, 1),
)
scenes = st.builds(
    seen, st.lists(rows, min_size=1, max_size=10, unique_by=(lambda g: g.id, lambda g: g.seq)), a=st.floats(0, 1)
)
rankers = st.sampled_from([None, a_ranker("similar"), a_ranker("words-1", worth=-3.0)])


@given(scenes, rankers, st.floats(1e-9, 1))
def test_scores_fall_from_how_sure_one_is_and_never_to_nothing(made: Scene, ranker: Trees | None, sure: float) -> None:
    ranked = order(made, ranker=ranker, sure=sure)
    scores = [one.score for one in ranked]
    assert sorted(ids_of(ranked)) == sorted(row.id for row in made.glimpses)
    assert scores[0] == pytest.approx(sure)
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


@given(scenes, rankers)
def test_the_order_is_that_of_the_sums_of_the_parts(made: Scene, ranker: Trees | None) -> None:
    ranked = order(made, ranker=ranker)
    sums = [sum(float(part[one.row]) for part in one.parts.values()) for one in ranked]
    assert sums == sorted(sums, reverse=True)
    for one, whole in zip(ranked, sums, strict=True):
        assert sum(one.why.values()) == pytest.approx(whole, abs=0.0006 * len(one.parts))
        assert one.score == pytest.approx(0.8 * math.exp((whole - sums[0]) / 4))  # four deviations: about a third
        assert all(one.why.values())
        assert set(one.why) <= set(one.parts)


@given(scenes)
def test_only_candidates_are_ranked(made: Scene) -> None:
    chosen = made.candidate.copy()
    chosen[1:] = False
    assert ids_of(order(replace(made, candidate=chosen))) == [made.glimpses[0].id]


def test_the_parts_are_named() -> None:
    made = seen([glimpse("a", 1, "s", counts=[1]), glimpse("b", 2, "s", speaker="Ann")], a=0.5)
    names = {"similar", "words_near", "about", "time", "session"}
    names |= {"importance", "trust", "usefulness", "recency", "repetition"}
    assert set(order(made)[0].parts) == names
    assert set(order(made, ranker=a_ranker("similar"))[0].parts) == names | {"learned"}


@pytest.mark.parametrize("part", ["importance", "trust", "usefulness"])
@pytest.mark.parametrize("seqs", [(1, 2), (2, 1)])
def test_all_else_equal_circumstances_decide(part: str, seqs: tuple[int, int]) -> None:
    less: dict[str, Any] = {part: 0.2}
    more: dict[str, Any] = {part: 0.9}
    nothing: dict[str, Any] = {part: 0.0}
    low, high = glimpse("low", seqs[0], **less), glimpse("high", seqs[1], **more)
    made = seen([low, high, glimpse("other", 3)])
    ranked = order(made)
    assert ids_of(ranked).index("high") < ids_of(ranked).index("low")
    by_seq = ["other", "high", "low"] if seqs == (1, 2) else ["other", "low", "high"]
    assert ids_of(order(made, Weights(**nothing))) == by_seq
    parts = {one.id: one.why.get(part, 0) for one in ranked}
    assert parts["high"] > parts["low"]


@pytest.mark.parametrize("seqs", [(1, 2), (2, 1)])
def test_all_else_equal_the_newer_is_first(seqs: tuple[int, int]) -> None:
    old, new = glimpse("old", seqs[0], at=NOW - timedelta(days=400)), glimpse("new", seqs[1])
    assert ids_of(order(seen([old, new]))) == ["new", "old"]


def test_of_equals_the_one_stored_later_is_first() -> None:
    assert ids_of(order(seen([glimpse("a", 1), glimpse("c", 3), glimpse("b", 2)]))) == ["c", "b", "a"]


def test_circumstances_do_not_outweigh_what_was_asked() -> None:
    crowd = [glimpse(f"m{n}", n) for n in range(8)]
    made = seen(
        [*crowd, glimpse("answer", 98, counts=[2]), glimpse("dear", 99, importance=1.0, usefulness=0.7)], answer=0.8
    )
    assert ids_of(order(made))[0] == "answer"


def test_nothing_speaks_for_or_against_what_nobody_has_judged() -> None:
    parts = circumstances(seen([glimpse("a", 1), glimpse("b", 2)]), Weights())
    assert {name: part.tolist() for name, part in parts.items()} == {name: [0.0, 0.0] for name in parts}


def test_what_says_the_same_as_a_better_one_is_pushed_back() -> None:
    first, again = glimpse("first", 1, text=Clean("Zebras run.")), glimpse("again", 2, text=Clean("zebras  run"))
    made = seen([first, again, glimpse("other", 3), glimpse("far", 4)], first=0.9, again=0.8, other=0.6, far=0.1)
    ranked = order(made)
    assert ids_of(ranked)[0] == "first"
    assert ids_of(ranked).index("again") > ids_of(ranked).index("other")
    assert [one.why.get("repetition") for one in ranked if one.id in {"first", "again"}] == [None, -2]
    apart = order(made, Weights(repetition=0))
    assert ids_of(apart) == ["first", "again", "other", "far"]


def test_a_better_twin_is_never_pushed_below_the_worse() -> None:
    twins = [glimpse(f"t{n}", n, text=Clean("the same")) for n in range(5)]
    ranked = order(seen(twins, t3=0.9))
    assert ranked[0].id == "t3"
    assert sum("repetition" in one.why for one in ranked) == 4


def test_a_ranker_adds_to_the_sum_and_its_share_can_be_none() -> None:
    made = seen([glimpse("a", 1), glimpse("b", 2), glimpse("c", 3)], a=0.50, b=0.49, c=0.1)
    against = a_ranker("similar", at=float(features(made, QUERY)["similar"][0]) - 1e-9, worth=-1.0)
    assert ids_of(order(made)) == ["a", "b", "c"]
    assert ids_of(order(made, ranker=against)) == ["b", "a", "c"]
    assert ids_of(order(made, Weights(learned=0), ranker=against)) == ["a", "b", "c"]
    assert corrections(made, np.zeros(3), features(made, QUERY), 0.25, None) == {}


def test_one_candidate_alone_is_as_good_as_one_is_sure() -> None:
    (only,) = order(seen([glimpse("a")]), ranker=a_ranker("similar"), sure=0.3)
    assert only.score == pytest.approx(0.3)


said = st.text(st.sampled_from("aAäÄ .\t\n\u00a0\x1c"), max_size=6)


@given(said, said)
def test_what_repeats_is_what_has_the_same_normal_form(one: str, other: str) -> None:
    ranked = order(seen([glimpse("a", seq=1, text=Clean(one)), glimpse("b", seq=2, text=Clean(other))]))
    assert any("repetition" in each.why for each in ranked) == (normal_form(one) == normal_form(other))
