"""Nearest neighbours in this process: exact up to some size, then candidates by bit codes, which are scored exactly.

Each bit says on which side of a plane through the centre of all vectors a vector lies. Vectors that differ in few of
768 bits are probably similar; those that differ in the fewest are compared exactly. There is no index to build:
vectors are added and removed at once, and a filter is a mask. `benchmarks/vectors.py` compares it with alternatives.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from engram.ports import Match, Matrix, Vector
from engram.stores.vectors.exact import ExactVectors, Rows

MANY = 32_768
"""The number of rows up to which all are compared."""

COMPARED = 2_000
PER_WANTED = 20
"""The number of rows that are compared exactly: a minimum, and a number for each result."""

VERY_MANY = 262_144
"""The number of rows above which half of the bits are read first."""
PER_COMPARED, TENTH = 6, 10
"""The number of rows kept after the first half of the bits: per row to compare, and at least a tenth of all."""

PAGE = 8_192
Codes = NDArray[np.uint64]
Distances = NDArray[np.uint16]
Positions = NDArray[np.intp]


class LocalVectors(ExactVectors):
    """The default `VectorStore`, in this process."""

    def __init__(self, many: int = MANY, compared: int = COMPARED, very_many: int = VERY_MANY) -> None:
        super().__init__(lambda dim: CodedRows(dim, many, compared, very_many))


class CodedRows(Rows):
    """Rows with bit codes once there are many of them."""

    def __init__(self, dim: int, many: int, compared: int, very_many: int) -> None:
        super().__init__(dim)
        self._many, self._compared, self._very_many = many, compared, very_many
        self._centre: Vector = np.zeros(dim, dtype=np.float32)
        self._coded = 0
        self._codes: Codes = np.empty((-(-2 * dim // 64), 0), dtype=np.uint64)

    def nearest(self, vector: Vector, k: int, among: frozenset[str] | None) -> list[Match]:
        """Return the k most similar, best first."""
        self._refuse_other_lengths(len(vector))
        chosen = None if among is None else self._positions(among)
        compared = max(self._compared, PER_WANTED * k)
        rows = len(self._ids) if chosen is None else len(chosen)
        if rows <= max(self._many, 2 * compared):
            return self._compare(vector, k, chosen)
        self._keep_coded()
        close = self._close(vector, chosen, rows, compared)
        return self._compare(vector, k, close if chosen is None else chosen[close])

    def _close(self, vector: Vector, chosen: Positions | None, rows: int, count: int) -> Positions:
        """Return about `count` rows, of all or of the chosen ones, that differ in the fewest bits."""
        (code,) = self._encode(vector[None, :]).T
        words = range(len(code))
        if rows <= self._very_many:
            return _fewest(self._differing(code, words, chosen), count)
        # Half of the bits, of both kinds, exclude most rows; the other half is read for the rest only.
        distance = self._differing(code, words[::2], chosen)
        kept = _fewest(distance, max(PER_COMPARED * count, rows // TENTH))
        others = self._differing(code, words[1::2], kept if chosen is None else chosen[kept])
        return kept[_fewest(distance[kept] + others, count)]

    def _differing(self, code: NDArray[np.uint64], words: range, rows: Positions | None) -> Distances:
        """Count the bits of these words in which each row, of all or of some, differs."""
        distance = np.zeros(len(self._ids) if rows is None else len(rows), dtype=np.uint16)
        for word in words:
            known = self._codes[word, : len(self._ids)]
            distance += np.bitwise_count((known if rows is None else known.take(rows)) ^ code[word])
        return distance

    def _written(self, positions: NDArray[np.intp]) -> None:
        if self._coded:
            self._make_room()
            self._codes[:, positions] = self._encode(self._matrix[positions])

    def _keep_coded(self) -> None:
        """Compute the codes of all rows at first, and again after many more rows, since the centre may have moved."""
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
        """Compute the codes of rows, one column each: a bit for each dimension and each axis of a rotated basis."""
        centred = vectors - self._centre
        turn = _turn(vectors.shape[1])
        turned = np.vecdot(turn.T, centred[0])[None, :] if len(centred) == 1 else centred @ turn
        bits = np.concatenate([centred, turned], axis=1) > 0
        packed = np.packbits(bits, axis=1)
        padding = -packed.shape[1] % 8
        return np.pad(packed, ((0, 0), (0, padding))).view(np.uint64).T


def _fewest(distance: Distances, count: int) -> Positions:
    """Return the positions of the `count` smallest distances, and of all that equal the last of them."""
    within = np.searchsorted(np.bincount(distance).cumsum(), count)
    return np.flatnonzero(distance <= within)


@lru_cache(maxsize=8)
def _turn(dim: int) -> Matrix:
    """Return a random orthogonal basis, always the same.

    Not by LAPACK, whose threads wait for each other for seconds on a busy machine.
    """
    axes = np.random.default_rng(dim).standard_normal((dim, dim)).T.copy()
    for n in range(dim):
        known = axes[:n]
        axes[n] -= np.einsum("i,ij->j", np.einsum("ij,j->i", known, axes[n]), known)
        axes[n] /= math.sqrt(float(np.einsum("i,i->", axes[n], axes[n])))
    return np.asarray(axes.T, dtype=np.float32)
