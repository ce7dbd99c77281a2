"""How sure one can be that a query has an answer here: a query that nothing answers says so."""

from __future__ import annotations

import math

import numpy as np

from engram.recall.features import Scene
from engram.recall.understand import Asked

CONTRAST = 2.0
"""How much it counts against an answer that somebody else than the one asked about has said the more similar thing."""
HALFWAY, STEEPNESS = 0.62, 9.0
"""The similarity at which one is as sure as not, and how fast that changes around it."""
WORDS_HALFWAY, WORDS_STEEPNESS = 0.6, 4.0
"""The same for the share of telling words, when there is nothing else to go by."""


def confidence(seen: Scene, asked: Asked, cover: float, *, by_words: bool) -> float:
    """Near 1 when a memory is similar to what is asked, of whom it is asked; near 0 when nothing is.

    Without vectors, the share of the query's telling words that one memory has must do.
    """
    if by_words:
        return _squashed(cover - WORDS_HALFWAY, WORDS_STEEPNESS)
    similar = seen.similarity[seen.candidate]
    best = float(similar.max(initial=0.0))
    if asked.speaker is not None:
        others = np.array([asked.about(g.speaker, None) < 0 for g in seen.glimpses])[seen.candidate]
        own, other = float(similar[~others].max(initial=0.0)), float(similar[others].max(initial=0.0))
        best = own + CONTRAST * (own - other)
    return _squashed(best - HALFWAY, STEEPNESS)


def _squashed(value: float, steepness: float) -> float:
    return 1 / (1 + math.exp(-min(50.0, max(-50.0, steepness * value))))
