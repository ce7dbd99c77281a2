"""Consolidating that is killed at any moment loses nothing, and the next run finishes what it began."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import engram
from engram.engine import AgentHandle
from engram.model import Memory
from engram.ports import KeepsEvents, Scope
from engram.upkeep.consolidation import CONSOLIDATED, FOREVER, MARK, statement
from support.consolidation_worker import wordings

KILLS = 400 if os.environ.get("ENGRAM_LONG") else 40
WORKER = Path(__file__).parents[1] / "support" / "consolidation_worker.py"


def everything(alice: AgentHandle) -> dict[tuple[str, ...], list[Memory]]:
    """All memories by what they state."""
    found: dict[tuple[str, ...], list[Memory]] = {}
    for memory in alice.list(limit=10_000):
        if memory.kind == "knowledge":
            found.setdefault(statement(memory.text), []).append(memory)
    return found


def valid(memory: Memory) -> bool:
    return memory.valid_until in {None, FOREVER}


def noted(log: Path) -> dict[str, Counter[int]]:
    lines = [line.split(":") for line in log.read_text(encoding="utf-8").split()]
    return {what: Counter(int(n) for w, n in lines if w == what) for what in ("stated", "undoing", "undone")}


def check_nothing_is_lost(alice: AgentHandle, said: dict[str, Counter[int]]) -> None:
    known = everything(alice)
    for number in said["stated"]:
        memories = known[statement(wordings(number)[0])]
        assert {memory.text for memory in memories if MARK not in memory.tags} == set(wordings(number)), (
            "a source is gone"
        )
        assert any(valid(memory) for memory in memories), "what was stated is no longer believed"


def check_every_change_is_whole(brain: engram.Engram, said: dict[str, Counter[int]]) -> Counter[str]:
    store, alice, seen = brain.store, brain.agent("alice"), Counter[str]()
    assert isinstance(store, KeepsEvents)
    known = everything(alice)
    for number in said["stated"]:
        memories = known[statement(wordings(number)[0])]
        sources = [memory for memory in memories if MARK not in memory.tags]
        made = [memory for memory in memories if MARK in memory.tags]
        if not made:
            assert number in said["undoing"], "it was never consolidated"
            assert all(valid(source) for source in sources), "what was taken back is not believed again"
            seen["undone"] += 1
            continue
        assert number not in said["undone"], "what was taken back is there"
        (one,) = made
        stated = sum(source.evidence for source in sources)  # more than two, if it was killed before it noted them
        assert (one.evidence, valid(one)) == (stated, True)
        assert not any(valid(source) for source in sources), "a source was not ended"
        events = store.events_of(Scope("alice"), [one.id])
        named = {event.body["source"] for event in events if event.kind == CONSOLIDATED}
        assert named == set(one.provenance.sources) == {source.id for source in sources}
        seen["merged"] += 1
    return seen


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the worker forks")
def test_consolidating_that_is_killed_again_and_again_loses_nothing_and_leaves_no_half(
    path: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    subprocess.run([sys.executable, str(WORKER), str(path), str(log), str(KILLS)], check=True, timeout=1200)
    said = noted(log)
    with engram.open(path, durable=False) as brain:
        check_nothing_is_lost(brain.agent("alice"), said)
        brain.upkeep.consolidate(["alice"])
        check_nothing_is_lost(brain.agent("alice"), said)
        seen = check_every_change_is_whole(brain, said)
        assert brain.upkeep.consolidate(["alice"]) == []
        assert brain.upkeep.database.check() == []
    assert seen["merged"] > KILLS / 3
    assert seen["undone"] > KILLS / 12
