"""Measures of success, from counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from engram.learning.decisions.belief import DecisionEpisode
from engram.learning.decisions.comparisons import significance
from engram.learning.decisions.suggestions import certainty
from engram.learning.scores import prevented, ratio, trend
from engram.model import FailurePattern
from engram.model.failure import Effect, FailureRate, PreventionCheck

START = datetime(2026, 1, 1, tzinfo=UTC)


def record(*qualities: float) -> list[DecisionEpisode]:
    return [
        DecisionEpisode(f"{n:04}", "a", quality, START + n * timedelta(hours=1), "c")
        for n, quality in enumerate(qualities)
    ]


def test_a_rise_from_nothing_is_told_in_points_and_not_as_a_share() -> None:
    found = trend(record(*[0.0] * 20, *[1.0] * 20))
    assert found is not None
    assert (found.baseline, found.recent, found.difference, found.change) == (0.0, 1.0, 1.0, None)
    assert (found.baseline_decisions, found.recent_decisions, found.decisions) == (20, 20, 20)
    assert found.changed_at == START + timedelta(hours=20)
    assert 0 < found.interval[0] < found.interval[1] == 1.0


def test_a_steady_record_is_compared_half_by_half_with_an_interval_around_zero() -> None:
    for quality in (0.0, 1.0):
        found = trend(record(*[quality] * 30))
        assert found is not None
        assert (found.difference, found.changed_at, found.baseline_decisions) == (0.0, None, 15)
        assert found.interval[0] < 0 < found.interval[1]


def test_a_late_change_is_not_diluted() -> None:
    found = trend(record(*[1.0] * 80, *[0.0] * 12))
    assert found is not None
    assert (found.baseline, found.recent, found.recent_decisions) == (1.0, 0.0, 12)


def test_a_dip_that_has_passed_is_no_change_that_holds_now() -> None:
    found = trend(record(*[1.0] * 20, *[0.0] * 20, *[1.0] * 20))
    assert found is not None
    assert (found.difference, found.changed_at) == (0.0, None)
    assert (found.baseline_decisions, found.recent_decisions) == (20, 20)
    assert found.interval[0] < 0 < found.interval[1]


def test_a_dip_in_a_long_record_has_passed_as_well() -> None:
    found = trend(record(*[1.0] * 500, *[0.0] * 200, *[1.0] * 300))
    assert found is not None
    assert found.changed_at is None
    assert found.baseline_decisions + found.recent_decisions == pytest.approx(800, abs=6)
    assert found.difference == pytest.approx(0.0, abs=0.01)
    lasting = trend(record(*[1.0] * 500, *[0.0] * 500))
    assert lasting is not None
    assert lasting.baseline_decisions == pytest.approx(500, abs=3)
    assert lasting.difference == pytest.approx(-1.0, abs=0.01)
    assert lasting.changed_at is not None


def test_too_few_decisions_are_not_compared() -> None:
    assert trend(record(*[1.0] * 19)) is None
    assert trend(record(*[1.0] * 20)) is not None


def test_a_share_has_an_interval_unless_there_is_nothing() -> None:
    assert ratio(0, 0).interval is None
    none, every = ratio(0, 5).interval, ratio(5, 5).interval
    assert none is not None
    assert every is not None
    assert none[0] == 0 < none[1]
    assert every[0] < 1 == every[1]


def rate(failures: int, opportunities: int) -> FailureRate:
    return FailureRate(opportunities=opportunities, failures=failures, rate=0.5, interval=(0.0, 1.0))


def pattern(*effects: tuple[FailureRate, FailureRate]) -> FailurePattern:
    checks = [
        PreventionCheck(
            id=f"c{n}",
            name=f"c{n}",
            pattern_id="p",
            verify="v",
            rule="r",
            created_at=START,
            effect=Effect(
                before=before,
                after=heeded,
                heeded=heeded,
                ignored=rate(0, 0),
                difference=0.0,
                interval=(-1.0, 1.0),
                helps=0.5,
            ),
        )
        for n, (before, heeded) in enumerate(effects)
    ]
    return FailurePattern(
        pattern_id="p",
        name="p",
        error_signature="e",
        occurrence_count=1,
        first_seen=START,
        last_seen=START,
        prevention_checks=tuple(checks),
    )


def test_prevention_compares_each_check_with_its_own_rate_before() -> None:
    halved = [(rate(9, 10), rate(45, 100)), (rate(20, 100), rate(1, 10))]
    found = prevented([pattern(*halved)])
    assert found is not None
    reduction, (low, high) = found
    assert reduction == pytest.approx(0.5)  # adding everything up first would say that failures became more frequent
    assert low < 0.5 < high <= 1
    assert prevented([pattern(*halved)]) == found


def test_prevention_is_unknown_without_failures_before_and_has_an_interval_with_none_after() -> None:
    assert prevented([]) is None
    assert prevented([pattern((rate(0, 10), rate(0, 10)))]) is None
    found = prevented([pattern((rate(5, 5), rate(0, 5)))])
    assert found is not None
    assert (found[0], found[1][1]) == (1.0, 1.0)
    assert found[1][0] < 1


def test_warnings_that_were_only_ignored_say_nothing_about_prevention() -> None:
    ignored = pattern((rate(0, 30), rate(0, 0)))
    assert prevented([ignored]) is None


def test_nothing_is_worded_as_more_certain_than_it_is() -> None:
    assert [certainty(p) for p in (0.0, 0.001, 0.5, 0.994, 0.995, 1.0)] == [
        "0%",
        "under 1%",
        "50%",
        "99%",
        "over 99%",
        "100%",
    ]
    assert [significance(p) for p in (0.0, 0.0004, 0.001, 0.25)] == ["p < 0.001", "p < 0.001", "p = 0.001", "p = 0.250"]
