"""An in-process store for values with a time to live, and the value format of all such stores."""

from __future__ import annotations

import heapq
import json
import threading
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from engram.clock import Sources, micros
from engram.errors import InvalidInput, StoreClosed
from engram.ports import Scope
from engram.stores.rows import to_json

LONGEST_SECONDS = 100 * 366 * 24 * 3600

Slot = tuple[Scope, str]


def to_bytes(value: JsonValue) -> bytes:
    """Encode a value as JSON. Raises `InvalidInput` for values that JSON does not have."""
    try:
        return to_json(value).encode()
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"only JSON values can be stored: {error}; use text, numbers, lists and dicts") from None


def from_bytes(data: bytes) -> JsonValue:
    """Decode a value that `to_bytes` encoded."""
    value: JsonValue = json.loads(data)
    return value


def milliseconds(ttl: float) -> int:
    """Convert a time to live to whole milliseconds, at least one. Raises `InvalidInput` unless it is above 0."""
    if not 0 < ttl <= LONGEST_SECONDS:
        raise InvalidInput(f"a time to live is a number of seconds above 0, up to a hundred years, not {ttl!r}")
    return max(1, round(ttl * 1000))


class InProcessExpiring:
    """An in-memory `ExpiringStore`; expired values are removed."""

    volatile: Literal[True] = True

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._kept: dict[Slot, tuple[int, bytes]] = {}
        self._ends: list[tuple[int, int, Slot]] = []
        self._order = 0
        self._lock = threading.Lock()
        self._closed = False

    def put(self, scope: Scope, values: Mapping[str, JsonValue], ttl: float) -> None:
        """Store each value under its key for `ttl` seconds from now, all or none; existing values are replaced."""
        lifetime = milliseconds(ttl) * 1000
        encoded = {key: to_bytes(value) for key, value in values.items()}
        with self._lock:
            end = self._drop_expired() + lifetime
            for key, data in encoded.items():
                self._order += 1
                self._kept[scope, key] = (self._order, data)
                heapq.heappush(self._ends, (end, self._order, (scope, key)))
            self._drop_replaced()

    def fetch(self, scope: Scope, keys: Sequence[str]) -> list[JsonValue]:
        """Return one value per key, in order; `None` for a key that does not exist or has expired."""
        with self._lock:
            self._drop_expired()
            found = [self._kept.get((scope, key)) for key in keys]
        return [None if each is None else from_bytes(each[1]) for each in found]

    def drop(self, scope: Scope, keys: Sequence[str]) -> int:
        """Remove keys; return how many existed."""
        with self._lock:
            self._drop_expired()
            return sum(self._kept.pop((scope, key), None) is not None for key in keys)

    def clear(self, scope: Scope) -> int:
        """Remove all values of a scope; return how many there were."""
        with self._lock:
            self._drop_expired()
            own = [slot for slot in self._kept if slot[0] == scope]
            for slot in own:
                del self._kept[slot]
            return len(own)

    def close(self) -> None:
        """Release all resources; calling it twice is harmless."""
        with self._lock:
            self._closed = True
            self._kept.clear()
            self._ends.clear()

    def __len__(self) -> int:
        """Return the number of values."""
        with self._lock:
            self._drop_expired()
            return len(self._kept)

    def _drop_expired(self) -> int:
        if self._closed:
            raise StoreClosed("this working memory was closed; open it again")
        now = micros(self._sources.now())
        while self._ends and self._ends[0][0] <= now:
            ended = heapq.heappop(self._ends)
            if self._is_kept(ended):
                del self._kept[ended[2]]
        return now

    def _drop_replaced(self) -> None:
        """Remove the expiry times of replaced and dropped values once they are the majority."""
        if len(self._ends) > 2 * len(self._kept) + 64:
            self._ends = [each for each in self._ends if self._is_kept(each)]
            heapq.heapify(self._ends)

    def _is_kept(self, end: tuple[int, int, Slot]) -> bool:
        """Return True if this is the expiry time of the present value, and not of an older one."""
        _, order, slot = end
        return slot in self._kept and self._kept[slot][0] == order
