"""A process that is killed while it seals rows leaves a database that another one finishes."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import engram
from engram import wiring
from engram.clock import Sources
from engram.config import Settings
from engram.ports import Query, Scope
from engram.privacy import keys
from engram.stores.sqlite import SqliteStore

MEMORIES = 400
KILLS = 6
REKEY = """
import sys
from engram import wiring
from engram.config import Settings
with wiring.opened(Settings(db=sys.argv[1], key_file=sys.argv[2], durable=False), sys.argv[1]) as store:
    print("begun", flush=True)
    while True:
        store.rekey(index=True)
"""
ENCRYPT = """
import sys
from engram import wiring
from engram.config import Settings
print("begun", flush=True)
wiring.encrypt(Settings(db=sys.argv[1], key_file=sys.argv[2], durable=False), "fields")
"""


def killed(program: str, path: Path, key: str, after: float) -> None:
    """Run a program, and kill it so many seconds after it has begun."""
    arguments = [sys.executable, "-c", program, str(path), key]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(after)
        process.kill()


def filled(tmp_path: Path, encryption: str) -> tuple[Path, str]:
    path, key = tmp_path / "engram.db", str(tmp_path / "engram.key")
    keys.make(key)
    with engram.open(path, embedder="hashing", durable=False, encryption=encryption, key_file=key) as brain:
        brain.agent("alice").remember([f"canary number {n}" for n in range(MEMORIES)])
    return path, key


def assert_whole(path: Path, key: str) -> None:
    with closing(wiring.open_store(Settings(db=str(path), key_file=key, durable=False), Sources())) as store:
        assert isinstance(store, SqliteStore)
        scope = Scope("alice")
        ids = [match.id for match in store.search(scope, Query(limit=2 * MEMORIES))]
        texts = {memory.text for memory in store.get(scope, ids) if memory is not None}
        assert texts == {f"canary number {n}" for n in range(MEMORIES)}
        assert store.check() == []


def test_a_killed_change_of_keys_loses_nothing(tmp_path: Path) -> None:
    path, key = filled(tmp_path, "fields")
    for seed in range(KILLS):
        killed(REKEY, path, key, random.Random(seed).uniform(0, 0.6))
        assert_whole(path, key)


def test_a_killed_encryption_is_finished_by_the_next_one(tmp_path: Path) -> None:
    path, key = filled(tmp_path, "none")
    for seed in range(KILLS):
        killed(ENCRYPT, path, key, random.Random(seed).uniform(0.2, 0.8))
    wiring.encrypt(Settings(db=str(path), key_file=key, durable=False), "fields")
    assert_whole(path, key)
    left = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.name != "engram.key")
    assert b"canary" not in left
    assert b"canari" not in left
