from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram_bench.metrics import KS, RankingScores, auc, bootstrap, scores

IDS = st.lists(st.sampled_from("abcdefghij"), max_size=12)


def test_one_right_answer_on_rank_two() -> None:
    assert scores(["x", "a", "y"], {"a"}, 1) == RankingScores(0, 0, 0, 0, 0)
    assert scores(["x", "a", "y"], {"a"}, 5) == pytest.approx((1, 1, 1, 1 / math.log2(3), 0.5))


def test_two_of_three_right_answers() -> None:
    found = scores(["a", "x", "b", "y"], {"a", "b", "c"}, 5)
    gain, ideal = 1 + 1 / math.log2(4), 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert found == pytest.approx((1, 0, 2 / 3, gain / ideal, 1))


def test_the_ideal_counts_all_gold_and_not_only_what_was_found() -> None:
    assert scores(["a"], {"a", "b"}, 5).ndcg == pytest.approx(1 / (1 + 1 / math.log2(3)))
    assert scores(["a", "x"], {"a", "b"}, 1) == RankingScores(1, 0, 0.5, 1, 1)


def test_an_id_that_comes_twice_counts_once() -> None:
    assert scores(["a", "a", "b"], {"a", "b"}, 2) == RankingScores(1, 1, 1, 1, 1)


def test_nothing_found_is_nothing_and_no_gold_is_an_error() -> None:
    assert scores([], {"a"}, 5) == RankingScores(0, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="scored"):
        scores(["a"], set(), 5)


@given(ranked=IDS, gold=st.sets(st.sampled_from("abcdefghij"), min_size=1))
def test_scores_lie_between_none_and_all_and_never_fall_with_k(ranked: list[str], gold: set[str]) -> None:
    before = RankingScores(0, 0, 0, 0, 0)
    for k in KS:
        now = scores(ranked, gold, k)
        assert all(0 <= score <= 1 for score in now)
        assert now.all <= now.fraction <= now.any
        for name in ("any", "all", "fraction", "mrr"):
            assert getattr(now, name) >= getattr(before, name)
        before = now


def test_the_bootstrap_is_the_mean_with_an_interval_around_it_and_the_same_every_time() -> None:
    values = np.random.default_rng(7).random((40, 2))
    values[:, 1] = 1
    first, second = found = bootstrap(values)
    assert first.mean == pytest.approx(values[:, 0].mean())
    assert 0 < first.low < first.mean < first.high < 1
    assert list(second) == [1, 1, 1]
    assert bootstrap(values) == found
    assert bootstrap(values, seed=1)[0] != first


def test_the_interval_is_that_of_the_normal_law_when_there_are_many() -> None:
    values = np.arange(2000, dtype=np.float64)[:, None] % 2
    (found,) = bootstrap(values)
    assert found.mean == 0.5
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(2000), rel=0.1)


def test_no_values_have_no_mean() -> None:
    assert all(math.isnan(number) for number in bootstrap(np.zeros((0, 1)))[0])


def test_the_area_under_the_curve() -> None:
    assert auc([0.9, 0.8], [0.1, 0.2]) == 1
    assert auc([0.1], [0.9]) == 0
    assert auc([0.5], [0.5]) == 0.5
    assert auc([0.9, 0.3], [0.5, 0.3]) == (1 + 1 + 0 + 0.5) / 4
    assert auc([], [0.5]) is None
    assert auc([0.5], []) is None


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=20),
    st.lists(st.integers(0, 5), min_size=1, max_size=20),
)
def test_the_area_is_the_share_of_pairs_in_order(positive: list[int], negative: list[int]) -> None:
    pairs = [(p > n) + 0.5 * (p == n) for p in positive for n in negative]
    assert auc(positive, negative) == pytest.approx(sum(pairs) / len(pairs))
