"""The command that says how well memory serves."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import engram
from engram.cli.eval import command
from engram.cli.state import State
from engram.ids import Sources

Run = Callable[..., Result]
START = datetime(2026, 3, 4, 12, tzinfo=UTC)


class Clock(Sources):
    """A clock that stands until it is moved."""

    at = START

    def now(self) -> datetime:
        return self.at


@pytest.fixture
def run(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs a command line in this process and asserts its exit code."""
    monkeypatch.setenv("ENGRAM_DB", str(path))
    monkeypatch.chdir(tmp_path)

    def run(line: str, code: int = 0) -> Result:
        result = CliRunner().invoke(command, shlex.split(line), obj=State())
        assert isinstance(result.exception, SystemExit | None), result.exc_info
        assert result.exit_code == code, result.output
        return result

    return run


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
    lines = run("report").stdout.splitlines()
    assert lines[0].split() == (
        "WEEK RECALLS THAT HELPED MEMORIES THAT HELPED DECISIONS INFORMED DECISIONS THAT WENT WELL".split()
    )
    assert lines[1].startswith("2026-03-02  100% of 12 (75% to 100%)")
    assert lines[2].startswith("2026-03-09  0% of 12 (0% to 25%)")
    assert lines[3].startswith("all         50% of 24 ")
    assert lines[4] == "recalls that helped: DRIFT (-100% from first to last, p = 0.000)"
    assert lines[6] == "decisions informed: no drift (+0% from first to last, p = 1.000)"


def test_as_json_it_is_the_report(run: Run, path: Path) -> None:
    live(path)
    found = json.loads(run("report --json --period month").stdout)
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
    found = run("report --since 2026-03-09 --until 2026-03-16 --agent alice").stdout
    assert "Drift: unknown before two weeks have something to compare." in found
    assert run("report --agent bob").stdout == "Nothing has been told yet about recalls and decisions.\n"


def test_usage_errors_are_said(run: Run, path: Path) -> None:
    live(path, 1)
    run("report --period year", code=2)
    run("report --since whenever", code=2)
