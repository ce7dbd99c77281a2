"""Credits become multipliers, and only if they prove themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.ports import Credit
from engram.recall.learned_weights import LEAST, MIN_EVENTS, MOST, decide, fit, reciprocal_ranks, tells
from engram.testing.factories import START

SPREAD = {"similar": 1.0, "words_near": 0.7, "time": 0.3, "learned": 0.8, "importance": 0.1}
"""The parts of a score, and how much each usually makes of it."""
ONLY_WORDS = {"words_near": 1.0}


def user(
    wants: Mapping[str, float],
    count: int,
    seed: int = 1,
    *,
    doubt: float = 0.3,
    shown: Mapping[str, float] | None = None,
    day: int = 0,
) -> list[Credit]:
    """Credits of somebody who takes the one of five hits that has most of what he wants; `shown` is what ranks them."""
    chance, names = np.random.default_rng(seed), list(SPREAD)
    usual, weights = np.array([*SPREAD.values()]), np.array([(shown or {}).get(name, 1.0) for name in names])
    credits = []
    for number in range(count):
        parts = np.round(chance.normal(size=(20, len(names))) * usual, 3)
        best = np.argsort(-parts @ weights, kind="stable")[:5].tolist()
        liked = [
            parts[row] / usual @ [wants.get(name, 0.0) for name in names] + chance.normal() * doubt for row in best
        ]
        credits.append(
            Credit(
                id=f"{day}-{number}",
                at=START + timedelta(days=day, seconds=number),
                order=tuple(f"m{row}" for row in best),
                helped=frozenset({f"m{best[int(np.argmax(liked))]}"}),
                parts={f"m{row}": dict(zip(names, parts[row].tolist(), strict=True)) for row in best},
            )
        )
    return credits


def mrr(credits: Sequence[Credit], multipliers: Mapping[str, float]) -> float:
    return float(reciprocal_ranks(credits, multipliers).mean())


def test_what_stands_above_the_last_that_helped_was_looked_at_in_vain() -> None:
    assert Credit("1", START, ("a", "b", "c", "d"), frozenset("c")).hindered == {"a", "b"}
    assert Credit("1", START, ("a", "b", "c", "d"), frozenset("ac")).hindered == {"b"}
    assert Credit("1", START, ("a", "b"), frozenset("a")).hindered == frozenset()
    assert Credit("1", START, ("a", "b"), frozenset()).hindered == {"a", "b"}


def test_the_reciprocal_rank_is_that_of_the_first_that_helped_and_equals_stay_in_their_order() -> None:
    parts = {"a": {"x": 3.0, "y": 0.0}, "b": {"x": 2.0, "y": 1.0}, "c": {"x": 1.0, "y": 2.0}}
    credit = Credit("1", START, ("a", "b", "c"), frozenset("bc"), parts)
    assert reciprocal_ranks([credit], {}).tolist() == [1 / 2]
    assert reciprocal_ranks([credit], {"x": 0.25}).tolist() == [1]


def test_who_goes_by_words_gets_words_that_count_more_and_better_answers() -> None:
    outcome = decide(user(ONLY_WORDS, 120), {})
    assert outcome.decision == "adopted"
    assert outcome.before is not None
    assert outcome.after is not None
    assert outcome.after > outcome.before + 0.1
    assert outcome.multipliers["words_near"] > 1.5 * max(
        outcome.multipliers.get(name, 1) for name in ("similar", "time")
    )
    fresh = user(ONLY_WORDS, 300, seed=2)
    assert mrr(fresh, outcome.multipliers) > mrr(fresh, {}) + 0.1


def test_chance_changes_little_and_mostly_nothing() -> None:
    fresh = user({}, 300, seed=99, doubt=1)
    outcomes = [decide(user({}, 100, seed, doubt=1), {}) for seed in range(20)]
    assert sum(outcome.decision == "defaults" for outcome in outcomes) >= 14
    for outcome in outcomes:
        assert mrr(fresh, outcome.multipliers) == pytest.approx(mrr(fresh, {}), abs=0.03)


def test_who_is_served_well_keeps_the_defaults() -> None:
    outcomes = [decide(user(SPREAD, 100, seed, doubt=0), {}) for seed in range(10)]
    assert {outcome.decision for outcome in outcomes} == {"defaults"}


def test_a_few_credits_change_nothing_and_say_how_many_are_needed() -> None:
    few = user(ONLY_WORDS, MIN_EVENTS - 1)
    outcome = decide(few, {})
    assert (outcome.decision, outcome.events, outcome.multipliers) == ("defaults", MIN_EVENTS - 1, {})
    assert str(MIN_EVENTS) in outcome.reason
    assert decide(few, {"time": 2.0}).multipliers == {"time": 2.0}
    silent = [Credit(f"s{n}", START, ("a", "b"), frozenset(), {"a": {"x": 1.0}}) for n in range(99)]
    assert not any(tells(credit) for credit in silent)
    assert decide([*few, *silent], {}).events == MIN_EVENTS - 1


def test_what_no_longer_helps_is_given_up() -> None:
    adopted = decide(user(ONLY_WORDS, 100), {}).multipliers
    contrary = user({"words_near": -1.0, "similar": 1.0}, 60, seed=3, shown=adopted, day=1)
    outcome = decide([*user(ONLY_WORDS, 100), *contrary], adopted)
    assert (outcome.decision, outcome.multipliers) == ("reverted", {})
    assert outcome.before is not None
    assert outcome.after is not None
    assert outcome.after < outcome.before


def test_worse_multipliers_that_somebody_set_are_given_up() -> None:
    outcome = decide(user(SPREAD, 100, doubt=0), {"similar": 0.25, "importance": 4.0})
    assert (outcome.decision, outcome.multipliers) == ("reverted", {})


def test_deciding_again_changes_nothing_and_the_order_of_the_credits_does_not_matter() -> None:
    credits = user(ONLY_WORDS, 80)
    first = decide(credits, {})
    again = decide(credits[::-1], first.multipliers)
    assert (first.decision, again.decision) == ("adopted", "kept")
    assert again.multipliers == first.multipliers


@given(st.integers(0, 1000), st.integers(1, 40), st.floats(0, 2))
def test_multipliers_stay_within_their_bounds_and_are_the_same_every_time(seed: int, count: int, doubt: float) -> None:
    credits = user({"time": 1.0, "similar": -1.0}, count, seed, doubt=doubt)
    found = fit(credits)
    assert all(LEAST <= value <= MOST for value in found.values())
    assert fit(credits) == found


def test_credits_without_pairs_teach_nothing() -> None:
    everything = [Credit(str(n), START, ("a", "b"), frozenset("ab"), {"a": {"x": 1.0}}) for n in range(40)]
    assert fit(everything) == {}
    assert decide(everything, {}).decision == "defaults"


def test_what_confirms_the_order_leaves_it_as_it_is() -> None:
    first = [Credit(str(n), START, ("a", "b"), frozenset("a"), {"a": {"x": 1.0}}) for n in range(40)]
    assert decide(first, {}).decision == "defaults"
