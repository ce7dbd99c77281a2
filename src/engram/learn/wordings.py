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
from typing import Any

from pydantic import JsonValue

from engram.words import normal_form

ALIKE = 0.5
"""The F1 score of the words of two contexts, by their weights, from which on they are of one group."""
RAREST, VISITED, COMPARED = 6, 1000, 40
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
        self._groups: list[tuple[int, dict[str, int]]] = []
        """For each group, how many contexts it has, and in how many of them each word is."""
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
        number = len(self._groups) if known is None else known
        if known is None:
            self._groups.append((0, {}))
        self._count(number, said)
        return number, known is None

    def split(self, context: str) -> int | None:
        """Give a context a group of its own, which is found by its words from now on."""
        said = words(context)
        if not said:
            return None
        self._groups.append((0, {}))
        self._count(len(self._groups) - 1, said)
        return len(self._groups) - 1

    def find(self, context: str) -> int | None:
        """Give the group of a context, `None` if there is no such group yet."""
        said = words(context)
        return self._find(said) if said else None

    def _count(self, number: int, said: Words) -> None:
        contexts, counts = self._groups[number]
        for word in sorted(said):
            if word not in counts:
                insort(self._by_word.setdefault(word, []), number)
            counts[word] = counts.get(word, 0) + 1
        self._groups[number] = contexts + 1, counts

    def _find(self, said: Words) -> int | None:
        shared, left = Counter[int](), VISITED
        for word in sorted(said, key=lambda word: (len(self._by_word.get(word, ())), word))[:RAREST]:
            groups = self._by_word.get(word, ())[-left:]
            shared.update(groups)
            left -= len(groups)
            if left <= 0:
                break
        nearest = sorted(shared, key=lambda number: (-shared[number], number))[:COMPARED]
        scored = [(self._likeness(said, number), -number) for number in nearest]
        best, number = max(scored, default=(0.0, 0))
        return -number if best >= ALIKE else None

    def _likeness(self, said: Words, number: int) -> float:
        """Score how far a context has the words of a group, and few others (F1 of their weights)."""
        contexts, counts = self._groups[number]
        usual = {word for word, times in counts.items() if times * 2 > contexts or contexts == 1}
        common = 2 * sum(map(self._weight, said & usual))
        whole = sum(map(self._weight, said)) + sum(map(self._weight, usual))
        return common / whole if whole else 0.0

    def _weight(self, word: str) -> float:
        return math.log((self._contexts + 1) / (self._times[word] + 0.5)) + 0.1

    def dump(self) -> JsonValue:
        """Give the groups as JSON."""
        return {
            "contexts": self._contexts,
            "times": dict(sorted(self._times.items())),
            "groups": [[contexts, dict(sorted(counts.items()))] for contexts, counts in self._groups],
        }

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Wordings:
        """Give what `dump` gave."""
        found = cls()
        found._contexts, found._times = state["contexts"], Counter(state["times"])
        for number, (contexts, counts) in enumerate(state["groups"]):
            found._groups.append((contexts, dict(counts)))
            for word in counts:
                found._by_word.setdefault(word, []).append(number)
        return found
