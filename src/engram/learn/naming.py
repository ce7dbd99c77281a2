"""Which learned pattern somebody means, who does not know the name that it was given."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from engram.words import normal_form

_WORD = re.compile(r"[^\W_]+")
_SAYS_NOTHING = frozenset({"pattern", "patterns"})


class Named(NamedTuple):
    """A pattern: its id, its name, and everything it can be known by."""

    id: str
    name: str
    known_by: Sequence[str] = ()


def meant(word: str, patterns: Iterable[Named]) -> list[Named]:
    """The patterns that a word can mean: the one of this id or name, else all that are about each part of it.

    `auth-pattern` is any that is about something that begins with auth.
    """
    every = list(patterns)
    if exact := [each for each in every if word in {each.id, each.name}]:
        return exact[:1]
    asked = set(words(word)) - _SAYS_NOTHING
    return [each for each in every if asked and _is_about(each, asked)]


def _is_about(pattern: Named, asked: Iterable[str]) -> bool:
    known = {own for text in (pattern.name, *pattern.known_by) for own in words(text)}
    return all(any(own.startswith(part) for own in known) for part in asked)


def words(text: str) -> list[str]:
    """Split a text or a name into its words, in their normal form."""
    return _WORD.findall(normal_form(text))
