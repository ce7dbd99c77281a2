"""An embedder that embeds nothing twice: haystacks share most of their sessions, and every question is asked often."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from engram.engine import Engram
from engram.model import Clean
from engram.ports import Embedder, Matrix, Purpose, Vector
from engram.text.terms import digest
from engram_bench import Tell, unheard

CHUNK = 256


class Cached:
    """Another embedder, with its identity, that keeps every vector it has made, and tells how far it has come."""

    def __init__(self, embedder: Embedder, tell: Tell = unheard) -> None:
        self._embedder, self._tell = embedder, tell
        self._known: dict[str, Vector] = {}

    @property
    def identity(self) -> str:
        """That of the embedder behind it."""
        return self._embedder.identity

    @property
    def dim(self) -> int:
        """The length of every vector."""
        return self._embedder.dim

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        """One row per text, in order; only what is new reaches the embedder behind it."""
        keys = [digest(purpose, text) for text in texts]
        new = [(key, text) for key, text in zip(keys, texts, strict=True) if key not in self._known]
        for first in range(0, len(new), CHUNK):
            some = dict(new[first : first + CHUNK])
            self._known.update(zip(some, self._embedder.embed(list(some.values()), purpose), strict=True))
            if len(new) > CHUNK:
                self._tell(first + len(some), len(new), f"embedding with {self.identity}")
        if not keys:
            return np.zeros((0, self.dim), dtype=np.float32)
        return np.stack([self._known[key] for key in keys])


def remember_vectors(brain: Engram) -> None:
    """Let a memory that was just opened embed nothing twice."""
    choose = brain._parts.embeddings.choose
    embed_with(brain, lambda: Cached(choose()))


def embed_with(brain: Engram, choose: Callable[[], Embedder]) -> None:
    """Let a memory that was just opened use another embedder; everything else stays as `engram.open` made it."""
    brain._parts.embeddings.choose = choose
