"""Learn from the outcomes of recalls how much each part of a score should count.

A score is a sum of parts. Each part gets a multiplier, by logistic regression on pairs: what helped should have had a
higher score than what was looked at in vain. Learned on older credits, it must prove itself on newer ones, or the
defaults stay; and when it no longer does, they come back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engram.ports import Credit

MIN_EVENTS = 30
"""With fewer credits nothing is learned."""
OLDER = 0.7
"""The share of the credits that is learned from; the newer ones judge."""
LEAST, MOST = 0.25, 4.0
"""How much less or more a part may count."""
HOLD = 2.0
"""How strongly every multiplier is held at 1: as by so many credits."""

Multipliers = Mapping[str, float]
"""By the name of the part; 1 for one that is not there."""
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was decided about an agent's ranking, and why.

    `before` and `after` are the mean reciprocal ranks of what helped among the newer credits: with the defaults, and
    with what was tried.
    """

    decision: Literal["defaults", "adopted", "kept", "reverted"]
    reason: str
    events: int
    multipliers: Multipliers = field(default_factory=dict)
    before: float | None = None
    after: float | None = None


def decide(credits: Sequence[Credit], current: Multipliers) -> Outcome:
    """What should be in use now, after these credits; `current` is what was until now, empty for the defaults."""
    telling = sorted((credit for credit in credits if tells(credit)), key=lambda credit: (credit.at, credit.id))
    number = len(telling)
    if number < MIN_EVENTS:
        reason = f"{MIN_EVENTS} credits are needed that tell something about the order, there are {number}"
        return Outcome("kept" if current else "defaults", reason, number, current)
    older, newer = telling[: int(OLDER * number)], telling[int(OLDER * number) :]
    before = reciprocal_ranks(newer, {})
    learned = fit(older)
    after = reciprocal_ranks(newer, learned)
    mean, doubt = paired(before, after)
    figures = (float(before.mean()), float(after.mean()))
    if mean > doubt:
        best = fit(telling)
        reason = f"better on the newest {len(newer)} by {mean:.3f} ± {doubt:.3f}"
        return Outcome("kept" if best == current else "adopted", reason, number, best, *figures)
    if not current:
        reason = f"not clearly better on the newest {len(newer)}: {mean:+.3f} ± {doubt:.3f}"
        return Outcome("defaults", reason, number, {}, *figures)
    after = reciprocal_ranks(newer, current)
    mean, doubt = paired(before, after)
    figures = (figures[0], float(after.mean()))
    reason = f"on the newest {len(newer)}, what was adopted differs from the defaults by {mean:+.3f} ± {doubt:.3f}"
    if mean > 0:
        return Outcome("kept", reason, number, current, *figures)
    return Outcome("reverted", reason, number, {}, *figures)


def tells(credit: Credit) -> bool:
    """Whether a credit says anything about the order: something helped, and it was not all there was."""
    return bool(credit.helped) and len(credit.order) > 1 and any(credit.parts.values())


def reciprocal_ranks(credits: Sequence[Credit], multipliers: Multipliers) -> Numbers:
    """For each credit 1 / the place of the first that helped, were those that were shown ordered so."""
    return np.array([_reciprocal_rank(credit, multipliers) for credit in credits], dtype=np.float64)


def paired(before: Numbers, after: Numbers) -> tuple[float, float]:
    """The mean of the differences and its standard error."""
    differences = after - before
    return float(differences.mean()), float(differences.std(ddof=1)) / math.sqrt(len(differences))


def fit(credits: Sequence[Credit]) -> Multipliers:
    """The multipliers under which what helped stands above what did not; the same credits give the same ones."""
    names = sorted({name for credit in credits for own in credit.parts.values() for name in own})
    pairs, share = _pairs(credits, names)
    if not len(pairs):
        return {}
    at = np.zeros(len(names))
    loss = _loss(at, pairs, share)
    for _ in range(100):
        step = _step(at, pairs, share)
        tries = (np.clip(at - step / 2**n, math.log(LEAST), math.log(MOST)) for n in range(30))
        better = next((there for there in tries if _loss(there, pairs, share) < loss - 1e-10), None)
        if better is None:
            break
        at, loss = better, _loss(better, pairs, share)
    found = {name: round(math.exp(value), 3) for name, value in zip(names, at.tolist(), strict=True)}
    return {name: value for name, value in found.items() if value != 1}


def _reciprocal_rank(credit: Credit, multipliers: Multipliers) -> float:
    scores = {
        id: sum(multipliers.get(name, 1.0) * part for name, part in credit.parts.get(id, {}).items())
        for id in credit.order
    }
    ranked = sorted(credit.order, key=lambda id: -scores[id])  # of equals, the one that was shown first
    return 1 / (1 + min(n for n, id in enumerate(ranked) if id in credit.helped))


def _pairs(credits: Sequence[Credit], names: Sequence[str]) -> tuple[Numbers, Numbers]:
    """By how much each part favoured what helped over what did not, and how much each pair counts: a credit, once.

    The next one below the last that helped is compared too: it was likely seen, and without it only mistakes would
    be learned from, so that all that ranked well would seem wrong.
    """
    rows: list[list[float]] = []
    shares: list[float] = []
    for credit in credits:
        last = max((n for n, id in enumerate(credit.order) if id in credit.helped), default=len(credit.order))
        others = sorted({*credit.hindered, *credit.order[last + 1 : last + 2]})
        pairs = [(good, bad) for good in sorted(credit.helped) for bad in others]
        for good, bad in pairs:
            mine, other = credit.parts.get(good, {}), credit.parts.get(bad, {})
            rows.append([mine.get(name, 0.0) - other.get(name, 0.0) for name in names])
            shares.append(1 / len(pairs))
    return np.array(rows, dtype=np.float64), np.array(shares, dtype=np.float64)


def _loss(at: Numbers, pairs: Numbers, share: Numbers) -> float:
    """How badly the logarithms of the multipliers explain the pairs, and how far they are from 0."""
    return float(share @ np.logaddexp(0, -pairs @ np.exp(at)) + HOLD * at @ at / 2)


def _step(at: Numbers, pairs: Numbers, share: Numbers) -> Numbers:
    """One step of Newton's method."""
    slopes = pairs * np.exp(at)
    wrong = 1 / (1 + np.exp(np.clip(slopes.sum(axis=1), -500, 500)))
    gradient = -slopes.T @ (share * wrong) + HOLD * at
    curve = slopes.T @ (slopes * (share * wrong * (1 - wrong))[:, None]) + HOLD * np.eye(len(at))
    return np.asarray(np.linalg.solve(curve, gradient))
