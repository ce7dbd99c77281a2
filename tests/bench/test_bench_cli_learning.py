"""The benchmarks of learning, as commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engram.cli import main

Run = Callable[..., Result]

TASKS = [
    {"context": f"{verb} the {thing}", "outcomes": {"ask": float(verb == "refund"), "act": float(verb != "refund")}}
    for verb in ("refund", "reset", "cancel")
    for thing in ("order", "password", "parcel")
]
LINES = [
    {"system": "web", "text": "connected to 10.0.0.1 in 5 ms", "group": "a"},
    {"system": "web", "text": "connected to 10.0.0.2 in 7 ms", "group": "a"},
    {"system": "web", "text": "user alice logged out", "group": "b"},
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("ENGRAM_DB", str(tmp_path / "mine.db"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(main, ["bench", *arguments])
        assert isinstance(result.exception, SystemExit | None), result.exc_info
        assert result.exit_code == code, result.output
        assert not (tmp_path / "mine.db").exists()
        return result

    return run


def saved(folder: Path, rows: list[Any]) -> str:
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "data.jsonl"


def test_decisions_are_replayed_and_what_was_chosen_is_written(run: Run, tmp_path: Path) -> None:
    arguments = ("decisions", "--data", saved(tmp_path, TASKS), "--seeds", "3", "--out", "chosen.jsonl")
    shown = run(*arguments).stdout
    assert "tasks              9, with 2 actions each\n" in shown
    assert "\noracle " in shown
    assert "\nengram - placebo " in shown
    assert len((tmp_path / "chosen.jsonl").read_text().splitlines()) == 9
    report = json.loads(run(*arguments, "--json").stdout)
    assert (report["tasks"], report["seeds"], report["oracle"]) == (9, 3, 1.0)


def test_lines_are_grouped_and_their_groups_written_in_order(run: Run, tmp_path: Path) -> None:
    data = saved(tmp_path, LINES)
    shown = run("grouping", "--data", data, "--out", "groups.jsonl").stdout
    assert "web     3      2 of 2  100.0     100.0\n" in shown
    groups = [json.loads(line)["group"] for line in (tmp_path / "groups.jsonl").read_text().splitlines()]
    assert groups[0] == groups[1] != groups[2]
    assert json.loads(run("grouping", "--data", data, "--json").stdout)["scored"] == 3


def test_prevention_is_simulated(run: Run) -> None:
    shown = run("prevention", "--seeds", "2").stdout
    assert shown.startswith("World as it is, 2 seeds, with 95% intervals:\n")
    assert "repeated failures prevented" in shown


def test_calibration_is_simulated_and_replayed(run: Run, tmp_path: Path) -> None:
    shown = run("calibration", "--seeds", "2", "--data", saved(tmp_path, TASKS)).stdout
    assert shown.startswith("Reported rates, against the true ones:\n")
    assert "\nfrom similar contexts only " in shown
    assert "\nThe replay:\nBrier score " in shown
    report = json.loads(run("calibration", "--seeds", "2", "--json").stdout)
    assert report["replay"] is None
    assert 0.8 < report["simulated"]["all"]["coverage"] <= 1


@pytest.mark.parametrize("arguments", [("decisions",), ("grouping",), ("prevention", "--seeds", "1")])
def test_what_is_missing_or_too_few_is_a_usage_error(run: Run, arguments: tuple[str, ...]) -> None:
    run(*arguments, code=2)


def test_a_file_that_is_not_there_is_not_found(run: Run) -> None:
    run("decisions", "--data", "nowhere.jsonl", code=3)
    run("grouping", "--data", "nowhere.jsonl", code=3)
