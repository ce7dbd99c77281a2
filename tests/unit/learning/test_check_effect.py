from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.learning.decisions.beta import Beta
from engram.learning.failures.check_effect import CheckCounts, effect, failure_rate, next_status
from engram.model import CheckStatus


def counts(before: tuple[int, float], heeded: tuple[int, float], ahead: list[float] | None = None) -> CheckCounts:
    counted = CheckCounts(before[0], before[1], heeded[0], heeded[1], heeded=heeded[0], heeded_failed=heeded[1])
    for quality in ahead or []:
        counted.count_spoken(quality, ahead=True)
    return counted


def test_rates_come_with_the_interval_of_the_belief() -> None:
    rate = failure_rate(10, 4)
    assert rate.rate == pytest.approx(5 / 12)
    assert rate.interval == pytest.approx(Beta(5, 7).interval())


def test_without_opportunities_nothing_is_known() -> None:
    nothing = effect(CheckCounts())
    assert nothing.difference == 0
    assert nothing.helps == pytest.approx(0.5, abs=0.01)
    assert nothing.interval[0] < -0.7
    assert nothing.interval[1] > 0.7


def test_fewer_failures_when_it_is_heeded_mean_that_a_check_helps() -> None:
    good = effect(counts((20, 16), (20, 1)))
    assert good.helps > 0.99
    assert 0 < good.interval[0] < good.difference < good.interval[1]
    bad = effect(counts((20, 1), (20, 16)))
    assert bad.helps < 0.01
    assert bad.interval[1] < 0


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_the_difference_lies_in_its_interval_and_the_sides_can_be_swapped(a: int, b: int, c: int, d: int) -> None:
    one = effect(counts((a + b, a), (c + d, c)))
    other = effect(counts((c + d, c), (a + b, a)))
    assert one.interval[0] - 0.01 <= one.difference <= one.interval[1] + 0.01
    assert one.helps == pytest.approx(1 - other.helps, abs=1e-6)
    assert one.interval[0] == pytest.approx(-other.interval[1], abs=0.01)


def test_a_check_that_is_ignored_and_right_is_strengthened_and_never_retired() -> None:
    counted, right = counts((3, 3), (0, 0)), []
    for _ in range(20):
        counted.count_spoken(0.0, ahead=True)
        assert next_status("active", counted) == "active"
        right.append(effect(counted).right or 0.0)
    assert right == sorted(right)
    assert right[-1] > 0.99


def test_a_check_that_was_heeded_in_vain_still_warns_of_what_fails() -> None:
    assert next_status("active", counts((20, 4), (10, 10))) == "active"
    assert effect(counts((20, 4), (10, 10))).helps < 0.01


def test_one_that_is_ignored_and_wrong_is_loosened_and_tightened_when_it_fails_again() -> None:
    wrong = counts((5, 5), (0, 0), [1.0, 1.0, 1.0, 1.0])
    assert next_status("active", wrong) == "loosened"
    assert next_status("loosened", wrong) == "loosened"
    assert next_status("loosened", counts((5, 5), (1, 0), [1.0, 0.0, 0.0, 0.0, 0.0])) == "active"
    assert next_status("active", counts((5, 5), (0, 0), [1.0, 1.0])) == "active"


def test_one_that_only_warns_and_is_always_wrong_is_retired() -> None:
    assert next_status("loosened", counts((5, 5), (0, 0), [1.0] * 10)) == "retired"
    assert next_status("active", counts((5, 5), (0, 0), [1.0] * 10)) == "loosened"


def test_what_a_loosened_check_is_silent_about_judges_it_and_what_an_active_one_is_silent_about_does_not() -> None:
    for loosened, status in ((True, "retired"), (False, "loosened")):
        counted = CheckCounts()
        for _ in range(10):
            counted.count_silent(1.0, loosened=loosened)
        assert next_status("loosened", counted) == status
    failing = CheckCounts()
    for _ in range(3):
        failing.count_silent(0.0, loosened=True, known=True)
    assert next_status("loosened", failing) == "active"
    assert (failing.before, failing.after) == (0, 0)


def test_a_retired_check_comes_back_when_it_fails_without_it_and_keeps_what_was_measured() -> None:
    retired = counts((20, 10), (2, 0), [1.0] * 10)
    retired.restart()
    for quality in (*[1.0] * 30, 0.0, 1.0, 0.0):
        retired.count_silent(quality)
        assert next_status("retired", retired) == "retired"
    retired.count_silent(0.0)
    assert next_status("retired", retired) == "active"
    retired.restart()
    measured = effect(retired)
    assert (measured.before.opportunities, measured.went_ahead, measured.false_alarms) == (54, 10, 10)
    assert measured.heeded is not None
    assert measured.ignored is not None
    assert (measured.heeded.opportunities, measured.ignored.opportunities, retired.ahead) == (2, 10, [])


@given(
    st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from([0.0, 0.5, 1.0])), max_size=60),
)
def test_the_status_never_flutters_without_new_counts(events: list[tuple[bool, bool, float]]) -> None:
    counted, status = CheckCounts(), "active"
    for spoke, ahead, quality in events:
        if spoke:
            counted.count_spoken(quality, ahead=ahead)
        else:
            counted.count_silent(quality)
        new: CheckStatus = next_status(status, counted)  # type: ignore[arg-type]
        if new != status:
            counted.restart()
            status = new
            assert next_status(new, counted) == new


def test_what_was_counted_can_be_taken_back() -> None:
    counted = counts((3, 1), (2, 1), [1.0])
    before = asdict(counted)
    for ahead in (True, False):
        counted.count_spoken(0.0, ahead=ahead)
        counted.count_spoken(0.0, ahead=ahead, times=-1)
    for loosened in (True, False):
        counted.count_silent(0.5, loosened=loosened)
        counted.count_silent(0.5, loosened=loosened, times=-1)
    assert asdict(counted) == before
