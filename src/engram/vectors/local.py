"""Nearest neighbours in this process at any size: exact while that is fastest, then by bit codes, scored exactly.

A bit says on which side of a plane through the centre of all vectors a vector lies. Vectors that differ in few of 768
bits are probably similar; those that differ in the fewest are compared exactly. Nothing has to be built, a new vector
is there at once, a removed one is gone, and a filter is a mask. `benchmarks/vectors.py` compares it with the
alternatives.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engram.ports import Match, Matrix, Vector
from engram.vectors.exact import ExactVectors, Rows, product

MANY = 32_768
"""Up to so many rows are compared one by one."""

COMPARED = 2_000
PER_WANTED = 20
"""How many rows are compared exactly: so many in any case, and so many for each one that is wanted."""

PAGE = 8_192
Codes = NDArray[np.uint64]


class LocalVectors(ExactVectors):
    """The `VectorStore` that a database has beside it unless another one is named."""

    def __init__(self, many: int = MANY, compared: int = COMPARED) -> None:
        super().__init__(lambda dim: CodedRows(dim, many, compared))


class CodedRows(Rows):
    """Rows that have bit codes once there are many of them."""

    def __init__(self, dim: int, many: int, compared: int) -> None:
        super().__init__(dim)
        self._many, self._compared = many, compared
        self._centre: Vector = np.zeros(dim, dtype=np.float32)
        self._coded = 0
        self._codes: Codes = np.empty((-(-2 * dim // 64), 0), dtype=np.uint64)

    def nearest(self, vector: Vector, k: int, among: frozenset[str] | None) -> list[Match]:
        """The k most similar, best first."""
        self._refuse_other_lengths(len(vector))
        chosen = None if among is None else self._positions(among)
        compared = max(self._compared, PER_WANTED * k)
        rows = len(self._ids) if chosen is None else len(chosen)
        if rows <= max(self._many, 2 * compared):
            return self._compare(vector, k, chosen)
        self._keep_coded()
        distance = self._distances(vector)
        if chosen is not None:
            distance = distance[chosen]
        within = np.searchsorted(np.bincount(distance).cumsum(), compared)
        close = np.flatnonzero(distance <= within)
        return self._compare(vector, k, close if chosen is None else chosen[close])

    def _distances(self, vector: Vector) -> NDArray[np.uint16]:
        """In how many bits each row differs."""
        (code,) = self._encode(vector[None, :]).T
        distance = np.zeros(len(self._ids), dtype=np.uint16)
        for word, bits in enumerate(code):
            distance += np.bitwise_count(self._codes[word, : len(self._ids)] ^ bits)
        return distance

    def _written(self, positions: NDArray[np.intp]) -> None:
        if self._coded:
            self._make_room()
            self._codes[:, positions] = self._encode(self._matrix[positions])

    def _keep_coded(self) -> None:
        """Code all rows the first time, and again when there are so many more that the centre may have moved."""
        if 0 < len(self._ids) < 4 * self._coded:
            return
        self._coded = len(self._ids)
        self._centre = self._matrix[: self._coded].mean(axis=0)
        self._make_room()
        for first in range(0, self._coded, PAGE):
            last = min(self._coded, first + PAGE)
            self._codes[:, first:last] = self._encode(self._matrix[first:last])

    def _make_room(self) -> None:
        if self._codes.shape[1] < len(self._matrix):
            grown = np.zeros((len(self._codes), len(self._matrix)), dtype=np.uint64)
            grown[:, : self._codes.shape[1]] = self._codes
            self._codes = grown

    def _encode(self, vectors: Matrix) -> Codes:
        """Codes of rows, one column each: a bit for each dimension as it is, and for each of another set of axes."""
        centred = vectors - self._centre
        turn = _turn(vectors.shape[1])
        turned = product(turn.T, centred[0])[None, :] if len(centred) == 1 else centred @ turn
        bits = np.concatenate([centred, turned], axis=1) > 0
        packed = np.packbits(bits, axis=1)
        padding = -packed.shape[1] % 8
        return np.pad(packed, ((0, 0), (0, padding))).view(np.uint64).T


@lru_cache(maxsize=8)
def _turn(dim: int) -> Matrix:
    """Another set of axes, the same every time."""
    axes, _ = np.linalg.qr(np.random.default_rng(dim).standard_normal((dim, dim)))
    return np.asarray(axes, dtype=np.float32)
