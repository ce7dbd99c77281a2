"""Cache vectors: haystacks share most of their sessions, and every question is asked several times."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from engram.engine import Engram
from engram.model import Clean
from engram.ports import Embedder, Matrix, Purpose, Vector
from engram.text.terms import digest
from engram_bench import ProgressCallback, no_progress

CHUNK = 256


class CachedEmbedder:
    """An embedder that embeds each text once, in chunks, and reports its progress."""

    def __init__(self, embedder: Embedder, on_progress: ProgressCallback = no_progress, *, chunk: int = CHUNK) -> None:
        self._embedder, self._on_progress, self._chunk = embedder, on_progress, chunk
        self._known: dict[str, Vector] = {}

    @property
    def identity(self) -> str:
        """The identity of the wrapped embedder."""
        return self._embedder.identity

    @property
    def dim(self) -> int:
        """The length of every vector."""
        return self._embedder.dim

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        """Return one row per text, in order; only new texts reach the wrapped embedder."""
        keys = [digest(purpose, text) for text in texts]
        new = [(key, text) for key, text in zip(keys, texts, strict=True) if key not in self._known]
        for first in range(0, len(new), self._chunk):
            some = dict(new[first : first + self._chunk])
            self._known.update(zip(some, self._embedder.embed(list(some.values()), purpose), strict=True))
            if len(new) > self._chunk:
                self._on_progress(first + len(some), len(new), f"embedding with {self.identity}")
        if not keys:
            return np.zeros((0, self.dim), dtype=np.float32)
        return np.stack([self._known[key] for key in keys])


def remember_vectors(brain: Engram) -> None:
    """Make a newly opened memory cache its vectors."""
    choose = brain._parts.embeddings.choose
    embed_with(brain, lambda: CachedEmbedder(choose()))


def embed_with(brain: Engram, choose: Callable[[], Embedder]) -> None:
    """Replace the embedder of a newly opened memory, before it is first used."""
    brain._parts.embeddings.choose = choose
