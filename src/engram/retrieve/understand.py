"""What a query asks: which words tell, whom and what time it is about."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from engram.model import Clean, without
from engram.when import Interval, intervals
from engram.words import query_terms

_POSSESSIVE = r"(?:'s|’s|s')?"
_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself|i'm|i've|i'd|we|our|us)\b", re.IGNORECASE)
_YOU_SAID = re.compile(
    r"\byou (?:told|gave|said|mentioned|suggested|recommended|provided|listed|described|shared|wrote|made|created)\b"
    r"|\bremind me\b|\b(?:our|your) (?:previous|last|earlier|past) (?:chat|conversation|discussion|answer)s?\b"
    r"|\byour (?:suggestion|recommendation|list|answer|advice)s?\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A query, understood."""

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
            return 1.0 if speaker.casefold() == self.speaker else -1.0
        if self.role is not None and role is not None:
            return 1.0 if role.casefold() == self.role else -1.0
        return 0.0


def understand(query: Clean, now: datetime, speakers: Iterable[str] = ()) -> Asked:
    """Take a query apart; `speakers` are those whose words are remembered, `now` is what "yesterday" is meant from."""
    said = query.casefold()
    known = dict.fromkeys(name.casefold().strip() for name in speakers)
    named = [name for name in known if name and name.split()[0] in said and _names(name).search(query)]
    rest = query
    for name in named:
        rest = without(rest, _names(name))
    if not query_terms(rest) or not rest.strip(" ?!.,;:"):
        rest = query
    terms = query_terms(rest)
    role = "assistant" if _YOU_SAID.search(query) else "user" if _FIRST_PERSON.search(query) else None
    return Asked(
        text=rest,
        terms=tuple(terms),
        speaker=named[0] if len(named) == 1 else None,
        role=None if named else role,
        times=tuple(intervals(query, now)),
    )


def _names(speaker: str) -> re.Pattern[str]:
    """A speaker's name in a query: the whole of it, or its first part if that is long enough to be a name."""
    first = speaker.split(maxsplit=1)[0]
    forms = [speaker, first] if len(first) > 2 else [speaker]
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, forms))}){_POSSESSIVE}(?!\w)", re.IGNORECASE)
