"""Learn from what is done in contexts how close two of them must be to be of one kind.

The same closeness means different things for different embedders and kinds of work. Decisions tell them apart: contexts
of one kind call for the same actions. So the share of equal actions in the nearest contexts of other words is compared
with that in the same words and by chance, and with how it decreases with distance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

Numbers = NDArray[np.float64]

PARTS = (0.0, 0.2, 0.4, 0.65, 1.0)
"""Bounds of the parts of closeness, between unrelated texts and the same text, that are learned separately."""
BEHIND = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
"""Bounds of the parts of distance behind the nearest context that are learned separately."""
BESIDE = BEHIND[1]
"""Contexts at most this far behind the nearest one are pooled with it."""
DOUBT, WIDER = 4.0, 6.0
"""Prior weights, in contexts: of the default, and in each part, of the average over all parts."""
UNKNOWN = 0.3
"""Default share of nearest contexts that are of one kind."""
FADES = 0.1
"""Default distance behind the nearest context at which a context weighs 1/e."""
LEAST_DIFFERENCE = 0.08
"""Least excess probability of the same action in the same words over chance for actions to be informative."""
TRUSTED, STEEPNESS = 0.75, 0.04
"""The worth at which nearest contexts weigh half, since all of them are of this kind or none is."""
RARELY = 20
"""One context in so many is farther from all others than is typical."""


Measured = TypeVar("Measured", float, Numbers)


def relative_closeness(usual: float, similarity: Measured) -> Measured:
    """Rescale a similarity: 0 is the usual similarity of everyday texts to this one, 1 the same text."""
    return (similarity - usual) / max(1 - usual, 1e-9)


class Sample(NamedTuple):
    """A recorded context: the closeness of the nearest other one, and those in other words, nearest first.

    Each of the others has its closeness, and the probability that a decision there and one here take the same action.
    """

    nearest: float
    others: Sequence[tuple[float, float]]


class Habits(NamedTuple):
    """The probability that two decisions take the same action: in contexts with the same words, and by chance."""

    same: float
    chance: float

    def worth(self, shares: Sequence[float]) -> float:
        """Return how likely contexts with such shares of equal actions are of one kind."""
        return (math.fsum(shares) / len(shares) - self.chance) / (self.same - self.chance)


@dataclass(frozen=True, slots=True)
class Nearness:
    """The meaning of closeness of contexts in one memory; without points, the default for most memories."""

    typical: float = 1.0
    """The closeness that most contexts have to the nearest other one."""
    nearest: tuple[tuple[float, float], ...] = ()
    """For some values of closeness, how likely nearest contexts that close are of one kind."""
    behind: tuple[tuple[float, float], ...] = ()
    """For some distances behind the nearest context, the relative weight of a context."""

    def worth(self, closeness: float) -> float:
        """Return how likely the nearest contexts at such closeness are of one kind; 0 if unknown."""
        if not self.nearest or closeness < self.nearest[0][0]:
            return 0.0
        at, worth = zip(*self.nearest, strict=True)
        return float(np.interp(closeness, at, worth))

    def related(self, closeness: Numbers) -> Numbers:
        """Weigh contexts in other words by how likely they are of one kind with the one they are close to."""
        best = float(closeness.max(initial=0.0))
        worth = self.worth(best)
        if not worth:
            return np.zeros(len(closeness))
        trust = worth / (1 + math.exp((TRUSTED - worth) / STEEPNESS))
        at, left = zip(*self.behind, strict=True)
        found: Numbers = trust * np.interp(best - closeness, at, left)
        return found

    def dump(self) -> dict[str, JsonValue]:
        """Return the state as JSON."""
        return {
            "typical": self.typical,
            "nearest": [[*point] for point in self.nearest],
            "behind": [[*point] for point in self.behind],
        }

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Nearness:
        """Restore from the output of `dump`."""
        nearest, behind = (tuple((at, worth) for at, worth in state[name]) for name in ("nearest", "behind"))
        return cls(state["typical"], nearest, behind)


DEFAULT_NEARNESS = Nearness()


def learn_nearness(samples: Sequence[Sample], habits: Habits, unrelated: float) -> Nearness:
    """Learn what closeness means from some contexts of a memory.

    `unrelated` is the closeness that unrelated texts can have: below it, nothing is learned.
    """
    if not samples:
        return DEFAULT_NEARNESS
    typical = sorted(sample.nearest for sample in samples)[len(samples) // RARELY]
    telling = [sample.others for sample in samples if sample.others and sample.others[0][0] >= unrelated]
    if habits.same - habits.chance < LEAST_DIFFERENCE or not telling:
        return Nearness(typical)
    nearest = [(others[0][0], habits.worth(_behind(others, 0.0, BESIDE))) for others in telling]
    edges = [unrelated + (1 - unrelated) * part for part in PARTS]
    return Nearness(typical, _worth_by_closeness(nearest, edges), _worth_by_distance(telling, habits))


def _worth_by_closeness(
    nearest: Sequence[tuple[float, float]], edges: Sequence[float]
) -> tuple[tuple[float, float], ...]:
    """Return how likely nearest contexts are of one kind, by closeness; less if uncertain."""
    every = [worth for _, worth in nearest]
    size = len(every) + DOUBT
    mean = (math.fsum(every) + DOUBT * UNKNOWN) / size
    mean -= math.sqrt(math.fsum((worth - mean) ** 2 for worth in every)) / size
    found = []
    for low, high in pairwise(edges):
        own = [worth for closeness, worth in nearest if low <= closeness < high]
        found.append((math.fsum(own) + WIDER * mean) / (len(own) + WIDER))
    rising = np.clip(np.maximum.accumulate(found), 0.0, 1.0).tolist()
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    return ((edges[0], rising[0]), *zip(middles, rising, strict=True))


def _worth_by_distance(
    telling: Sequence[Sequence[tuple[float, float]]], habits: Habits
) -> tuple[tuple[float, float], ...]:
    """Return the weight of contexts relative to the nearest one, by their distance behind it."""
    found = [1.0]
    for low, high in pairwise(BEHIND[1:]):
        pairs = [
            (habits.worth(_behind(others, 0.0, BESIDE)), habits.worth(there))
            for others in telling
            if (there := _behind(others, low, high))
        ]
        first, second = (math.fsum(column) for column in zip(*pairs, strict=True)) if pairs else (0.0, 0.0)
        expected = math.exp(-low / FADES)
        found.append((max(second, 0.0) + DOUBT * expected) / (max(first, second, 0.0) + DOUBT))
    falling = np.clip(np.minimum.accumulate(found), 0.0, 1.0).tolist()
    middles = [(low + high) / 2 for low, high in pairwise(BEHIND)]
    return (*zip(middles, falling, strict=True), (BEHIND[-1], 0.0))


def _behind(others: Sequence[tuple[float, float]], low: float, high: float) -> list[float]:
    """Return the shares of equal actions in contexts within a range of distances behind the nearest one."""
    best = others[0][0]
    return [share for closeness, share in others if low <= best - closeness < high]
