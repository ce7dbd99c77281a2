"""Parse actions and contexts, mask the parts that vary from time to time, and measure their similarity.

An action is free text: a command line, a tool call, or a phrase. Its head says what it does: a program and its
subcommand, the name of a tool, or the first words of a phrase. Actions with different heads are different actions.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache

from engram.learning.actions.command_lines import (
    ENVIRONMENTS,
    MOST_WORDS,
    SIBLINGS,
    CanonicalForm,
    canonical_form,
    stem,
)
from engram.text.terms import STOP_WORDS, digest, index_terms, normal_form

MOST_CHARACTERS = 2000
SIBLING_SIMILARITY = 0.75
"""Similarity of an action to its sibling, such as `npm ci` to `npm install`: enough for a warning, not for a block."""

_CALL = re.compile(r"([A-Za-z_][\w.:/-]{0,99})\s?\(")
_ARGUMENT = re.compile(r"[(,{]\s?[\"']?([A-Za-z_]\w{0,63})[\"']?\s?[=:]")
_NAME_KEYS = ("command", "cmd", "tool", "name", "action", "function")


@dataclass(frozen=True, slots=True)
class ParsedAction:
    """A parsed action: `head` is what it does and `rest` everything else, with values masked.

    `key` is equal for actions that differ only in their values; `exact` tells values apart as well. `does` are the
    stems of the head, and `decisive` the options and words that make it another action. `objects` are the plain words
    of the rest, which in a phrase name what it is done to.
    """

    head: tuple[str, ...]
    does: tuple[str, ...]
    decisive: frozenset[str]
    rest: frozenset[str]
    key: str
    exact: str
    objects: frozenset[str]
    is_phrase: bool


@dataclass(frozen=True, slots=True)
class ParsedContext:
    """A parsed context: its significant words and its features, such as "env=ci"; `key` is equal if both are."""

    words: frozenset[str]
    features: frozenset[str]
    key: str
    numbers: frozenset[str]
    weight: float


@lru_cache(maxsize=8192)
def parse_action(text: str) -> ParsedAction:
    """Parse an action. Any text is an action; the empty text is the empty action."""
    text = text[:MOST_CHARACTERS].strip()
    found = _parse_json_call(text) or _parse_call(text) or canonical_form(text)
    exact = digest(*(found.exact or (normal_form(text),)))[:12]
    head = found.head or ((exact,) if text else ())
    does = tuple(stem(word) for word in head)
    key = " ".join((*does, *sorted(found.decisive), "|", *sorted(found.rest))) if head else ""
    return ParsedAction(head, does, found.decisive, found.rest, key, exact, found.objects, found.is_phrase)


@lru_cache(maxsize=8192)
def parse_context(text: str, features: frozenset[str] = frozenset(), environment: str = "") -> ParsedContext:
    """Parse a context from its text, its features and its environment, ignoring word order and long numbers."""
    terms = [
        term for term in index_terms(text[:MOST_CHARACTERS]) if term not in STOP_WORDS and not _is_incidental(term)
    ]
    words = frozenset(list(dict.fromkeys(terms))[:MOST_WORDS])
    named = {f"env={normal_form(environment)}"} if environment.strip() else set()
    return context_of(words, frozenset(normal_form(feature) for feature in features) | named)


def context_of(words: frozenset[str], features: frozenset[str]) -> ParsedContext:
    """Return the context of words and features that are normalised already; a number weighs half as much as a word."""
    key = " ".join((*sorted(words), "|", *sorted(features))) if words or features else ""
    numbers = frozenset(word for word in words if word[-1].isdigit())
    return ParsedContext(words, features, key, numbers, len(words) - len(numbers) / 2)


def action_similarity(one: ParsedAction, other: ParsedAction) -> float:
    """Return how similar two actions are: 1 if they differ only in values, 0 if they do different things."""
    if one.key == other.key:
        return 1.0
    if one.decisive != other.decisive or _name_different_environments(one.rest, other.rest):
        return 0.0
    if one.does != other.does:
        return SIBLING_SIMILARITY if SIBLINGS.get(one.head) == other.head else 0.0
    if (one.is_phrase or other.is_phrase) and one.objects - other.objects and other.objects - one.objects:
        return 0.0
    mine, theirs = one.rest - other.rest, other.rest - one.rest
    paired = _count_abbreviated(mine, theirs) + _count_abbreviated(theirs, mine) if mine and theirs else 0
    shared = 2 * len(one.head) + len(one.rest & other.rest) + paired
    return shared / (shared + len(mine) + len(theirs) - 2 * paired)


def context_similarity(known: ParsedContext, asked: ParsedContext) -> float:
    """Return how similar a known context is to the one asked about, from 0 to 1; an empty one may be any."""
    if known.key == asked.key:
        return 1.0
    differing = feature_agreement(known, asked)
    if not known.words or not asked.words:
        return 0.7 * differing
    shared = len(known.words & asked.words) - len(known.numbers & asked.numbers) / 2
    return shared / (known.weight + asked.weight - shared) * differing


def feature_agreement(known: ParsedContext, asked: ParsedContext) -> float:
    """Return how little the features of two contexts contradict each other, from 0 to 1."""
    if not known.features or not asked.features:
        return 1.0
    names = {mark.partition("=")[0]: mark for mark in known.features}
    differing: float = 0.6 ** sum(1 for mark in asked.features if names.get(mark.partition("=")[0], mark) != mark)
    return differing


def sibling_stems(asked: ParsedAction) -> tuple[str, ...] | None:
    """Return the stems of the action that usually fails for the same reasons, if there is one."""
    head = SIBLINGS.get(asked.head)
    return None if head is None else tuple(stem(word) for word in head)


def _count_abbreviated(some: frozenset[str], others: frozenset[str]) -> int:
    """Count the short options that the other action spells out: `-f` counts as `--file`."""
    initials = [one[2] for one in others if one.startswith("--")]
    return sum(1 for one in some if len(one) == 2 and one[0] == "-" and initials.count(one[1]) == 1)


def _name_different_environments(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether both actions name the environments they are for, and name different ones."""
    here, there = one & ENVIRONMENTS, other & ENVIRONMENTS
    return bool(here and there) and here != there


def _is_incidental(term: str) -> bool:
    """Return whether a term is a number or an id that will differ next time; versions are kept."""
    if term.isdigit():
        return len(term) > 2
    return len(term) > 3 and any(character.isdigit() for character in term)


def _parse_json_call(text: str) -> CanonicalForm | None:
    """Parse a tool call that is written as a JSON object."""
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    name = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)), None)
    if name is None or name.startswith("{"):
        return None
    found = _parse_call(name) or canonical_form(name)
    inner = next((one for one in value.values() if isinstance(one, dict)), {})
    names = frozenset(f"{key.lower()}=" for key in list(inner)[:MOST_WORDS])
    return CanonicalForm(found.head, found.decisive, found.rest | names)


def _parse_call(text: str) -> CanonicalForm | None:
    """Parse a call such as `send_mail(to="ann")`."""
    match = _CALL.match(text)
    if match is None:
        return None
    names = _ARGUMENT.findall(text, match.end() - 1)[:MOST_WORDS]
    return CanonicalForm((match[1].lower(),), frozenset(), frozenset(f"{name.lower()}=" for name in names))
