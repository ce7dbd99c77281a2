"""Compare rates: intervals of a share and of a difference, an exact test, and a scan for the moment of a change.

No interval has zero width, even where everything or nothing succeeded. Counts may be fractions (partial successes),
which makes the intervals slightly too wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

CHANCE = 0.05
"""The share of steady records in which a scan may report a change."""
LEAST_ON_EACH_SIDE = 5
"""Outcomes that are needed on either side of a change."""

LONGEST_RECORD = 400
"""In longer records only lasting changes are looked for."""

Interval = tuple[float, float]


def wilson(good: float, all: float, doubt: float = CHANCE) -> Interval:
    """Return the interval of a share (Wilson's score interval), which contains the share; `doubt` is its error rate."""
    if all <= 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(1 - doubt / 2)
    share, spread = good / all, z * z / all
    middle = (share + spread / 2) / (1 + spread)
    reach = z / (1 + spread) * math.sqrt(max(0.0, share * (1 - share)) / all + spread / all / 4)
    return max(0.0, min(share, middle - reach)), min(1.0, max(share, middle + reach))


def difference(good: float, all: float, well: float, of: float, doubt: float = CHANCE) -> tuple[float, Interval]:
    """Return the second share minus the first, with its interval (Newcombe's hybrid score). Both need outcomes."""
    first, second = good / all, well / of
    (low, high), (least, most) = wilson(good, all, doubt), wilson(well, of, doubt)
    apart = second - first
    below = math.hypot(second - least, high - first)
    above = math.hypot(most - second, first - low)
    return apart, (max(-1.0, apart - below), min(1.0, apart + above))


def fisher(some: int, all: int, others: int, of: int) -> float:
    """Return the two-sided p-value of Fisher's exact test."""
    good = some + others
    low, high = max(0, good - of), min(good, all)
    logs = [_log_choose(all, k) + _log_choose(of, good - k) for k in range(low, high + 1)]
    top = max(logs)
    likely = [math.exp(log - top) for log in logs]
    seen = likely[some - low] * (1 + 1e-9)
    return min(1.0, math.fsum(each for each in likely if each <= seen) / math.fsum(likely))


@dataclass(frozen=True, slots=True)
class RecordShift:
    """The stretch of a record that differs most from the rest: from `start` up to, not including, `end`.

    A lasting change ends with the record; one that passed ends earlier. `p` is corrected for the number of places
    tried. `doubt` is the error rate of a single comparison, so that all of them together err in 5% of records.
    """

    start: int
    end: int
    lasts: bool
    p: float
    doubt: float

    @property
    def found(self) -> bool:
        """True if the shift is more than chance explains."""
        return self.p < CHANCE


def scan(
    good: Sequence[float], all: Sequence[float], *, least: int = LEAST_ON_EACH_SIDE, passing: bool = True
) -> RecordShift | None:
    """Find the biggest shift in a record; `None` if no place leaves `least` attempts on each side.

    `good` and `all` are the successes and attempts in order. With `passing`, half of the error rate is spent on lasting
    changes, and half on stretches in the middle after which the rate is as before.
    """
    worked, tried = np.cumsum([0.0, *good]), np.cumsum([0.0, *all])
    size = len(good)
    lasting = [(start, size) for start in range(1, size)]
    looked_at = [lasting]
    if passing and 2 < size <= LONGEST_RECORD:
        looked_at.append([(start, end) for start in range(1, size - 1) for end in range(start + 1, size)])
    found = [_best_shift(worked, tried, places, least, len(looked_at)) for places in looked_at]
    changes = [change for change in found if change is not None]
    return min(changes, key=lambda change: (change.p, not change.lasts), default=None)


def _best_shift(
    worked: NDArray[np.float64],
    tried: NDArray[np.float64],
    places: Sequence[tuple[int, int]],
    least: int,
    families: int,
) -> RecordShift | None:
    """Return the stretch whose rate is furthest from that of the rest by the score test, with an exact p-value."""
    if not places:
        return None
    start, end = np.array(places).T
    inside, well = tried[end] - tried[start], worked[end] - worked[start]
    outside, rest = tried[-1] - inside, worked[-1] - well
    enough = (inside >= least) & (outside >= least)
    number = int(enough.sum())
    if not number:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.where(enough, (well / inside - rest / outside) ** 2 / (1 / inside + 1 / outside), -1.0)
    best = int(apart.argmax())
    p = fisher(*_rounded(rest[best], outside[best]), *_rounded(well[best], inside[best]))
    lasts = bool(end[best] == len(tried) - 1)
    return RecordShift(
        int(start[best]), int(end[best]), lasts, min(1.0, families * number * p), CHANCE / (families * number)
    )


def _rounded(good: float, all: float) -> tuple[int, int]:
    return round(float(good)), round(float(all))


def significance(p: float) -> str:
    """Format a p-value; one too small for three decimals is never shown as zero."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
