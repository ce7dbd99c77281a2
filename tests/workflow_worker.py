"""Carries a run on until it is done, each step leaving one line behind. Run by test_workflow_kill.py, and killed."""

import os
import sys
import time

import engram
from engram.errors import NotFound
from engram.lifecycle.running import WorkflowEngine

STEPS = 30


def workflow() -> str:
    """Quick steps, every other of which says that it may be repeated."""
    step = "      - {{name: s{n}, run: leave, idempotent: {repeat}, with: {{line: s{n}}}}}\n"
    written = [step.format(n=n, repeat="true" if n % 2 else "false") for n in range(STEPS)]
    return "name: kill\nstages:\n  - name: all\n    steps:\n" + "".join(written)


def main(path: str, lines: str, run: str) -> None:
    def leave(line: str) -> None:
        with open(lines, "ab", buffering=0) as file:  # noqa: PTH123 - one write, as it is
            file.write(f"{run} {line}\n".encode())
        time.sleep(0.002)

    with engram.open(path, durable=False) as brain:
        alice = brain.agent("alice")
        engine = WorkflowEngine(alice, brain.store, brain.redactor, brain.sources, steps={"leave": leave})
        try:
            engine.status(run)
        except NotFound:
            begin = True
        else:
            begin = False
        print("ready", flush=True)
        result = engine.run(workflow(), id=run) if begin else engine.resume(run, again=True)
        print(result.status, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
