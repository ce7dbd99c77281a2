"""Ask about contexts with one action that works in 90% of 20 attempts, and one that works in 30%."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from engram.ports import Embedder
from engram_bench import ProgressCallback, no_progress
from engram_bench.advice.simulation import ContextEmbedder, open_memory
from engram_bench.advice.worlds import fill_places, kinds

NUMBERS = (1, 2, 3, 5, 8, 12, 20)
ATTEMPTS, GOOD, POOR = 20, 18, 6


def run(embedder: Embedder, *, seed: int = 0, on_progress: ProgressCallback = no_progress) -> list[dict[str, Any]]:
    """Return, for each number of contexts, how many answers are right, wrong, from another context, or missing."""
    rows, cached = [], ContextEmbedder(embedder)
    for place, number in enumerate(NUMBERS, start=1):
        rows.append(_ask(number, seed, cached))
        on_progress(place, len(NUMBERS), f"{number} contexts")
    return rows


def _ask(number: int, seed: int, embedder: Embedder) -> dict[str, Any]:
    rng = random.Random(f"contexts {number} {seed}")  # noqa: S311 - a simulation
    tasks = _contexts(number, rng)
    attempts = [
        (context, action, place < successes)
        for context, good, poor in tasks
        for action, successes in ((good, GOOD), (poor, POOR))
        for place in range(ATTEMPTS)
    ]
    rng.shuffle(attempts)
    brain, clock = open_memory(seed, embedder)
    counts = {"right": 0, "wrong": 0, "foreign": 0, "abstained": 0}
    with brain:
        agent = brain.agent("ada")
        for context, action, success in attempts:
            clock.moment += timedelta(minutes=10)
            agent.record_decision(context=context, action=action, outcome="success" if success else "failure")
        for context, good, poor in tasks:
            answer = agent.suggest(context=context).recommended
            found = {None: "abstained", good: "right", poor: "wrong"}.get(answer, "foreign")
            counts[found] += 1
    return {"contexts": number, **counts}


def _contexts(number: int, rng: random.Random) -> list[tuple[str, str, str]]:
    """Choose situations of all kinds that share no action, each in one wording."""
    chosen, taken = [], set[str]()
    every = [(kind, each) for kind in kinds(held_out=False) for each in kind.situations]
    for kind, situation in rng.sample(every, len(every)):
        if not taken & {situation.best, situation.habit}:
            taken |= {situation.best, situation.habit}
            chosen.append((fill_places(rng.choice(situation.wordings), kind, rng), situation.best, situation.habit))
    return chosen[:number]
