"""Embedding vectors and the interface of embedders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from engram.model import Clean

Vector = NDArray[np.float32]
"""One embedding of length 1, shape (dim,)."""


Matrix = NDArray[np.float32]
"""Embeddings of length 1, one a row, shape (n, dim)."""


Purpose = Literal["document", "query"]


@runtime_checkable
class Embedder(Protocol):
    """Turn redacted text into vectors of length 1."""

    @property
    def identity(self) -> str:
        """The name of the model and its weights: embedders with the same identity give the same vectors."""
        ...

    @property
    def dim(self) -> int:
        """The number of dimensions of its vectors."""
        ...

    def embed(self, texts: Sequence[Clean], purpose: Purpose = "document") -> Matrix:
        """Return one row per text, in order. Raises `ModelError`."""
        ...
