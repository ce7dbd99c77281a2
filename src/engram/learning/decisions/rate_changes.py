"""Recognise that an action's success rate has changed, from its outcomes in the order of time."""

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
"""How much likelier a change must make the outcomes than one steady rate, all possible moments considered."""
LEAST_AFTER = 2.0
"""Outcomes since a change, by weight, before it is believed."""
CHANGES, MANY = 0.4, 8
"""How likely a rate is to have changed within many outcomes; within so many it is half as likely."""
BEFORE = 0.02
"""What an outcome counts that is from before a change that is certain."""
LONGEST = 400
"""Outcomes that are looked at, the newest."""


class Trial(NamedTuple):
    """One outcome: when it was, how good, how much it counts, whose word it is, and in which circumstances it was.

    The agent's own word has no source. Each kind of circumstances (an environment, a tool) has a rate of its own: that
    it is used more often than before is no change.
    """

    at: datetime
    quality: float
    weight: float
    source: str = ""
    circumstances: str = ""


class PossibleChange(NamedTuple):
    """How likely the rate is to have changed last at some moment, and the sums of what was good and bad since."""

    share: float
    good: float
    bad: float


@dataclass(frozen=True, slots=True)
class RateChange:
    """The moment from which on an action works more or less often than before."""

    place: int
    """The number of the first outcome after it."""
    at: datetime
    last_before: datetime
    before: float
    """The success rate until then."""
    after: float
    since: int
    """Outcomes since then."""

    def describe(self) -> str:
        """Put it into words: "worked until 3 November, failed 10 of 10 times since"."""
        failed = round((1 - self.after) * self.since)
        until = f"{self.last_before.day} {self.last_before:%B}"
        if self.after < self.before:
            return f"worked until {until}, failed {failed} of {self.since} times since"
        return f"failed until {until}, worked {self.since - failed} of {self.since} times since"


def last_change(trials: Sequence[Trial]) -> RateChange | None:
    """Find the last change of the rate behind outcomes that are ordered by time; `None` if one rate explains them.

    For every moment, the odds of two rates against one are compared (beta-binomial, any rate as likely before), every
    moment being as likely as any other. After a change that is found, later ones are looked for. A change that only one
    other source reports is not believed: it may be mistaken, or lie.
    """
    found = _find_last_change(trials)
    if found is None:
        return None
    others = {trial.source for trial in trials[found.place :]} - {""}
    if any(_find_last_change([one for one in trials if one.source != other]) is None for other in others):
        return None
    return found


def probability_unchanged(trials: Sequence[Trial], change: RateChange | None) -> list[float]:
    """Give for each outcome, in order of time, the probability that the rate has not changed since.

    `change` is the last one that is certain. What one other source alone reports takes nothing from the rest.
    """
    start = 0 if change is None else change.place
    counting = [BEFORE] * start + _left_unchanged(trials[start:])
    for other in {trial.source for trial in trials[start:]} - {""}:
        own = [place for place in range(start, len(trials)) if trials[place].source != other]
        for place, left in zip(own, _left_unchanged([trials[place] for place in own]), strict=True):
            counting[place] = max(counting[place], left)
    return counting


def possible_changes(trials: Sequence[Trial], change: RateChange | None) -> list[PossibleChange]:
    """Give the outcomes from which the rate may be told, by when it may have changed: first, as if it never had.

    `change` is the last one that is certain, as for `still_counting`.
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
    """Give the variance of the rate that is due to not knowing whether, and when, it has changed."""
    if len(possible) < 2:
        return 0.0
    share, good, bad = (np.array(column) for column in zip(*possible, strict=True))
    rates = (good + 1) / (good + bad + 2)
    return float(share @ (rates - share @ rates) ** 2)


def _odds_of_change(trials: Sequence[Trial]) -> NDArray[np.float64]:
    """Give, by the number of outcomes before it, the odds of a change there against none at all."""
    odds = _log_odds(trials)
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
    """Give the likeliest place of a change, if a change is likely at all."""
    odds = _log_odds(trials)
    if not len(odds) or odds.max() == -math.inf:
        return None
    total = float(np.logaddexp.reduce(odds)) - math.log(len(odds))
    return int(np.argmax(odds)) + 1 if total > math.log(LEAST_ODDS) else None


def _log_odds(trials: Sequence[Trial]) -> NDArray[np.float64]:
    """Give the logarithm of the odds of a change behind each outcome but the last, against one steady rate."""
    return _cached_log_odds(tuple(trials))


@lru_cache(maxsize=64)
def _cached_log_odds(trials: tuple[Trial, ...]) -> NDArray[np.float64]:
    """Work the odds out; several questions about the same outcomes come one after the other."""
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
    """Give the odds behind each outcome but the last as far as those in some circumstances tell."""
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
    """Give the logarithm of the chance of such outcomes when every rate is as likely as any other."""
    return math.lgamma(1 + good) + math.lgamma(1 + max(bad, 0.0)) - math.lgamma(2 + good + max(bad, 0.0))


def _mean(trials: Sequence[Trial]) -> float:
    return sum(trial.quality * trial.weight for trial in trials) / sum(trial.weight for trial in trials)
