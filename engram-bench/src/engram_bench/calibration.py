"""Simulate agents whose true success rates are known, and measure whether reported rates and intervals are honest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engram.learning.decisions import belief, suggestions
from engram.learning.decisions.belief import EVERYTHING, BeliefSettings, DecisionEpisode, GroupTotals
from engram.learning.scores import calibration_error
from engram_bench import ProgressCallback, no_progress
from engram_bench.replay import NEIGHBOURS

Numbers = NDArray[np.float64]

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WORLDS = 20


@dataclass(frozen=True, slots=True)
class CalibrationWorld:
    """Contexts in groups, each worded in several ways; every group has its own true rate of every action."""

    groups: int = 10
    wordings: int = 3
    actions: int = 4
    episodes: int = 900
    alike: tuple[float, float] = (0.85, 0.95)
    """Range of similarities of contexts of one group."""
    unlike: tuple[float, float] = (0.5, 0.7)
    """Range of similarities of contexts of different groups."""
    held_back: int = 5
    """Groups with a context without episodes of its own, whose rates come from similar ones only."""


class ReportedRate(NamedTuple):
    """One reported rate, beside the truth."""

    world: int
    context: str
    action: str
    truth: float
    rate: float
    low: float
    high: float
    attempts: int
    similar: int


def run(
    worlds: int = WORLDS,
    world: CalibrationWorld | None = None,
    *,
    settings: BeliefSettings = belief.DEFAULT,
    seed: int = 0,
    on_progress: ProgressCallback = no_progress,
) -> tuple[dict[str, Any], list[ReportedRate]]:
    """Simulate worlds; return the report, and every reported rate."""
    found = list[ReportedRate]()
    for number in range(worlds):
        found += simulate(world or CalibrationWorld(), number, np.random.default_rng([seed, number]), settings)
        on_progress(number + 1, worlds, "simulating")
    return report(found), found


def simulate(
    world: CalibrationWorld, number: int, dice: np.random.Generator, settings: BeliefSettings = belief.DEFAULT
) -> list[ReportedRate]:
    """Return the reported rates of every action in every context of one world, after its episodes."""
    rates = dice.random((world.groups, world.actions))
    count = world.groups * world.wordings
    group = np.repeat(np.arange(world.groups), world.wordings)
    alike = _likeness(world, group, dice)
    tried = np.setdiff1d(np.arange(count), np.arange(world.held_back) * world.wordings)
    where = dice.choice(tried, world.episodes)
    which = dice.integers(0, world.actions, world.episodes)
    good = (dice.random(world.episodes) < rates[group[where], which]).astype(np.float64)
    tallies = {
        f"action-{action}": GroupTotals(float((which == action).sum()), float(good[which == action].sum()))
        for action in range(world.actions)
    }
    told = []
    for context in range(count):
        close = alike[context, where]
        same, others = np.flatnonzero(where == context), np.flatnonzero(where != context)
        nearest = others[np.argsort(-close[others], kind="stable")[:NEIGHBOURS]]
        episodes = [
            DecisionEpisode(
                id=str(place),
                action=f"action-{which[place]}",
                quality=float(good[place]),
                at=NOW,
                context=f"context-{where[place]}",
                similarity=float(close[place]),
            )
            for place in (*same.tolist(), *nearest.tolist())
        ]
        suggestion = suggestions.DecisionEvaluator(settings).suggest(
            f"context-{context}",
            episodes,
            now=NOW,
            groups={EVERYTHING: tallies},
            actions=list(tallies),
        )
        for record in suggestion.actions:
            truth = float(rates[group[context], int(record.action.removeprefix("action-"))])
            told.append(
                ReportedRate(
                    world=number,
                    context=suggestion.context,
                    action=record.action,
                    truth=truth,
                    rate=record.success_rate,
                    low=record.interval[0],
                    high=record.interval[1],
                    attempts=record.attempts,
                    similar=record.similar,
                )
            )
    return told


def report(told: list[ReportedRate]) -> dict[str, Any]:
    """Return the calibration error, the Brier score, and how often the intervals contain the truth."""
    return {
        "all": _summary(told),
        "with_own_episodes": _summary([one for one in told if one.attempts]),
        "from_similar_contexts_only": _summary([one for one in told if not one.attempts]),
    }


def _summary(told: list[ReportedRate]) -> dict[str, Any]:
    if not told:
        return {"rates": 0}
    truth, rate = np.array([one.truth for one in told]), np.array([one.rate for one in told])
    noise = float(np.mean(truth * (1 - truth)))
    return {
        "rates": len(told),
        "ece": calibration_error(rate, truth),
        "brier": float(np.mean((rate - truth) ** 2)) + noise,
        "brier_of_base_rate": float(np.mean((truth.mean() - truth) ** 2)) + noise,
        "brier_of_truth": noise,
        "coverage": float(np.mean([one.low <= one.truth <= one.high for one in told])),
        "width": float(np.mean([one.high - one.low for one in told])),
    }


def _likeness(world: CalibrationWorld, group: NDArray[np.int64], dice: np.random.Generator) -> Numbers:
    count = len(group)
    same = group[:, None] == group[None, :]
    drawn = np.where(same, dice.uniform(*world.alike, (count, count)), dice.uniform(*world.unlike, (count, count)))
    drawn = (drawn + drawn.T) / 2
    np.fill_diagonal(drawn, 1.0)
    return drawn.astype(np.float64)
