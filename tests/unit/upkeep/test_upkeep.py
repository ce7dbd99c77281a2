"""What is derived can be thrown away and made again."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import engram
from engram.engine import Engram
from engram.errors import Unsupported
from engram.ports import LONG_TERM, MirrorsVectors


def remember_some(brain: Engram, count: int = 150) -> None:
    for agent in ("alice", "bob"):
        brain.agent(agent).remember([f"{agent} saw comet number {n}" for n in range(count)], tags=["sky"])


def test_changing_the_embedder_needs_no_wipe_and_can_be_interrupted(path: Path) -> None:
    with engram.open(path) as brain:
        remember_some(brain)
    with engram.open(path, embedder="hashing:64") as brain:
        alice, store = brain.agent("alice"), brain.store
        assert isinstance(store, MirrorsVectors)
        assert alice.recall("comet number 7", k=1)[0].why["found_by"] == "words"

        def stop(done: int, total: int) -> None:
            assert total == 300
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            brain.upkeep.reembed(stop)
        left = store.count_unembedded(LONG_TERM, "hashing-64@1")
        assert 0 < left < 300
        assert brain.upkeep.reembed() == left
        assert alice.recall("comet number 7", k=1)[0].why["found_by"] == "both"
        assert brain.upkeep.database.info()["memory_index"] == 600
        assert brain.upkeep.reembed(drop_old=True) == 0
        assert brain.upkeep.database.info()["memory_index"] == 300
        assert store.embedder() == "hashing-64@1"


def test_lost_indexes_are_noticed_and_rebuilt_and_recall_is_the_same(path: Path) -> None:
    with engram.open(path) as brain:
        remember_some(brain)
        before = brain.agent("alice").recall("comet number 7", k=10)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("DELETE FROM memory_words")
        raw.execute("DELETE FROM memory_index")
        raw.execute("DELETE FROM memory_tags")
        raw.commit()
    with engram.open(path) as brain:
        assert brain.upkeep.database.check()
        assert brain.upkeep.rebuild() == {"words": 300, "tags": 300, "vectors": 300, "patterns": 0}
        assert brain.upkeep.database.check() == []
        after = brain.agent("alice").recall("comet number 7", k=10)
        assert [(hit.id, round(hit.score, 6)) for hit in after] == [(hit.id, round(hit.score, 6)) for hit in before]
        assert len(brain.agent("alice").recall("comet", k=3, tags="sky")) == 3


def test_what_was_learned_is_learned_again(path: Path) -> None:
    with engram.open(path) as brain:
        for agent in ("alice", "bob"):
            for n in range(2):
                brain.agent(agent).learn_from_failure(f"ConnectionError: port {n} is closed", action="deploy")
        before = brain.agent("alice").learning.failures()
        assert brain.upkeep.relearn(["alice"]) == {"alice": 1}
        assert brain.upkeep.rebuild()["patterns"] == 2
        assert brain.agent("alice").learning.failures() == before


def test_a_memory_in_this_process_has_nothing_to_maintain() -> None:
    with engram.open(":memory:") as brain, pytest.raises(Unsupported, match="nothing to maintain"):
        brain.upkeep.rebuild()
