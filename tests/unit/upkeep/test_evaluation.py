"""How well memory serves, counted from what was told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engram
from engram.engine import Engram
from engram.errors import InvalidInput, Unsupported
from engram.learning.decisions.comparisons import fisher
from engram.model.upkeep import Period
from engram.ports import Credit
from engram.testing import FixedSources
from engram.upkeep.evaluation import PERIODS, make_measure, period_end, period_start, report

START = datetime(2026, 3, 4, 12, tzinfo=UTC)  # a Wednesday
WEEK = timedelta(days=7)


@pytest.fixture
def clock() -> FixedSources:
    return FixedSources(START)


@pytest.fixture(params=["file", "memory"])
def brain(request: pytest.FixtureRequest, path: Path, clock: FixedSources) -> Iterator[Engram]:
    where: Path | str = path if request.param == "file" else ":memory:"
    with engram.open(where, embedder="hashing", durable=False, sources=clock) as opened:
        yield opened


def credit(number: int, at: datetime, helped: bool) -> Credit:
    return Credit(f"c{number}", at, ("a", "b"), frozenset({"b"}) if helped else frozenset())


def test_recalls_memories_and_decisions_are_counted_by_week(brain: Engram, clock: FixedSources) -> None:
    alice = brain.agent("alice")
    alice.remember(["The bridge is closed on Sundays", "The bridge was built of stone"])
    for week, helps in enumerate((True, False)):
        clock.moment = START + week * WEEK
        hits = alice.recall("when is the bridge closed?", k=2)
        alice.credit(hits, [hits[0]] if helps else [])
        alice.record_decision(
            context="sunday", action="ferry", outcome="success", informed_by=[hits.id] if helps else []
        )
    late = alice.record_decision(context="monday", action="walk")
    alice.outcome(str(late.id), "failure")
    alice.outcome(str(late.id), "success", correct=True)
    found = brain.upkeep.evaluate(["alice"])
    assert [row.start for row in found.rows] == [datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 9, tzinfo=UTC)]
    first, last = found.rows
    assert (first.retrieval_success.some, first.retrieval_success.all) == (1, 1)
    assert (first.hit_ratio.some, first.hit_ratio.all) == (1, 1)
    assert (last.retrieval_success.some, last.hit_ratio.some, last.hit_ratio.all) == (0, 0, 2)
    assert (first.informed.share, last.informed.share) == (1.0, 0.0)
    assert (found.total.informed.some, found.total.informed.all) == (1, 3)
    assert (found.total.success.some, found.total.success.all) == (3, 3)
    assert [each.measure for each in found.drift] == ["retrieval_success", "hit_ratio", "informed", "success"]
    assert not found.drifted
    only = brain.upkeep.evaluate(["alice"], since=START + timedelta(days=1), until=START + 2 * WEEK)
    assert len(only.rows) == 1
    assert only.drift == ()


def test_several_agents_are_counted_together(brain: Engram) -> None:
    for name in ("alice", "bob"):
        brain.agent(name).record_decision(context="rain", action="umbrella", outcome="success")
    assert brain.upkeep.evaluate(["alice", "bob"]).total.success.all == 2
    assert brain.upkeep.evaluate(["nobody"]).rows == ()


def test_a_real_change_is_drift_and_the_same_rate_is_not() -> None:
    steady = [credit(n, START + (n // 40) * WEEK, n % 4 != 0) for n in range(120)]
    assert not report(("a",), steady, []).drifted
    falling = [credit(n, START + (n // 40) * WEEK, n % 4 != 0 and n < 80) for n in range(120)]
    found = report(("a",), falling, [])
    assert found.drifted
    (success, hits) = found.drift
    assert success.drifted
    assert success.change == pytest.approx(-0.75)
    assert hits.drifted


def test_a_change_in_the_middle_is_found_and_dated() -> None:
    worse = [credit(n, START + (n // 10) * WEEK, not 100 <= n < 160 and n % 5 != 0) for n in range(300)]
    passed = report(("a",), worse, []).drift[0]
    assert passed.drifted
    assert passed.since == datetime(2026, 3, 2, tzinfo=UTC) + 10 * WEEK
    assert passed.until == datetime(2026, 3, 2, tzinfo=UTC) + 16 * WEEK
    assert passed.last.share == 0.0
    assert passed.first.share == pytest.approx(0.8)
    better = [credit(n, START + (n // 10) * WEEK, n >= 140 or n % 5 == 0) for n in range(300)]
    lasting = report(("a",), better, []).drift[0]
    assert (lasting.drifted, lasting.until) == (True, None)
    assert lasting.since == datetime(2026, 3, 2, tzinfo=UTC) + 14 * WEEK
    assert lasting.interval is not None
    assert lasting.interval[0] < lasting.change < lasting.interval[1]


def test_a_decision_that_cites_what_does_not_exist_is_not_informed(brain: Engram) -> None:
    brain.agent("alice").record_decision(context="rain", action="umbrella", outcome="success", informed_by=["nothing"])
    informed = brain.upkeep.evaluate(["alice"]).total.informed
    assert (informed.some, informed.all) == (0, 1)


def test_chance_alone_rarely_cries_drift() -> None:
    import random

    chance, alarms = random.Random(7), 0
    for _ in range(300):
        credits = [credit(n, START + (n // 30) * WEEK, chance.random() < 0.6) for n in range(60)]
        decisions = [(START + (n // 30) * WEEK, chance.random() < 0.5, float(chance.random() < 0.7)) for n in range(60)]
        alarms += report(("a",), credits, decisions).drifted
    assert alarms <= 0.05 * 300


def test_the_exact_test_agrees_with_known_values() -> None:
    assert fisher(1, 10, 11, 14) == pytest.approx(0.002759456, rel=1e-6)
    assert fisher(5, 10, 5, 10) == 1.0
    assert fisher(0, 5, 0, 5) == 1.0
    assert fisher(8, 10, 1, 6) == pytest.approx(0.03496503, rel=1e-6)


@given(st.integers(1, 40), st.integers(1, 40), st.data())
def test_the_exact_test_is_symmetric_and_a_share(all: int, of: int, data: st.DataObject) -> None:
    some, others = data.draw(st.integers(0, all)), data.draw(st.integers(0, of))
    p = fisher(some, all, others, of)
    assert 0 < p <= 1
    assert p == pytest.approx(fisher(others, of, some, all))
    assert p == pytest.approx(fisher(all - some, all, of - others, of))


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(PERIODS))
def test_every_moment_lies_in_its_period_which_begins_where_it_began(moment: datetime, period: Period) -> None:
    start = period_start(moment, period)
    assert start <= moment <= period_end(start, period)
    assert period_start(start, period) == start


def test_a_measure_has_an_interval_around_its_share() -> None:
    some = make_measure(7, 10)
    assert some.interval is not None
    assert some.interval[0] < 0.7 < some.interval[1]
    assert make_measure(0, 0).share is None
    for none in (make_measure(0, 4), make_measure(4, 4)):
        assert none.interval is not None
        assert none.share in none.interval


def test_unknown_periods_and_stores_that_keep_nothing_are_refused(
    brain: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput, match="day, week, month"):
        brain.upkeep.evaluate(["alice"], period="year")  # type: ignore[arg-type]
    with monkeypatch.context() as patch:
        patch.setattr(brain, "store", object())
        with pytest.raises(Unsupported):
            brain.upkeep.evaluate(["alice"])
