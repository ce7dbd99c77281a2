"""Ask for suggestions with default settings about tasks with known outcomes, after decisions taken at random.

A memory records some of the tasks, each with one action and its outcome. It is then asked about others, by context
alone and without naming the actions.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import numpy as np

from engram.ports import Embedder
from engram_bench import ProgressCallback, no_progress
from engram_bench.advice.simulation import ContextEmbedder, open_memory
from engram_bench.metrics import bootstrap
from engram_bench.replay import Tasks

SEEDS = 3
RECORDED, ASKED = 1500, 500


def run(
    tasks: Tasks, embedder: Embedder, *, seeds: int = SEEDS, on_progress: ProgressCallback = no_progress
) -> dict[str, Any]:
    """Report how often it recommends an action, and what that earns beside the best single action on the same tasks."""
    cached, rows = ContextEmbedder(embedder), list[tuple[float, float, float, float]]()
    for seed in range(seeds):
        rows += _ask(tasks, seed, cached)
        on_progress(seed + 1, seeds, "asking as shipped")
    found = np.array(rows)
    followed = found[found[:, 0] > 0]
    return {
        "seeds": seeds,
        "recorded": _recorded(tasks),
        "asked": len(found),
        "recommended": bootstrap(found[:, :1])[0]._asdict(),
        "earned": bootstrap(followed[:, 1:2])[0]._asdict(),
        "best_single_there": bootstrap(followed[:, 2:3])[0]._asdict(),
        "best_single_everywhere": bootstrap(found[:, 2:3])[0]._asdict(),
        "first_listed": bootstrap(found[:, 3:4])[0]._asdict(),
    }


def _recorded(tasks: Tasks) -> int:
    return min(RECORDED, len(tasks.contexts) * 3 // 4)


def _ask(tasks: Tasks, seed: int, embedder: Embedder) -> list[tuple[float, float, float, float]]:
    """Return per question if there is a recommendation, and what it, the best single and the first action earn."""
    rng = random.Random(f"shipped {seed}")  # noqa: S311 - a replay, not cryptography
    order = rng.sample(range(len(tasks.contexts)), len(tasks.contexts))
    recorded, asked = order[: _recorded(tasks)], order[_recorded(tasks) : _recorded(tasks) + ASKED]
    best = int(tasks.outcomes[recorded].mean(axis=0).argmax())
    brain, clock = open_memory(seed, embedder)
    rows = []
    with brain:
        agent = brain.agent("agent")
        for place in recorded:
            clock.moment += timedelta(minutes=5)
            action = rng.randrange(len(tasks.actions))
            outcome = float(tasks.outcomes[place, action])
            agent.record_decision(context=tasks.contexts[place], action=tasks.actions[action], outcome=outcome)
        worth = {action: number for number, action in enumerate(tasks.actions)}
        for place in asked:
            answer, outcomes = agent.suggest(tasks.contexts[place]), tasks.outcomes[place]
            single = float(outcomes[best])
            first = float(outcomes[worth[answer.actions[0].action]]) if answer.actions else single
            if answer.recommended is None:
                rows.append((0.0, 0.0, single, first))
            else:
                rows.append((1.0, float(outcomes[worth[answer.recommended]]), single, first))
    return rows
