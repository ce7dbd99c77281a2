"""The interface of a store for values that expire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

from pydantic import JsonValue

from engram.ports.values import Scope


@runtime_checkable
class ExpiringStore(Protocol):
    """Keeps values for a while: the state of a session, not its memories."""

    def put(self, scope: Scope, values: Mapping[str, JsonValue], ttl: float) -> None:
        """Keep each value under its key for `ttl` seconds from now; what was there is replaced."""
        ...

    def fetch(self, scope: Scope, keys: Sequence[str]) -> list[JsonValue]:
        """One answer per key, in order; `None` for a key that is not there, or no longer."""
        ...

    def drop(self, scope: Scope, keys: Sequence[str]) -> int:
        """Remove keys; how many were there."""
        ...

    def close(self) -> None:
        """Release everything; calling it twice is harmless."""
        ...


@runtime_checkable
class ClearsSessions(Protocol):
    """Can let go of all that is held for one agent."""

    def clear(self, scope: Scope) -> int:
        """Remove every value of a scope; how many there were."""
        ...


@runtime_checkable
class Volatile(Protocol):
    """A store whose values end with this process: whoever closes it saves before what must stay."""

    volatile: Literal[True]
