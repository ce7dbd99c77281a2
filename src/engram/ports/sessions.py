"""The interface of a store for values that expire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from pydantic import JsonValue

from engram.ports.values import Scope


@runtime_checkable
class ExpiringStore(Protocol):
    """A store for values with a time to live, such as the state of a session."""

    def put(self, scope: Scope, values: Mapping[str, JsonValue], ttl: float) -> None:
        """Store each value under its key for `ttl` seconds from now; existing values are replaced."""
        ...

    def fetch(self, scope: Scope, keys: Sequence[str]) -> list[JsonValue]:
        """Return one value per key, in order; `None` for a key that does not exist or has expired."""
        ...

    def drop(self, scope: Scope, keys: Sequence[str]) -> int:
        """Remove keys; return how many existed."""
        ...

    def close(self) -> None:
        """Release all resources; calling it twice is harmless."""
        ...


@runtime_checkable
class ClearsSessions(Protocol):
    """A store that can remove all values of an agent."""

    def clear(self, scope: Scope) -> int:
        """Remove all values of a scope; return how many there were."""
        ...


@runtime_checkable
class Volatile(Protocol):
    """A store that loses its values when the process ends; the caller saves what must be kept before closing it."""

    volatile: Literal[True]
