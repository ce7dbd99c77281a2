"""Parse a query: its search terms, whom and what time it is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from engram.model import Clean, remove_matches
from engram.text.terms import STOP_WORDS, is_unspaced, query_terms
from engram.text.time_phrases import Interval, intervals

_WORD = re.compile(r"\w{2,}")
_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself|i'm|i've|i'd|we|our|(?-i:[Uu]s))\b", re.IGNORECASE)
_YOU_SAID = re.compile(
    r"\byou (?:told|gave|said|mentioned|suggested|recommended|provided|listed|described|shared|wrote|made|created)\b"
    r"|\bremind me\b|\b(?:our|your) (?:previous|last|earlier|past) (?:chat|conversation|discussion|answer)s?\b"
    r"|\byour (?:suggestion|recommendation|list|answer|advice)s?\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A parsed query."""

    text: Clean
    """The query without the names of those it is about: what is looked for, not who said it."""
    terms: tuple[str, ...]
    speaker: str | None
    """Whose words are asked for, if it is one speaker."""
    role: str | None
    """Whose words are asked for, if it is the user or the assistant."""
    times: tuple[Interval, ...]

    def about(self, speaker: str | None, role: str | None) -> float:
        """1 for words of whom the query asks about, -1 for those of somebody else, 0 if one cannot tell."""
        if self.speaker is not None and speaker is not None:
            return 1.0 if speaker.strip().casefold() == self.speaker else -1.0
        if self.role is not None and role is not None:
            return 1.0 if role.casefold() == self.role else -1.0
        return 0.0


def parse_query(query: Clean, now: datetime, speakers: Iterable[str] = ()) -> ParsedQuery:
    """Parse a query; `speakers` are those whose words are stored, `now` is what "yesterday" is relative to."""
    names, forms = named(query, speakers)
    rest = remove_matches(query, forms) if forms is not None else query
    if all(word in STOP_WORDS for word in _WORD.findall(rest.casefold())):
        rest = query
    terms = query_terms(rest)
    role = "assistant" if _YOU_SAID.search(query) else "user" if _FIRST_PERSON.search(query) else None
    return ParsedQuery(
        text=rest,
        terms=tuple(terms),
        speaker=names[0] if len(names) == 1 else None,
        role=None if names else role,
        times=tuple(intervals(query, now)),
    )


def named(query: str, speakers: Iterable[str]) -> tuple[list[str], re.Pattern[str] | None]:
    """The speakers that a query names, in lower case and by name, and what finds their names in it, if there are any.

    A whole name counts before one that only begins alike: "John Greene" is neither John nor John Smith.
    """
    known, said = {name.casefold(): name for name in map(str.strip, speakers) if name}, query.casefold()
    meant = {form: {form} for form in known}
    spelled = dict(known)
    for whole, name in known.items():
        first = name.split()[0]
        if first.casefold() not in known and _stands_alone(first):
            meant.setdefault(first.casefold(), set()).add(whole)
            spelled[first.casefold()] = first
    forms = {form: spelled[form] for form in sorted(meant, key=len, reverse=True) if form in said}
    if not forms:
        return [], None
    pattern = _pattern(forms)
    names = {name for match in pattern.finditer(query) for name in meant.get(match["name"].casefold(), ())}
    return sorted(names), pattern if names else None


def _stands_alone(first: str) -> bool:
    """Whether the first part of a name is enough of a name: not a title, an initial or "the"."""
    return len(first) > 2 and not first.endswith(".") and first.casefold() not in STOP_WORDS


def _pattern(forms: Mapping[str, str]) -> re.Pattern[str]:
    """Names in a query as words of their own, possessive or not; the first of the forms that fits counts."""
    any_of = "|".join(_form(form, spelled) for form, spelled in forms.items())
    return re.compile(rf"(?P<name>{any_of})(?:['’]s?(?!\w)|s['’](?!\w))?", re.IGNORECASE)


def _form(form: str, spelled: str) -> str:
    """One name; a common word ("Will") must be written like a name, where a sentence would not begin with it anyway."""
    name = rf"(?<=\s)(?-i:{re.escape(spelled)})" if form in STOP_WORDS else re.escape(spelled)
    before = "" if is_unspaced(spelled[0]) else r"(?<!\w)(?<!\w-)"
    return before + name + ("" if is_unspaced(spelled[-1]) else r"(?=s['’](?!\w)|(?!-?\w))")
