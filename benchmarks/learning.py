"""Time recording, suggesting and checking as the number of unrelated decisions grows.

python benchmarks/learning.py [--sizes 1000,10000,100000] [--calls 200]

Every size is a database of its own, with the hashing embedder, so that no model's time is included. Ratios are to the
smallest size; the last column has the growth of the logarithm of the sizes.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import engram
from engram.engine import AgentHandle
from engram.learning.events import event_of
from engram.model import Draft, MemoryType
from engram.recording.input import prepare
from engram_bench.synthetic import text

BATCH = 1000
ACTIONS = ("retry with backoff", "increase the timeout", "clear the cache", "roll back", "ask a person", "do nothing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--calls", type=int, default=200)
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    first: dict[str, float] = {}
    print(f"{'decisions':>10} {'call':<16} {'p50 ms':>8} {'p99 ms':>8} {'ratio':>6} {'log ratio':>9}")
    for size in sizes:
        with (
            tempfile.TemporaryDirectory() as folder,
            engram.open(Path(folder) / "engram.db", embedder="hashing") as brain,
        ):
            alice = brain.agent("alice")
            fill(alice, size)
            for name, times in measure(alice, given.calls).items():
                p50, p99 = np.percentile(times, [50, 99])
                ratio = p50 / first.setdefault(name, p50)
                print(
                    f"{size:>10,} {name:<16} {p50:>8.2f} {p99:>8.2f} {ratio:>6.2f} "
                    f"{math.log(size) / math.log(sizes[0]):>9.2f}",
                    flush=True,
                )


def fill(alice: AgentHandle, size: int) -> None:
    """Store so many unrelated decisions, in batches."""
    chance, brain = random.Random(1), alice._brain
    texts = [text(number) for number in range(size)]
    for start in range(0, size, BATCH):
        entries = []
        for said in texts[start : start + BATCH]:
            action, quality = chance.choice(ACTIONS), chance.choice([0.0, 1.0])
            content = {"decision_context": said, "chosen_action": action, "outcome_quality": quality}
            draft = Draft(action, kind=MemoryType.DECISION, context=said, content=content)
            entry, _ = prepare(draft, alice._scope, brain.redactor, brain.sources)
            event = event_of(entry.memory)
            entries.append(entry if event is None else type(entry)(entry.memory, events=(event,)))
        brain.store.add(alice._scope, brain._parts.embeddings.embed(entries)[0])
    alice.check(action="warm up", context="nothing")


def measure(alice: AgentHandle, calls: int) -> dict[str, list[float]]:
    """Return the milliseconds of each call."""
    contexts = [f"the nightly build of project {n} stands still in stage {n % 7}" for n in range(calls)]
    timed: dict[str, Callable[[str], object]] = {
        "record_decision": lambda c: alice.record_decision(context=c, action=ACTIONS[0], outcome="success"),
        "suggest": lambda c: alice.suggest(context=c),
        "check": lambda c: alice.check(action=ACTIONS[0], context=c),
    }
    found: dict[str, list[float]] = {}
    for name, call in timed.items():
        call(contexts[0])
        found[name] = []
        for context in contexts:
            start = time.perf_counter()
            call(context)
            found[name].append((time.perf_counter() - start) * 1000)
    return found


if __name__ == "__main__":
    main()
