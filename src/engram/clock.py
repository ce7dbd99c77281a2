"""The only source of time, ids and randomness, so that tests can control them."""

from __future__ import annotations

import os
import random
import threading
import time
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u
_ENTROPY_BITS = 80
ID_LENGTH = 26


class Sources:
    """Real time, ids and randomness."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self.random = random.Random()  # noqa: S311 - exploration, not cryptography

    def now(self) -> datetime:
        """Return the current time, in UTC."""
        return EPOCH + timedelta(microseconds=time.time_ns() // 1000)

    def entropy(self) -> int:
        """Return 80 random bits."""
        return int.from_bytes(os.urandom(_ENTROPY_BITS // 8), "big")

    def new_id(self) -> str:
        """Return a new id; it sorts after all earlier ids of this object, even if the clock steps back."""
        milliseconds = micros(self.now()) // 1000
        with self._lock:
            candidate = (max(milliseconds, 0) << _ENTROPY_BITS) | self.entropy()
            self._last = candidate if candidate > self._last else self._last + 1
            return _base32(self._last)


def micros(moment: datetime) -> int:
    """Return exact microseconds since 1970, negative before; a naive time is taken as UTC."""
    since = (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment) - EPOCH
    return since // timedelta(microseconds=1)


def from_micros(value: int) -> datetime:
    """Convert microseconds since 1970 to a time in UTC."""
    return EPOCH + timedelta(microseconds=value)


def aware(moment: datetime) -> datetime:
    """Convert a time to UTC; a naive time is taken as UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _base32(value: int) -> str:
    digits = []
    for _ in range(ID_LENGTH):
        value, rest = divmod(value, 32)
        digits.append(_ALPHABET[rest])
    return "".join(reversed(digits))
