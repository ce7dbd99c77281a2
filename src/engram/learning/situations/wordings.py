"""Group contexts that use the same words, whatever their numbers, names and typing errors.

A group is represented by the words that most of its contexts have. Words are weighted by rarity, so that words in every
context decide nothing.
"""

from __future__ import annotations

import math
import re
from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from heapq import nsmallest
from typing import Any

from pydantic import JsonValue

from engram.text.terms import STOP_WORDS, digest, index_terms, normal_form

ALIKE = 0.55
"""F1 score of the weighted words of two contexts above which they are of one group."""
RAREST, VISITED, COMPARED = 6, 300, 10
"""Words looked up per query, index entries visited for them, and groups compared."""
LONG = 3
"""Only longer words are matched with misspellings."""
PLACE = 3
"""Words in one place of a context at most."""
LONGEST = 2000
"""Characters of a context that are read."""
_IDENTIFIER = re.compile(r"\S*\d\S*|\w+(?:[-_./:]\w+)+")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")

_FRAME = STOP_WORDS - frozenset("above after against before below down no not off out over under up without".split())
"""Words that distinguish no contexts."""

_NEGATIONS = frozenset(
    """no not nor never neither none cannot without nicht kein nie niemal ohn ne pas jamai aucun nunca sin nao nem sem
    non senza niet geen nooit zonder не нет ни без никогда нельзя bez ingen aldrig ikk""".split()
)
"""Stems of words that negate a context."""
_KEIN = "kein"
_UNSPACED_NEGATIONS = ("ない", "ません", "なかった", "不", "没", "未", "않", "못", "없")
"""Negations in scripts that are written without spaces."""

_OPPOSITES = tuple(
    """on-off up-down with-without before-after over-under left-right buy-sell open-close open-shut lock-unlock
    start-stop enable-disable import-export encrypt-decrypt increase-decrease raise-lower add-remove
    create-delete push-pull upload-download send-receive accept-reject approve-reject approve-deny
    grant-revoke allow-forbid pass-fail deposit-withdraw borrow-lend hire-fire win-lose expand-shrink
    attach-detach male-female awake-unconscious awake-asleep early-late hot-cold full-empty high-low
    true-false public-private incoming-outgoing internal-external inbound-outbound ascending-descending
    succeed-fail connect-disconnect mount-unmount install-uninstall subscribe-unsubscribe load-unload
    pack-unpack zip-unzip compress-decompress activate-deactivate arrive-depart arrive-leave enter-exit
    enter-leave more-less first-last minimum-maximum""".split()
)
"""Pairs of words that distinguish two contexts if each has one of them, however similar the rest."""
_INWARD, _OUTWARD = "in", "out"
_GATES = frozenset("log sign check clock opt".split())
"""Words with which in and out are opposites."""

_GERMAN = re.compile(
    r"\b(?:der|das|dem|ein|eine|einen|einem|einer|eines|kein|keine|keinen|und|oder|nicht|ist|sind|wird|wurde|für|vom|"
    r"zum|zur|beim|auf|mit|nach|bei|über|seit|sich)\b"
)
"""Words of a language in which all nouns are capitalised."""

_SHORT_NOT = re.compile(r"\b(\w+?)n't\b", re.IGNORECASE)
_CANNOT = re.compile(r"\bcannot\b", re.IGNORECASE)
_NOT = {"wo": "will", "ca": "can", "sha": "shall"}

_VALUE = re.compile(r"\b(?=\w*\d\w*\d\w*\d)\w{4,}\b")

Words = frozenset[str]


@lru_cache(maxsize=8192)
def wording_key(context: str) -> str:
    """Return the key of a context's wording: a digest of its text without ids and long numbers."""
    return digest("wording", _VALUE.sub("<value>", normal_form(context)))[:16]


@lru_cache(maxsize=4096)
def word_stems(context: str) -> Words:
    """Return the stems of a context's words, without numbers, identifiers, and names within a sentence.

    A capital letter within a sentence marks a name, except in languages that capitalise all nouns.
    """
    text = _without_contractions(context[:LONGEST])
    found = _WORD.findall(_IDENTIFIER.sub(" ", text))
    has_names = any(word.islower() for word in found) and not _GERMAN.search(text)
    kept = [word for place, word in enumerate(found) if not (place and has_names and word.istitle())]
    return frozenset(_stem(word.lower()) for word in kept or _WORD.findall(text))


def _without_contractions(text: str) -> str:
    """Write out "isn't", "can't" and "cannot"."""
    whole = _SHORT_NOT.sub(lambda match: f"{_NOT.get(match[1].lower(), match[1])} not", text.replace("’", "'"))
    return _CANNOT.sub("can not", whole)


def _stem(word: str) -> str:
    """Return the stem that all forms of a word share: "answers" and "answered"."""
    stems = index_terms(word)
    return word if word in _FRAME or len(stems) != 1 else stems[0]


def is_contrast(one: str, other: str) -> bool:
    """Return whether two contexts differ only in a significant word: "start the server" and "stop the server"."""
    first, second = word_stems(one), word_stems(other)
    if _are_near(first, second) and _differ_in_meaning(first, second, second):
        return True
    return _is_negated(first) != _is_negated(second) and _are_near(_parts(one), _parts(other))


def _parts(context: str) -> Words:
    """Return the stems of a context; for scripts without spaces, pairs of characters."""
    return frozenset(index_terms(context[:LONGEST]))


def _are_near(one: Words, other: Words) -> bool:
    """Return whether two contexts have most words in common, or share one and have opposites."""
    if 2 * len(one & other) >= ALIKE * (len(one) + len(other)):
        return True
    return bool(_informative(one & other)) and _are_opposed(one, other)


class WordGroups:
    """Groups of the contexts of one agent, numbered in order of appearance."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        """Number of contexts per group."""
        self._counts: list[dict[str, int] | tuple[str, ...]] = []
        """Per group: number of contexts by word; for a group of one context only its words, to save memory."""
        self._by_word: dict[str, list[int]] = {}
        """By word: the groups that have it."""
        self._times = Counter[str]()
        """Number of contexts by word."""
        self._contexts = 0
        self._places: dict[int, tuple[int, frozenset[str]]] = {}
        """By group with a varying place: the most words it has, and those that occurred."""

    def add(self, context: str) -> int | None:
        """Count a context and return its group, which may be new; `None` for a context without words."""
        stems = word_stems(context)
        if not stems:
            return None
        self._contexts += 1
        self._times.update(stems)
        known = self._find(stems)
        return self._begin(stems) if known is None else self._count(known, stems)

    def split(self, context: str) -> int | None:
        """Give a context a new group, which is found by its words from now on."""
        stems = word_stems(context)
        return self._begin(stems) if stems else None

    def find(self, context: str) -> int | None:
        """Return the group of a context, `None` if there is none yet."""
        stems = word_stems(context)
        return self._find(stems) if stems else None

    def best_matches(self, context: str) -> list[int]:
        """Return the groups that match the words of a context equally well, the group of the context first."""
        stems = word_stems(context)
        if not stems:
            return []
        scored = self._scored(stems)
        best = max(scored, default=(0.0, 0))
        return [-number for score, number in sorted(scored, reverse=True) if score == best[0] >= ALIKE]

    def size(self, number: int) -> int:
        """Return the number of contexts of a group."""
        return self._sizes[number]

    def variants(self, number: int) -> list[list[int]]:
        """Return the groups that differ from one only in the words in one place, grouped by that place."""
        own, found = _informative(self._usual_words(number)), dict[frozenset[str], list[int]]()
        for each in self._nearest(own):
            other = _informative(self._usual_words(each))
            mine, theirs = own - other, other - own
            alike = 2 * len(own & other) >= ALIKE * (len(own) + len(other))
            if each != number and alike and 0 < len(mine) <= PLACE and 0 < len(theirs) <= PLACE:
                found.setdefault(mine, []).append(each)
        return list(found.values())

    def join(self, numbers: Sequence[int]) -> int:
        """Merge groups that differ only in the words in one place, which from now on may have any words."""
        known = [_informative(self._usual_words(number)) for number in numbers]
        frame = frozenset.intersection(*known)
        into, *gone = sorted(numbers)
        most = max(len(words - frame) for words in known)
        met = frozenset().union(*known) - frame
        for number in numbers:
            before, words = self._places.pop(number, (0, frozenset()))
            most, met = max(most, before), met | words
        for number in gone:
            self._merge_into(number, into)
        self._places[into] = (most, met)
        return into

    def _merge_into(self, gone: int, into: int) -> None:
        counts, more = (self._counted(number) for number in (into, gone))
        for word, times in sorted(more.items()):
            self._by_word[word].remove(gone)
            if word not in counts:
                insort(self._by_word[word], into)
            counts[word] = counts.get(word, 0) + times
        self._sizes[into] += self._sizes[gone]
        self._counts[into], self._sizes[gone], self._counts[gone] = counts, 0, ()

    def _counted(self, number: int) -> dict[str, int]:
        counts = self._counts[number]
        return dict.fromkeys(counts, 1) if isinstance(counts, tuple) else counts

    def _begin(self, stems: Words) -> int:
        number = len(self._sizes)
        self._sizes.append(1)
        self._counts.append(tuple(sorted(stems)))
        for word in stems:
            self._by_word.setdefault(word, []).append(number)
        return number

    def _count(self, number: int, stems: Words) -> int:
        self._counts[number] = counts = self._counted(number)
        for word in sorted(stems):
            if word not in counts:
                insort(self._by_word.setdefault(word, []), number)
            counts[word] = counts.get(word, 0) + 1
        self._sizes[number] += 1
        return number

    def _find(self, stems: Words) -> int | None:
        best, number = max(self._scored(stems), default=(0.0, 0))
        return -number if best >= ALIKE else None

    def _scored(self, stems: Words) -> list[tuple[float, int]]:
        """Score the nearest groups, each with its negated number, so that the first of equals is the greatest."""
        weights = {word: self._weight(word) for word in stems}
        return [(self._likeness(weights, number), -number) for number in self._nearest(stems)]

    def _nearest(self, stems: Words) -> list[int]:
        """Return the groups that share most words with a context, of those that have its rarest words."""
        shared, left = Counter[int](), VISITED
        for word in sorted(stems, key=lambda word: (len(self._by_word.get(word, ())), word))[:RAREST]:
            groups = self._by_word.get(word, ())[-left:]
            shared.update(groups)
            left -= len(groups)
            if left <= 0:
                break
        return nsmallest(COMPARED, shared, key=lambda number: (-shared[number], number))

    def _usual_words(self, number: int) -> Collection[str]:
        """Return the words that most contexts of a group have, without those in a varying place."""
        counts, size = self._counts[number], self._sizes[number]
        if isinstance(counts, tuple):
            return counts
        met = self._places[number][1] if number in self._places else ()
        return [word for word, times in counts.items() if times * 2 > size and word not in met]

    def _likeness(self, weights: Mapping[str, float], number: int) -> float:
        """Score how well a context matches the words of a group (weighted F1)."""
        counts, usual = self._counts[number], self._usual_words(number)
        if _differ_in_meaning(weights, usual, counts):
            return 0.0
        common = math.fsum(weights[word] for word in usual if word in weights)
        whole = math.fsum(weights.values()) - self._in_place(weights, number)
        if 2 * common < ALIKE * whole:
            return 0.0
        return 2 * common / (whole + math.fsum(map(self._weight, usual)))

    def _in_place(self, weights: Mapping[str, float], number: int) -> float:
        """Weigh the words of a context that stand in a group's varying place, which are irrelevant."""
        if number not in self._places:
            return 0.0
        most, met = self._places[number]
        there = [word for word in weights if word in met]
        new = sorted(word for word in weights if word not in self._counts[number] and word not in _FRAME)
        if not there and len(new) <= most:
            there = new
        return math.fsum(weights[word] for word in there)

    def _weight(self, word: str) -> float:
        return math.log((self._contexts + 1) / (self._times[word] + 0.5)) + 0.1

    def dump(self) -> JsonValue:
        """Return the groups as JSON."""
        return {
            "contexts": self._contexts,
            "times": dict(sorted(self._times.items())),
            "groups": [
                [size, [*counts] if isinstance(counts, tuple) else dict(sorted(counts.items()))]
                for size, counts in zip(self._sizes, self._counts, strict=True)
            ],
            "places": {str(number): [most, *sorted(met)] for number, (most, met) in sorted(self._places.items())},
        }

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> WordGroups:
        """Restore from the output of `dump`."""
        found = cls()
        found._contexts, found._times = state["contexts"], Counter(state["times"])
        for number, (size, counts) in enumerate(state["groups"]):
            found._sizes.append(size)
            found._counts.append(dict(counts) if isinstance(counts, dict) else tuple(counts))
            for word in counts:
                found._by_word.setdefault(word, []).append(number)
        found._places = {int(number): (most, frozenset(met)) for number, (most, *met) in state["places"].items()}
        return found


def _informative(stems: Iterable[str]) -> Words:
    return frozenset(stems) - _FRAME


def _differ_in_meaning(stems: Collection[str], usual: Collection[str], known: Collection[str]) -> bool:
    """Return whether a significant word replaces another: "start the server" is not "stop the server".

    Words in a place known to vary are not usual. A negation is significant.
    """
    if _is_negated(stems) != _is_negated(usual) or _are_opposed(stems, usual):
        return True
    missing = [word for word in usual if word not in stems and word not in _FRAME]
    other = [word for word in stems if word not in known and word not in _FRAME]
    return any(not _misspelt(word, stems) for word in missing) and any(not _misspelt(word, known) for word in other)


def _is_negated(words: Iterable[str]) -> bool:
    return any(
        word in _NEGATIONS
        or word.startswith(_KEIN)
        or (not word.isascii() and any(negation in word for negation in _UNSPACED_NEGATIONS))
        for word in words
    )


def _are_opposed(one: Collection[str], other: Collection[str]) -> bool:
    gates = _GATES.intersection(one).intersection(other)
    pairs = (*_opposites(), (_INWARD, _OUTWARD)) if gates else _opposites()
    return any(
        (a in one and a not in other and b in other and b not in one)
        or (b in one and b not in other and a in other and a not in one)
        for a, b in pairs
    )


@cache
def _opposites() -> tuple[tuple[str, str], ...]:
    """Return pairs of opposites by their stems."""
    pairs = (pair.split("-") for pair in _OPPOSITES)
    return tuple((_stem(one), _stem(other)) for one, other in pairs)


def _misspelt(word: str, words: Collection[str]) -> bool:
    return len(word) > LONG and any(abs(len(word) - len(each)) <= 1 and _differ_little(word, each) for each in words)


def _differ_little(one: str, other: str) -> bool:
    """Return whether one letter was left out, added, or swapped with the next."""
    start = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    if start is None:
        return True
    if len(one) == len(other):
        swapped = other[:start] + other[start : start + 2][::-1] + other[start + 2 :]
        return one == swapped
    short, long = sorted((one, other), key=len)
    return short[start:] == long[start + 1 :]
