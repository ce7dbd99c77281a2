"""Carries runs on in child processes, and kills each of them at some moment. Run by test_workflow_kill.py.

The log tells, in order: what a child found to be done when it began, each effect of a step, and each step that ended.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import engram
import engram.stores.sqlite
import engram.wiring
from engram.agents.workflows.runner import WorkflowEngine
from engram.errors import NotFound
from engram.model.workflow import StepResult

STEPS = 12
PARALLEL = 3


def workflow() -> str:
    """Quick steps in two stages, the second of which does several at once; every other step may be repeated."""
    text = "name: kill\nstages:\n"
    for stage, first, parallel in (("first", 0, 1), ("second", STEPS // 2, PARALLEL)):
        text += f"  - name: {stage}\n    parallel: {parallel}\n    steps:\n"
        for n in range(first, first + STEPS // 2):
            repeat = "true" if n % 2 else "false"
            text += f"      - {{name: s{n}, run: leave, idempotent: {repeat}, with: {{line: s{n}}}}}\n"
    return text


def main(path: str, log: str, kills: str) -> None:
    dice = random.Random(7)
    Path(log).touch()
    with engram.open(":memory:", embedder="hashing") as warm:
        alice = warm.agent("alice")
        WorkflowEngine(alice, warm.store, warm.redactor, warm.sources, steps={"leave": print}).runs()
    killed = run = 0
    while killed < int(kills):
        before = Path(log).stat().st_size
        child = os.fork()
        if child == 0:
            carry_on(path, log, f"run-{run}")
        deadline = time.monotonic() + 30
        while killed % 4 and Path(log).stat().st_size == before and time.monotonic() < deadline:
            time.sleep(0.001)  # three of four are killed at work, the others while they open and recover
        ended = 0
        until = time.monotonic() + dice.uniform(0, 0.12)
        while not ended and time.monotonic() < until:
            ended, code = os.waitpid(child, os.WNOHANG)
            time.sleep(0.001)
        if not ended:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            killed += 1
        elif code:
            sys.exit(f"a worker failed with {code}")
        else:
            run += 1
    child = os.fork()
    if child == 0:
        carry_on(path, log, f"run-{run}")
    if os.waitpid(child, 0)[1]:
        sys.exit("the last worker failed")


def carry_on(path: str, log: str, run: str) -> None:
    """Begin a run or go on with it, to its end."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(what: str, *steps: str) -> None:
        os.write(file, f"{run} {what} {' '.join(steps)}\n".encode())

    def leave(line: str) -> None:
        note("effect", line)
        time.sleep(0.002)

    def watch(step: StepResult) -> None:
        note(step.status, step.name)

    brain = engram.open(path, embedder="hashing", durable=False)
    engine = WorkflowEngine(
        brain.agent("alice"), brain.store, brain.redactor, brain.sources, steps={"leave": leave}, watch=watch
    )
    try:
        found = [step.name for step in engine.status(run).steps if step.status == "done"]
    except NotFound:
        note("found")
        result = engine.run(workflow(), id=run)
    else:
        note("found", *found)
        result = engine.resume(run, again=True)
    note("run", result.status)
    os._exit(0 if result.status == "done" else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
