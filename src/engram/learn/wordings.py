"""Group contexts that use the same words, whatever their numbers, names and typing errors.

A group is known by the words that most of its contexts have. Words count by how rare they are, so those that stand in
every context decide nothing.
"""

from __future__ import annotations

import math
import re
from bisect import insort
from collections import Counter
from collections.abc import Collection, Mapping
from functools import lru_cache
from heapq import nsmallest
from typing import Any

from pydantic import JsonValue

from engram.words import STOP_WORDS

ALIKE = 0.55
"""The F1 score of the words of two contexts, by their weights, from which on they are of one group."""
RAREST, VISITED, COMPARED = 6, 300, 10
"""Words that are looked up, entries that are looked at for them, and groups that are compared."""
LONG = 3
"""Only words longer than this are taken for misspelt ones."""
LONGEST = 2000
"""Characters of a context that are looked at."""
_IDENTIFIER = re.compile(r"\S*\d\S*|\w+(?:[-_./:]\w+)+")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")

_FRAME = STOP_WORDS - frozenset("above after against before below down no not off out over under up without".split())
"""Words that tell no two contexts apart."""

Words = frozenset[str]


@lru_cache(maxsize=4096)
def words(context: str) -> Words:
    """Give the words of a context, without values: what holds a digit, identifiers, and names within a sentence."""
    text = context[:LONGEST]
    found = _WORD.findall(_IDENTIFIER.sub(" ", text))
    in_lower_case = any(word.islower() for word in found)
    kept = [word for place, word in enumerate(found) if not (place and in_lower_case and word.istitle())]
    return frozenset(word.lower() for word in kept or _WORD.findall(text))


def is_contrast(one: str, other: str) -> bool:
    """Tell whether two contexts say the same but for a telling word: "start the server" and "stop the server"."""
    first, second = words(one), words(other)
    return 2 * len(first & second) >= ALIKE * (len(first) + len(second)) and _are_others(first, second, second)


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

    def add(self, context: str) -> int | None:
        """Count a context; its group, which may be new. A context without words has none."""
        said = words(context)
        if not said:
            return None
        self._contexts += 1
        self._times.update(said)
        known = self._find(said)
        return self._begin(said) if known is None else self._count(known, said)

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
        if _are_others(weights, usual, counts):
            return 0.0
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


def _are_others(said: Collection[str], usual: Collection[str], known: Collection[str]) -> bool:
    """Tell whether a telling word stands in the place of another one: "start the server" is not "stop the server".

    Where a group has shown that a place varies, its words are not usual there.
    """
    missing = [word for word in usual if word not in said and word not in _FRAME]
    other = [word for word in said if word not in known and word not in _FRAME]
    return any(not _misspelt(word, said) for word in missing) and any(not _misspelt(word, known) for word in other)


def _misspelt(word: str, words: Collection[str]) -> bool:
    return len(word) > LONG and any(abs(len(word) - len(each)) <= 1 and _differ_little(word, each) for each in words)


def _differ_little(one: str, other: str) -> bool:
    """Tell whether one letter was left out, added, or changed places with the next."""
    start = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    if start is None:
        return True
    if len(one) == len(other):
        swapped = other[:start] + other[start : start + 2][::-1] + other[start + 2 :]
        return one == swapped
    short, long = sorted((one, other), key=len)
    return short[start:] == long[start + 1 :]
