"""Consolidates in child processes, and kills each of them at some moment. Run by test_consolidation_kill.py."""

import os
import random
import signal
import sys
import time
from itertools import count
from pathlib import Path

import engram
import engram.stores.sqlite
from engram.upkeep.consolidation import MARK

WORDS = "amber birch cedar dahlia elm fern grape hazel iris jade kelp lotus maple nettle olive poppy".split()


def wordings(number: int) -> tuple[str, str]:
    """One statement in two wordings; no two numbers state the same."""
    name = f"{WORDS[number % 16]} {WORDS[number // 16 % 16]} {number}"
    return f"The deploys of {name} happen at midnight", f"Deploys of {name} occur at midnight."


def main(path: str, log: str, kills: str) -> None:
    dice = random.Random(7)
    with engram.open(":memory:", embedder="hashing") as warm:
        warm.agent("alice").remember(list(wordings(0)), kind="knowledge")
        warm.upkeep.consolidate(["alice"])
    for _ in range(int(kills)):
        before = Path(log).stat().st_size if Path(log).exists() else 0
        child = os.fork()
        if child == 0:
            work(path, log)
        deadline = time.monotonic() + 30
        while not (Path(log).exists() and Path(log).stat().st_size > before) and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(dice.uniform(0, 0.4))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def work(path: str, log: str) -> None:
    """Take every third change back, state something new twice, and consolidate, for ever."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    brain = engram.open(path, embedder="hashing", durable=False)
    alice = brain.agent("alice")
    done = Path(log).read_text(encoding="utf-8").split()
    for number in count(sum(word.startswith("stated") for word in done)):
        for made in alice.list(tags=MARK, kinds="knowledge", limit=1000):
            name = "".join(filter(str.isdigit, made.text))
            if int(name) % 3 == 0:
                os.write(file, f"undoing:{name}\n".encode())
                brain.upkeep.undo("alice", made.id)
                os.write(file, f"undone:{name}\n".encode())
        alice.remember(list(wordings(number)), kind="knowledge")
        os.write(file, f"stated:{number}\n".encode())
        brain.upkeep.consolidate(["alice"])


if __name__ == "__main__":
    main(*sys.argv[1:])
