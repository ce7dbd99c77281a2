"""Compare names: case, spacing, articles, "our" and plurals are ignored."""

from __future__ import annotations

import re
from functools import lru_cache

from engram.text.terms import normal_form

ARTICLES = ("the ", "an ", "a ", "our ")
_QUOTES = "\"'`“”‘’"
_NOT_PLURAL = ("ss", "us", "is", "os", "'s", "’s")
_SIBILANT = ("ches", "shes", "sses", "xes", "zzes")
_WORD_GAPS = re.compile(r"[\s_]+")


@lru_cache(maxsize=65_536)
def concept_key(name: str) -> str:
    """Return a key that is equal for names of the same concept; never empty for a non-empty name."""
    whole = normal_form(name.strip().strip(_QUOTES))
    bare = whole
    for article in ARTICLES:
        bare = bare.removeprefix(article).lstrip()
    head, gap, last = bare.rpartition(" ")
    return (head + gap + _singular(last)) or whole or normal_form(name)


def is_value(name: str) -> bool:
    """Return true for a plain value: a number, a date, a yes or no."""
    return not any(c.isalpha() for c in name) or normal_form(name) in {"true", "false", "yes", "no", "none"}


def normal_predicate(text: str) -> str:
    """Normalise a predicate: lower case, one space between words, no underscores."""
    return normal_form(_WORD_GAPS.sub(" ", text.replace("’", "'")))


def _singular(word: str) -> str:
    if len(word) < 4 or not word.isalpha() or word.endswith(_NOT_PLURAL) or not word.endswith("s"):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(_SIBILANT) else word[:-1]
