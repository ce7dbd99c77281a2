"""When two names mean the same: case, spacing, an article, "our" and a plural do not matter."""

from __future__ import annotations

import re
from functools import lru_cache

from engram.text.terms import normal_form

ARTICLES = ("the ", "an ", "a ", "our ")
_QUOTES = "\"'`“”‘’"
_STAYS = ("ss", "us", "is", "os", "'s", "’s")
_SIBILANT = ("ches", "shes", "sses", "xes", "zzes")
_WORD_GAPS = re.compile(r"[\s_]+")


@lru_cache(maxsize=65_536)
def concept_key(name: str) -> str:
    """Equal for names of the same thing; never empty for a name that is not."""
    whole = normal_form(name.strip().strip(_QUOTES))
    bare = whole
    for article in ARTICLES:
        bare = bare.removeprefix(article).lstrip()
    head, gap, last = bare.rpartition(" ")
    return (head + gap + _singular(last)) or whole or normal_form(name)


def is_value(name: str) -> bool:
    """Whether it is a mere value, which says nothing about what else has it: a number, a date, a yes or no."""
    return not any(c.isalpha() for c in name) or normal_form(name) in {"true", "false", "yes", "no", "none"}


def phrase(text: str) -> str:
    """A predicate as it is compared: small letters, one space between words, also where there were underscores."""
    return normal_form(_WORD_GAPS.sub(" ", text.replace("’", "'")))


def _singular(word: str) -> str:
    if len(word) < 4 or not word.isalpha() or word.endswith(_STAYS) or not word.endswith("s"):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(_SIBILANT) else word[:-1]
