"""From two lists of matches to one: each normalised, then summed by weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engram.ports import Match, MirrorMatch

AWAY = "the vector database is away; found in the local mirror"

LEAST_RANGE = 0.15
"""Similarities that lie closer together than this are not told apart more sharply than they differ."""


@dataclass(frozen=True, slots=True)
class Weights:
    """How much each part of a score counts."""

    words: float = 0.2
    vector: float = 0.8


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score in [0, 1] and the parts the score is made of."""

    id: str
    score: float
    why: Mapping[str, float | str]


def fuse(words: Sequence[Match], near: Sequence[Match], weights: Weights) -> list[Ranked]:
    """Every candidate of either list, best first; equal scores are ordered by id, newest first.

    With only one list, its part is the whole score.
    """
    by_words, by_vector = _relative(words), _spread(near)
    mirrored = {match.id for match in near if isinstance(match, MirrorMatch)}
    total = (weights.words if words else 0) + (weights.vector if near else 0)
    found = []
    for id in by_words.keys() | by_vector.keys():
        parts = {"words": by_words.get(id, 0.0), "vector": by_vector.get(id, 0.0)}
        score = (weights.words * parts["words"] + weights.vector * parts["vector"]) / total
        how = "both" if id in by_words and id in by_vector else "words" if id in by_words else "vector"
        noted = {"vectors": AWAY} if id in mirrored else {}
        found.append(Ranked(id, min(1.0, max(0.0, score)), {**parts, "found_by": how, **noted}))
    found.sort(key=lambda ranked: ranked.id, reverse=True)
    return sorted(found, key=lambda ranked: ranked.score, reverse=True)


def _relative(matches: Sequence[Match]) -> dict[str, float]:
    """BM25 has no upper end, so the best match counts as 1."""
    best = max((match.score for match in matches), default=0.0)
    return {match.id: match.score / best if best > 0 else 1.0 for match in matches}


def _spread(matches: Sequence[Match]) -> dict[str, float]:
    """Similarities crowd together, so they are stretched over the range that the list covers.

    The best keeps its own similarity: a list without any good match does not get a good score.
    """
    if not matches:
        return {}
    high = max(m.score for m in matches)
    low = min(high - LEAST_RANGE, *(m.score for m in matches))
    return {match.id: high * (match.score - low) / (high - low) for match in matches}
