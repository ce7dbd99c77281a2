"""Weigh the outcomes of other agents by how well they agree with one's own (collaborative filtering over rates)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

_SHARES = (np.arange(200) + 0.5) / 200


def agreement(
    own: Mapping[tuple[str, str], tuple[float, float]], theirs: Mapping[tuple[str, str], tuple[float, float]]
) -> float:
    """Return the expected share of things on which two agents have the same success rate, in [0, 1].

    Both arguments hold, for each (group, action), the number of attempts and the sum of their qualities. Without
    overlap the result is one half; one clear agreement makes it 2/3, one clear disagreement 1/3, and few attempts
    change little. All shares are equally likely a priori.
    """
    belief = np.zeros_like(_SHARES)
    for key in sorted(own.keys() & theirs.keys()):
        same = _log_odds_of_one_rate(*own[key], *theirs[key])
        belief += np.logaddexp(np.log(_SHARES) + same, np.log1p(-_SHARES))
    likely = np.exp(belief - belief.max())
    return float(likely @ _SHARES / likely.sum())


def evidence_weight(
    own: Mapping[tuple[str, str], tuple[float, float]], theirs: Mapping[tuple[str, str], tuple[float, float]]
) -> float:
    """Return the weight of the other agent's evidence, in [0, 1]: the odds that one rate holds for both, at most 1.

    Evidence counts fully until outcomes contradict it, so agents without overlap count fully.
    """
    share = agreement(own, theirs)
    return min(1.0, share / (1 - share)) if share < 1 else 1.0


def _log_odds_of_one_rate(mine: float, good: float, others: float, well: float) -> float:
    """Return the log odds that one rate explains both records, against one rate each."""
    return _log_likelihood(mine + others, good + well) - _log_likelihood(mine, good) - _log_likelihood(others, well)


def _log_likelihood(attempts: float, good: float) -> float:
    """Return the log likelihood of a record under a uniform prior of its rate."""
    good = max(good, 0.0)
    bad = max(attempts - good, 0.0)
    return math.lgamma(1 + good) + math.lgamma(1 + bad) - math.lgamma(2 + good + bad)
