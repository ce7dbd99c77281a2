"""Measure how well learning works: calibration, harmful memories, and the five measures of success."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from engram.learning.decisions.belief import DecisionEpisode
from engram.learning.decisions.beta import Beta
from engram.learning.decisions.comparisons import LONGEST_RECORD, RecordShift, difference, scan, wilson
from engram.learning.decisions.rates import Rates
from engram.learning.decisions.suggestions import DecisionEvaluator
from engram.learning.situations.situations import RECENT
from engram.model import Calibration, FailurePattern, HarmfulMemory, LearningStats, Ratio, Trend
from engram.ports import Credit
from engram.text.terms import normal_form

JUDGED = 1000
"""The number of newest decisions that are predicted again, each from what was known before it."""
UNRELATED = 0.5
"""The similarity assumed between unrelated contexts; contexts are distinguished only by their situations."""
COMPARED = 10
"""The fewest decisions on each side for a comparison of newer with older ones."""
SHARE = 1 / 2
"""The share of all decisions that is the baseline, and that is recent, if no change is found."""
DRAWS = 4000
"""The number of draws behind the interval of a reduction; they are the same in every run."""
HARM = 0.8
LEAST_HARM = 2
GOOD = 0.5


def calibration(replays: Iterable[tuple[float, float]]) -> Calibration:
    """Compare predictions with outcomes, decision by decision."""
    known = list(replays)
    if not known:
        return Calibration(decisions=0)
    p, y = np.array([predicted for predicted, _ in known]), np.array([got for _, got in known])
    return Calibration(
        decisions=len(p),
        brier=float(np.mean((p - y) ** 2)),
        base_rate_brier=float(np.mean((y.mean() - y) ** 2)),
        calibration_error=calibration_error(p, y),
    )


def replay(episodes: Sequence[DecisionEpisode], evaluator: DecisionEvaluator) -> list[tuple[float, float]]:
    """Predict each of an agent's newest decisions from those before it; return each prediction with the outcome.

    Earlier decisions in the same context count fully, those of the same situation in other contexts with their
    smallest weight, and all others only through the rates of each action.
    """
    ordered = sorted(episodes, key=lambda episode: (episode.at, episode.id))
    rates, exact = Rates(), defaultdict[str, list[DecisionEpisode]](list)
    alike = defaultdict[str, deque[DecisionEpisode]](lambda: deque(maxlen=RECENT))
    half_life = timedelta(days=evaluator.settings.half_life_days)
    found = []
    for number, episode in enumerate(ordered):
        context = normal_form(episode.context)
        situation = episode.situation or context
        if number and number >= len(ordered) - JUDGED:
            others = [one for one in alike[situation] if normal_form(one.context) != context]
            prediction = evaluator.predict(
                episode.context,
                episode.action,
                [*exact[context], *others],
                now=episode.at,
                groups=rates.tallies(episode.features, episode.at, half_life),
                features=episode.features,
                usual=UNRELATED,
            )
            found.append((prediction.probability, episode.quality))
        exact[context].append(episode)
        alike[situation].append(replace(episode, similarity=0.0, same_situation=True))
        rates.count(episode.features, episode.action, episode.at, episode.quality)
    return found


def calibration_error(predicted: NDArray[np.float64], got: NDArray[np.float64], bins: int = 10) -> float:
    """Return the expected calibration error (ECE), with bins of equal width."""
    which = np.minimum((predicted * bins).astype(np.intp), bins - 1)
    apart = np.bincount(which, predicted, bins) - np.bincount(which, got, bins)
    return float(np.abs(apart).sum() / max(len(predicted), 1))


def harm(credits: Iterable[Credit]) -> list[HarmfulMemory]:
    """List the memories that probably hinder more often than they help, worst first, without their texts."""
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
    episodes: Sequence[DecisionEpisode],
    patterns: Sequence[FailurePattern],
    successes: int,
    calibrated: Calibration,
) -> LearningStats:
    """Sum up the five measures of success from the daily counts, the decisions and the patterns."""
    counts = np.array([count for each in days for count in each.values()], dtype=np.int64).reshape(-1, 5).sum(axis=0)
    decisions, informed, failures, recognised, lent = (int(count) for count in counts)
    good = sum(episode.quality for episode in episodes)
    checks = [check for pattern in patterns for check in pattern.prevention_checks]
    reduction = prevented(patterns)
    return LearningStats(
        agents=agents,
        decisions=decisions,
        with_outcome=len(episodes),
        success_rate=good / len(episodes) if episodes else None,
        success_interval=wilson(good, len(episodes)) if episodes else None,
        effectiveness=trend(episodes),
        utilization=ratio(informed, decisions),
        recognition=ratio(recognised, failures),
        transfer=ratio(lent, informed),
        prevention=reduction[0] if reduction else None,
        prevention_interval=reduction[1] if reduction else None,
        failure_patterns=len(patterns),
        recurring_patterns=sum(pattern.recurring for pattern in patterns),
        success_patterns=successes,
        checks=len(checks),
        calibration=calibrated,
    )


def trend(episodes: Sequence[DecisionEpisode]) -> Trend | None:
    """Compare newer decisions with older ones: from a lasting change on, else half with half; `None` if there are few.

    If the decisions went differently only for a while, those before that time are compared with those after it. The
    interval of a detected change is corrected for the search over all moments, so that it holds at 95% although the
    clearest moment was picked.
    """
    ordered = sorted(episodes, key=lambda episode: (episode.at, episode.id))
    if len(ordered) * SHARE < COMPARED:
        return None
    change = _changed([episode.quality for episode in ordered])
    found = change if change is not None and change.found else None
    start = found.start if found else len(ordered) // 2
    end = found.end if found and not found.lasts else start
    before, since = ordered[:start], ordered[end:]
    older, newer = len(before), len(since)
    good, well = sum(each.quality for each in before), sum(each.quality for each in since)
    doubt = {"doubt": found.doubt} if found and found.lasts else {}
    apart, interval = difference(good, older, well, newer, **doubt)
    return Trend(
        baseline=good / older,
        recent=well / newer,
        difference=apart,
        change=apart / (good / older) if good else None,
        interval=interval,
        decisions=min(older, newer),
        baseline_decisions=older,
        recent_decisions=newer,
        changed_at=ordered[start].at if found and found.lasts else None,
        p_value=change.p if change else None,
    )


def _changed(quality: Sequence[float]) -> RecordShift | None:
    """Find the stretch of a record that differs most from the rest; a long record is examined in groups."""
    size = -(-len(quality) // LONGEST_RECORD)
    groups = [quality[place : place + size] for place in range(0, len(quality), size)]
    found = scan([sum(group) for group in groups], [float(len(group)) for group in groups], least=COMPARED)
    if found is None or size == 1:
        return found
    return replace(found, start=found.start * size, end=min(found.end * size, len(quality)))


def prevented(patterns: Iterable[FailurePattern]) -> tuple[float, tuple[float, float]] | None:
    """Return the reduction of failures where checks were heeded, with its 95% interval; `None` if it is unknown.

    For each check, the failures expected at its rate when it was silent or ignored are compared with those that
    occurred when it was heeded. So a check that runs often cannot hide or imitate the effect of another.
    """
    pairs = []
    for effect in (check.effect for pattern in patterns for check in pattern.prevention_checks if check.effect):
        if effect.heeded is None or effect.ignored is None or not effect.heeded.opportunities:
            continue
        times = effect.before.opportunities + effect.ignored.opportunities
        if times:
            failed = effect.before.failures + effect.ignored.failures
            pairs.append(((failed, times), (effect.heeded.failures, effect.heeded.opportunities)))
    expected = sum(failed / times * heeded for (failed, times), (_, heeded) in pairs)
    if expected <= 0:
        return None
    before, after = [base for base, _ in pairs], [heeded for _, heeded in pairs]
    reduction = 1 - sum(failed for failed, _ in after) / expected
    number = np.array([times for _, times in after], dtype=np.float64)
    left = 1 - (_drawn(after, 1) @ number) / (_drawn(before, 2) @ number)
    low, high = np.quantile(left, (0.025, 0.975))
    return reduction, (min(reduction, float(low)), min(1.0, max(reduction, float(high))))


def _drawn(counts: Sequence[tuple[float, float]], seed: int) -> NDArray[np.float64]:
    """Draw rates from the posterior of each count (Jeffreys' prior), one column each, the same at every call."""
    failed = np.array([some for some, _ in counts], dtype=np.float64)
    other = np.array([max(0.0, all - some) for some, all in counts], dtype=np.float64)
    return np.random.default_rng(seed).beta(0.5 + failed, 0.5 + other, size=(DRAWS, len(counts)))


def ratio(some: int, all: int) -> Ratio:
    """Return the share of some in all, with its interval."""
    return Ratio(some=some, all=all, share=some / all if all else None, interval=wilson(some, all) if all else None)
