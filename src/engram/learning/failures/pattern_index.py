"""Index the known failure patterns, and find the one that an error signature belongs to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from engram.clock import from_micros
from engram.learning.decisions.beta import Beta
from engram.learning.failures import check_templates
from engram.learning.failures.check_effect import interval
from engram.learning.failures.check_templates import LISTED
from engram.learning.failures.log_templates import TemplateTree
from engram.learning.failures.signatures import ErrorSignature
from engram.learning.failures.variable_parts import are_opposed, without_values
from engram.model.failure import FailurePattern, Solution
from engram.text.terms import STOP_WORDS, digest, index_terms

RECURRING = 2
"""Occurrences above which a failure is recurring."""
EPISODES = 20
"""Memories listed as evidence at most."""
SIMILAR = 0.7
"""Share of common words, weighted by rarity, above which two messages of one kind are the same failure."""
CANDIDATES = 200
LONGEST = 2000


@dataclass(slots=True)
class SolutionRecord:
    """A solution: how often it was tried, and how often it helped."""

    text: str
    tried: int = 0
    helped: float = 0.0
    last_used: int = 0
    agents: list[str] = field(default_factory=list)
    episodes: list[str] = field(default_factory=list)
    noted: int = 0
    """Number of tries only noted with a failure, without saying whether they helped."""

    def to_model(self) -> Solution:
        """Return the solution as a model, with its posterior rate."""
        belief = Beta(1 + self.helped, 1 + self.tried - self.helped)
        return Solution(
            text=self.text,
            tried=self.tried,
            helped=self.helped,
            success_rate=belief.mean,
            interval=interval(belief.a, belief.b),
            last_used=from_micros(self.last_used),
            agents=tuple(self.agents),
            episodes=tuple(reversed(self.episodes)),
            noted=self.noted,
        )

    @property
    def rate(self) -> float:
        """The expected rate of success."""
        return (1 + self.helped) / (2 + self.tried)


@dataclass(slots=True)
class Pattern:
    """Everything known about one failure. `times` maps the memory id of every occurrence to its microseconds."""

    id: str
    name: str
    kind: str
    signature: str
    words: list[str]
    times: dict[str, int] = field(default_factory=dict)
    actions: dict[str, int] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)
    contexts: dict[str, int] = field(default_factory=dict)
    environments: dict[str, int] = field(default_factory=dict)
    agents: dict[str, int] = field(default_factory=dict)
    solutions: dict[str, SolutionRecord] = field(default_factory=dict)
    accounts: list[int] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    example: str = ""
    """The text of its latest error, with values."""
    readings: list[list[str]] = field(default_factory=list)
    """Kinds and messages that earlier versions extracted from its errors, where they differ."""

    @property
    def recurring(self) -> bool:
        """True if the failure has recurred."""
        return len(self.times) >= RECURRING

    def share(self, head: str) -> float:
        """Return the share of occurrences that came with an action; it is small for what strikes all actions."""
        return self.heads.get(head, 0) / max(1, sum(self.heads.values()))

    @property
    def former_names(self) -> set[str]:
        """The names it may have had in earlier versions."""
        said = self.signature.removeprefix(f"{self.kind}: ") if self.kind else self.signature
        readings = [(self.kind, said), *((kind, message) for kind, message in self.readings)]
        return check_templates.former_names(readings, self.heads)

    def ranked_solutions(self) -> list[SolutionRecord]:
        """Return the solutions, best first."""
        return sorted(self.solutions.values(), key=lambda one: (-one.rate, -one.tried, one.text))

    def to_model(self) -> FailurePattern:
        """Return the pattern as a model, without its checks."""
        newest = sorted(self.times.items(), key=lambda one: (-one[1], one[0]))
        return FailurePattern(
            pattern_id=self.id,
            name=self.name,
            error_signature=self.signature,
            kind=self.kind,
            occurrence_count=len(self.times),
            first_seen=from_micros(newest[-1][1]),
            last_seen=from_micros(newest[0][1]),
            recurring=self.recurring,
            actions=_most_frequent(self.actions),
            contexts=_most_frequent(self.contexts),
            environments=_most_frequent(self.environments),
            known_solutions=tuple(one.to_model() for one in self.ranked_solutions()),
            episodes=tuple(id for id, _ in newest[:EPISODES]),
            agents=tuple(sorted(self.agents)),
            example=self.example,
        )


class PatternIndex:
    """The patterns in the order they were first seen, with the indexes to find them."""

    def __init__(self) -> None:
        self.patterns: dict[str, Pattern] = {}
        self.names: dict[str, str] = {}
        self._last_numbers: dict[str, int] = {}
        self._tree = TemplateTree()
        self._by_key: dict[str, str] = {}
        self._by_group: dict[str, dict[int, str]] = {}
        self._by_word: dict[str, list[str]] = {}

    def find(self, signature: ErrorSignature, head: str) -> Pattern | None:
        """Return the pattern of the same or a similar signature."""
        id = (
            self._by_key.get(_key(signature, head))
            or self._find_by_template(signature)
            or self._find_by_words(signature)
        )
        return self.patterns[id] if id else None

    def find_or_add(self, signature: ErrorSignature, head: tuple[str, ...]) -> Pattern:
        """Return the pattern of the same or a similar signature, a new one if there is none, and learn it."""
        together = " ".join(head)
        # Learn it first: one more line may show which of its words vary.
        group = self._tree.add(signature.outline) if _words(signature.message) else None
        pattern = self.find(signature, together)
        if pattern is None:
            name = check_templates.pattern_name(signature.kind, signature.message, head)
            text = signature.text[:LONGEST] or "an error without a message"
            pattern = self._new(_key(signature, together), name, signature.kind, text, _words(signature.message))
            for word in pattern.words:
                self._by_word.setdefault(f"{signature.kind} {word}", []).append(pattern.id)
        pattern.example = signature.original
        former = [*signature.former] if signature.former else []
        if former and former not in pattern.readings and len(pattern.readings) < LISTED:
            pattern.readings.append(former)
        self._by_key.setdefault(_key(signature, together), pattern.id)
        if group is not None:
            self._by_group.setdefault(signature.kind, {}).setdefault(self._tree.current(group), pattern.id)
        return pattern

    def find_or_add_unexplained(self, action: str, context: str, key: str, head: tuple[str, ...]) -> Pattern:
        """Return the pattern of an action that failed without an error, by the key of action and context."""
        id = self._by_key.get(key)
        if id is not None:
            return self.patterns[id]
        text = check_templates.unexplained(action, context)[:LONGEST]
        return self._new(key, check_templates.unexplained_name(head), "", text, [])

    def find_mentioning(self, words: tuple[str, ...]) -> list[Pattern]:
        """Return patterns without a known action whose message mentions all these words, newest first."""
        lists = [self._mentions(word) for word in words]
        if not lists or not all(lists):
            return []
        shortest = min(lists, key=len)[-CANDIDATES:]
        found = (self.patterns[id] for id in reversed(shortest))
        return [one for one in found if not one.accounts and one.times and set(words) <= set(one.words)]

    def dump(self) -> dict[str, Any]:
        """Return the state as JSON."""
        return {
            "patterns": [asdict(pattern) for pattern in self.patterns.values()],
            "tree": self._tree.dump(),
            "namesakes": dict(self._last_numbers),
            "keys": dict(self._by_key),
            "groups": [[kind, *one] for kind, own in self._by_group.items() for one in own.items()],
        }

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> PatternIndex:
        """Restore from the output of `dump`."""
        shelf = cls()
        shelf._tree = TemplateTree.load(state["tree"])
        shelf._last_numbers = dict(state["namesakes"])
        shelf._by_key = dict(state["keys"])
        for kind, group, id in state["groups"]:
            shelf._by_group.setdefault(kind, {})[group] = id
        for one in state["patterns"]:
            solutions = {key: SolutionRecord(**solution) for key, solution in one["solutions"].items()}
            pattern = Pattern(**{**one, "solutions": solutions})
            shelf._enter(pattern)
            for word in pattern.words:
                shelf._by_word.setdefault(f"{pattern.kind} {word}", []).append(pattern.id)
        return shelf

    def _new(self, key: str, name: str, kind: str, text: str, words: list[str]) -> Pattern:
        id = "pattern-" + digest(key)[:16]
        unique = name
        while unique in self.names:
            self._last_numbers[name] = self._last_numbers.get(name, 1) + 1
            unique = check_templates.another_name(name, self._last_numbers[name])
        pattern = Pattern(id, unique, kind, text, words)
        self._by_key[key] = id
        self._enter(pattern)
        return pattern

    def _enter(self, pattern: Pattern) -> None:
        self.patterns[pattern.id] = pattern
        self.names[pattern.name] = pattern.id
        for word in pattern.words:
            self._by_word.setdefault(word, []).append(pattern.id)

    def _mentions(self, word: str) -> list[str]:
        return self._by_word.get(word, [])

    def _find_by_template(self, signature: ErrorSignature) -> str | None:
        """Return the pattern whose lines have the same constant parts, even if that was learned later."""
        group = self._tree.find(signature.outline) if signature.message else None
        if group is None or not _words(self._tree.template(group).removeprefix(f"{signature.kind}:")):
            return None  # a template of only variables identifies nothing
        known = self._by_group.get(signature.kind, {})
        if group in known:
            return known[group]
        return next((id for other, id in known.items() if self._tree.current(other) == group), None)

    def _find_by_words(self, signature: ErrorSignature) -> str | None:
        words = set(_words(signature.message))
        lists = [self._mentions(f"{signature.kind} {word}") for word in sorted(words)]
        candidates = dict.fromkeys(id for one in sorted(lists, key=len) for id in one[-CANDIDATES:])
        best, score = None, SIMILAR
        for id in list(candidates)[:CANDIDATES]:
            if are_opposed(signature.text, self.patterns[id].signature):
                continue
            overlap = self._overlap(words, self.patterns[id])
            if overlap > score or (overlap == score and best is None):
                best, score = id, overlap
        return best

    def _overlap(self, words: set[str], pattern: Pattern) -> float:
        theirs = set(pattern.words)
        either = sorted(words | theirs)
        if not either:
            return 0.0
        weights = [self._rarity(word) for word in either]
        shared = math.fsum(weight for word, weight in zip(either, weights, strict=True) if word in words & theirs)
        return shared / math.fsum(weights)

    def _rarity(self, word: str) -> float:
        return math.log(2 + len(self.patterns)) - math.log(1 + len(self._by_word.get(word, ())))


def _key(signature: ErrorSignature, head: str) -> str:
    """Return the identity of a failure; an error without content is identified by its action."""
    return signature.key if _words(signature.message) else digest(signature.key, head)


def _words(message: str) -> list[str]:
    said = without_values(message[:LONGEST])
    return list(dict.fromkeys(term for term in index_terms(said) if term not in STOP_WORDS))


def _most_frequent(counts: Mapping[str, int]) -> tuple[str, ...]:
    ranked = sorted((one for one in counts.items() if one[1] > 0), key=lambda one: (-one[1], one[0]))
    return tuple(text for text, _ in ranked[:LISTED])
