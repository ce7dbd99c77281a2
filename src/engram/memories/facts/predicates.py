"""Known predicates: their word forms, and which have one value at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from engram.memories.facts.names import normal_predicate

# base form, third person, past; what follows the verb is the same in all of them.
_SINGLE = """
live in|lives in|lived in
reside in|resides in|resided in
work at|works at|worked at
work for|works for|worked for
run on|runs on|ran on
report to|reports to|reported to
belong to|belongs to|belonged to
listen on|listens on|listened on
cost|costs|cost
weigh|weighs|weighed
"""
_SEVERAL = """
use|uses|used
like|likes|liked
love|loves|loved
enjoy|enjoys|enjoyed
dislike|dislikes|disliked
hate|hates|hated
prefer|prefers|preferred
have|has|had
own|owns|owned
need|needs|needed
require|requires|required
support|supports|supported
know|knows|knew
speak|speaks|spoke
manage|manages|managed
maintain|maintains|maintained
lead|leads|led
contain|contains|contained
include|includes|included
provide|provides|provided
run|runs|ran
depend on|depends on|depended on
rely on|relies on|relied on
work on|works on|worked on
work with|works with|worked with
connect to|connects to|connected to
deploy to|deploys to|deployed to
read from|reads from|read from
write to|writes to|wrote to
"""
_SINGLE_IS = """is based in;is located in;is hosted on;is hosted at;is hosted by;is married to;is owned by;
is managed by;is led by;is named;is called;is written by"""
_SEVERAL_IS = """is;is in;is at;is on;is part of;is a member of;is responsible for;is allergic to;is compatible with;
is written in;is built with;is built on;is used by;is used for;is stored in;is deployed to;is deployed on;
is related to"""
ATTRIBUTES = frozenset(
    """address age birthday boss branch budget capital captain ceo city colour color country cto currency deadline
    director editor email employer founder gender head height home hostname husband ip job language leader license
    licence limit location maintainer manager mayor name nationality nickname number owner password phone population
    port president price priority profession region role salary schedule size spouse state status surname team
    temperature timeout timezone title url username value version weight wife zone""".split()
)
"""Nouns that name a property: "the port of X", "X's owner"."""

_NEGATIONS = ("no longer ", "never ", "does not ", "do not ", "doesn't ", "don't ")
_NOT_IS = {"is not": "is", "isn't": "is", "are not": "is", "aren't": "is"}


@dataclass(frozen=True, slots=True)
class Verb:
    """A predicate in its grammatical forms."""

    name: str
    base: str
    past: str


def _verbs() -> dict[str, Verb]:
    rows = [line.split("|") for line in (_SINGLE + _SEVERAL).split("\n") if line]
    return {third: Verb(third, base, past) for base, third, past in rows}


def _phrases(text: str) -> list[str]:
    return [name.strip() for name in text.replace("\n", " ").split(";")]


VERBS: Mapping[str, Verb] = MappingProxyType(_verbs())
"""The verbs by their third person singular."""

STATES = frozenset(_phrases(_SINGLE_IS) + _phrases(_SEVERAL_IS))
"""The predicates that begin with "is"."""

FUNCTIONAL: Mapping[str, bool] = MappingProxyType(
    {line.split("|")[1]: True for line in _SINGLE.split("\n") if line}
    | {line.split("|")[1]: False for line in _SEVERAL.split("\n") if line}
    | dict.fromkeys(_phrases(_SINGLE_IS), True)
    | dict.fromkeys(_phrases(_SEVERAL_IS), False)
    | dict.fromkeys(ATTRIBUTES, True)
    | {"was born in": True, "was born on": True}
)
"""True for predicates with one value at a time, where a newer fact ends the older; unlisted ones have several."""

_THIRD = {verb.base: verb.name for verb in VERBS.values()} | {"are": "is", "am": "is"}


@lru_cache(maxsize=4096)
def canonical(predicate: str) -> tuple[str, bool]:
    """Return the canonical form of a predicate, and true if it is a denial: "does not use" denies "uses"."""
    said, negated = normal_predicate(predicate), False
    for negation in _NEGATIONS:
        if said.startswith(negation):
            said, negated = said[len(negation) :], True
            break
    if said.startswith("not "):
        said, negated = said[4:], True
    for form, third in _NOT_IS.items():
        if said == form or said.startswith(form + " "):
            said, negated = third + said[len(form) :], True
    first, gap, rest = said.partition(" ")
    said = _THIRD.get(said) or ({"are": "is", "am": "is"}.get(first, first) + gap + rest)
    return said, negated


def sentence(subject: str, predicate: str, object: str, *, negated: bool = False) -> str:
    """Word a fact: "Alice lives in Paris", "Alice's birthday is 3 May", "Alice does not use Java"."""
    first, _, rest = predicate.partition(" ")
    if not _is_verb(predicate):
        return f"{subject}'s {predicate} is {'not ' if negated else ''}{object}"
    if not negated:
        return f"{subject} {predicate} {object}"
    if first in {"is", "was"}:
        return " ".join(part for part in (subject, first, "not", rest, object) if part)
    verb = VERBS.get(predicate)
    return f"{subject} does not {verb.base} {object}" if verb else f"{subject} not {predicate} {object}"


def _is_verb(predicate: str) -> bool:
    """Return true if a predicate is a verb between subject and object; others are properties of the subject."""
    first, _, rest = predicate.partition(" ")
    if predicate in VERBS or first in {"is", "was"}:
        return True
    if first in ATTRIBUTES and not rest:
        return False
    last = predicate.rpartition(" ")[2]
    return (first.endswith("s") and not first.endswith(("ss", "us"))) or last in _PREPOSITIONS


_PREPOSITIONS = frozenset("to in on at of for with by from into about as".split())
