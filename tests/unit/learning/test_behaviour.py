"""Comparing what is done in contexts decides whether they are the same situation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engram.learning.situations.behaviour import (
    ActionCounts,
    log_odds_all_same,
    log_odds_same,
    log_odds_unusual,
    sum_counts,
)

USUAL = {"backoff": 0.1, "retry": 0.1, "roll back": 0.1, "hotfix": 0.1}


def customs(**decisions: tuple[int, int]) -> ActionCounts:
    """Make counts: for each action how often it was taken, and how often it worked."""
    found = ActionCounts()
    for name, (taken, worked) in decisions.items():
        action = name.replace("_", " ")
        for number in range(taken):
            found.count_decision(action)
            found.count_outcome(action, float(number < worked), None)
    return found


def test_the_same_habit_with_the_same_success_speaks_for_one_situation() -> None:
    one, other = customs(backoff=(8, 7), retry=(8, 1)), customs(backoff=(9, 8), retry=(7, 1))
    assert log_odds_same(one, other, USUAL) > 8


def test_other_actions_or_other_success_speak_against_it() -> None:
    one = customs(backoff=(8, 8))
    assert log_odds_same(one, customs(roll_back=(8, 8)), USUAL) < -2
    same, failing = customs(backoff=(20, 20)), customs(backoff=(20, 0))
    assert log_odds_same(one, failing, USUAL) < log_odds_same(one, same, USUAL) - 8


def test_what_is_done_everywhere_is_no_habit_of_its_own() -> None:
    usual = {"approve": 0.5, "reject": 0.5}
    assert log_odds_unusual(customs(approve=(20, 20), reject=(20, 20)), usual) < 0
    assert log_odds_unusual(customs(backoff=(20, 20)), USUAL) > 10


def test_an_outcome_that_is_corrected_leaves_no_trace() -> None:
    one, other = customs(retry=(3, 3)), customs(retry=(3, 2))
    one.count_outcome("retry", 0.0, 1.0)
    assert one.dump() == other.dump()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.3, 1.0])), max_size=20), st.integers(0, 20))
def test_parts_and_the_whole_go_together(decisions: list[tuple[str, float]], cut: int) -> None:
    parts = ActionCounts(), ActionCounts()
    for number, (action, quality) in enumerate(decisions):
        parts[number >= cut].count_decision(action)
        parts[number >= cut].count_outcome(action, quality, None)
    whole = sum_counts(parts)
    assert whole.decisions == len(decisions)
    assert whole.without(parts[0]).dump() == parts[1].dump()
    assert ActionCounts.load(whole.dump()).dump() == whole.dump()  # type: ignore[arg-type]


def test_the_odds_of_two_are_those_of_all_of_two() -> None:
    one, other = customs(retry=(3, 2), restart=(1, 1)), customs(retry=(4, 4), wait=(2, 0))
    usual = {"retry": 0.5, "restart": 0.2, "wait": 0.3}
    assert abs(log_odds_all_same([one, other], usual) - log_odds_same(one, other, usual)) < 1e-9
