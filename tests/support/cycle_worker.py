"""Lives an agent's life in child processes, and kills each of them at some moment. Run by test_cycles_kill.py."""

import os
import random
import signal
import sys
import time
from pathlib import Path

import engram
import engram.stores.sqlite
import engram.wiring
from engram.agents.cycles import Life
from engram.model.agent import AgentCycle


def main(path: str, log: str, kills: str) -> None:
    dice = random.Random(23)
    Path(log).touch()
    with engram.open(":memory:", embedder="hashing") as warm:
        life_of(warm).resume()
    for round_ in range(int(kills)):
        wanted = Path(log).stat().st_size + dice.randrange(40)  # up to four notes, so that some come to an end
        child = os.fork()
        if child == 0:
            live(path, log)
        deadline = time.monotonic() + 30
        while round_ % 4 and Path(log).stat().st_size <= wanted and time.monotonic() < deadline:
            time.sleep(0.001)  # three of four are killed at work, the others while they open and recover
        time.sleep(dice.uniform(0, 0.04))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def live(path: str, log: str) -> None:
    """Finish what was interrupted, tasks of odd numbers only, and go on with the next task, for ever."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(what: str, cycle: AgentCycle) -> None:
        os.write(file, f"{what} {cycle.index} {task_of(cycle)}\n".encode())

    def act(cycle: AgentCycle) -> None:
        note("act", cycle)
        life.result(cycle, output={"task": task_of(cycle)})
        note("done", cycle)

    life = life_of(engram.open(path, embedder="hashing"))
    while interrupted := life.resume().interrupted:
        if int(str(interrupted.arguments["task"])) % 2:
            act(life.resolve(interrupted.index, "retry"))
        else:
            life.resolve(interrupted.index, "abandon")
    newest = life.cycles(1)
    task = task_of(newest[0]) if newest else 0
    while True:
        task += 1
        act(life.propose(tool="work", arguments={"task": task}))


def life_of(brain: engram.Engram) -> Life:
    return Life(brain.agent("alice"), brain.store, brain.redactor, brain.sources)


def task_of(cycle: AgentCycle) -> int:
    return int(str(cycle.proposal.arguments["task"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
