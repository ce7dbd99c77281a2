"""A change of a rate is found in its outcomes, earlier outcomes stop counting, and steady rates are unaffected."""

from __future__ import annotations

import itertools
import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.learning.decisions.rate_changes import (
    Trial,
    change_variance,
    last_change,
    possible_changes,
    probability_unchanged,
)

START = datetime(2026, 1, 1, tzinfo=UTC)


def trials(*qualities: float, weight: float = 1.0, source: str = "") -> list[Trial]:
    return [Trial(START + timedelta(days=n), quality, weight, source) for n, quality in enumerate(qualities)]


def test_a_rate_that_breaks_is_found_at_its_place() -> None:
    change = last_change(trials(*[1.0] * 30, *[0.0] * 10))
    assert change is not None
    assert (change.place, change.since) == (30, 10)
    assert change.describe() == "worked until 30 January, failed 10 of 10 times since"


def test_the_last_of_two_changes_counts() -> None:
    change = last_change(trials(*[1.0] * 20, *[0.0] * 20, *[1.0] * 20))
    assert change is not None
    assert change.place == 40
    assert change.after > change.before


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_a_steady_rate_seldom_seems_to_change(rate: float) -> None:
    dice = random.Random(7)
    found = sum(last_change(trials(*[float(dice.random() < rate) for _ in range(60)])) is not None for _ in range(100))
    assert found <= 5


def test_what_was_before_a_change_hardly_counts() -> None:
    known = trials(*[1.0] * 30, *[0.0] * 10)
    left = probability_unchanged(known, last_change(known))
    assert max(left[:30]) < 0.05
    assert min(left[30:]) > 0.5
    assert left[-1] == 1.0


def test_a_change_that_one_other_source_alone_reports_is_not_believed() -> None:
    honest = trials(*[1.0] * 30)
    forged = [Trial(START + timedelta(days=40, hours=n), 0.0, 1.0, "mallory") for n in range(30)]
    assert last_change([*honest, *forged]) is None
    assert min(probability_unchanged([*honest, *forged], None)[:30]) > 0.3
    both = [Trial(one.at, one.quality, one.weight, ("mallory", "eve")[n % 2]) for n, one in enumerate(forged)]
    assert last_change([*honest, *both]) is not None


def test_doubt_is_largest_just_after_a_rate_seems_to_break() -> None:
    steady, breaking = trials(*[1.0] * 12), trials(*[1.0] * 10, 0.0, 0.0)
    assert change_variance(possible_changes(breaking, None)) > 5 * change_variance(possible_changes(steady, None))
    broken = trials(*[1.0] * 30, *[0.0] * 30)
    assert change_variance(possible_changes(broken, last_change(broken))) < 0.01


def test_that_one_environment_is_used_more_often_than_before_is_no_change() -> None:
    used = ["staging"] * 20 + ["production"] * 20
    known = [one._replace(circumstances=used[n]) for n, one in enumerate(trials(*[1.0] * 20, *[0.0] * 20))]
    assert last_change(known) is None
    assert last_change([one._replace(circumstances="") for one in known]) is not None


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), max_size=60))
def test_shares_that_still_count_never_fall_with_time(qualities: list[float]) -> None:
    known = trials(*qualities)
    left = probability_unchanged(known, last_change(known))
    assert len(left) == len(known)
    assert all(0 <= share <= 1 + 1e-9 for share in left)
    assert all(first <= second + 1e-9 for first, second in itertools.pairwise(left))
    assert 0 <= change_variance(possible_changes(known, last_change(known))) <= 0.25
