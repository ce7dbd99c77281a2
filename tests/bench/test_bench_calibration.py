"""Reported rates are accurate where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from engram_bench import calibration
from engram_bench.calibration import CalibrationWorld, ReportedRate


def test_rates_are_calibrated_and_intervals_hold_the_truth_as_often_as_they_say() -> None:
    result, told = calibration.run(20)
    assert len(told) == result["all"]["rates"] == 20 * 10 * 3 * 4
    assert result["all"]["ece"] <= 0.05
    assert 0.93 <= result["all"]["coverage"] <= 0.97
    assert 0.93 <= result["with_own_episodes"]["coverage"] <= 0.97
    for part in result.values():
        assert part["brier_of_truth"] <= part["brier"] < part["brier_of_base_rate"]


def test_contexts_without_episodes_of_their_own_learn_from_similar_ones() -> None:
    told = calibration.simulate(CalibrationWorld(episodes=400), 0, np.random.default_rng(1))
    without = [one for one in told if one.context == "context-0"]
    assert all(one.attempts == 0 and one.similar > 0 for one in without)


def test_the_same_seed_tells_the_same() -> None:
    small = CalibrationWorld(groups=3, episodes=60, held_back=1)
    assert calibration.run(2, small) == calibration.run(2, small)
    assert calibration.run(2, small, seed=1) != calibration.run(2, small)


def test_coverage_and_error_are_computed_from_what_was_told() -> None:
    told = [ReportedRate(0, "c", "a", truth, 0.5, 0.4, 0.6, 1, 0) for truth in (0.5, 0.9)]
    result = calibration.report(told)
    assert result["all"]["coverage"] == 0.5
    assert result["all"]["ece"] == pytest.approx(0.2)
    assert result["from_similar_contexts_only"] == {"rates": 0}
