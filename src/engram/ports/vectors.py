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
    """Nearest neighbours, derived from the mirrored vectors: may be thrown away at any time."""

    def add(self, space: VectorSpace, ids: Sequence[str], vectors: Matrix) -> None:
        """Put vectors in; an id that is there already is replaced."""
        ...

    def search(self, space: VectorSpace, vector: Vector, k: int, among: frozenset[str] | None = None) -> list[Match]:
        """The k most similar, best first, similarity in [0, 1]; only `among` these ids if given."""
        ...

    def remove(self, space: VectorSpace, ids: Sequence[str]) -> None:
        """Take vectors out; unknown ids are ignored."""
        ...

    def clear(self, space: VectorSpace) -> None:
        """Forget a whole space; it can be filled again from the mirrored vectors."""
        ...

    def close(self) -> None:
        """Release all resources; calling it twice is harmless."""
        ...


@runtime_checkable
class SyncsVectors(Protocol):
    """Keeps an outside vector database in step with its own mirror."""

    def sync(self, *, anew: bool = False, progress: Callable[[int, int], None] | None = None) -> int:
        """Hand over what the vector database lacks, or everything `anew`; how many vectors. Raises `StoreError`."""
        ...
