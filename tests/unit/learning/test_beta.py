"""Posteriors of a rate."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.learning.decisions.beta import Beta

counts = st.floats(1, 500)
beliefs = st.builds(Beta, counts, counts)


@pytest.mark.parametrize(
    ("belief", "x", "expected"),
    [
        (Beta(1, 1), 0.3, 0.3),
        (Beta(2, 1), 0.5, 0.25),
        (Beta(1, 2), 0.5, 0.75),
        (Beta(2, 3), 0.4, 0.5248),
        (Beta(10, 10), 0.5, 0.5),
        (Beta(0.5, 0.5), 0.25, 2 / math.pi * math.asin(math.sqrt(0.25))),
    ],
)
def test_the_share_below_a_rate_is_the_known_one(belief: Beta, x: float, expected: float) -> None:
    assert belief.below(x) == pytest.approx(expected, abs=1e-9)


@given(beliefs)
def test_the_share_below_grows_from_0_to_1(belief: Beta) -> None:
    shares = [belief.below(x / 50) for x in range(51)]
    assert shares[0] == 0
    assert shares[-1] == 1
    assert all(b >= a - 1e-9 for a, b in pairwise(shares))


@given(beliefs, st.floats(0.01, 0.99))
def test_a_quantile_has_its_share_below(belief: Beta, share: float) -> None:
    assert belief.below(belief.quantile(share)) == pytest.approx(share, abs=1e-6)


@given(beliefs)
def test_the_interval_holds_the_median(belief: Beta) -> None:
    low, high = belief.interval()
    assert 0 <= low <= belief.quantile(0.5) <= high <= 1


@given(beliefs, beliefs)
def test_one_of_two_rates_is_higher(one: Beta, other: Beta) -> None:
    assert one.beats(other) + other.beats(one) == pytest.approx(1, abs=1e-6)


def test_two_against_one_is_five_to_one() -> None:
    assert Beta(2, 1).beats(Beta(1, 2)) == pytest.approx(5 / 6, abs=1e-4)


@given(st.lists(st.floats(0, 1), max_size=30), st.randoms())
def test_the_order_of_outcomes_does_not_matter(qualities: list[float], dice: object) -> None:
    def believe(values: list[float]) -> Beta:
        belief = Beta()
        for value in values:
            belief = belief.after(value)
        return belief

    forward, backward = believe(qualities), believe(qualities[::-1])
    assert (forward.a, forward.b) == pytest.approx((backward.a, backward.b))
    assert forward.a + forward.b == pytest.approx(2 + len(qualities))
