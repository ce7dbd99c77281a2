"""A writer that is killed at any moment loses nothing that was acknowledged."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import engram

KILLS = 200 if os.environ.get("ENGRAM_LONG") else 20
WRITER = Path(__file__).parents[1] / "support" / "crash_writer.py"


def write_and_kill(path: Path, round_: int, delay: float) -> list[tuple[str, str]]:
    """What a writer had acknowledged when it was killed, `delay` seconds after its first acknowledgement."""
    command = [sys.executable, str(WRITER), str(path), str(round_)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        killer = threading.Timer(delay, writer.kill)
        killer.start()
        lines = [first, *writer.stdout]
        killer.join()
    complete = [line.split() for line in lines if line.endswith("\n")]
    return [(id, token) for id, token in complete]


@pytest.mark.slow
def test_every_acknowledged_memory_survives_a_kill_and_is_found_by_both_searches(path: Path) -> None:
    dice = random.Random(7)
    acknowledged = 0
    for round_ in range(KILLS):
        written = write_and_kill(path, round_, dice.uniform(0, 0.25))
        assert written
        acknowledged += len(written)
        with engram.open(path) as brain:
            alice = brain.agent("alice")
            assert all(alice.get(id) for id, _ in written)
            for id, token in dice.sample(written, min(10, len(written))):
                (best, *_) = alice.recall(token, k=1)
                assert best.id == id
                assert best.why["found_by"] == "both"
    with engram.open(path) as brain:
        info = brain.upkeep.database.info()
        assert brain.upkeep.database.check() == []
        assert info["memories"] == info["memory_index"]
        assert int(info["memories"] or 0) >= acknowledged


@pytest.mark.slow
def test_a_kill_while_the_database_is_made_leaves_one_that_opens(path: Path) -> None:
    dice = random.Random(11)
    for round_ in range(KILLS // 2):
        fresh = path.with_name(f"new{round_}.db")
        with subprocess.Popen([sys.executable, str(WRITER), str(fresh), "0"], stdout=subprocess.DEVNULL) as writer:
            deadline = time.monotonic() + 30
            while not fresh.exists() and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(dice.uniform(0, 0.05))
            writer.kill()
        with engram.open(fresh) as brain:
            assert brain.agent("alice").remember("still usable").status == "stored"
            assert brain.upkeep.database.check() == []
