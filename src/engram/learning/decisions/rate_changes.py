"""Detect that the success rate of an action has changed, from its outcomes in order of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LEAST_ODDS = 20.0
"""Odds of a change against one steady rate, over all possible moments, above which a change is reported."""
LEAST_AFTER = 2.0
"""Weight of the outcomes since a change that is needed to report it."""
CHANGES, MANY = 0.4, 8
"""Prior probability that a rate changed within many outcomes, and the number of outcomes at which it is half of that.
"""
BEFORE = 0.02
"""The weight of an outcome from before a certain change."""
LONGEST = 400
"""Outcomes that are analysed, the newest."""


class Trial(NamedTuple):
    """One outcome: time, quality, weight, source and circumstances.

    An agent's own outcomes have no source. Each kind of circumstances (an environment, a tool) has a rate of its own,
    so that using one more often than before is no change.
    """

    at: datetime
    quality: float
    weight: float
    source: str = ""
    circumstances: str = ""


class PossibleChange(NamedTuple):
    """The probability that the rate changed last at some moment, and what succeeded and failed since."""

    share: float
    good: float
    bad: float


@dataclass(frozen=True, slots=True)
class RateChange:
    """A moment after which an action works more or less often than before."""

    place: int
    """The index of the first outcome after the change."""
    at: datetime
    last_before: datetime
    before: float
    """The success rate before the change."""
    after: float
    since: int
    """The number of outcomes since the change."""

    def describe(self) -> str:
        """Describe the change in words: "worked until 3 November, failed 10 of 10 times since"."""
        failed = round((1 - self.after) * self.since)
        until = f"{self.last_before.day} {self.last_before:%B}"
        if self.after < self.before:
            return f"worked until {until}, failed {failed} of {self.since} times since"
        return f"failed until {until}, worked {self.since - failed} of {self.since} times since"


def last_change(trials: Sequence[Trial]) -> RateChange | None:
    """Return the last change of the rate behind outcomes in order of time; `None` if one rate explains them.

    For every moment, the odds of two rates against one are compared (beta-binomial with uniform priors), all moments
    being equally likely. After a change is found, later ones are looked for. A change that only one other source
    reports is ignored: that source may be mistaken, or lie.
    """
    found = _find_last_change(trials)
    if found is None:
        return None
    others = {trial.source for trial in trials[found.place :]} - {""}
    if any(_find_last_change([one for one in trials if one.source != other]) is None for other in others):
        return None
    return found


def probability_unchanged(trials: Sequence[Trial], change: RateChange | None) -> list[float]:
    """Return for each outcome, in order of time, the probability that the rate has not changed since.

    `change` is the last certain change. What a single other source reports does not reduce the rest.
    """
    start = 0 if change is None else change.place
    counting = [BEFORE] * start + _left_unchanged(trials[start:])
    for other in {trial.source for trial in trials[start:]} - {""}:
        own = [place for place in range(start, len(trials)) if trials[place].source != other]
        for place, left in zip(own, _left_unchanged([trials[place] for place in own]), strict=True):
            counting[place] = max(counting[place], left)
    return counting


def possible_changes(trials: Sequence[Trial], change: RateChange | None) -> list[PossibleChange]:
    """Return what tells the current rate, by when the rate may have changed last; the first entry is "never".

    `change` is the last certain change, as for `probability_unchanged`.
    """
    looked_at = trials[0 if change is None else change.place :][-LONGEST:]
    if not looked_at:
        return []
    likely = _odds_of_change(looked_at)[:-1]
    likely[0] = 1.0
    weight = np.array([trial.weight for trial in looked_at])
    good = np.cumsum((weight * [trial.quality for trial in looked_at])[::-1])[::-1]
    bad = np.cumsum(weight[::-1])[::-1] - good
    shares = likely / likely.sum()
    return [
        PossibleChange(*one) for one in zip(shares.tolist(), good.tolist(), np.maximum(bad, 0).tolist(), strict=True)
    ]


def change_variance(possible: Sequence[PossibleChange]) -> float:
    """Return the variance of the rate that is due to not knowing whether, and when, it has changed."""
    if len(possible) < 2:
        return 0.0
    share, good, bad = (np.array(column) for column in zip(*possible, strict=True))
    rates = (good + 1) / (good + bad + 2)
    return float(share @ (rates - share @ rates) ** 2)


def _odds_of_change(trials: Sequence[Trial]) -> NDArray[np.float64]:
    """Return, by the number of outcomes before it, the odds of a change there against no change at all."""
    odds = _log_odds(tuple(trials))
    likely = np.zeros(len(trials) + 1)
    if len(odds):
        before = CHANGES * len(odds) / (len(odds) + MANY)
        likely[1 : len(odds) + 1] = np.exp(np.minimum(odds, 100.0)) * before / (1 - before) / len(odds)
    return likely


def _left_unchanged(trials: Sequence[Trial]) -> list[float]:
    first = max(0, len(trials) - LONGEST)
    likely = _odds_of_change(trials[first:])
    found = (1 + np.cumsum(likely)[:-1]) / (1 + likely.sum())
    return [float(found[0]) if len(found) else 1.0] * first + [float(left) for left in found]


def _find_last_change(trials: Sequence[Trial]) -> RateChange | None:
    first, found = max(0, len(trials) - LONGEST), None
    while (place := _likeliest_change(trials[first:])) is not None:
        before, after = trials[first : first + place], trials[first + place :]
        found = RateChange(
            place=first + place,
            at=after[0].at,
            last_before=before[-1].at,
            before=_mean(before),
            after=_mean(after),
            since=len(after),
        )
        first += place
    return found


def _likeliest_change(trials: Sequence[Trial]) -> int | None:
    """Return the most likely place of a change, or `None` if a change is unlikely."""
    odds = _log_odds(tuple(trials))
    if not len(odds) or odds.max() == -math.inf:
        return None
    total = float(np.logaddexp.reduce(odds)) - math.log(len(odds))
    return int(np.argmax(odds)) + 1 if total > math.log(LEAST_ODDS) else None


@lru_cache(maxsize=64)
def _log_odds(trials: tuple[Trial, ...]) -> NDArray[np.float64]:
    """Return the log odds of a change after each outcome but the last, against one steady rate.

    They are cached because several questions about the same outcomes follow each other.
    """
    if len(trials) < 3:
        return np.zeros(0)
    kinds = {trial.circumstances for trial in trials}
    odds = sum((_log_odds_in(trials, kind) for kind in sorted(kinds)), np.zeros(len(trials) - 1))
    weights = np.cumsum([trial.weight for trial in trials])
    for place in range(len(trials) - 1):
        if weights[-1] - weights[place] < LEAST_AFTER or trials[place].at >= trials[place + 1].at:
            odds[place] = -math.inf
    return odds


def _log_odds_in(trials: Sequence[Trial], circumstances: str) -> NDArray[np.float64]:
    """Return the log odds after each outcome but the last, from the outcomes in one kind of circumstances."""
    weight = np.array([trial.weight if trial.circumstances == circumstances else 0.0 for trial in trials])
    good = np.cumsum(weight * [trial.quality for trial in trials])
    everything = np.cumsum(weight)
    bad = everything - good
    one = _log_likelihood(float(good[-1]), float(bad[-1]))
    return np.array(
        [
            _log_likelihood(float(good[place]), float(bad[place]))
            + _log_likelihood(float(good[-1] - good[place]), float(bad[-1] - bad[place]))
            - one
            for place in range(len(trials) - 1)
        ]
    )


def _log_likelihood(good: float, bad: float) -> float:
    """Return the log likelihood of such outcomes under a uniform prior of the rate."""
    return math.lgamma(1 + good) + math.lgamma(1 + max(bad, 0.0)) - math.lgamma(2 + good + max(bad, 0.0))


def _mean(trials: Sequence[Trial]) -> float:
    return sum(trial.quality * trial.weight for trial in trials) / sum(trial.weight for trial in trials)
