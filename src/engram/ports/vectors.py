"""The interface of a vector database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from engram.ports.embedding import Matrix, Vector
from engram.ports.values import Match, Scope


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """Vectors that may be compared with each other: one scope, one namespace, one embedder."""

    scope: Scope
    namespace: str
    embedder: str


@runtime_checkable
class VectorStore(Protocol):
    """An index for nearest neighbours, derived from the vectors in the store: it can be rebuilt at any time."""

    def add(self, space: VectorSpace, ids: Sequence[str], vectors: Matrix) -> None:
        """Add vectors; those of existing ids are replaced."""
        ...

    def search(self, space: VectorSpace, vector: Vector, k: int, among: frozenset[str] | None = None) -> list[Match]:
        """Return the k most similar, best first, with similarities in [0, 1]; only `among` these ids if given."""
        ...

    def remove(self, space: VectorSpace, ids: Sequence[str]) -> None:
        """Remove vectors; unknown ids are ignored."""
        ...

    def clear(self, space: VectorSpace) -> None:
        """Remove a whole space; it can be filled again from the store."""
        ...

    def close(self) -> None:
        """Release all resources; calling it twice is harmless."""
        ...


@runtime_checkable
class SyncsVectors(Protocol):
    """A store that keeps an external vector database in sync with its own vectors."""

    def sync(self, *, anew: bool = False, progress: Callable[[int, int], None] | None = None) -> int:
        """Send missing vectors to the vector database, or all if `anew`; return how many. Raises `StoreError`."""
        ...
