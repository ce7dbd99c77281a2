"""Recording what is learned from: decisions, failures, and what they were based on."""

from __future__ import annotations

import json
from typing import Any

from support.command_line import Run


def content(run: Run, line: str) -> dict[str, Any]:
    receipt = json.loads(run(f"memory record {line} --json").stdout)
    found: dict[str, Any] = json.loads(run(f"memory show {receipt['id']} --json").stdout)["content"]
    return found


def test_a_decision_takes_its_circumstances_and_may_lack_an_outcome(run: Run) -> None:
    said = content(
        run,
        "--context deploy --action push --environment ci --tool git --task-type release --informed-by one "
        "--informed-by two",
    )
    assert said["outcome_quality"] is None
    assert (said["environment"], said["tool"], said["task_type"]) == ("ci", "git", "release")
    assert said["informed_by"] == ["one", "two"]


def test_a_failed_decision_takes_its_error_and_is_recognised_the_second_time(run: Run) -> None:
    line = "memory record --context deploy --action 'git push' --outcome failure --error 'fatal: remote {} hung up'"
    assert "Recognised" not in run(line.format(1)).stdout
    assert ", seen 2 times\n" in run(line.format(2)).stdout


def test_a_failure_takes_what_was_done_and_whether_the_solution_helped(run: Run) -> None:
    said = content(
        run,
        "--type failure --error 'KeyError: x' --action 'render page' --environment ci --tool jinja --task-type report "
        "--solution restart --solution-helped no",
    )
    assert (said["action"], said["environment"], said["tool"]) == ("render page", "ci", "jinja")
    assert (said["solution_applied"], said["solution_helped"]) == ("restart", 0.0)
    assert content(run, "--type failure --error e --solution s --solution-helped 0.5")["solution_helped"] == 0.5
    assert content(run, "--type failure --error e --solution s --solution-helped yes")["solution_helped"] == 1.0


def test_the_text_of_a_failure_is_what_it_is_found_by(run: Run) -> None:
    run("memory record --type failure --error 'KeyError: x' --solution restart --environment ci --solution-helped no")
    (memory,) = json.loads(run("memory list --json").stdout)
    assert memory["text"] == "KeyError: x; restart"
