"""When facts hold: newer ones end older ones where there is one value at a time, and no two of these are shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from engram.memories.facts.names import concept_key
from engram.memories.facts.predicates import FUNCTIONAL
from engram.model.fact import Contradiction, Fact

Functional = Callable[[str], bool]
"""Whether a predicate has one value at a time."""


class Claim(Protocol):
    """Something that a fact says, known or not yet."""

    @property
    def predicate(self) -> str:
        """What is said."""
        ...

    @property
    def object(self) -> str:
        """Of what it is said."""
        ...

    @property
    def negated(self) -> bool:
        """Whether it is denied."""
        ...

    @property
    def valid_from(self) -> datetime:
        """From when on it holds."""
        ...

    @property
    def replaces(self) -> bool | None:
        """Whether it ends others; else the predicate decides."""
        ...


def functional_by(table: Mapping[str, bool] = FUNCTIONAL) -> Functional:
    """What a table says; predicates that are not in it have several values."""
    return lambda predicate: table.get(predicate, False)


def same_value(one: Claim, other: Claim) -> bool:
    """Whether two facts about the same subject and predicate say the same."""
    return one.negated == other.negated and concept_key(one.object) == concept_key(other.object)


def excludes(one: Claim, other: Claim) -> bool:
    """Whether of two facts about the same subject and predicate, with one value at a time, only one can hold."""
    alike = concept_key(one.object) == concept_key(other.object)
    return alike if one.negated != other.negated else not alike and not one.negated


def replaces(fact: Claim, functional: Functional) -> bool:
    """Whether a fact ends those that it excludes."""
    return functional(fact.predicate) if fact.replaces is None else fact.replaces


def ended_by(fact: Claim, others: Iterable[Claim], functional: Functional) -> datetime | None:
    """When the first of the others ended it: those that began later, exclude it and replace. All are about one pair."""
    starts = [
        other.valid_from
        for other in others
        if other.valid_from > fact.valid_from and replaces(other, functional) and excludes(other, fact)
    ]
    return min(starts, default=None)


def earliest(*ends: datetime | None) -> datetime | None:
    """The first of several ends; `None` is never."""
    return min((end for end in ends if end is not None), default=None)


def settled(facts: Iterable[Fact], functional: Functional) -> list[Fact]:
    """The facts, oldest first, with the ends that newer ones set, whether or not these were written down."""
    ended = list[Fact]()
    for group in grouped(facts).values():
        replacing = [fact for fact in group if replaces(fact, functional)]
        for fact in group:
            end = earliest(fact.valid_until, ended_by(fact, replacing, functional))
            ended.append(fact if end == fact.valid_until else fact.model_copy(update={"valid_until": end}))
    return sorted(ended, key=lambda fact: fact.order)


def holds(fact: Fact, moment: datetime) -> bool:
    """Whether a fact is valid at a moment, as it says itself."""
    return fact.valid_from <= moment and (fact.valid_until is None or moment < fact.valid_until)


def valid_at(facts: Iterable[Fact], moment: datetime, functional: Functional, *, current: bool = False) -> list[Fact]:
    """What holds at a moment, oldest first; of a predicate with one value, only the newest that does.

    `current` says that the moment is now: what began when it was learned has begun, whatever the clock says since.
    """
    shown = dict[tuple[str, ...], Fact]()
    for fact in settled(facts, functional):
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
    """The pairs that exclude each other and claim to hold at the same time, the latest first."""
    found = list[Contradiction]()
    for (_, predicate), group in grouped(settled(facts, functional)).items():
        alone = [group] if functional(predicate) else _by_object(group)
        for rivals in alone:
            for place, older in enumerate(rivals):
                found += _against(older, rivals[place + 1 :], functional)
    return sorted(found, key=lambda pair: (pair.since, pair.facts[1].order), reverse=True)


def _against(older: Fact, newer: Sequence[Fact], functional: Functional) -> list[Contradiction]:
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
    """Where there are several values, only what is said of the same one can contradict; without a denial, nothing."""
    objects = defaultdict[str, list[Fact]](list)
    for fact in group:
        objects[concept_key(fact.object)].append(fact)
    return [facts for facts in objects.values() if any(fact.negated for fact in facts)]


def grouped(facts: Iterable[Fact]) -> dict[tuple[str, str], list[Fact]]:
    """The facts by subject and predicate, each group oldest first."""
    groups = defaultdict[tuple[str, str], list[Fact]](list)
    for fact in sorted(facts, key=lambda fact: fact.order):
        groups[concept_key(fact.subject), fact.predicate].append(fact)
    return dict(groups)
