"""Split long texts into overlapping passages, since embedders read only a few hundred tokens."""

from __future__ import annotations

import re

SIZE = 900
"""Characters of a passage: about two hundred tokens of English."""

OVERLAP = 180
"""Characters shared with the previous passage, so that no sentence is only ever cut in two."""

LONGEST_WHOLE = 1_150
"""Longest text that is not split; a short remainder would be of little use by itself."""

MOST = 64
"""Passages per text at most; the rest is found by its words."""

_ENDS = (re.compile(r"\n\s*\n"), re.compile(r"[.!?。！？][\"'”’)\]]*\s|\n"), re.compile(r"\s"))


def passages(text: str) -> list[str]:
    """Return the passages of a text, in order; a short text is a single passage."""
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
    """Return the best place to cut shortly before a position: between paragraphs, sentences, words, or anywhere."""
    first = near - OVERLAP
    for end in _ENDS:
        if found := [match.end() for match in end.finditer(text, first, near)]:
            return found[-1]
    return near
