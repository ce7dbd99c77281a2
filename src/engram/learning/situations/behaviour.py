"""Compare what is done in two contexts, and how it goes, to decide whether they are the same situation.

The odds of one common habit against two separate ones are compared (Dirichlet and beta priors). How common an action is
overall is taken into account, so that what is done in all contexts alike merges none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum, lgamma, log
from typing import NamedTuple

from pydantic import JsonValue

_MILLION = 1_000_000

PRIOR = 5.0
"""Strength of the prior that a context has the usual mixture of actions, in decisions."""


class OutcomeCounts(NamedTuple):
    """The number of decisions for an action, of known outcomes, and the sum of their qualities, in millionths.

    Integers, so that the order of recording leaves no trace.
    """

    taken: int = 0
    known: int = 0
    good: int = 0

    def plus(self, other: OutcomeCounts, times: int = 1) -> OutcomeCounts:
        """Add other counts, or subtract them with `times=-1`."""
        return OutcomeCounts(
            self.taken + times * other.taken, self.known + times * other.known, self.good + times * other.good
        )


NO_COUNTS = OutcomeCounts()


class ActionCounts:
    """Counts of decisions and outcomes by action."""

    __slots__ = ("decisions", "records")

    def __init__(self, records: Mapping[str, OutcomeCounts] | None = None) -> None:
        self.records: dict[str, OutcomeCounts] = dict(records or {})
        self.decisions = sum(record.taken for record in self.records.values())

    def count_decision(self, action: str) -> None:
        """Count a decision."""
        self._add(action, OutcomeCounts(taken=1))
        self.decisions += 1

    def count_outcome(self, action: str, quality: float, before: float | None) -> None:
        """Count an outcome, or replace the earlier one `before`."""
        worth = round(quality * _MILLION) - round((before or 0.0) * _MILLION)
        self._add(action, OutcomeCounts(known=int(before is None), good=worth))

    def taken(self, action: str) -> int:
        """Return the number of decisions for an action."""
        return self.records.get(action, NO_COUNTS).taken

    def merge(self, other: ActionCounts) -> None:
        """Add the counts of another one."""
        for action, record in other.records.items():
            self._add(action, record)
        self.decisions += other.decisions

    def without(self, other: ActionCounts) -> ActionCounts:
        """Return the counts minus a part."""
        left = {
            action: record.plus(other.records.get(action, NO_COUNTS), -1) for action, record in self.records.items()
        }
        return ActionCounts({action: record for action, record in left.items() if record.taken})

    def copy(self) -> ActionCounts:
        """Copy the records."""
        return ActionCounts(self.records)

    def dump(self) -> JsonValue:
        """Return the records as JSON."""
        return {action: [*record] for action, record in sorted(self.records.items())}

    @classmethod
    def load(cls, state: Mapping[str, Iterable[int]]) -> ActionCounts:
        """Restore from the output of `dump`."""
        return cls({action: OutcomeCounts(*record) for action, record in state.items()})

    def _add(self, action: str, record: OutcomeCounts) -> None:
        self.records[action] = self.records.get(action, NO_COUNTS).plus(record)


def sum_counts(parts: Iterable[ActionCounts]) -> ActionCounts:
    """Return the sum of several."""
    found = ActionCounts()
    for part in parts:
        found.merge(part)
    return found


def log_odds_same(one: ActionCounts, other: ActionCounts, usual: Mapping[str, float]) -> float:
    """Return the log odds that both have one habit, and one rate for each action, against separate ones.

    `usual` is the share of each action among all decisions.
    """
    both = sum_counts((one, other))
    odds = _mixture(both, usual) - _mixture(one, usual) - _mixture(other, usual)
    shared = one.records.keys() & other.records.keys()
    return odds + fsum(_rate(both, action) - _rate(one, action) - _rate(other, action) for action in shared)


def log_odds_all_same(parts: Sequence[ActionCounts], usual: Mapping[str, float]) -> float:
    """Return the log odds that all have one habit, and one rate for each action, against separate ones."""
    whole = sum_counts(parts)
    odds = _mixture(whole, usual) - fsum(_mixture(part, usual) for part in parts)
    rates = (_rate(part, action) for part in parts for action in part.records)
    return odds + fsum(_rate(whole, action) for action in whole.records) - fsum(rates)


def log_odds_unusual(customs: ActionCounts, usual: Mapping[str, float]) -> float:
    """Return the log odds that these have a habit of their own, against what is usual everywhere."""
    return _mixture(customs, usual) - fsum(
        record.taken * log(usual[action]) for action, record in customs.records.items()
    )


def _mixture(customs: ActionCounts, usual: Mapping[str, float]) -> float:
    start = lgamma(PRIOR) - lgamma(PRIOR + customs.decisions)
    return start + fsum(
        lgamma(PRIOR * usual[action] + record.taken) - lgamma(PRIOR * usual[action])
        for action, record in customs.records.items()
    )


def _rate(customs: ActionCounts, action: str) -> float:
    _, known, worth = customs.records[action]
    good = worth / _MILLION
    return lgamma(1 + good) + lgamma(1 + max(known - good, 0.0)) - lgamma(2 + known)
