"""Long texts in overlapping passages: an embedder reads a few hundred tokens, and one vector says one thing well."""

from __future__ import annotations

import re

SIZE = 900
"""Characters of a passage: some two hundred tokens of English."""

OVERLAP = 180
"""Characters that a passage shares with the one before, so that nothing is only ever cut through."""

LONGEST_WHOLE = 1_150
"""Up to here a text stays whole; a short rest would say little by itself."""

MOST = 64
"""Passages of one text. What lies beyond is found by its words."""

_ENDS = (re.compile(r"\n\s*\n"), re.compile(r"[.!?。！？][\"'”’)\]]*\s|\n"), re.compile(r"\s"))


def passages(text: str) -> list[str]:
    """The passages of a text, in order; a short one is its own only passage."""
    if len(text) <= LONGEST_WHOLE:
        return [text]
    starts = [0]
    while len(text) - starts[-1] > LONGEST_WHOLE and len(starts) < MOST:
        starts.append(_cut(text, starts[-1] + SIZE - OVERLAP))
    ends = [_cut(text, following + OVERLAP) for following in starts[1:]]
    last = len(text) if len(text) - starts[-1] <= LONGEST_WHOLE else starts[-1] + SIZE
    found = [text[start:end].strip() for start, end in zip(starts, [*ends, last], strict=True)]
    return [passage for passage in found if passage] or [text]


def _cut(text: str, near: int) -> int:
    """The best place to cut shortly before a position: between paragraphs, sentences, words, or anywhere."""
    first = near - OVERLAP
    for end in _ENDS:
        if found := [match.end() for match in end.finditer(text, first, near)]:
            return found[-1]
    return near
