"""Exact nearest neighbours by one matrix product: no index to build, nothing approximate."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from engram.errors import InvalidInput
from engram.ports import Match, Matrix, Vector, VectorSpace

FEW = 32_768
"""The number of rows that one thread multiplies about as fast as several, and much faster on a busy machine."""


class ExactVectors:
    """A `VectorStore` in this process: one growing matrix per space."""

    def __init__(self, rows: Callable[[int], Rows] | None = None) -> None:
        self._make = rows or Rows
        self._vector_spaces: dict[VectorSpace, Rows] = {}
        self._lock = threading.Lock()

    def add(self, space: VectorSpace, ids: Sequence[str], vectors: Matrix) -> None:
        """Add vectors; those of existing ids are replaced."""
        if len(ids) == 0:
            return
        with self._lock:
            if space not in self._vector_spaces:
                self._vector_spaces[space] = self._make(vectors.shape[1])
            self._vector_spaces[space].put(ids, vectors)

    def search(self, space: VectorSpace, vector: Vector, k: int, among: frozenset[str] | None = None) -> list[Match]:
        """Return the k most similar, best first, with similarities in [0, 1]; only `among` these ids if given."""
        with self._lock:
            rows = self._vector_spaces.get(space)
            return [] if rows is None or k <= 0 else rows.nearest(vector, k, among)

    def remove(self, space: VectorSpace, ids: Sequence[str]) -> None:
        """Remove vectors; unknown ids are ignored."""
        with self._lock:
            if rows := self._vector_spaces.get(space):
                rows.drop(ids)

    def clear(self, space: VectorSpace) -> None:
        """Remove a whole space; it is filled again from the store."""
        with self._lock:
            self._vector_spaces.pop(space, None)

    def close(self) -> None:
        """Release the memory."""
        with self._lock:
            self._vector_spaces.clear()


class Rows:
    """The vectors of one space in one matrix without gaps; the last row replaces a removed one."""

    def __init__(self, dim: int) -> None:
        self._matrix: Matrix = np.empty((64, dim), dtype=np.float32)
        self._ids: list[str] = []
        self._position: dict[str, int] = {}

    def put(self, ids: Sequence[str], vectors: Matrix) -> None:
        """Add or replace rows; the last of equal ids counts."""
        self._refuse_other_lengths(vectors.shape[1])
        latest = {id: row for row, id in enumerate(ids)}
        first, fresh = len(self._ids), [id for id in latest if id not in self._position]
        self._reserve(first + len(fresh))
        self._ids += fresh
        self._position.update(zip(fresh, range(first, len(self._ids)), strict=True))
        positions = np.array([self._position[id] for id in latest], dtype=np.intp)
        self._matrix[positions] = vectors[list(latest.values())]
        self._written(positions)

    def drop(self, ids: Sequence[str]) -> None:
        """Remove those of these ids that exist."""
        for id in ids:
            position = self._position.pop(id, None)
            if position is None:
                continue
            last = self._ids.pop()
            if last != id:
                self._ids[position] = last
                self._position[last] = position
                self._matrix[position] = self._matrix[len(self._ids)]
                self._written(np.array([position]))

    def nearest(self, vector: Vector, k: int, among: frozenset[str] | None) -> list[Match]:
        """Return the k most similar, best first."""
        self._refuse_other_lengths(len(vector))
        positions = None if among is None else self._positions(among)
        return self._compare(vector, k, positions)

    def _positions(self, ids: Iterable[str]) -> NDArray[np.intp]:
        return np.array(sorted(self._position[id] for id in ids if id in self._position), dtype=np.intp)

    def _compare(self, vector: Vector, k: int, positions: NDArray[np.intp] | None) -> list[Match]:
        """Compare with all rows, or with these."""
        matrix = self._matrix[: len(self._ids)] if positions is None else self._matrix.take(positions, axis=0)
        # A small one in one thread, as starting the threads of BLAS would take longer.
        similarity = np.vecdot(matrix, vector) if len(matrix) <= FEW else matrix @ vector
        order = np.argsort(-similarity, kind="stable") if k >= len(similarity) else _largest(similarity, k)
        picked = order if positions is None else positions[order]
        scores = np.clip(similarity[order], 0, 1)
        return [Match(self._ids[p], s) for p, s in zip(picked.tolist(), scores.tolist(), strict=True)]

    def _written(self, positions: NDArray[np.intp]) -> None:
        """Hook: rows were written."""

    def _refuse_other_lengths(self, dim: int) -> None:
        if dim != self._matrix.shape[1]:
            raise InvalidInput(
                f"vectors of {dim} dimensions do not fit those already stored, which have {self._matrix.shape[1]}"
            )

    def _reserve(self, count: int) -> None:
        if count > len(self._matrix):
            grown = np.empty((max(count, 2 * len(self._matrix)), self._matrix.shape[1]), dtype=np.float32)
            grown[: len(self._ids)] = self._matrix[: len(self._ids)]
            self._matrix = grown


def _largest(values: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    top = np.argpartition(-values, k)[:k]
    return top[np.argsort(-values[top], kind="stable")]
