"""The beta distribution: what is known about a success rate after some successes and failures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_GRID = (np.arange(2048) + 0.5) / 2048
_TINY = 1e-300
"""Least absolute value of a denominator."""


@dataclass(frozen=True, slots=True)
class Beta:
    """The posterior of a rate after `a - 1` successes and `b - 1` failures; `Beta(1, 1)` is no knowledge."""

    a: float = 1.0
    b: float = 1.0

    @property
    def mean(self) -> float:
        """The expected rate."""
        return self.a / (self.a + self.b)

    def after(self, quality: float) -> Beta:
        """Return the posterior after one more outcome; a quality between 0 and 1 counts partly as success."""
        return Beta(self.a + quality, self.b + 1 - quality)

    def below(self, x: float) -> float:
        """Return the probability that the rate is below x."""
        if x <= 0 or x >= 1:
            return 0.0 if x <= 0 else 1.0
        log_front = self.a * math.log(x) + self.b * math.log1p(-x) - _log_beta(self.a, self.b)
        if x < (self.a + 1) / (self.a + self.b + 2):
            return math.exp(log_front) * _continued_fraction(self.a, self.b, x) / self.a
        return 1 - math.exp(log_front) * _continued_fraction(self.b, self.a, 1 - x) / self.b

    def quantile(self, share: float) -> float:
        """Return the rate below which `share` of the distribution lies, by Newton's method with bisection."""
        low, high, x = 0.0, 1.0, self.mean
        for step in range(200):
            off = self.below(x) - share
            low, high = (x, high) if off < 0 else (low, x)
            density = math.exp((self.a - 1) * math.log(x) + (self.b - 1) * math.log1p(-x) - _log_beta(self.a, self.b))
            better = x - off / density if density > 0 and step % 3 < 2 else low
            better = better if low < better < high else (low + high) / 2
            if abs(better - x) < 1e-12 or not 0 < better < 1:
                return better
            x = better
        return x

    def interval(self, share: float = 0.95) -> tuple[float, float]:
        """Return the central interval that holds `share` of the distribution."""
        return self.quantile((1 - share) / 2), self.quantile((1 + share) / 2)

    def beats(self, other: Beta) -> float:
        """Return the probability that this rate is higher than the other."""
        mine, theirs = self._weights(), other._weights()
        lower = np.cumsum(theirs) - theirs / 2
        return float(np.clip(mine @ lower, 0, 1))

    def loss(self, other: Beta) -> float:
        """Return the expected loss of success rate from choosing this instead of the better of the two."""
        mine, theirs = self._weights(), other._weights()
        above = np.cumsum((theirs * _GRID)[::-1])[::-1] - _GRID * np.cumsum(theirs[::-1])[::-1]
        return float(np.clip(mine @ above, 0, 1))

    def loss_against(self, rate: float) -> float:
        """Return the expected loss of success rate from choosing this instead of something with a known rate."""
        return float(self._weights() @ np.maximum(rate - _GRID, 0))

    def _weights(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        log = (self.a - 1) * np.log(_GRID) + (self.b - 1) * np.log1p(-_GRID)
        weights = np.exp(log - log.max())
        normal: np.ndarray[tuple[int], np.dtype[np.float64]] = weights / weights.sum()
        return normal


def interval(parts: Sequence[tuple[float, Beta]], share: float = 0.95) -> tuple[float, float]:
    """Return the central interval of a mixture of posteriors, each with its probability."""
    if len(parts) == 1:
        return parts[0][1].interval(share)
    weights = sum(part * belief._weights() for part, belief in parts)
    below = np.cumsum(weights)
    low, high = np.searchsorted(below / below[-1], [(1 - share) / 2, (1 + share) / 2])
    return float(_GRID[low]), float(_GRID[min(int(high), len(_GRID) - 1)])


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Evaluate the continued fraction of the incomplete beta function by Lentz's method."""
    first = 1 - (a + b) * x / (a + 1)
    c, d = 1.0, 1 / (first if abs(first) > _TINY else _TINY)
    result = d
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            below, above = 1 + step * d, 1 + step / c
            d = 1 / (below if abs(below) > _TINY else _TINY)
            c = above if abs(above) > _TINY else _TINY
            result *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return result
