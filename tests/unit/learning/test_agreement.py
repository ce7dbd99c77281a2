"""Weights of another agent's outcomes, by their agreement with one's own."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.learning.decisions.agreement import agreement

Tallies = dict[tuple[str, str], tuple[float, float]]


def record(attempts: int, rates: list[float], dice: random.Random) -> Tallies:
    return {
        ("group", f"action {number}"): (attempts, sum(dice.random() < rate for _ in range(attempts)))
        for number, rate in enumerate(rates)
    }


def test_a_stranger_counts_half() -> None:
    assert agreement({}, {}) == pytest.approx(0.5)
    assert agreement({("a", "x"): (9, 9)}, {("b", "x"): (9, 9)}) == pytest.approx(0.5)


def test_one_clear_agreement_raises_and_one_clear_disagreement_lowers() -> None:
    own = {("login", "retry"): (400.0, 396.0)}
    assert 0.6 < agreement(own, {("login", "retry"): (400.0, 395.0)}) <= 2 / 3
    assert agreement(own, {("login", "retry"): (400.0, 4.0)}) == pytest.approx(1 / 3, abs=0.01)


def test_one_try_says_little() -> None:
    own = {("login", "retry"): (20.0, 18.0)}
    assert 0.4 < agreement(own, {("login", "retry"): (1.0, 0.0)}) < 0.5 < agreement(own, {("login", "retry"): (1, 1)})


def test_agents_in_the_same_world_come_to_trust_each_other_and_others_do_not() -> None:
    dice = random.Random(4)
    rates = [dice.random() for _ in range(40)]
    turned = [1 - rate for rate in rates]
    own = record(30, rates, dice)
    assert agreement(own, record(30, rates, dice)) > 0.85
    assert agreement(own, record(30, turned, dice)) < 0.45


tallies = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")),
    st.tuples(st.floats(0, 50), st.floats(0, 1)).map(lambda one: (one[0], one[0] * one[1])),
)


@given(tallies, tallies)
def test_agreement_is_mutual_and_a_share(own: Tallies, theirs: Tallies) -> None:
    weight = agreement(own, theirs)
    assert 0 <= weight <= 1
    assert weight == pytest.approx(agreement(theirs, own))


@given(tallies, tallies)
def test_what_only_one_has_tried_changes_nothing(own: Tallies, theirs: Tallies) -> None:
    more: Tallies = {**theirs, ("elsewhere", "x"): (30.0, 2.0)}
    assert agreement(own, more) == pytest.approx(agreement(own, theirs))
