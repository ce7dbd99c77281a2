"""How well learning works, in numbers: calibration, harm, and the five measures of success."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from engram.learn.beta import Beta
from engram.learn.decisions import DecisionEvaluator, Episode
from engram.learn.rates import Rates
from engram.model import Calibration, FailurePattern, HarmfulMemory, LearningStats, Ratio, Trend
from engram.ports import Credit
from engram.words import normal_form

JUDGED = 1000
"""So many of the newest decisions are predicted again from what was known before each."""
COMPARED = 10
"""From so many decisions on each side, recent ones are compared with the first ones."""
SHARE = 1 / 3
"""How much of all decisions is the baseline, and how much is recent."""
HARM = 0.8
LEAST_HARM = 2
GOOD = 0.5


def calibration(episodes: Sequence[Episode], evaluator: DecisionEvaluator) -> Calibration:
    """Predict each decision from those before it in the same context and of all, and compare with what became of it."""
    ordered = sorted(episodes, key=lambda episode: (episode.at, episode.id))
    rates, known = Rates(), defaultdict[str, list[Episode]](list)
    half_life = timedelta(days=evaluator.settings.half_life_days)
    predicted, actual = [], []
    for number, episode in enumerate(ordered):
        same = known[normal_form(episode.context)]
        if number and number >= len(ordered) - JUDGED:
            groups = rates.tallies(episode.features, episode.at, half_life)
            prediction = evaluator.predict(
                episode.context, episode.action, same, now=episode.at, groups=groups, features=episode.features
            )
            predicted.append(prediction.probability)
            actual.append(episode.quality)
        same.append(episode)
        rates.count(episode.features, episode.action, episode.at, episode.quality)
    if not predicted:
        return Calibration(decisions=0)
    p, y = np.array(predicted), np.array(actual)
    return Calibration(
        decisions=len(p),
        brier=float(np.mean((p - y) ** 2)),
        base_rate_brier=float(np.mean((y.mean() - y) ** 2)),
        calibration_error=calibration_error(p, y),
    )


def calibration_error(predicted: NDArray[np.float64], got: NDArray[np.float64], bins: int = 10) -> float:
    """How far predictions are from what happened, in bins of equal width weighed by what is in them (ECE)."""
    which = np.minimum((predicted * bins).astype(np.intp), bins - 1)
    apart = np.bincount(which, predicted, bins) - np.bincount(which, got, bins)
    return float(np.abs(apart).sum() / max(len(predicted), 1))


def harm(credits: Iterable[Credit]) -> list[HarmfulMemory]:
    """The memories that hinder more often than they help, as far as can be told; the worst first, without texts."""
    helped, hindered = Counter[str](), Counter[str]()
    for credit in credits:
        helped.update(credit.helped)
        hindered.update(credit.hindered)
    found = []
    for id, against in hindered.items():
        belief = Beta(1 + helped[id], 1 + against).below(0.5)
        if against >= LEAST_HARM and belief >= HARM:
            found.append(HarmfulMemory(id=id, text="", helped=helped[id], hindered=against, harm=belief))
    return sorted(found, key=lambda each: (-each.harm, each.id))


def stats(
    agents: tuple[str, ...],
    days: Sequence[Mapping[int, tuple[int, ...]]],
    episodes: Sequence[Episode],
    patterns: Sequence[FailurePattern],
    successes: int,
    calibrated: Calibration,
) -> LearningStats:
    """The five measures of success, from what was counted day by day and from the patterns."""
    counts = np.array([count for each in days for count in each.values()], dtype=np.int64).reshape(-1, 5).sum(axis=0)
    decisions, informed, failures, recognised, lent = (int(count) for count in counts)
    rate = sum(episode.quality for episode in episodes) / len(episodes) if episodes else None
    checks = [check for pattern in patterns for check in pattern.prevention_checks]
    return LearningStats(
        agents=agents,
        decisions=decisions,
        with_outcome=len(episodes),
        success_rate=rate,
        effectiveness=trend(episodes),
        utilization=ratio(informed, decisions),
        recognition=ratio(recognised, failures),
        transfer=ratio(lent, informed),
        prevention=prevented(patterns),
        failure_patterns=len(patterns),
        recurring_patterns=sum(pattern.recurring for pattern in patterns),
        success_patterns=successes,
        checks=len(checks),
        calibration=calibrated,
    )


def trend(episodes: Sequence[Episode]) -> Trend | None:
    """The success rate of the newest third of all decisions against that of the first; `None` if they are few."""
    ordered = sorted(episodes, key=lambda episode: (episode.at, episode.id))
    number = int(len(ordered) * SHARE)
    if number < COMPARED:
        return None
    first = np.array([episode.quality for episode in ordered[:number]])
    last = np.array([episode.quality for episode in ordered[-number:]])
    before, after = float(first.mean()), float(last.mean())
    error = float(np.sqrt(first.var(ddof=1) / number + last.var(ddof=1) / number))
    change = (after - before) / before if before else 0.0
    interval = (after - before - 1.96 * error, after - before + 1.96 * error)
    return Trend(baseline=before, recent=after, change=change, interval=interval, decisions=number)


def prevented(patterns: Iterable[FailurePattern]) -> float | None:
    """By how much failures became rarer after checks spoke up, over all checks whose effect is known."""
    effects = [check.effect for pattern in patterns for check in pattern.prevention_checks if check.effect]
    spoken = [effect for effect in effects if effect.after.opportunities and effect.before.opportunities]
    before = sum(effect.before.failures for effect in spoken) / max(1, sum(e.before.opportunities for e in spoken))
    after = sum(effect.after.failures for effect in spoken) / max(1, sum(e.after.opportunities for e in spoken))
    return 1 - after / before if before > 0 else None


def ratio(some: int, all: int) -> Ratio:
    """Some of all."""
    return Ratio(some=some, all=all, share=some / all if all else None)
