"""The command that says how well memory serves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import engram
from engram.clock import Sources
from support.command_line import Run, value

START = datetime(2026, 3, 4, 12, tzinfo=UTC)


class Clock(Sources):
    """A clock that stands until it is moved."""

    at = START

    def now(self) -> datetime:
        return self.at


def live(path: Path, weeks: int = 2) -> None:
    clock = Clock()
    with engram.open(path, sources=clock) as brain:
        alice = brain.agent("alice")
        alice.remember("The bridge is closed on Sundays")
        for week in range(weeks):
            clock.at = START + timedelta(weeks=week)
            for _ in range(12):
                hits = alice.recall("when is the bridge closed?")
                alice.credit(hits, hits if week == 0 else [])
            alice.record_decision(context="sunday", action="ferry", outcome="success")


def test_a_row_for_each_week_and_whether_it_drifts(run: Run, path: Path) -> None:
    live(path)
    lines = run("eval report").stdout.splitlines()
    assert lines[0].split() == (
        "WEEK RECALLS THAT HELPED MEMORIES THAT HELPED DECISIONS INFORMED DECISIONS THAT WENT WELL".split()
    )
    assert lines[1].startswith("2026-03-02  100% of 12 (76% to 100%)")
    assert lines[2].startswith("2026-03-09  0% of 12 (0% to 24%)")
    assert lines[3].startswith("all         50% of 24 ")
    assert lines[4] == (
        "recalls that helped: DRIFT (clearest difference -100 points since 2026-03-09, interval -100 to -66, p < 0.001)"
    )
    assert lines[6] == (
        "decisions informed: no drift (clearest difference +0 points since 2026-03-09, interval -79 to +79, p = 1.000)"
    )


def test_as_json_it_is_the_report(run: Run, path: Path) -> None:
    live(path)
    found = value(run("eval report --json --period month"))
    assert found["period"] == "month"
    assert len(found["rows"]) == 1
    assert found["total"]["retrieval_success"] == {
        "some": 12,
        "all": 24,
        "share": 0.5,
        "interval": [pytest.approx(0.313, abs=0.01), pytest.approx(0.687, abs=0.01)],
    }
    assert found["drift"] == []


def test_only_some_time_and_only_one_agent(run: Run, path: Path) -> None:
    live(path)
    found = run("eval report --since 2026-03-09 --until 2026-03-16 --agent alice").stdout
    assert "Drift: not known until two weeks can be compared." in found
    assert "agent list" in run("eval report --agent nobody", code=3).stderr


def test_usage_errors_are_said(run: Run, path: Path) -> None:
    live(path, 1)
    run("eval report --period year", code=2)
    run("eval report --since whenever", code=2)
