"""Group contexts that use the same words, whatever their numbers, names and typing errors.

A group is known by the words that most of its contexts have. Words count by how rare they are, so those that stand in
every context decide nothing.
"""

from __future__ import annotations

import math
import re
from bisect import insort
from collections import Counter
from collections.abc import Mapping
from heapq import nsmallest
from typing import Any

from pydantic import JsonValue

from engram.words import normal_form

ALIKE = 0.5
"""The F1 score of the words of two contexts, by their weights, from which on they are of one group."""
RAREST, VISITED, COMPARED = 6, 300, 10
"""Words that are looked up, entries that are looked at for them, and groups that are compared."""
LONGEST = 2000
"""Characters of a context that are looked at."""
_WITH_DIGITS = re.compile(r"\S*\d\S*")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")

Words = frozenset[str]


def words(context: str) -> Words:
    """Give the words of a context, without what holds a digit."""
    return frozenset(_WORD.findall(_WITH_DIGITS.sub(" ", normal_form(context[:LONGEST]))))


class Wordings:
    """The groups of the contexts of one agent, numbered in the order they came."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        """How many contexts each group has."""
        self._counts: list[dict[str, int] | tuple[str, ...]] = []
        """In how many contexts of a group each word is; of a group of one context just its words, which takes less."""
        self._by_word: dict[str, list[int]] = {}
        """For each word, the groups that have it."""
        self._times = Counter[str]()
        """In how many contexts a word is."""
        self._contexts = 0

    def add(self, context: str) -> tuple[int | None, bool]:
        """Count a context; its group, and whether that is new. A context without words has no group."""
        said = words(context)
        if not said:
            return None, False
        self._contexts += 1
        self._times.update(said)
        known = self._find(said)
        return (self._begin(said), True) if known is None else (self._count(known, said), False)

    def split(self, context: str) -> int | None:
        """Give a context a group of its own, which is found by its words from now on."""
        said = words(context)
        return self._begin(said) if said else None

    def find(self, context: str) -> int | None:
        """Give the group of a context, `None` if there is no such group yet."""
        said = words(context)
        return self._find(said) if said else None

    def _begin(self, said: Words) -> int:
        number = len(self._sizes)
        self._sizes.append(1)
        self._counts.append(tuple(sorted(said)))
        for word in said:
            self._by_word.setdefault(word, []).append(number)
        return number

    def _count(self, number: int, said: Words) -> int:
        counts = self._counts[number]
        if isinstance(counts, tuple):
            self._counts[number] = counts = dict.fromkeys(counts, 1)
        for word in sorted(said):
            if word not in counts:
                insort(self._by_word.setdefault(word, []), number)
            counts[word] = counts.get(word, 0) + 1
        self._sizes[number] += 1
        return number

    def _find(self, said: Words) -> int | None:
        shared, left = Counter[int](), VISITED
        for word in sorted(said, key=lambda word: (len(self._by_word.get(word, ())), word))[:RAREST]:
            groups = self._by_word.get(word, ())[-left:]
            shared.update(groups)
            left -= len(groups)
            if left <= 0:
                break
        if not shared:
            return None
        weights = {word: self._weight(word) for word in said}
        whole = math.fsum(weights.values())
        nearest = nsmallest(COMPARED, shared, key=lambda number: (-shared[number], number))
        best, number = max((self._likeness(weights, whole, number), -number) for number in nearest)
        return -number if best >= ALIKE else None

    def _likeness(self, weights: Mapping[str, float], whole: float, number: int) -> float:
        """Score how far a context has the words of a group, and few others (F1 of their weights)."""
        counts, size = self._counts[number], self._sizes[number]
        usual = counts if isinstance(counts, tuple) else [word for word, times in counts.items() if times * 2 > size]
        common = math.fsum(weights[word] for word in usual if word in weights)
        if 2 * common < ALIKE * whole:
            return 0.0
        return 2 * common / (whole + math.fsum(map(self._weight, usual)))

    def _weight(self, word: str) -> float:
        return math.log((self._contexts + 1) / (self._times[word] + 0.5)) + 0.1

    def dump(self) -> JsonValue:
        """Give the groups as JSON."""
        return {
            "contexts": self._contexts,
            "times": dict(sorted(self._times.items())),
            "groups": [
                [size, [*counts] if isinstance(counts, tuple) else dict(sorted(counts.items()))]
                for size, counts in zip(self._sizes, self._counts, strict=True)
            ],
        }

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Wordings:
        """Give what `dump` gave."""
        found = cls()
        found._contexts, found._times = state["contexts"], Counter(state["times"])
        for number, (size, counts) in enumerate(state["groups"]):
            found._sizes.append(size)
            found._counts.append(dict(counts) if isinstance(counts, dict) else tuple(counts))
            for word in counts:
                found._by_word.setdefault(word, []).append(number)
        return found
