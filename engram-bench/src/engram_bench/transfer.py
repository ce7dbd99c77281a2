"""Measure whether shared knowledge pays: a second agent with similar tasks, with the first one's knowledge and without.

The world. There are situations, each with a few actions; in every situation one action works nearly always, one works
half of the time, and the others nearly never. The first agent works through tasks and records how they went. Then the
second one works through tasks of its own, most of which the first one met, too. Both ask for a suggestion before each
task, follow what it recommends, and explore (`explore=True`) where it abstains.

The arms have the same tasks and random draws. `alone` has no grant; `shared` may learn from the first agent from the
start; `revoked` may for the first half only. After a revocation the agent must advise as its own experience alone
would: its suggestions are compared with those of an agent that recorded the same decisions and never had a grant.
`file` imports a file instead.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from engram import wiring
from engram.clock import Sources
from engram.engine import AgentHandle, Engram
from engram.transfer import Knowledge
from engram_bench import ProgressCallback, no_progress
from engram_bench.metrics import Estimate, bootstrap
from engram_bench.synthetic import word

START = datetime(2026, 1, 1, tzinfo=UTC)
SEEDS = 10
SITUATIONS, ACTIONS, OVERLAP = 24, 6, 0.9
LESSONS, TASKS = 600, 160
GOOD, HALF, BAD = 0.95, 0.5, 0.08


@dataclass(frozen=True, slots=True)
class TransferResult:
    """Failures of the second agent in each arm, and how far sharing reduces them."""

    seeds: int
    failures: dict[str, Estimate]
    reduction: Estimate
    """Share of failures that sharing avoids."""
    second_half: dict[str, Estimate]
    """Failures in the half after the revocation."""
    same_advice: float
    """Share of situations in which suggestions after the revocation equal those from own experience alone."""
    by_file: Estimate
    """Share of failures that importing a file avoids instead."""


class _Clock(Sources):
    """A clock that ticks by itself, with a seeded random generator."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.moment = START
        self.random = random.Random(seed)  # noqa: S311 - luck, not secrets

    def now(self) -> datetime:
        self.moment += timedelta(seconds=1)
        return self.moment


@dataclass(frozen=True, slots=True)
class TransferWorld:
    """Situations with their actions, and the success rate of each."""

    situations: tuple[str, ...]
    rates: dict[str, dict[str, float]]


def make_world(seed: int) -> TransferWorld:
    """Generate a world at random."""
    rng = random.Random(f"world {seed}")  # noqa: S311 - worlds, not secrets
    words = (word(rank) for rank in rng.sample(range(50, 5000), 3 * SITUATIONS + 2 * ACTIONS))
    names = tuple(f"{next(words)} the {next(words)} of {next(words)}" for _ in range(SITUATIONS))
    actions = [f"{next(words)} with {next(words)}" for _ in range(ACTIONS)]
    rates = {}
    for name in names:
        order = rng.sample(actions, len(actions))
        rates[name] = {action: (GOOD, HALF)[n] if n < 2 else BAD for n, action in enumerate(order)}
    return TransferWorld(names, rates)


def run(seeds: int = SEEDS, overlap: float = OVERLAP, on_progress: ProgressCallback = no_progress) -> TransferResult:
    """Run all arms in so many worlds."""
    failures: dict[str, list[float]] = {name: [] for name in ("alone", "shared", "revoked", "file")}
    later: dict[str, list[float]] = {name: [] for name in ("alone", "shared", "revoked")}
    same: list[float] = []
    for seed in range(seeds):
        made = make_world(seed)
        for arm, numbers in failures.items():
            first, second, alike = _arm(arm, made, seed, overlap)
            numbers.append(first + second)
            if arm in later:
                later[arm].append(second)
            if alike is not None:
                same.append(alike)
        on_progress(seed + 1, seeds)
    alone = np.array(failures["alone"])
    return TransferResult(
        seeds=seeds,
        failures={name: _mean(numbers) for name, numbers in failures.items()},
        reduction=_mean(1 - np.array(failures["shared"]) / alone),
        second_half={name: _mean(numbers) for name, numbers in later.items()},
        same_advice=float(np.mean(same)),
        by_file=_mean(1 - np.array(failures["file"]) / alone),
    )


def _mean(numbers: Sequence[float] | NDArray[np.float64]) -> Estimate:
    return bootstrap(np.asarray(numbers, dtype=np.float64).reshape(-1, 1))[0]


def _arm(arm: str, made: TransferWorld, seed: int, overlap: float) -> tuple[float, float, float | None]:
    """Return the failures of the second agent in both halves, and the agreement of suggestions after a revocation."""
    with _brain(seed) as brain, _brain(seed + 1000) as elsewhere:
        teacher = brain.agent("teacher")
        pupil = (elsewhere if arm == "file" else brain).agent("pupil")
        rng = random.Random(f"teacher {seed}")  # noqa: S311
        known = made.situations[: int(overlap * len(made.situations))]
        _do_tasks(teacher, made, [rng.choice(known) for _ in range(LESSONS)], rng)
        grant = None
        if arm in {"shared", "revoked"}:
            grant = teacher.grants.share("pupil", everything=True, purpose="to learn")
        elif arm == "file":
            _hand_over(teacher.knowledge, pupil.knowledge)
        rng = random.Random(f"pupil {seed}")  # noqa: S311
        tasks = [rng.choice(made.situations) for _ in range(TASKS)]
        first = _do_tasks(pupil, made, tasks[: TASKS // 2], rng)
        alike = None
        if arm == "revoked" and grant is not None:
            teacher.grants.revoke(grant.id)
            alike = _same_advice(brain, pupil, made)
        return first, _do_tasks(pupil, made, tasks[TASKS // 2 :], rng), alike


def _do_tasks(agent: AgentHandle, made: TransferWorld, tasks: Sequence[str], rng: random.Random) -> float:
    """Do tasks one after the other, record the outcomes, and return the number of failures.

    The agent follows recommendations, and explores where there is none.
    """
    failed = 0
    for task in tasks:
        rates = made.rates[task]
        actions, chance = rng.sample(sorted(rates), len(rates)), rng.random()
        action = agent.suggest(context=task, actions=actions).recommended
        action = action or agent.suggest(context=task, actions=actions, explore=True).recommended or actions[0]
        good = chance < rates[action]
        failed += not good
        agent.record_decision(context=task, action=action, outcome="success" if good else "failure")
    return float(failed)


def _same_advice(brain: Engram, pupil: AgentHandle, made: TransferWorld) -> float:
    """Return how often suggestions equal those of an agent that recorded the same decisions without a grant."""
    twin = brain.agent("twin")
    for memory in reversed(pupil.list(limit=10_000, kinds=["decision"])):
        content = memory.content.model_dump()
        twin.record_decision(
            context=memory.context, action=content["chosen_action"], outcome=memory.success_rate, at=memory.happened_at
        )
    asked = [
        (
            pupil.suggest(context=task, actions=sorted(made.rates[task])).recommended,
            twin.suggest(context=task, actions=sorted(made.rates[task])).recommended,
        )
        for task in made.situations
    ]
    return sum(one == other for one, other in asked) / len(asked)


def _hand_over(teacher: Knowledge, pupil: Knowledge) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "knowledge.jsonl"
        teacher.export(file, form="jsonl")
        pupil.import_file(file, large=True)


def _brain(seed: int) -> Engram:
    return wiring.open(":memory:", embedder="hashing", sources=_Clock(seed))
