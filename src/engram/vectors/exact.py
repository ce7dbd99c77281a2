"""Exact nearest neighbours by one matrix product: no index to build, nothing approximate."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engram.errors import InvalidInput
from engram.ports import Match, Matrix, Shelf, Vector


class ExactVectors:
    """A `VectorStore` in this process: one growing matrix per shelf."""

    def __init__(self) -> None:
        self._shelves: dict[Shelf, _Rows] = {}
        self._lock = threading.Lock()

    def add(self, shelf: Shelf, ids: Sequence[str], vectors: Matrix) -> None:
        """Put vectors in; an id that is there already is replaced."""
        if len(ids) == 0:
            return
        with self._lock:
            rows = self._shelves.setdefault(shelf, _Rows(vectors.shape[1]))
            rows.put(ids, vectors)

    def search(self, shelf: Shelf, vector: Vector, k: int, among: frozenset[str] | None = None) -> list[Match]:
        """The k most similar, best first, similarity in [0, 1]; only `among` these ids if given."""
        with self._lock:
            rows = self._shelves.get(shelf)
            return [] if rows is None or k <= 0 else rows.nearest(vector, k, among)

    def remove(self, shelf: Shelf, ids: Sequence[str]) -> None:
        """Take vectors out; unknown ids are ignored."""
        with self._lock:
            if rows := self._shelves.get(shelf):
                rows.drop(ids)

    def clear(self, shelf: Shelf) -> None:
        """Forget a whole shelf; it is filled again from the mirrored vectors."""
        with self._lock:
            self._shelves.pop(shelf, None)

    def close(self) -> None:
        """Let go of the memory."""
        with self._lock:
            self._shelves.clear()


class _Rows:
    """The vectors of one shelf, packed without holes; a removed row is filled by the last one."""

    def __init__(self, dim: int) -> None:
        self._matrix: Matrix = np.empty((64, dim), dtype=np.float32)
        self._ids: list[str] = []
        self._position: dict[str, int] = {}

    def put(self, ids: Sequence[str], vectors: Matrix) -> None:
        self._refuse_other_lengths(vectors.shape[1])
        self._reserve(len(self._ids) + len(ids))
        for id, vector in zip(ids, vectors, strict=True):
            position = self._position.get(id)
            if position is None:
                position = self._position[id] = len(self._ids)
                self._ids.append(id)
            self._matrix[position] = vector

    def drop(self, ids: Sequence[str]) -> None:
        for id in ids:
            position = self._position.pop(id, None)
            if position is None:
                continue
            last = self._ids.pop()
            if last != id:
                self._ids[position] = last
                self._position[last] = position
                self._matrix[position] = self._matrix[len(self._ids)]

    def nearest(self, vector: Vector, k: int, among: frozenset[str] | None) -> list[Match]:
        self._refuse_other_lengths(len(vector))
        if among is None:
            positions = None
            similarity = self._matrix[: len(self._ids)] @ vector
        else:
            chosen = sorted(self._position[id] for id in among if id in self._position)
            positions = np.array(chosen, dtype=np.intp)
            similarity = self._matrix[positions] @ vector
        order = _largest(similarity, k)
        picked = order if positions is None else positions[order]
        scores = np.clip(similarity[order], 0, 1)
        return [Match(self._ids[p], float(s)) for p, s in zip(picked, scores, strict=True)]

    def _refuse_other_lengths(self, dim: int) -> None:
        if dim != self._matrix.shape[1]:
            raise InvalidInput(f"vectors of {dim} dimensions cannot join a shelf of {self._matrix.shape[1]}")

    def _reserve(self, count: int) -> None:
        if count > len(self._matrix):
            grown = np.empty((max(count, 2 * len(self._matrix)), self._matrix.shape[1]), dtype=np.float32)
            grown[: len(self._ids)] = self._matrix[: len(self._ids)]
            self._matrix = grown


def _largest(values: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    if k >= len(values):
        return np.argsort(-values, kind="stable")
    top = np.argpartition(-values, k)[:k]
    return top[np.argsort(-values[top], kind="stable")]
