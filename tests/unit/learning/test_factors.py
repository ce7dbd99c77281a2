"""Features that go with success, and features that only seem to."""

from __future__ import annotations

import math
import random
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engram.learning.patterns.factors import (
    FALSE_DISCOVERIES,
    Case,
    ContingencyTable,
    effect,
    key_factors,
    least_p,
    log_odds,
    mid_p,
)
from engram.learning.patterns.factors import stratified_p as held_fixed

USELESS = 200


def useless(dice: random.Random, cases: int, rate: float = 0.6) -> list[Case]:
    """Make outcomes that depend on nothing, beside many features that occur in a tenth to a half of the cases."""
    return [
        Case(
            frozenset(f"x={number}" for number in range(USELESS) if dice.random() < 0.1 + 0.04 * (number % 11)),
            float(dice.random() < rate),
        )
        for _ in range(cases)
    ]


def with_cause(dice: random.Random, cases: list[Case], name: str, high: float, low: float) -> list[Case]:
    """Make the same features, with one more that decides how often it goes well."""
    made = []
    for case in cases:
        has = dice.random() < 0.5
        features = case.features | {name} if has else case.features
        made.append(Case(features, float(dice.random() < (high if has else low))))
    return made


def test_of_many_useless_features_hardly_ever_one_is_reported() -> None:
    runs = 120
    false = sum(bool(key_factors(useless(random.Random(seed), 80))) for seed in range(runs))
    assert false / runs <= FALSE_DISCOVERIES + 2 * math.sqrt(FALSE_DISCOVERIES * (1 - FALSE_DISCOVERIES) / runs)


def test_partial_successes_and_half_trusted_cases_make_no_more_false_discoveries() -> None:
    runs, false = 60, 0
    for seed in range(runs):
        dice = random.Random(seed)
        cases = [
            case._replace(quality=dice.choice([0.0, 0.3, 0.5, 1.0]), weight=dice.uniform(0.3, 1))
            for case in useless(dice, 80)
        ]
        false += bool(key_factors(cases))
    assert false / runs <= 2 * FALSE_DISCOVERIES


def test_true_factors_are_found_among_many_useless_ones_and_few_false_ones_beside_them() -> None:
    runs, found, false = 25, 0, 0.0
    for seed in range(runs):
        dice = random.Random(seed)
        names = [
            factor.feature for factor in key_factors(with_cause(dice, useless(dice, 150), "cache=warm", 0.9, 0.35))
        ]
        found += "cache=warm" in names
        false += sum(name != "cache=warm" for name in names) / max(1, len(names))
    assert found == runs
    assert false / runs <= 2 * FALSE_DISCOVERIES


def test_a_factor_says_how_much_how_sure_and_on_how_many_episodes() -> None:
    cases = [Case(frozenset({"env=ci"} if n < 20 else ()), float(n < 18 or 20 <= n < 26)) for n in range(40)]
    (factor,) = key_factors(cases)
    assert (factor.feature, factor.support, factor.without) == ("env=ci", 20, 20)
    assert factor.effect == pytest.approx(19 / 22 - 7 / 22)
    assert factor.interval[0] < factor.effect < factor.interval[1]
    assert factor.interval[0] > 0
    assert factor.log_odds == pytest.approx(math.log(18.5 * 14.5 / (2.5 * 6.5)))
    assert factor.p_value < 0.001


def test_what_goes_with_failure_has_a_negative_effect() -> None:
    cases = [
        Case(frozenset({"load=high", f"n={n}"} if n < 15 else {f"n={n}"}), float(n >= 15 or n == 3)) for n in range(40)
    ]
    (factor,) = key_factors(cases)
    assert factor.feature == "load=high"
    assert factor.interval[1] < 0


def test_what_only_keeps_company_with_the_cause_is_dropped() -> None:
    runs, causes, company = 40, 0, 0
    for seed in range(runs):
        dice = random.Random(seed)
        cases = []
        for _ in range(250):
            cause = dice.random() < 0.5
            others = {f"proxy={n}" for n in range(5) if dice.random() < (0.85 if cause else 0.15)}
            quality = float(dice.random() < (0.85 if cause else 0.3))
            cases.append(Case(frozenset(others | {"cause"} if cause else others), quality))
        names = {factor.feature for factor in key_factors(cases)}
        causes += "cause" in names
        company += len(names - {"cause"})
    assert causes >= 0.95 * runs
    assert company <= 0.15 * runs  # of five proxies a run, each of which looks like a cause by itself


def test_two_causes_are_both_kept() -> None:
    dice = random.Random(7)
    cases = []
    for _ in range(300):
        one, two = dice.random() < 0.5, dice.random() < 0.5
        features = {name for name, has in (("one", one), ("two", two)) if has}
        cases.append(Case(frozenset(features), float(dice.random() < 0.1 + 0.4 * one + 0.4 * two)))
    assert {factor.feature for factor in key_factors(cases)} == {"one", "two"}


def test_features_that_always_occur_together_or_instead_of_each_other_are_one() -> None:
    cases = [
        Case(frozenset({"env=ci", "word=ci", "build=yes"} if n < 12 else {"env=local"}), float(n < 12))
        for n in range(24)
    ]
    assert [factor.feature for factor in key_factors(cases)] == ["build=yes"]


def test_too_few_cases_say_nothing() -> None:
    assert key_factors([]) == ()
    assert key_factors([Case(frozenset({"a"}), 1.0), Case(frozenset(), 0.0)]) == ()


def test_the_exact_test_counts_what_chance_could_do() -> None:
    """List all distributions of the successes, and count those at least as extreme, ties half."""
    n_with, n, good = 5, 11, 6
    counts = [sum(place < n_with for place in chosen) for chosen in combinations(range(n), good)]
    for seen in range(max(0, good - (n - n_with)), min(n_with, good) + 1):
        below = sum(count < seen for count in counts) / len(counts)
        above = sum(count > seen for count in counts) / len(counts)
        here = sum(count == seen for count in counts) / len(counts)
        table = ContingencyTable(seen, n_with, good - seen, n - n_with)
        assert mid_p(table) == pytest.approx(min(1, 2 * (min(below, above) + here / 2)))


def test_p_values_of_nothing_are_as_small_as_they_say() -> None:
    dice = random.Random(5)
    values = []
    for _ in range(4000):
        good = [sum(dice.random() < 0.4 for _ in range(size)) for size in (25, 40)]
        values.append(mid_p(ContingencyTable(good[0], 25, good[1], 40)))
    for level in (0.01, 0.05, 0.2):
        assert sum(value <= level for value in values) / len(values) <= level * 1.25 + 0.003


def test_the_interval_of_the_effect_holds_the_truth_as_often_as_it_says() -> None:
    dice = random.Random(3)
    held = 0
    for _ in range(3000):
        rates, sizes = (dice.random(), dice.random()), (dice.randint(3, 40), dice.randint(3, 40))
        good = [sum(dice.random() < rate for _ in range(size)) for rate, size in zip(rates, sizes, strict=True)]
        _, (low, high) = effect(ContingencyTable(good[0], sizes[0], good[1], sizes[1]))
        held += low <= rates[0] - rates[1] <= high
    assert 0.94 <= held / 3000 <= 0.98


def test_holding_the_cause_fixed_leaves_nothing_of_its_company_and_all_of_another_cause() -> None:
    dice = random.Random(1)
    cause = np.array([dice.random() < 0.5 for _ in range(400)])
    company = np.array([dice.random() < (0.9 if has else 0.1) for has in cause])
    other = np.array([dice.random() < 0.5 for _ in range(400)])
    chances = zip(cause, other, strict=True)
    quality = np.array([float(dice.random() < 0.1 + 0.5 * a + 0.3 * b) for a, b in chances])
    weight = np.ones(400)
    assert held_fixed(company, quality, weight, []) < 1e-6
    assert held_fixed(company, quality, weight, [cause]) > 0.05
    assert held_fixed(other, quality, weight, [cause]) < 1e-4
    assert held_fixed(cause, quality, weight, [cause]) == 1.0


tables = st.builds(
    lambda n, m, a, b: ContingencyTable(a * n, n, b * m, m),
    st.floats(0, 60),
    st.floats(0, 60),
    st.floats(0, 1),
    st.floats(0, 1),
)


@given(tables)
@example(
    ContingencyTable(0.75, 3, 0.5, 1)
)  # what was seen lies between two whole numbers, and what is expected does, too
def test_every_table_has_a_p_value_an_effect_and_odds(table: ContingencyTable) -> None:
    assert 0 <= least_p(table) <= mid_p(table) + 1e-9 <= 1 + 1e-9
    difference, (low, high) = effect(table)
    assert -1 <= low <= difference <= high <= 1
    assert math.isfinite(log_odds(table))


cases_of_few = st.lists(
    st.builds(
        Case,
        st.frozensets(st.sampled_from(["a", "b", "word=c", "d"])),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.sampled_from([0.0, 0.5, 1.0]),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(cases_of_few)
def test_a_reported_factor_has_support_and_an_effect(cases: list[Case]) -> None:
    for factor in key_factors(cases):
        assert min(factor.support, factor.without) >= 3
        assert factor.support + factor.without == len(cases)
        assert factor.p_value <= FALSE_DISCOVERIES
