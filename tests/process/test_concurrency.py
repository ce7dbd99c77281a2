"""Many processes on one file: nothing lost, nothing doubled, no lock error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import engram

WORKER = Path(__file__).parents[1] / "support" / "concurrency_worker.py"
PROCESSES, ROUNDS = 8, 500 if os.environ.get("ENGRAM_LONG") else 200


@pytest.mark.slow
def test_eight_processes_write_and_recall_without_losing_or_doubling_anything(path: Path) -> None:
    commands = [[sys.executable, str(WORKER), str(path), str(worker), str(ROUNDS)] for worker in range(PROCESSES)]
    workers = [
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        for command in commands
    ]
    complaints = [worker.communicate()[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * PROCESSES, complaints
    with engram.open(path) as brain:
        texts = [memory.text.split()[0] for memory in brain.agent("team").list(limit=10_000)]
        assert sorted(texts) == sorted(f"w{worker}n{n}" for worker in range(PROCESSES) for n in range(ROUNDS))
        assert brain.upkeep.database.check() == []
        assert brain.upkeep.database.info()["memory_index"] == PROCESSES * ROUNDS


BUSY_LOG = """
import sys
import engram
from engram.stores import sqlite
sqlite.CHECKPOINT_BYTES = 32 * 1024
with engram.open(sys.argv[1], durable=False) as brain:
    for number in range(int(sys.argv[3])):
        brain.agent("team").remember(f"w{sys.argv[2]}n{number} " + "lorem ipsum " * 50)
        brain.agent("team").list(limit=5)
"""


@pytest.mark.slow
def test_the_log_is_carried_over_again_and_again_without_damage(path: Path) -> None:
    rounds = 3000 if os.environ.get("ENGRAM_LONG") else 300
    commands = [[sys.executable, "-c", BUSY_LOG, str(path), str(worker), str(rounds)] for worker in range(4)]
    workers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    complaints = [worker.communicate()[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 4, complaints
    with engram.open(path) as brain:
        assert brain.upkeep.database.check() == []
        assert brain.upkeep.database.info()["memories"] == 4 * rounds
