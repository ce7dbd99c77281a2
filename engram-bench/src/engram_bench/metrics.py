"""Scores of rankings (any, all, fraction, NDCG, MRR at k) with bootstrap intervals, and the area under a curve."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

KS = (1, 5, 10, 20)
SEED = 20_260_101
ROUNDS = 1000
CONFIDENCE = 0.95

_CHUNK = 100
"""Rounds computed at once, to limit memory."""


class RankingScores(NamedTuple):
    """Scores of the first k of one ranking, each from 0 to 1."""

    any: float
    """1 if at least one right answer is among them."""
    all: float
    """1 if all right answers are among them; never if there are more than k."""
    fraction: float
    """Share of the right answers among them (R@k)."""
    ndcg: float
    """Gain discounted by rank, relative to a ranking with all right answers on top."""
    mrr: float
    """Reciprocal rank of the first right answer; 0 if it is not among them."""


class Estimate(NamedTuple):
    """A mean and its 95% interval."""

    mean: float
    low: float
    high: float


def scores(ranked: Sequence[str], gold: Collection[str], k: int) -> RankingScores:
    """Return the scores of the first k; repeated ids count once. Raises `ValueError` without gold."""
    right = frozenset(gold)
    if not right:
        raise ValueError("a ranking cannot be scored without right answers")
    ranks = [rank for rank, id in enumerate(list(dict.fromkeys(ranked))[:k], start=1) if id in right]
    gain = math.fsum(1 / math.log2(rank + 1) for rank in ranks)
    ideal = math.fsum(1 / math.log2(rank + 1) for rank in range(1, min(len(right), k) + 1))
    return RankingScores(
        any=float(bool(ranks)),
        all=float(len(ranks) == len(right)),
        fraction=len(ranks) / len(right),
        ndcg=gain / ideal,
        mrr=1 / ranks[0] if ranks else 0.0,
    )


def bootstrap(values: NDArray[np.float64], rounds: int = ROUNDS, seed: int = SEED) -> list[Estimate]:
    """Return the mean of each column with its 95% bootstrap interval; the same in every run.

    Whole rows are resampled, so that differences between columns stay paired.
    """
    count, columns = values.shape
    if count == 0:
        return [Estimate(math.nan, math.nan, math.nan)] * columns
    dice = np.random.default_rng(seed)
    drawn = [
        dice.multinomial(count, np.full(count, 1 / count), size=min(_CHUNK, rounds - done)) @ values / count
        for done in range(0, rounds, _CHUNK)
    ]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate(drawn), [tail, 1 - tail], axis=0)
    return [Estimate(float(m), float(lo), float(hi)) for m, lo, hi in zip(values.mean(axis=0), low, high, strict=True)]


def auc(positive: Sequence[float], negative: Sequence[float]) -> float | None:
    """Return the probability that a positive scores higher than a negative; `None` if one side is empty."""
    if not positive or not negative:
        return None
    below = np.sort(np.asarray(negative, dtype=np.float64))
    above = np.asarray(positive, dtype=np.float64)
    wins = np.searchsorted(below, above, side="left") + np.searchsorted(below, above, side="right")
    return float(wins.sum() / (2 * len(above) * len(below)))
