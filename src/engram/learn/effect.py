"""What a prevention check changed: failures per opportunity before and after, and when a check is loosened or retired.

Everything is a function of counts, so that the same happenings always lead to the same status.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from engram.learn.beta import Beta
from engram.model.failure import CheckStatus, Effect, FailureRate

ENOUGH = 8
"""Opportunities after a check spoke up, before its effect is judged."""
HELPLESS, HELPFUL = 0.2, 0.7
"""Probabilities of helping at which a check is retired, and at which a retired one comes back."""
RETURNS = 2
"""Failures without a retired check, before it may come back."""
ALARMS = 3
"""Times the action was taken in spite of a check, before its alarms are judged."""
WOLF, NO_WOLF = 0.85, 0.5
"""Probabilities that the action mostly succeeds in spite of a check: loosened at one, active again at the other."""
HOPELESS = 0.95
"""Probability that it nearly always succeeds in spite of a check that only warns; then it is retired."""
RARELY = 0.25
REMEMBERED = 10
"""Alarms that were passed over, the newest, by which the alarms are judged: a world that changes back is noticed."""

_STEPS = 400
_GRID = (np.arange(_STEPS) + 0.5) / _STEPS


@dataclass(slots=True)
class Counts:
    """What is counted about a check; `ahead` has the outcomes of the action in spite of it, oldest first.

    `since` and `since_failed` are the opportunities since it was retired. One that comes back is tried anew.
    """

    before: int = 0
    before_failed: float = 0.0
    after: int = 0
    after_failed: float = 0.0
    ahead: list[float] = field(default_factory=list)
    since: int = 0
    since_failed: float = 0.0

    def silent(self, quality: float, times: int = 1) -> None:
        """An opportunity at which the check said nothing; with `times` -1, take it back."""
        self.before += times
        self.before_failed += times * (1 - quality)
        self.since += times
        self.since_failed += times * (1 - quality)

    def spoken(self, quality: float, *, ahead: bool, times: int = 1) -> None:
        """An opportunity at which it had spoken up; `ahead` if the action was taken all the same."""
        self.after += times
        self.after_failed += times * (1 - quality)
        if ahead and times > 0:
            self.ahead = [*self.ahead, quality][-REMEMBERED:]
        elif ahead and quality in self.ahead:
            self.ahead.remove(quality)

    def turn(self, status: CheckStatus) -> None:
        """Start counting what the new status will be judged by."""
        self.since, self.since_failed = 0, 0.0
        if status == "active":
            self.after, self.after_failed, self.ahead = 0, 0.0, []


def failure_rate(opportunities: int, failures: float) -> FailureRate:
    """Failures per opportunity, as believed after counting them from no knowledge at all."""
    belief = _belief(opportunities, failures)
    return FailureRate(
        opportunities=opportunities, failures=failures, rate=belief.mean, interval=interval(belief.a, belief.b)
    )


def effect(counts: Counts) -> Effect:
    """What the check changed, as far as the counts tell."""
    before, after = _belief(counts.before, counts.before_failed), _belief(counts.after, counts.after_failed)
    low, high, helps = _difference(before, after)
    return Effect(
        before=failure_rate(counts.before, counts.before_failed),
        after=failure_rate(counts.after, counts.after_failed),
        difference=before.mean - after.mean,
        interval=(low, high),
        helps=helps,
        went_ahead=len(counts.ahead),
        false_alarms=sum(1 for quality in counts.ahead if quality >= 0.5),
    )


def next_status(status: CheckStatus, counts: Counts) -> CheckStatus:
    """What becomes of a check after these counts.

    One that does not help is retired, until failures without it show that it did; one that speaks up where the action
    succeeds is loosened, until it fails again. Between the bounds nothing changes, so that no check flutters.
    """
    if status == "retired":
        since = _belief(counts.since, counts.since_failed)
        worse = _difference(since, _belief(counts.after, counts.after_failed))[2]
        return "active" if counts.since_failed >= RETURNS and worse >= HELPFUL else status
    if counts.after >= ENOUGH and helps(counts) <= HELPLESS:
        return "retired"
    if len(counts.ahead) < ALARMS:
        return status
    belief = _belief(len(counts.ahead), _failed(counts.ahead))
    if status == "loosened":
        if len(counts.ahead) >= ENOUGH and belief.below(RARELY) >= HOPELESS:
            return "retired"
        return "active" if belief.below(0.5) <= NO_WOLF else status
    return "loosened" if belief.below(0.5) >= WOLF else status


def helps(counts: Counts) -> float:
    """The probability that failures are rarer after the check has spoken."""
    return _difference(_belief(counts.before, counts.before_failed), _belief(counts.after, counts.after_failed))[2]


@lru_cache(maxsize=16384)
def interval(a: float, b: float) -> tuple[float, float]:
    """The 95% interval of a belief; the same question is answered from memory."""
    return Beta(a, b).interval()


@lru_cache(maxsize=16384)
def _difference(one: Beta, other: Beta) -> tuple[float, float, float]:
    """The 95% interval of one rate less the other, and the probability that it is above zero, on a grid."""
    shares = np.convolve(_shares(one), _shares(other)[::-1])
    total = np.cumsum(shares)
    places = (np.arange(2 * _STEPS - 1) - (_STEPS - 1)) / _STEPS
    low, high = (float(places[min(int(np.searchsorted(total, share)), len(places) - 1)]) for share in (0.025, 0.975))
    above = float(shares[_STEPS:].sum() + shares[_STEPS - 1] / 2)
    return low, high, min(max(above, 0.0), 1.0)


def _shares(belief: Beta) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    log = (belief.a - 1) * np.log(_GRID) + (belief.b - 1) * np.log1p(-_GRID)
    weights = np.exp(log - log.max())
    shares: np.ndarray[tuple[int], np.dtype[np.float64]] = weights / weights.sum()
    return shares


def _belief(opportunities: int, failures: float) -> Beta:
    failed = min(max(failures, 0.0), float(max(opportunities, 0)))
    return Beta(1 + failed, 1 + max(opportunities, 0) - failed)


def _failed(qualities: Sequence[float]) -> float:
    return sum(1 - quality for quality in qualities)
