"""Tell from what is done in two contexts, and how it goes, whether they are the same situation.

The odds of one common habit against two separate ones are compared (Dirichlet and beta priors). How usual an action is
everywhere is taken into account, so that what is done in all contexts alike joins none of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import lgamma, log

from pydantic import JsonValue

_MILLION = 1_000_000
PRIOR = 5.0
"""How firmly a context is expected to have the usual mixture of actions, in decisions."""


@dataclass(slots=True)
class Customs:
    """How often each action was taken, how often its outcome is known, and the sum of the qualities, in millionths.

    Whole numbers: the order of recording leaves no trace.
    """

    taken: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    good: Counter[str] = field(default_factory=Counter)

    def take(self, action: str) -> None:
        """Count a decision."""
        self.taken[action] += 1

    def tell(self, action: str, quality: float, before: float | None) -> None:
        """Count an outcome, or replace one that was told before."""
        self.told[action] += before is None
        self.good[action] += round(quality * _MILLION) - round((before or 0.0) * _MILLION)

    def decisions(self) -> int:
        """Count the decisions."""
        return self.taken.total()

    def copy(self) -> Customs:
        """Copy the counts."""
        return Customs(Counter(self.taken), Counter(self.told), Counter(self.good))

    def merge(self, other: Customs) -> None:
        """Add the counts of another one."""
        self.taken.update(other.taken)
        self.told.update(other.told)
        self.good.update(other.good)

    def without(self, other: Customs) -> Customs:
        """Give the counts less those of a part."""
        return Customs(self.taken - other.taken, self.told - other.told, self.good - other.good)

    def dump(self) -> JsonValue:
        """Give the counts as JSON."""
        return [dict(sorted(counts.items())) for counts in (self.taken, +self.told, +self.good)]

    @classmethod
    def load(cls, state: Iterable[Mapping[str, int]]) -> Customs:
        """Give what `dump` gave."""
        return cls(*(Counter(counts) for counts in state))


def all_of(parts: Iterable[Customs]) -> Customs:
    """Sum up several counts."""
    found = Customs()
    for part in parts:
        found.merge(part)
    return found


def odds_of_one(one: Customs, other: Customs, usual: Mapping[str, float]) -> float:
    """Give the logarithm of the odds that both have one habit and one rate for each action, against two of each.

    `usual` is the share of each action among all decisions.
    """
    both = one.copy()
    both.merge(other)
    odds = _mixture(both.taken, usual) - _mixture(one.taken, usual) - _mixture(other.taken, usual)
    for action in one.told.keys() & other.told.keys():
        odds += _rate(both, action) - _rate(one, action) - _rate(other, action)
    return odds


def odds_of_own(customs: Customs, usual: Mapping[str, float]) -> float:
    """Give the logarithm of the odds that these have a habit of their own, against what is usual everywhere."""
    return _mixture(customs.taken, usual) - sum(times * log(usual[action]) for action, times in customs.taken.items())


def _mixture(taken: Counter[str], usual: Mapping[str, float]) -> float:
    start = lgamma(PRIOR) - lgamma(PRIOR + taken.total())
    return start + sum(
        lgamma(PRIOR * usual[action] + times) - lgamma(PRIOR * usual[action]) for action, times in taken.items()
    )


def _rate(customs: Customs, action: str) -> float:
    told, good = customs.told[action], customs.good[action] / _MILLION
    return lgamma(1 + good) + lgamma(1 + max(told - good, 0.0)) - lgamma(2 + told)
