"""An agent that is killed at any moment repeats no completed cycle and loses none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import engram
from engram.agents.cycles import Life
from engram.model.agent import AgentCycle

KILLS = 400 if os.environ.get("ENGRAM_LONG") else 100
WORKER = Path(__file__).parents[1] / "support" / "cycle_worker.py"
Noted = dict[str, list[tuple[int, int]]]
"""What the worker did, in order, each with the index of the cycle and the number of the task."""


def task_of(cycle: AgentCycle) -> int:
    return int(str(cycle.proposal.arguments["task"]))


def lived_and_killed(path: Path, log: Path) -> Noted:
    subprocess.run([sys.executable, str(WORKER), str(path), str(log), str(KILLS)], check=True, timeout=1200)
    noted: Noted = {"act": [], "done": []}
    for line in log.read_text(encoding="utf-8").splitlines():
        what, index, task = line.split()
        noted[what].append((int(index), int(task)))
    return noted


def check_what_was_done(cycles: dict[int, AgentCycle], noted: Noted) -> None:
    acted, acknowledged = [index for index, _ in noted["act"]], {index for index, _ in noted["done"]}
    completed = {index for index, cycle in cycles.items() if cycle.complete}
    assert len(set(acted)) == len(acted), "a cycle was carried out twice"
    assert acknowledged <= completed, "a cycle was completed, and is lost"
    assert completed <= set(acted), "a cycle has a result, and was not carried out"
    finished: set[int] = set()
    for index, task in noted["act"]:
        assert task not in finished, "a task was carried out after it was completed"
        finished |= {task} if index in completed else set()


def check_every_task(cycles: dict[int, AgentCycle]) -> None:
    by_task: defaultdict[int, list[AgentCycle]] = defaultdict(list)
    for index in sorted(cycles):
        by_task[task_of(cycles[index])].append(cycles[index])
    assert sorted(by_task) == list(range(1, len(by_task) + 1)), "a task was left out"
    for task, (first, *retries) in by_task.items():
        assert first.proposal.retry_of is None
        for retry in retries:
            assert retry.proposal.retry_of is not None, "a task was begun again, and nobody had said so"
            assert task_of(cycles[retry.proposal.retry_of]) == task
        results = [cycle.complete for cycle in (first, *retries)].count(True)
        given_up = task % 2 == 0 and not first.complete
        assert results == (0 if given_up else 1) or task == len(by_task), "a task was completed twice, or not at all"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the worker forks")
def test_an_agent_killed_again_and_again_repeats_no_completed_cycle_and_loses_none(path: Path, tmp_path: Path) -> None:
    noted = lived_and_killed(path, tmp_path / "log")
    with engram.open(path) as brain:
        life = Life(brain.agent("alice"), brain.store, brain.redactor, brain.sources)
        state = life.resume()
        cycles = {cycle.index: cycle for cycle in life.cycles(10_000)}
        assert brain.upkeep.database.check() == []
    assert sorted(cycles) == list(range(1, state.next_index))
    assert all(cycles[cycle.index].status == "open" for cycle in state.unfinished)
    check_what_was_done(cycles, noted)
    check_every_task(cycles)
    statuses = [cycle.status for cycle in cycles.values()]
    assert statuses.count("retried") + statuses.count("abandoned") > KILLS / 20, "the kills hit nothing"
    assert statuses.count("done") > KILLS / 4
