"""Validity of facts: newer facts end older ones of a predicate that has one value at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from engram.memories.facts.names import concept_key
from engram.memories.facts.predicates import FUNCTIONAL
from engram.model.fact import Contradiction, Fact

Functional = Callable[[str], bool]
"""A function that returns true if a predicate has one value at a time."""


class Claim(Protocol):
    """The parts of a known or new fact that decide about its validity."""

    @property
    def predicate(self) -> str:
        """The predicate."""
        ...

    @property
    def object(self) -> str:
        """The object."""
        ...

    @property
    def negated(self) -> bool:
        """True for a denial."""
        ...

    @property
    def valid_from(self) -> datetime:
        """Start of its validity."""
        ...

    @property
    def replaces(self) -> bool | None:
        """True if it ends other values; if `None`, the predicate decides."""
        ...


def functional_from(table: Mapping[str, bool] = FUNCTIONAL) -> Functional:
    """Make the function from a table; predicates not in it have several values."""
    return lambda predicate: table.get(predicate, False)


def same_value(one: Claim, other: Claim) -> bool:
    """Return true if two facts about the same subject and predicate state the same."""
    return one.negated == other.negated and concept_key(one.object) == concept_key(other.object)


def excludes(one: Claim, other: Claim) -> bool:
    """Return true if only one of two facts about the same subject and single-valued predicate can hold."""
    alike = concept_key(one.object) == concept_key(other.object)
    return alike if one.negated != other.negated else not alike and not one.negated


def replaces(fact: Claim, functional: Functional) -> bool:
    """Return true if a fact ends those that it excludes."""
    return functional(fact.predicate) if fact.replaces is None else fact.replaces


def ended_by(fact: Claim, others: Iterable[Claim], functional: Functional) -> datetime | None:
    """Return the earliest start of the facts that end this one; all have the same subject and predicate."""
    starts = [
        other.valid_from
        for other in others
        if other.valid_from > fact.valid_from and replaces(other, functional) and excludes(other, fact)
    ]
    return min(starts, default=None)


def earliest(*ends: datetime | None) -> datetime | None:
    """Return the first of several ends; `None` means no end."""
    return min((end for end in ends if end is not None), default=None)


def with_ends(facts: Iterable[Fact], functional: Functional) -> list[Fact]:
    """Return the facts, oldest first, with the ends that newer ones set, stored or not."""
    ended = list[Fact]()
    for group in group_facts(facts).values():
        replacing = [fact for fact in group if replaces(fact, functional)]
        for fact in group:
            end = earliest(fact.valid_until, ended_by(fact, replacing, functional))
            ended.append(fact if end == fact.valid_until else fact.model_copy(update={"valid_until": end}))
    return sorted(ended, key=lambda fact: fact.order)


def is_valid_at(fact: Fact, moment: datetime) -> bool:
    """Return true if a moment lies in a fact's own period of validity."""
    return fact.valid_from <= moment and (fact.valid_until is None or moment < fact.valid_until)


def valid_at(facts: Iterable[Fact], moment: datetime, functional: Functional, *, current: bool = False) -> list[Fact]:
    """Return the facts valid at a moment, oldest first; of a single-valued predicate, only the newest.

    `current` means that the moment is now: a fact that was valid when it was recorded is valid even if the clock was
    set back.
    """
    shown = dict[tuple[str, ...], Fact]()
    for fact in with_ends(facts, functional):
        begun = max(moment, fact.recorded_at) if current else moment
        if fact.valid_from <= begun and (fact.valid_until is None or moment < fact.valid_until):
            one_value = functional(fact.predicate) and not fact.negated
            about = (concept_key(fact.subject), fact.predicate)
            rest = () if one_value else (concept_key(fact.object), "not" if fact.negated else "")
            key = about + rest
            shown.pop(key, None)
            shown[key] = fact
    return list(shown.values())


def contradictions(facts: Iterable[Fact], functional: Functional) -> list[Contradiction]:
    """Return the pairs of facts that exclude each other and claim to hold at the same time, the latest first."""
    found = list[Contradiction]()
    for (_, predicate), group in group_facts(with_ends(facts, functional)).items():
        alone = [group] if functional(predicate) else _by_object(group)
        for rivals in alone:
            for place, older in enumerate(rivals):
                found += _conflicts_of(older, rivals[place + 1 :], functional)
    return sorted(found, key=lambda pair: (pair.since, pair.facts[1].order), reverse=True)


def _conflicts_of(older: Fact, newer: Sequence[Fact], functional: Functional) -> list[Contradiction]:
    found = list[Contradiction]()
    for other in newer:
        if older.valid_until is not None and other.valid_from >= older.valid_until:
            break
        denied = older.negated != other.negated
        if excludes(older, other) and (denied or functional(older.predicate)):
            found.append(
                Contradiction(
                    subject=other.subject,
                    predicate=other.predicate,
                    reason="denied" if denied else "two values",
                    facts=(older, other),
                    since=other.valid_from,
                    until=earliest(older.valid_until, other.valid_until),
                )
            )
    return found


def _by_object(group: Iterable[Fact]) -> list[list[Fact]]:
    """Group facts by object, keeping only groups with a denial: other facts with several values cannot conflict."""
    objects = defaultdict[str, list[Fact]](list)
    for fact in group:
        objects[concept_key(fact.object)].append(fact)
    return [facts for facts in objects.values() if any(fact.negated for fact in facts)]


def group_facts(facts: Iterable[Fact]) -> dict[tuple[str, str], list[Fact]]:
    """Group facts by subject and predicate, each group oldest first."""
    groups = defaultdict[tuple[str, str], list[Fact]](list)
    for fact in sorted(facts, key=lambda fact: fact.order):
        groups[concept_key(fact.subject), fact.predicate].append(fact)
    return dict(groups)
