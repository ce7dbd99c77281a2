"""Failures avoided by shared knowledge, estimated from the agent's own record."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np

from engram.learning.avoided_failures import spared
from engram.learning.reuse import Attempt

START = datetime(2026, 1, 1, tzinfo=UTC)


def attempts(*records: tuple[str, float, bool]) -> list[Attempt]:
    return [
        Attempt("a", context, quality, START + timedelta(hours=number), frozenset(), shared)
        for number, (context, quality, shared) in enumerate(records)
    ]


def test_without_shared_knowledge_nothing_is_claimed() -> None:
    assert spared([attempts(("c", 0, False), ("c", 1, False))]) is None
    assert spared([]) is None


def test_without_a_record_to_compare_with_there_is_no_estimate() -> None:
    found = spared([attempts(("c", 1, True))])
    assert found is not None
    assert (found.used, found.compared, found.failures, found.interval) == (1, 0, None, None)


def test_a_context_is_compared_with_itself() -> None:
    own = [("c", 0.0, False)] * 10 + [("other", 1.0, False)] * 50 + [("c", 1.0, True)] * 10
    found = spared([attempts(*own)])
    assert found is not None
    assert found.failures is not None
    assert found.interval is not None
    assert 8 < found.failures < 10
    assert found.interval[0] > 5
    assert (found.rate_with, found.rate_without) == (0, 1)


def test_contexts_of_one_situation_are_compared_with_each_other() -> None:
    records = [(f"case {number}", float(number >= 10), number >= 10) for number in range(15)]
    found = spared([[replace(one, situation="case") for one in attempts(*records)]])
    assert found is not None
    assert (found.compared, found.rate_with, found.rate_without) == (5, 0, 1)


def test_a_new_context_is_compared_with_first_attempts_elsewhere() -> None:
    own = [(f"c{number}", 0.0, False) for number in range(10)] + [(f"c{number}", 1.0, False) for number in range(10)]
    found = spared([attempts(*own, *[(f"new{number}", 1.0, True) for number in range(5)])])
    assert found is not None
    assert found.rate_without == 1


def test_more_failures_with_it_are_reported_as_such_and_no_interval_is_empty() -> None:
    found = spared([attempts(*[("c", 1.0, False)] * 10, *[("c", 0.0, True)] * 10)])
    assert found is not None
    assert found.failures is not None
    assert found.failures < -8
    one = spared([attempts(*[("c", 1.0, False)] * 50, ("c", 1.0, True))])
    assert one is not None
    assert one.interval is not None
    assert one.interval[0] < one.interval[1]


def test_agents_are_compared_with_themselves_only() -> None:
    poor, good = attempts(*[("c", 0.0, False)] * 20), attempts(*[("c", 1.0, False)] * 20, *[("c", 1.0, True)] * 20)
    found = spared([poor, good])
    assert found is not None
    assert found.rate_without == 0


def test_the_interval_holds_the_true_number_about_as_often_as_it_says() -> None:
    random, held, worlds = np.random.default_rng(7), 0, 300
    for _ in range(worlds):
        alone, with_ = random.uniform(0.05, 0.95, 2)
        own = [("c", float(random.random() > alone), False) for _ in range(25)]
        own += [("c", float(random.random() > with_), True) for _ in range(25)]
        found = spared([attempts(*own)])
        assert found is not None
        assert found.interval is not None
        held += found.interval[0] <= 25 * (alone - with_) <= found.interval[1]
    assert 0.91 <= held / worlds <= 0.985
