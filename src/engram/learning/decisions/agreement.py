"""How far one agent's outcomes can stand in for another's: collaborative filtering over rates."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

_SHARES = (np.arange(200) + 0.5) / 200


def agreement(
    own: Mapping[tuple[str, str], tuple[float, float]], theirs: Mapping[tuple[str, str], tuple[float, float]]
) -> float:
    """A weight in [0, 1] for the other's evidence: one half without overlap, more if rates agree, less if not.

    Both give, for each (group, action), the number of attempts and the sum of their qualities. The weight is the
    expected share of things in which one rate holds for both, when every share is as likely before anything is known:
    one clear agreement makes it 2/3, one clear disagreement 1/3, and a thing one of them hardly tried says little.
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
    """What the other's evidence counts, in [0, 1]: the odds that one rate holds for both, at most 1.

    Evidence counts fully until outcomes contradict it, so what has nothing in common changes nothing.
    """
    share = agreement(own, theirs)
    return min(1.0, share / (1 - share)) if share < 1 else 1.0


def _log_odds_of_one_rate(mine: float, good: float, others: float, well: float) -> float:
    """The logarithm of how much better one rate explains both records than two do."""
    return _log_likelihood(mine + others, good + well) - _log_likelihood(mine, good) - _log_likelihood(others, well)


def _log_likelihood(attempts: float, good: float) -> float:
    """The logarithm of the chance of such a record when every rate is as likely as any other."""
    good = max(good, 0.0)
    bad = max(attempts - good, 0.0)
    return math.lgamma(1 + good) + math.lgamma(1 + bad) - math.lgamma(2 + good + bad)
