"""A torn log or a flipped bit never gives back something that was not written."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

import engram
from engram.errors import StoreError
from engram.stores.sqlite import SqliteStore

VARIANTS = 300 if os.environ.get("ENGRAM_LONG") else 60


def copy(path: Path, target: Path) -> Path:
    """The database and its log as they are on disk while it is open: what a power cut would leave."""
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{target}{suffix}")
    return target


def texts(path: Path) -> list[str]:
    with engram.open(path) as brain:
        assert brain.upkeep.database.check() == []
        return [str(memory.text) for memory in brain.agent("alice").list(limit=1000)][::-1]


@pytest.mark.slow
def test_a_torn_or_damaged_log_loses_only_the_newest_commits(path: Path, tmp_path: Path) -> None:
    dice = random.Random(3)
    with engram.open(path) as brain:
        written = [f"note {number} of the log" for number in range(80)]
        for text in written:
            brain.agent("alice").remember(text)
        size = Path(f"{path}-wal").stat().st_size
        assert size > 100_000
        for variant in range(VARIANTS):
            torn = copy(path, tmp_path / f"torn{variant}.db")
            log = Path(f"{torn}-wal")
            if variant % 2:
                os.truncate(log, dice.randrange(size))
            else:
                data = bytearray(log.read_bytes())
                data[dice.randrange(32, size)] ^= 1 << dice.randrange(8)
                log.write_bytes(data)
            found = texts(torn)
            assert found == written[: len(found)]


@pytest.mark.slow
def test_a_flipped_bit_is_reported_or_harmless(path: Path, tmp_path: Path) -> None:
    dice = random.Random(5)
    with engram.open(path) as brain:
        alice = brain.agent("alice")
        alice.remember([f"note {number} about {'lorem ipsum ' * 20}" for number in range(200)], tags=["t"])
        expected = {memory.id: memory for memory in alice.list(limit=1000)}
    reported = 0
    for variant in range(VARIANTS):
        damaged = tmp_path / f"flipped{variant}.db"
        data = bytearray(path.read_bytes())
        data[dice.randrange(100, len(data))] ^= 1 << dice.randrange(8)
        damaged.write_bytes(data)
        try:
            with engram.open(damaged) as brain:
                problems = brain.upkeep.database.check()
                found = brain.agent("alice").list(limit=1000)
        except StoreError:
            reported += 1
            continue
        reported += bool(problems)
        assert all(expected.get(memory.id) == memory for memory in found)
        assert len(found) == len(expected) or problems
    assert reported > VARIANTS / 4


def test_a_flipped_bit_in_the_text_of_a_memory_is_always_reported(path: Path) -> None:
    with engram.open(path) as brain:
        brain.agent("alice").remember("the launch code of the toaster is four slices")
    data = path.read_bytes()
    place = data.index(b"the launch code")
    path.write_bytes(data[: place + 4] + b"L" + data[place + 5 :])
    with engram.open(path) as brain:
        assert isinstance(brain.store, SqliteStore)
        assert "memories" in {problem.where for problem in brain.store.check()}
        with pytest.raises(StoreError, match="damaged"):
            brain.agent("alice").list()
