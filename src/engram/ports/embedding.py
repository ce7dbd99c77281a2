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


def units(matrix: Matrix) -> NDArray[np.bool_]:
    """Return a mask of the rows that are vectors of length 1."""
    with np.errstate(all="ignore"):  # NaN and infinity do not count as length 1
        length = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
        return np.asarray(np.abs(length - 1) < 0.01, dtype=np.bool_)


def is_unit(matrix: Matrix) -> bool:
    """Return True if every row is a vector of length 1."""
    return bool(units(matrix).all())


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
