from __future__ import annotations

import json
import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.learning.decisions.belief import EVERYTHING
from engram.learning.decisions.rates import Rates
from engram.testing.factories import START

DECISIONS = st.lists(
    st.tuples(
        st.sets(st.sampled_from(["env=ci", "tool=npm"])),
        st.sampled_from(["a", "b"]),
        st.integers(0, 40),
        st.floats(0, 1),
    ),
    max_size=30,
)
LIFE = timedelta(days=30)


def counted(decisions: list[tuple[set[str], str, int, float]]) -> Rates:
    rates = Rates()
    for features, action, day, quality in decisions:
        rates.count(features, action, START + timedelta(days=day), quality)
    return rates


@given(DECISIONS, st.randoms(use_true_random=False))
def test_the_order_of_recording_does_not_matter(
    decisions: list[tuple[set[str], str, int, float]], chance: random.Random
) -> None:
    shuffled = chance.sample(decisions, len(decisions))
    assert counted(decisions).dump() == counted(shuffled).dump()
    now = START + timedelta(days=50)
    assert counted(decisions).tallies(["env=ci"], now, LIFE) == counted(shuffled).tallies(["env=ci"], now, LIFE)


@given(DECISIONS, DECISIONS)
def test_what_is_taken_back_leaves_no_trace(
    kept: list[tuple[set[str], str, int, float]], wrong: list[tuple[set[str], str, int, float]]
) -> None:
    rates = counted([*kept, *wrong])
    for features, action, day, quality in wrong:
        rates.count(features, action, START + timedelta(days=day), quality, -1)
    assert rates.dump() == counted(kept).dump()


@given(DECISIONS)
def test_what_was_dumped_comes_back(decisions: list[tuple[set[str], str, int, float]]) -> None:
    rates = counted(decisions)
    assert Rates.load(json.loads(json.dumps(rates.dump()))).dump() == rates.dump()


def test_older_days_count_less_and_every_group_counts() -> None:
    rates = counted([({"env=ci"}, "Retry", 0, 1.0), (set(), "retry", 30, 0.5)])
    tallies = rates.tallies(["env=ci", "tool=x"], START + timedelta(days=30), LIFE)
    assert tallies[EVERYTHING]["retry"] == pytest.approx((1.5, 1.0))
    assert tallies["env=ci"]["retry"] == pytest.approx((0.5, 0.5))
    assert tallies["tool=x"] == {}
    assert rates.pairs()[EVERYTHING, "retry"] == (2.0, 1.5)
