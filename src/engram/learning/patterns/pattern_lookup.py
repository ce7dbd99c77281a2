"""Find the learned pattern that a user means by a name or a word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from engram.errors import InvalidInput
from engram.model import FailurePattern
from engram.model.success import DecisionTemplate, SuccessPattern
from engram.text.terms import normal_form

MOST_NAMES = 20
_WORD = re.compile(r"[^\W_]+")
_SAYS_NOTHING = frozenset({"pattern", "patterns"})


class PatternName(NamedTuple):
    """A pattern's id, its name, and texts it can be found by."""

    id: str
    name: str
    known_by: Sequence[str] = ()


def find_patterns(word: str, patterns: Iterable[PatternName]) -> list[PatternName]:
    """Return the pattern with this id or name, else all that contain every part of the word.

    `auth-pattern` finds any pattern with a word that begins with auth.
    """
    every = list(patterns)
    if exact := [each for each in every if word in {each.id, each.name}]:
        return exact[:1]
    asked = set(name_words(word)) - _SAYS_NOTHING
    return [each for each in every if asked and _is_about(each, asked)]


def pattern_names(patterns: Iterable[FailurePattern | SuccessPattern | DecisionTemplate]) -> list[PatternName]:
    """Return the names of failure and success patterns, with texts to find them by; templates have no name."""
    found = []
    for each in patterns:
        if isinstance(each, FailurePattern):
            found.append(PatternName(each.pattern_id, each.name, (each.error_signature, *each.actions, *each.contexts)))
        elif isinstance(each, SuccessPattern):
            found.append(PatternName(each.pattern_id, each.name, (each.context_signature, each.successful_approach)))
    return found


def find_one_name(word: str, patterns: Iterable[PatternName]) -> list[PatternName]:
    """Return the patterns of the only name that a word can mean; none if there is none.

    Raises `InvalidInput` with the names if there are several.
    """
    found = find_patterns(word, patterns)
    names = list(dict.fromkeys(each.name for each in found))
    if len(names) > 1:
        raise InvalidInput(f"{word!a} can mean several patterns; say which: {', '.join(names[:MOST_NAMES])}")
    return found


def _is_about(pattern: PatternName, asked: Iterable[str]) -> bool:
    known = {own for text in (pattern.name, *pattern.known_by) for own in name_words(text)}
    return all(any(own.startswith(part) for own in known) for part in asked)


def name_words(text: str) -> list[str]:
    """Split a text or a name into its words, in normal form."""
    return _WORD.findall(normal_form(text))
