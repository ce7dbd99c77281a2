"""Measure the savings of word lookups over reading all episodes, and of storing the graph of facts, as ratios.

python benchmarks/memories.py [--size 5000]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import engram
from engram.engine import AgentHandle, Engram
from engram.memories.episodic import EpisodicMemory
from engram.memories.semantic import SemanticMemory

RARE = 5


def median(call: Callable[[], object], times: int = 5) -> float:
    """Return the median of some calls, in seconds, after one that is not counted."""
    call()
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def fill(alice: AgentHandle, size: int) -> None:
    """Store interactions, few of which have the word "needle", and as many facts about services that use each other."""
    for start in range(0, size, 500):
        numbers = range(start, min(start + 500, size))
        alice.remember(
            [
                {
                    "text": f"Answer {n} about disk {n % 97}",
                    "context": f"Question {n} on server {n % 41}{' needle' if n % (size // RARE) == 7 else ''}",
                    "kind": "message",
                }
                for n in numbers
            ]
        )
        alice.remember([fact(n, size) for n in numbers])


def fact(number: int, size: int) -> dict[str, object]:
    """Return a fact as semantic memory stores it."""
    one, other = f"Service {number * 7 % (size // 3)}", f"Service {number * 13 % (size // 3)}"
    return {
        "text": f"{one} uses {other} ({number})",
        "kind": "knowledge",
        "content": {"knowledge_type": "fact", "subject": one, "predicate": "uses", "object": other},
        "tags": ("fact", f"fact:{one.lower()}"),
        "valid_from": datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=number),
    }


def measure(brain: Engram, size: int) -> None:
    """Print each ratio of the indexed way to the one that reads everything."""
    alice = brain.agent("alice")
    fill(alice, size)
    reading, each_time = EpisodicMemory(alice, brain.sources), SemanticMemory(alice, sources=brain.sources)
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        f"episodes with a word that {RARE} have": (
            lambda: alice.episodic.query("needle"),
            lambda: reading.query("needle"),
        ),
        "episodes with a word that all have": (lambda: alice.episodic.query("disk"), lambda: reading.query("disk")),
        "neighbours of a concept": (
            lambda: alice.semantic.neighbours("Service 5"),
            lambda: each_time.neighbours("Service 5"),
        ),
        "concepts related to a concept": (
            lambda: alice.semantic.related("Service 5"),
            lambda: each_time.related("Service 5"),
        ),
    }
    for name, (ours, plain) in pairs.items():
        fast, slow = median(ours), median(plain, 3)
        print(f"{name}: {fast * 1000:.1f} ms, {fast / slow:.3f} of {slow * 1000:.0f} ms")


def main() -> None:
    """Measure on a new SQLite file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=5000, help="how many interactions, and how many facts")
    size = parser.parse_args().size
    with (
        tempfile.TemporaryDirectory() as folder,
        engram.open(Path(folder) / "bench.db", embedder="hashing", durable=False) as brain,
    ):
        measure(brain, size)


if __name__ == "__main__":
    main()
