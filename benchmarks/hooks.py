"""What a hook costs: the whole life of its process, for the ways past the memory and the ways into it.

    python benchmarks/hooks.py [--runs 10] [--memories 1000] [--embedder hashing] [--json FILE]

`wall` is the median time from start to exit, `cpu` the median processor time of the process; `x bare` is how many
times the processor time of a Python that does nothing that is. Each lane is run once before it is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import engram

FAST = ["-P", "-m", "engram.hooks"]


@dataclass(frozen=True)
class Lane:
    """One way through a hook."""

    name: str
    words: list[str]
    payload: dict[str, Any]
    environment: dict[str, str]
    answers: bool


@dataclass(frozen=True)
class Cost:
    """What it costs, in milliseconds."""

    name: str
    wall: float
    cpu: float


def lanes(db: str, none: str) -> list[Lane]:
    """The ways past the memory first."""
    asks = {"prompt": "which database does staging run?", "cwd": "/home/me/shop", "session_id": "s"}
    known = {"tool_name": "Bash", "tool_input": {"command": "npm install"}, "cwd": "/home/me/shop"}
    other = {**known, "tool_input": {"command": "ls -la"}}
    there, away = {"ENGRAM_DB": db}, {"ENGRAM_DB": none}
    prompt, before = [*FAST, "UserPromptSubmit", "--seconds=60"], [*FAST, "PreToolUse", "--seconds=60"]
    after = [*FAST, "PostToolUseFailure"]
    return [
        Lane("a bare Python", ["-P", "-c", "pass"], {}, {}, False),
        Lane("a trivial prompt", prompt, {"prompt": "thanks"}, there, False),
        Lane("a tool that only reads", before, {**known, "tool_name": "Read"}, there, False),
        Lane("switched off", prompt, asks, there | {"ENGRAM_HOOKS": "off"}, False),
        Lane("no database", prompt, asks, away, False),
        Lane("a failure, told to the background", after, {**known, "error": "boom", "tool_use_id": "t"}, there, False),
        Lane("a check of what is not known", before, other, there, False),
        Lane("a check of what is known", before, known, there, True),
        Lane("a recall", prompt, asks, there, True),
    ]


def measured(lane: Lane, runs: int) -> Cost:
    """The median cost of a lane. Raises `AssertionError` if it does not do what it should."""
    environment = {**os.environ, **lane.environment}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    walls, processors = [], []
    for run in range(runs + 1):
        used, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [sys.executable, *lane.words],
            input=json.dumps(lane.payload).encode(),
            capture_output=True,
            env=environment,
            check=True,
        )
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        assert bool(done.stdout) == lane.answers, (lane.name, done)
        if run:
            walls.append(wall)
            processors.append(after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime)
    return Cost(lane.name, 1000 * statistics.median(walls), 1000 * statistics.median(processors))


def fill(path: Path, memories: int, embedder: str) -> None:
    with engram.open(path, embedder=embedder, durable=False) as brain:
        agent = brain.agent("default")
        agent.remember([f"Service number {n} runs on host {n % 17} in room {n % 5}" for n in range(memories)])
        agent.remember("Staging runs PostgreSQL 15")
        for n in range(3):
            agent.learn_from_failure(
                f"npm ERR! network timeout at: https://npm.example/{n}",
                action="npm install",
                environment="shop",
                tool="shell",
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--memories", type=int, default=1000)
    parser.add_argument("--embedder", default="hashing")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "team.db"
        fill(path, asked.memories, asked.embedder)
        costs = [measured(lane, asked.runs) for lane in lanes(str(path), str(Path(folder) / "none.db"))]
        time.sleep(5)  # what was told to the background ends before its database goes
    bare = costs[0].cpu
    print(f"{'':<36}{'wall ms':>9}{'cpu ms':>9}{'x bare':>9}")
    for cost in costs:
        print(f"{cost.name:<36}{cost.wall:>9.0f}{cost.cpu:>9.0f}{cost.cpu / bare:>9.1f}")
    if asked.json:
        asked.json.write_text(json.dumps([asdict(cost) for cost in costs], indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
