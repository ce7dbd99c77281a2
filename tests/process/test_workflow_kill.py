"""A run that is killed at any moment goes on without repeating what was done, and without losing anything."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import engram
from engram.agents.workflows.runner import WorkflowEngine
from support.workflow_worker import PARALLEL, STEPS

KILLS = 400 if os.environ.get("ENGRAM_LONG") else 100
WORKER = Path(__file__).parents[1] / "support" / "workflow_worker.py"
Noted = dict[str, list[tuple[str, list[str]]]]
"""What the workers of each run noted, in order."""


def carried_on_and_killed(path: Path, log: Path) -> Noted:
    subprocess.run([sys.executable, str(WORKER), str(path), str(log), str(KILLS)], check=True, timeout=1200)
    noted: Noted = defaultdict(list)
    for line in log.read_text(encoding="utf-8").splitlines():
        run, what, *steps = line.split()
        noted[run].append((what, steps))
    return noted


def check_nothing_repeated_or_lost(notes: list[tuple[str, list[str]]]) -> Counter[str]:
    """How often each step had its effect."""
    done, effects, began = set[str](), Counter[str](), 0
    for what, steps in notes:
        if what == "found":
            assert done <= set(steps), "a step had ended, and that is lost"
            assert set(steps) <= effects.keys(), "a step is done, and had no effect"
            done, began = set(steps), began + 1
        elif what == "effect":
            assert not done & set(steps), "a step was repeated that was done"
            effects.update(steps)
        elif what == "done":
            done |= set(steps)
    assert len(done) == STEPS
    assert effects.keys() == done
    assert effects.total() <= STEPS + PARALLEL * (began - 1), "more was repeated than was interrupted"
    return effects


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the worker forks")
def test_a_killed_run_repeats_nothing_that_was_done_and_loses_nothing(path: Path, tmp_path: Path) -> None:
    noted = carried_on_and_killed(path, tmp_path / "log")
    began = sum(what == "found" for notes in noted.values() for what, _ in notes)
    assert began > KILLS / 2, "most were killed before they began"
    with engram.open(path, durable=False) as brain:
        alice = brain.agent("alice")
        engine = WorkflowEngine(alice, brain.store, brain.redactor, brain.sources)
        assert brain.upkeep.database.check() == []
        for run, notes in noted.items():
            effects, told = check_nothing_repeated_or_lost(notes), engine.status(run)
            assert told.status == "done"
            for step in told.steps:
                assert effects[step.name] <= step.attempts
            kept = alice.list(limit=1000, kinds="decision", session=run)
            assert Counter(str(memory.metadata["step"]) for memory in kept) == Counter(effects.keys())
