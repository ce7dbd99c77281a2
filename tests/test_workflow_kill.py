"""A run that is killed at any moment goes on without repeating what was done, and without losing anything."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

import engram
from engram.lifecycle.running import WorkflowEngine
from engram.model.workflow import ExecutionResult
from workflow_worker import STEPS

KILLS = 100 if os.environ.get("ENGRAM_LONG") else 12
WORKER = Path(__file__).parent / "workflow_worker.py"


def carry_on_and_kill(path: Path, lines: Path, run: str, delay: float | None) -> str:
    """What a worker said that was killed after `delay` seconds of work, or not at all."""
    command = [sys.executable, str(WORKER), str(path), str(lines), run]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        killer = None if delay is None else threading.Timer(delay, worker.kill)
        if killer is not None:
            killer.start()
        said = worker.stdout.read()
        if killer is not None:
            killer.join()
    return said.strip()


def status(path: Path, run: str) -> ExecutionResult | None:
    with engram.open(path, durable=False) as brain:
        engine = WorkflowEngine(brain.agent("alice"), brain.store, brain.redactor, brain.sources)
        return engine.status(run) if any(known.run == run for known in engine.runs()) else None


def left_behind(lines: Path, run: str) -> Counter[str]:
    """How often each step of a run had its effect."""
    written = lines.read_text(encoding="utf-8").splitlines() if lines.exists() else []
    return Counter(line.split()[1] for line in written if line.split()[0] == run)


@pytest.mark.slow
def test_a_killed_run_repeats_nothing_that_was_done_and_loses_nothing(path: Path, tmp_path: Path) -> None:
    dice = random.Random(7)
    lines, kills, runs = tmp_path / "lines", 0, 0
    while kills < KILLS:
        run, finished, before = f"run-{runs}", False, dict[str, int]()
        runs += 1
        while not finished:
            delay = dice.uniform(0, 0.3) if kills < KILLS else None
            finished = carry_on_and_kill(path, lines, run, delay) == "done"
            kills += not finished
            effects, told = left_behind(lines, run), status(path, run)
            if told is None:
                assert not effects
                continue
            assert {name: effects[name] for name in before} == before
            before = {step.name: effects[step.name] for step in told.steps if step.status == "done"}
            assert all(before.values())
            for step in told.steps:
                assert effects[step.name] <= step.attempts
        assert len(before) == STEPS
        assert told is not None
        assert told.status == "done"
        assert sum(effects.values()) <= STEPS + kills
        with engram.open(path, durable=False) as brain:
            kept = brain.agent("alice").list(limit=1000, kinds="decision", session=run)
            assert Counter(str(memory.metadata["step"]) for memory in kept) == Counter(before.keys())
