"""Measure whether a prevention check helps, and decide when to loosen, retire or reactivate it.

A check is judged by what happened when it was heeded and when it was ignored: ignored and followed by a failure it was
right, ignored and followed by a success it was wrong. Only a check that is wrong is loosened, then retired. Everything
is a function of counts, so the same events always lead to the same status.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from engram.learning.decisions.beta import Beta
from engram.model.failure import CheckStatus, Effect, FailureRate

ENOUGH = 8
"""Times a check must be ignored before it can be retired."""
RETURNS = 2
"""Failures in a row without a retired check after which it is reactivated."""
ALARMS = 3
"""Times the action must be taken despite a check before its warnings are judged."""
LOOSENS, REACTIVATES = 0.85, 0.5
"""Probability that the action mostly succeeds despite a check at which the check is loosened or reactivated."""
RETIRES = 0.95
"""Probability that it nearly always succeeds despite a loosened check at which the check is retired."""
RARELY = 0.25
REMEMBERED = 10
"""Ignored warnings, the newest, by which a check is judged, so that it follows changes."""

_STEPS = 400
_GRID = (np.arange(_STEPS) + 0.5) / _STEPS


@dataclass(slots=True)
class CheckCounts:
    """Opportunities and failures of a check: without it, after it fired, and after it was heeded.

    `ahead` holds the newest outcomes that judge the check, oldest first: those of the action despite it, and while it
    is loosened, also those while it was silent, which show what a warning would have been worth. `since` holds those
    since it was retired. Both are emptied when the status changes; the measurements are kept.
    """

    before: int = 0
    before_failed: float = 0.0
    after: int = 0
    after_failed: float = 0.0
    ahead: list[float] = field(default_factory=list)
    since: list[float] = field(default_factory=list)
    heeded: int = 0
    heeded_failed: float = 0.0
    wrong: int = 0

    def count_silent(self, quality: float, *, loosened: bool = False, known: bool = False, times: int = 1) -> None:
        """Count an opportunity at which the check did not fire; `times=-1` takes it back.

        A `known` one is counted among the opportunities already, and only judges the check.
        """
        if not known:
            self.before += times
            self.before_failed += times * (1 - quality)
        self.since = _changed(self.since, quality, times)
        if loosened:
            self.ahead = _changed(self.ahead, quality, times)

    def count_spoken(self, quality: float, *, ahead: bool, times: int = 1) -> None:
        """Count an opportunity at which the check had fired; `ahead` if it was ignored and the action taken."""
        self.after += times
        self.after_failed += times * (1 - quality)
        if ahead:
            self.wrong += times * (quality >= 0.5)
            self.ahead = _changed(self.ahead, quality, times)
        else:
            self.heeded += times
            self.heeded_failed += times * (1 - quality)

    @property
    def ignored(self) -> int:
        """Number of times the action was taken despite the check."""
        return self.after - self.heeded

    @property
    def ignored_failed(self) -> float:
        """Number of failures among these, as a sum of missing quality."""
        return self.after_failed - self.heeded_failed

    def restart(self) -> None:
        """Forget the outcomes that judged the former status; measurements are kept."""
        self.ahead, self.since = [], []


def failure_rate(opportunities: int, failures: float) -> FailureRate:
    """Return failures per opportunity, with the posterior under a uniform prior."""
    belief = _belief(opportunities, failures)
    return FailureRate(
        opportunities=opportunities, failures=failures, rate=belief.mean, interval=interval(belief.a, belief.b)
    )


def effect(counts: CheckCounts) -> Effect:
    """Compare the failures when the check was heeded with those without it, while it was silent or ignored."""
    without = _belief(counts.before + counts.ignored, counts.before_failed + counts.ignored_failed)
    heeded = _belief(counts.heeded, counts.heeded_failed)
    low, high, helps = _difference(without, heeded)
    ignored = _belief(counts.ignored, counts.ignored_failed)
    return Effect(
        before=failure_rate(counts.before, counts.before_failed),
        after=failure_rate(counts.after, counts.after_failed),
        heeded=failure_rate(counts.heeded, counts.heeded_failed),
        ignored=failure_rate(counts.ignored, counts.ignored_failed),
        difference=without.mean - heeded.mean,
        interval=(low, high),
        helps=helps,
        right=min(max(1 - ignored.below(0.5), 0.0), 1.0),
        went_ahead=counts.ignored,
        false_alarms=counts.wrong,
    )


def next_status(status: CheckStatus, counts: CheckCounts) -> CheckStatus:
    """Return the status of a check after these counts.

    One that is ignored and wrong is loosened, then retired; one that is ignored and right becomes active again. A
    retired one is reactivated when the action fails without it. Between the bounds nothing changes, so that the status
    is stable.
    """
    if status == "retired":
        last = counts.since[-RETURNS:]
        return "active" if len(last) == RETURNS and all(quality < 0.5 for quality in last) else status
    if len(counts.ahead) < ALARMS:
        return status
    belief = _belief(len(counts.ahead), _failed(counts.ahead))
    if status == "loosened":
        if len(counts.ahead) >= ENOUGH and belief.below(RARELY) >= RETIRES:
            return "retired"
        return "active" if belief.below(0.5) <= REACTIVATES else status
    return "loosened" if belief.below(0.5) >= LOOSENS else status


@lru_cache(maxsize=16384)
def interval(a: float, b: float) -> tuple[float, float]:
    """Return the 95% interval of a beta distribution, cached."""
    return Beta(a, b).interval()


@lru_cache(maxsize=16384)
def _difference(one: Beta, other: Beta) -> tuple[float, float, float]:
    """Return the 95% interval of one rate minus the other, and the probability that it is positive, on a grid."""
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


def _changed(kept: list[float], quality: float, times: int) -> list[float]:
    """Return the newest outcomes with one more, or without the newest one of this quality."""
    if times > 0:
        return [*kept, quality][-REMEMBERED:]
    place = next((place for place in reversed(range(len(kept))) if kept[place] == quality), None)
    return kept if place is None else kept[:place] + kept[place + 1 :]
