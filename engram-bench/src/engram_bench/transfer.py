"""Whether shared knowledge pays: a second agent with tasks like those of a first one, with its knowledge and without.

The world. There are situations, each with a few actions; in every situation one action works nearly always, one works
half of the time, and the others nearly never. The first agent works through tasks and records how they went. Then the
second one works through tasks of its own, most of which the first one met, too. Both ask for a suggestion before each
task, follow what it recommends, and explore (`explore=True`) where it abstains.

The arms meet the same tasks and luck. `alone` has no grant; `shared` may learn from the first agent from the start;
`revoked` may for the first half, and then no longer. After a revocation the agent must stand where its own experience
alone would have brought it: its advice is compared, situation by situation, with that of an agent that recorded the
same decisions and never had a grant.
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
from engram_bench import Tell, unheard
from engram_bench.factories import word
from engram_bench.metrics import Estimate, bootstrap

START = datetime(2026, 1, 1, tzinfo=UTC)
SEEDS = 10
SITUATIONS, ACTIONS, OVERLAP = 24, 6, 0.9
LESSONS, TASKS = 600, 160
GOOD, HALF, BAD = 0.95, 0.5, 0.08


@dataclass(frozen=True, slots=True)
class Result:
    """Failures of the second agent in each arm, and how far sharing lowers them."""

    seeds: int
    failures: dict[str, Estimate]
    reduction: Estimate
    """The share of failures that sharing spares the second agent."""
    second_half: dict[str, Estimate]
    """Failures in the half after the revocation."""
    same_advice: float
    """The share of situations in which advice after the revocation is that of own experience alone."""
    by_file: Estimate
    """The share of failures that importing a file spares instead."""


class _Clock(Sources):
    """A clock that ticks a minute at a time, and luck that can be repeated."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.moment = START
        self.random = random.Random(seed)  # noqa: S311 - luck, not secrets

    def now(self) -> datetime:
        self.moment += timedelta(seconds=1)
        return self.moment


@dataclass(frozen=True, slots=True)
class World:
    """Situations with their actions, and how often each works."""

    situations: tuple[str, ...]
    rates: dict[str, dict[str, float]]


def world(seed: int) -> World:
    """A world made by chance."""
    luck = random.Random(f"world {seed}")  # noqa: S311 - worlds, not secrets
    words = (word(rank) for rank in luck.sample(range(50, 5000), 3 * SITUATIONS + 2 * ACTIONS))
    names = tuple(f"{next(words)} the {next(words)} of {next(words)}" for _ in range(SITUATIONS))
    actions = [f"{next(words)} with {next(words)}" for _ in range(ACTIONS)]
    rates = {}
    for name in names:
        order = luck.sample(actions, len(actions))
        rates[name] = {action: (GOOD, HALF)[n] if n < 2 else BAD for n, action in enumerate(order)}
    return World(names, rates)


def run(seeds: int = SEEDS, overlap: float = OVERLAP, tell: Tell = unheard) -> Result:
    """All arms in as many worlds."""
    failures: dict[str, list[float]] = {name: [] for name in ("alone", "shared", "revoked", "file")}
    later: dict[str, list[float]] = {name: [] for name in ("alone", "shared", "revoked")}
    same: list[float] = []
    for seed in range(seeds):
        made = world(seed)
        for arm, numbers in failures.items():
            first, second, alike = _arm(arm, made, seed, overlap)
            numbers.append(first + second)
            if arm in later:
                later[arm].append(second)
            if alike is not None:
                same.append(alike)
        tell(seed + 1, seeds)
    alone = np.array(failures["alone"])
    return Result(
        seeds=seeds,
        failures={name: _mean(numbers) for name, numbers in failures.items()},
        reduction=_mean(1 - np.array(failures["shared"]) / alone),
        second_half={name: _mean(numbers) for name, numbers in later.items()},
        same_advice=float(np.mean(same)),
        by_file=_mean(1 - np.array(failures["file"]) / alone),
    )


def _mean(numbers: Sequence[float] | NDArray[np.float64]) -> Estimate:
    return bootstrap(np.asarray(numbers, dtype=np.float64).reshape(-1, 1))[0]


def _arm(arm: str, made: World, seed: int, overlap: float) -> tuple[float, float, float | None]:
    """Failures of the second agent in both halves, and how alike advice is after a revocation."""
    with _brain(seed) as brain, _brain(seed + 1000) as elsewhere:
        teacher = brain.agent("teacher")
        pupil = (elsewhere if arm == "file" else brain).agent("pupil")
        luck = random.Random(f"teacher {seed}")  # noqa: S311
        known = made.situations[: int(overlap * len(made.situations))]
        _work(teacher, made, [luck.choice(known) for _ in range(LESSONS)], luck)
        grant = None
        if arm in {"shared", "revoked"}:
            grant = teacher.grants.share("pupil", everything=True, purpose="to learn")
        elif arm == "file":
            _hand_over(teacher.knowledge, pupil.knowledge)
        luck = random.Random(f"pupil {seed}")  # noqa: S311
        tasks = [luck.choice(made.situations) for _ in range(TASKS)]
        first = _work(pupil, made, tasks[: TASKS // 2], luck)
        alike = None
        if arm == "revoked" and grant is not None:
            teacher.grants.revoke(grant.id)
            alike = _alike(brain, pupil, made)
        return first, _work(pupil, made, tasks[TASKS // 2 :], luck), alike


def _work(agent: AgentHandle, made: World, tasks: Sequence[str], luck: random.Random) -> float:
    """Do tasks one after the other and record how they went; how many failed.

    The agent follows what is recommended, and explores where advice abstains.
    """
    failed = 0
    for task in tasks:
        rates = made.rates[task]
        actions, chance = luck.sample(sorted(rates), len(rates)), luck.random()
        action = agent.suggest(context=task, actions=actions).recommended
        action = action or agent.suggest(context=task, actions=actions, explore=True).recommended or actions[0]
        good = chance < rates[action]
        failed += not good
        agent.record_decision(context=task, action=action, outcome="success" if good else "failure")
    return float(failed)


def _alike(brain: Engram, pupil: AgentHandle, made: World) -> float:
    """How often advice is that of an agent which recorded the same decisions and was never lent anything."""
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
