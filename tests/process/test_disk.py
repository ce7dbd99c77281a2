"""A full or read-only disk gives a clear error, and what was there before is intact."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import engram
from engram.errors import StoreError, StoreFull, StoreReadOnly


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here; the file-size limit below tests the same")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(agent: engram.AgentHandle) -> list[str]:
    """Write until the disk is full; the ids that were acknowledged."""
    stored: list[str] = []
    with pytest.raises(StoreFull, match="free some space"):  # noqa: PT012 - nobody knows which write will be the one
        for number in range(10_000):
            receipt = agent.remember(f"note {number} " + "lorem ipsum " * 100)
            stored.append(str(receipt.id))
    return stored


def test_a_full_disk_loses_nothing_and_writing_goes_on_when_there_is_space_again(small_disk: Path) -> None:
    with engram.open(small_disk / "team.db") as brain:
        alice = brain.agent("alice")
        ballast = small_disk / "ballast"
        ballast.write_bytes(bytes(1_000_000))
        stored = fill(alice)
        assert stored
        assert all(alice.get(id) for id in stored)
        assert alice.recall("note 0")
        ballast.unlink()
        assert alice.remember("there is space again").status == "stored"
        assert brain.upkeep.database.check() == []
    with engram.open(small_disk / "team.db") as brain:
        assert len(brain.agent("alice").list(limit=10_000)) == len(stored) + 1


def test_a_full_disk_can_be_cleaned_up_by_forgetting(small_disk: Path) -> None:
    with engram.open(small_disk / "team.db") as brain:
        alice = brain.agent("alice")
        stored = fill(alice)
        for id in stored[:50]:
            assert alice.forget(id).forgotten
        assert alice.remember("there is space again").status == "stored"
        assert brain.upkeep.database.check() == []


LIMITED = """
import resource, sys
import engram
from engram.errors import StoreError
brain = engram.open(sys.argv[1])
alice = brain.agent("alice")
alice.remember("before the limit")
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
try:
    for number in range(10_000):
        alice.remember(f"note {number} " + "lorem ipsum " * 100)
        print(number, flush=True)
except StoreError as error:
    print(type(error).__name__)
    assert alice.recall("before the limit")
    sys.exit(7)
"""


def test_a_file_size_limit_is_a_clear_error_and_loses_nothing(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    *acknowledged, kind = done.stdout.split()
    assert kind in {"StoreFull", "StoreError"}
    with engram.open(path) as brain:
        assert len(brain.agent("alice").list(limit=10_000)) == len(acknowledged) + 1
        assert brain.upkeep.database.check() == []


def test_a_read_only_disk_can_be_read_and_says_that_it_cannot_be_written(small_disk: Path) -> None:
    with engram.open(small_disk / "team.db") as brain:
        brain.agent("alice").remember("Staging runs PostgreSQL 15")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with engram.open(small_disk / "team.db") as brain:
        alice = brain.agent("alice")
        assert alice.recall("staging")[0].memory.text == "Staging runs PostgreSQL 15"
        with pytest.raises(StoreReadOnly, match="cannot be written"):
            alice.remember("more")
    with pytest.raises(StoreError):
        engram.open(small_disk / "new.db")
