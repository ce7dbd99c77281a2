"""Measure the cost of a hook: the whole life of its process, for calls that need the memory and calls that do not.

python benchmarks/hooks.py [--runs 10] [--memories 1000] [--embedder hashing] [--json FILE]

`wall` is the median time from start to exit, `cpu` the median processor time of the process; `x bare` is its ratio to
the processor time of a Python that does nothing. Each lane is run once before it is measured. Lanes marked nearby ask a
process that has the memory open already, as `engram mcp` has; their processor time is that of both processes.
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
from engram.hooks.peer_server import serve_hooks

FAST = ["-P", "-m", "engram.hooks"]


@dataclass(frozen=True)
class Lane:
    """One way of calling a hook."""

    name: str
    words: list[str]
    payload: dict[str, Any]
    environment: dict[str, str]
    answers: bool
    nearby: bool = False


@dataclass(frozen=True)
class Cost:
    """Its cost, in milliseconds."""

    name: str
    wall: float
    cpu: float


NEAR = ", answered nearby"


def lanes(db: str, none: str) -> list[Lane]:
    """Return all lanes, those without the memory first."""
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
        Lane("a check of what is known" + NEAR, before, known, there, True, nearby=True),
        Lane("a recall", prompt, asks, there, True),
        Lane("a recall" + NEAR, prompt, asks, there, True, nearby=True),
    ]


def measured(lane: Lane, runs: int, agent: engram.AgentHandle) -> Cost:
    """Return the median cost of a lane. Raises `AssertionError` if it does not do what it should."""
    environment = {**os.environ, **lane.environment}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    walls, processors = [], []
    for run in range(runs + 1):
        fail(agent)  # after too many refusals one trial would be let through
        used, began = spent(nearby=lane.nearby), time.perf_counter()
        done = subprocess.run(
            [sys.executable, *lane.words],
            input=json.dumps(lane.payload).encode(),
            capture_output=True,
            env=environment,
            check=True,
        )
        wall, after = time.perf_counter() - began, spent(nearby=lane.nearby)
        assert bool(done.stdout) == lane.answers, (lane.name, done)
        if run:
            walls.append(wall)
            processors.append(after - used)
    return Cost(lane.name, 1000 * statistics.median(walls), 1000 * statistics.median(processors))


def spent(*, nearby: bool) -> float:
    """Return the processor seconds of all hooks so far and, with `nearby`, of this process, which answers them."""
    several = [resource.RUSAGE_CHILDREN, *([resource.RUSAGE_SELF] if nearby else [])]
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, several))


def fail(agent: engram.AgentHandle) -> None:
    error = "npm ERR! network timeout at: https://npm.example/"
    agent.learn_from_failure(error, action="npm install", environment="shop", tool="shell")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--memories", type=int, default=1000)
    parser.add_argument("--embedder", default="hashing")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="engram-") as folder:
        os.environ["XDG_DATA_HOME"] = folder
        path = Path(folder) / "team.db"
        ways = lanes(str(path), str(Path(folder) / "none.db"))
        with engram.open(path, embedder=asked.embedder, durable=False) as brain:
            agent = brain.agent("default")
            agent.remember([f"Service number {n} runs on host {n % 17} in room {n % 5}" for n in range(asked.memories)])
            agent.remember("Staging runs PostgreSQL 15")
            costs = [measured(lane, asked.runs, agent) for lane in ways if not lane.nearby]
            with serve_hooks(brain, str(path), "default") as place:
                assert place is not None, "no process can be asked here"
                costs += [measured(lane, asked.runs, agent) for lane in ways if lane.nearby]
        time.sleep(5)  # background work ends before its database is removed
    report(costs)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(cost) for cost in costs], indent=2), encoding="utf-8")


def report(costs: list[Cost]) -> None:
    """Print the cost of each lane, and the savings of being answered nearby."""
    known = {cost.name: cost for cost in costs}
    print(f"{'':<42}{'wall ms':>9}{'cpu ms':>9}{'x bare':>9}")
    for cost in costs:
        print(f"{cost.name:<42}{cost.wall:>9.0f}{cost.cpu:>9.0f}{cost.cpu / costs[0].cpu:>9.1f}")
    for name in (name for name in known if name + NEAR in known):
        print(f"{name}: {known[name].cpu / known[name + NEAR].cpu:.1f} times the processor time if it is alone")


if __name__ == "__main__":
    main()
