"""Limit hits to one for each session, or to a number of tokens."""

from __future__ import annotations

from collections.abc import Iterable

from engram.model import Hit

CHARACTERS_PER_TOKEN = 4


def tokens(text: str) -> int:
    """About how many tokens a model will count for a text; never 0."""
    return max(1, -(-len(text) // CHARACTERS_PER_TOKEN))


def within_budget(hits: Iterable[Hit], budget: int) -> list[Hit]:
    """The hits, in order, that fit together into so many tokens; one too long for the rest is passed over."""
    kept, left = [], budget
    for hit in hits:
        cost = tokens(hit.memory.text)
        if cost <= left:
            kept.append(hit)
            left -= cost
    return kept


def best_per_session(hits: Iterable[Hit]) -> list[Hit]:
    """The first hit of each session, in order; a memory without a session stands for itself."""
    seen: set[str] = set()
    kept = []
    for hit in hits:
        group = hit.memory.session or hit.id
        if group not in seen:
            seen.add(group)
            kept.append(hit)
    return kept
