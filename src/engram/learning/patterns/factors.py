"""Find the features that go with success: effect sizes, guarded against chance, multiple testing and confounding.

A feature is reported when it passes three tests. Chance: Fisher's exact test (mid-p) on its two-by-two table. Multiple
testing: Benjamini and Hochberg's procedure keeps the expected share of false discoveries under `rate`. Confounding: a
feature that adds nothing once a stronger one is held fixed (Mantel and Haenszel) is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from engram.learning.situations.similar_contexts import WORD
from engram.model.success import KeyFactor

FALSE_DISCOVERIES = 0.05
"""Expected share of reported factors that are due to chance alone."""
LEAST_SUPPORT = 3
"""Episodes needed with a feature, and without it, to consider it."""
MOST_FACTORS = 8
_Z = 1.959964  # 95% of a normal distribution lies within so many standard deviations

_Numbers = np.ndarray[tuple[int], np.dtype[np.float64]]
_Indexes = np.ndarray[tuple[int], np.dtype[np.int64]]
_Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


class Case(NamedTuple):
    """One episode as evidence: its features, its quality, and its weight (at most 1)."""

    features: frozenset[str]
    quality: float
    weight: float = 1.0


class ContingencyTable(NamedTuple):
    """Successes and cases with a feature and without; partial successes and half-trusted cases count partly."""

    good_with: float
    all_with: float
    good_without: float
    all_without: float


class _Candidate(NamedTuple):
    feature: str
    having: _Indexes
    table: ContingencyTable
    p: float


def key_factors(
    cases: Sequence[Case], *, rate: float = FALSE_DISCOVERIES, support: int = LEAST_SUPPORT
) -> tuple[KeyFactor, ...]:
    """Return the features that go with success, or with failure (negative effect), most certain first; often none.

    Features that always occur together, or never together, are treated as one: an explicit feature represents a word,
    and a feature that goes with success represents one that goes with failure.
    """
    quality = np.array([case.quality for case in cases])
    weight = np.clip(np.array([case.weight for case in cases]), 0, 1)
    candidates = [
        candidate
        for candidate in _candidates(cases, quality, weight, support)
        if least_p(candidate.table) <= rate  # what could never pass is not tested
    ]
    ordered = sorted(candidates, key=lambda c: (c.p, _preference(c)))
    found = _discoveries(ordered, rate)
    corrected = _corrected([candidate.p for candidate in ordered])
    kept = _independent(found, quality, weight, rate)
    return tuple(_factor(candidate, len(cases), corrected[candidate.p]) for candidate in kept)


def effect(table: ContingencyTable) -> tuple[float, tuple[float, float]]:
    """Return the difference of the two success rates with its 95% interval (Agresti and Caffo).

    Each rate starts with one success and one failure, as all rates here do, so small tables give small effects.
    """
    n_with, n_without = table.all_with + 2, table.all_without + 2
    with_it, without = (table.good_with + 1) / n_with, (table.good_without + 1) / n_without
    difference = with_it - without
    error = _Z * math.sqrt(with_it * (1 - with_it) / n_with + without * (1 - without) / n_without)
    return difference, (max(-1.0, difference - error), min(1.0, difference + error))


def log_odds(table: ContingencyTable) -> float:
    """Return the log odds ratio, with half a case added to each cell so that it is finite."""
    good, bad = table.good_with + 0.5, table.all_with - table.good_with + 0.5
    well, ill = table.good_without + 0.5, table.all_without - table.good_without + 0.5
    return math.log(good * ill / (bad * well))


def mid_p(table: ContingencyTable) -> float:
    """Return the two-sided p-value of Fisher's exact test with mid-p.

    Fractional cases are rounded to the less significant side.
    """
    n_with, n = _floor(table.all_with), _floor(table.all_with) + _floor(table.all_without)
    good = table.good_with + table.good_without
    several = {max(0, min(n, total)) for total in (_floor(good), _ceil(good))}
    return max(_two_sided(table.good_with, n_with, total, n) for total in several)


def least_p(table: ContingencyTable) -> float:
    """Return the smallest p-value that a table with these totals could have."""
    good = table.good_with + table.good_without
    most = min(table.all_with, good)
    least = max(0.0, good - table.all_without)
    extremes = (
        ContingencyTable(with_it, table.all_with, good - with_it, table.all_without) for with_it in (most, least)
    )
    return min(mid_p(extreme) for extreme in extremes)


def stratified_p(column: _Flags, quality: _Numbers, weight: _Numbers, strata: Sequence[_Flags]) -> float:
    """Return the p-value of a feature with all of `strata` held fixed (Mantel and Haenszel)."""
    code = np.zeros(len(column), dtype=np.int64)
    for number, stratum in enumerate(strata):
        code |= stratum.astype(np.int64) << number
    _, layer = np.unique(code, return_inverse=True)
    n = np.bincount(layer, weight)
    with_it = np.bincount(layer, weight * column)
    good = np.bincount(layer, weight * quality)
    seen = np.bincount(layer, weight * quality * column)
    layered = n > 1
    n, with_it, good, seen = n[layered], with_it[layered], good[layered], seen[layered]
    variance = float((with_it * (n - with_it) * good * (n - good) / (n * n * (n - 1))).sum())
    if variance <= 1e-12:
        return 1.0
    z = abs(float((seen - with_it * good / n).sum())) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def _candidates(cases: Sequence[Case], quality: _Numbers, weight: _Numbers, support: int) -> list[_Candidate]:
    having: dict[str, list[int]] = {}
    for number, case in enumerate(cases):
        for feature in case.features:
            having.setdefault(feature, []).append(number)
    good, everything = float(weight @ quality), float(weight.sum())
    distinct: dict[bytes, _Candidate] = {}
    for feature in sorted(having):
        numbers = np.array(having[feature])
        if min(len(numbers), len(cases) - len(numbers)) < support:
            continue
        with_it, well = float(weight[numbers].sum()), float(weight[numbers] @ quality[numbers])
        table = ContingencyTable(well, with_it, max(0.0, good - well), max(0.0, everything - with_it))
        candidate = _Candidate(feature, numbers, table, mid_p(table))
        key = _smaller_side(numbers, len(cases)).tobytes()
        other = distinct.setdefault(key, candidate)
        if _preference(candidate) < _preference(other):
            distinct[key] = candidate
    return list(distinct.values())


def _smaller_side(having: _Indexes, cases: int) -> _Indexes:
    """Return the cases with a feature, or those without it if they are fewer: equal for a feature and its opposite."""
    if 2 * len(having) < cases or (2 * len(having) == cases and having[0] == 0):
        return having
    return np.flatnonzero(~_column(having, cases))


def _column(having: _Indexes, cases: int) -> _Flags:
    column = np.zeros(cases, dtype=np.bool_)
    column[having] = True
    return column


def _preference(candidate: _Candidate) -> tuple[bool, bool, str]:
    return candidate.feature.startswith(WORD), effect(candidate.table)[0] < 0, candidate.feature


def _discoveries(surest_first: Sequence[_Candidate], rate: float) -> Sequence[_Candidate]:
    """Return those that pass Benjamini and Hochberg's procedure."""
    tries = len(surest_first)
    passed = [rank for rank, one in enumerate(surest_first, 1) if one.p <= rate * rank / tries]
    return surest_first[: passed[-1] if passed else 0]


def _corrected(smallest_first: Sequence[float]) -> dict[float, float]:
    """Return, for each p-value, the smallest rate of false discoveries at which it passes."""
    tries, least, found = len(smallest_first), 1.0, dict[float, float]()
    for rank in range(tries, 0, -1):
        p = smallest_first[rank - 1]
        least = min(least, p * tries / rank)
        found[p] = least
    return found


def _independent(
    surest_first: Sequence[_Candidate], quality: _Numbers, weight: _Numbers, rate: float
) -> list[_Candidate]:
    """Return those that add something when the other selected ones are held fixed."""
    level = rate / max(1, len(surest_first))
    kept: list[tuple[_Candidate, _Flags]] = []
    for candidate in surest_first:
        column = _column(candidate.having, len(quality))
        if not kept or stratified_p(column, quality, weight, [other for _, other in kept]) <= level:
            kept.append((candidate, column))
        if len(kept) == MOST_FACTORS:
            break
    while len(kept) > 1:
        alone = [
            stratified_p(column, quality, weight, [other for _, other in kept if other is not column])
            for _, column in kept
        ]
        weakest = max(range(len(kept)), key=lambda number: (alone[number], number))
        if alone[weakest] <= level:
            break
        del kept[weakest]
    return [candidate for candidate, _ in kept]


def _factor(candidate: _Candidate, cases: int, corrected: float) -> KeyFactor:
    difference, interval = effect(candidate.table)
    return KeyFactor(
        feature=candidate.feature,
        effect=difference,
        interval=interval,
        log_odds=log_odds(candidate.table),
        support=len(candidate.having),
        without=cases - len(candidate.having),
        p_value=min(1.0, candidate.p),
        corrected_p=max(min(1.0, candidate.p), corrected),
        good_with=candidate.table.good_with,
        good_without=candidate.table.good_without,
    )


def _two_sided(seen: float, n_with: int, good: int, n: int) -> float:
    low, high = max(0, good - (n - n_with)), min(n_with, good)
    if low >= high:
        return 1.0
    counts = {min(high, max(low, count)) for count in (_floor(seen), _ceil(seen))}
    return max(_hypergeometric(count, n_with, good, n) for count in counts)


@lru_cache(maxsize=100_000)
def _hypergeometric(count: int, n_with: int, good: int, n: int) -> float:
    low, high = max(0, good - (n - n_with)), min(n_with, good)
    values = np.arange(low, high + 1)
    factorials = _log_factorials(n.bit_length())
    chance = (
        factorials[n_with] - factorials[values] - factorials[n_with - values]
        + factorials[n - n_with] - factorials[good - values] - factorials[n - n_with - good + values]
        + factorials[good] + factorials[n - good] - factorials[n]
    )  # fmt: skip
    chance = np.exp(chance)
    here = count - low
    below, above = float(chance[:here].sum()), float(chance[here + 1 :].sum())
    return min(1.0, 2 * (min(below, above) + float(chance[here]) / 2))


@lru_cache(maxsize=64)
def _log_factorials(bits: int) -> _Numbers:
    """Return the logarithms of 0! to (2 ** bits)!, by index."""
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, 2**bits + 1)))])


def _floor(value: float) -> int:
    return math.floor(value + 1e-9)


def _ceil(value: float) -> int:
    return math.ceil(value - 1e-9)
