from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise

import pytest

from engram_bench.prevention import ARMS, WORLDS, PreventionWorld, Simulation, latency, run, run_arm, run_worlds

SMALL = PreventionWorld(contexts=4, days=20, visits=20)


def test_the_same_seed_is_the_same_world_for_all_arms() -> None:
    one, other = list(Simulation(SMALL, 3).days()), list(Simulation(SMALL, 3).days())
    assert one == other
    assert one != list(Simulation(SMALL, 4).days())
    assert len(one) == 400


def test_a_run_can_be_repeated_exactly() -> None:
    assert asdict(run_arm(Simulation(SMALL, 1), "checks")) == asdict(run_arm(Simulation(SMALL, 1), "checks"))


def test_only_broken_actions_fail_in_a_world_without_noise_and_drift_mends_them() -> None:
    simulation = Simulation(PreventionWorld(contexts=4, days=60, visits=10, noise=0.0, lifetime=10), 1)
    for day in simulation.days():
        for failed, cause in zip(day.fails, day.causes, strict=True):
            assert cause is not None or not failed
        assert sum(cause is not None for cause in day.causes) <= 1
    assert max(len(causes) for causes in simulation.causes) > 1
    for causes in simulation.causes:
        assert all(one.until == other.since for one, other in pairwise(causes))


def test_every_failure_of_a_cause_but_the_first_is_a_repeated_one() -> None:
    tally = run_arm(
        Simulation(PreventionWorld(contexts=2, days=10, visits=20, noise=0.0, severity=1.0, lifetime=1e9), 2), "without"
    )
    assert tally.first <= 2
    assert tally.failures == tally.first + tally.repeated
    assert tally.done + tally.failures == tally.tasks


def test_checks_prevent_repeated_failures_and_shuffled_ones_do_not() -> None:
    told: list[tuple[int, int]] = []
    result = run(3, SMALL, on_progress=lambda done, total, label="", /: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert set(result.repeated) == set(ARMS)
    assert result.reduction.mean > 0.6
    assert result.placebo.mean < 0.4
    assert result.reduction.low > result.placebo.high
    assert result.success["checks"].mean > result.success["without"].mean
    assert result.false_blocks.mean < 0.06
    assert len(result.rows) == 3


def test_the_grid_names_its_worlds() -> None:
    assert set(run_worlds(1, {"small": SMALL})) == {"small"}
    assert WORLDS["as it is"] == PreventionWorld()


def test_a_check_among_many_patterns_is_faster_than_comparing_with_all_and_says_the_same() -> None:
    speed = latency(patterns=600, queries=40, scans=20)
    assert speed.patterns > 500
    assert speed.agreement == 1.0
    assert speed.cpu_p50 < speed.scan_cpu_p50


@pytest.mark.slow
def test_the_goal_is_met_in_the_world_as_it_is() -> None:
    result = run(10)
    assert result.reduction.mean >= 0.8
    assert result.false_blocks.mean < 0.02
    assert result.false_of_all.high < 0.02
    assert abs(result.placebo.mean) < 0.2
