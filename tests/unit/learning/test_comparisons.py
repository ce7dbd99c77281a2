"""Intervals and differences of rates, and the scan for a change."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.learning.decisions.comparisons import difference, scan, wilson


@given(st.integers(1, 2000), st.integers(1, 2000), st.data())
def test_no_interval_has_zero_width_and_each_holds_its_estimate(all: int, of: int, data: st.DataObject) -> None:
    good, well = data.draw(st.sampled_from([0, all // 2, all])), data.draw(st.sampled_from([0, of // 2, of]))
    low, high = wilson(good, all)
    assert 0 <= low <= good / all <= high <= 1
    assert high > low
    apart, (least, most) = difference(good, all, well, of)
    assert -1 <= least <= apart <= most <= 1
    assert most > least


def test_the_intervals_agree_with_published_values() -> None:
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    apart, interval = difference(48, 80, 56, 70)
    assert apart == pytest.approx(0.2)
    assert interval == pytest.approx((0.0524, 0.3339), abs=1e-4)  # Newcombe 1998, example (a), method 10


def test_the_interval_of_a_difference_holds_the_truth_as_often_as_it_says() -> None:
    dice, held, times = random.Random(5), 0, 2000
    for _ in range(times):
        first, second = (sum(dice.random() < rate for _ in range(25)) for rate in (0.9, 0.6))
        low, high = difference(first, 25, second, 25)[1]
        held += low <= -0.3 <= high
    assert 0.93 <= held / times <= 0.98


def test_a_steady_record_rarely_shows_a_change() -> None:
    dice = random.Random(11)
    records = [[float(dice.random() < 0.7) for _ in range(60)] for _ in range(300)]
    found = [change for record in records if (change := scan(record, [1.0] * 60)) is not None and change.found]
    assert len(found) <= 0.05 * 300


def test_a_change_is_found_where_it_happened() -> None:
    change = scan([1.0] * 40 + [0.0] * 20, [1.0] * 60)
    assert change is not None
    assert (change.start, change.end, change.lasts, change.found) == (40, 60, True, True)
    passed = scan([1.0] * 30 + [0.0] * 15 + [1.0] * 30, [1.0] * 75)
    assert passed is not None
    assert (passed.start, passed.end, passed.lasts, passed.found) == (30, 45, False, True)
    assert scan([1.0] * 4, [1.0] * 4) is None
