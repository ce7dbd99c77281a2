"""Limits of a server: rate, size, nesting, number and time of requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from engram.api.problems import Crowded
from engram.errors import TooMany

MOST_CALLERS = 10_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server."""

    body: int = 1_000_000
    """The most bytes of a request's body."""
    depth: int = 64
    """The deepest nesting of JSON."""
    rate: float = 100.0
    """Requests per second of one key; 0 for no limit."""
    burst: int = 200
    """The most requests of one key in a burst."""
    refusals: float = 10.0
    """Requests per second of one address with an invalid key, before it has to wait."""
    seconds: float = 30.0
    """The most seconds of a request."""
    body_seconds: float = 10.0
    """The most seconds until a body has arrived."""
    upload: int = 100_000_000
    """The most bytes of a knowledge file."""
    long_seconds: float = 600.0
    """The most seconds to import or export such a file, and to verify the audit trail."""
    running: int = 256
    """The most requests at a time, of all callers."""
    threads: int = 16
    """The most requests that use the database at a time; the others wait in a queue."""
    slow_threads: int = 4
    """The most further requests at a time that take long."""
    streams: int = 128
    """The most event streams at a time, of all callers."""
    streams_each: int = 16
    """The most event streams of one key."""


@dataclass(slots=True)
class Streams:
    """The open streams of events, within the limits."""

    limits: Limits
    _open: dict[str, int] = field(default_factory=dict)

    def enter(self, caller: str) -> None:
        """Count one more stream of a caller. Raises `TooMany` at its limit, and `Crowded` at the limit of all."""
        if self._open.get(caller, 0) >= self.limits.streams_each:
            raise TooMany(f"this key has {self.limits.streams_each} streams of events; end one of them first")
        if sum(self._open.values()) >= self.limits.streams:
            raise Crowded("too many event streams are open; try again later")
        self._open[caller] = self._open.get(caller, 0) + 1

    def leave(self, caller: str) -> None:
        """Count one stream less."""
        self._open[caller] -= 1
        if not self._open[caller]:
            del self._open[caller]


@dataclass(slots=True)
class Buckets:
    """A token bucket for each caller: it fills at a rate, and each request takes a token."""

    rate: float
    burst: int
    clock: Callable[[], float]
    _levels: dict[str, tuple[float, float]] = field(default_factory=dict)

    def wait(self, caller: str) -> float:
        """Return the seconds until the next request of this caller is allowed; if 0, count it as made."""
        if self.rate <= 0:
            return 0.0
        now = self.clock()
        level, last = self._levels.get(caller, (float(self.burst), now))
        level = min(self.burst, level + (now - last) * self.rate)
        if level < 1:
            self._levels[caller] = (level, now)
            return (1 - level) / self.rate
        if len(self._levels) >= MOST_CALLERS and caller not in self._levels:
            self._drop(now)
        self._levels[caller] = (level - 1, now)
        return 0.0

    def _drop(self, now: float) -> None:
        """Remove callers whose bucket is full, or all of them if that is not enough."""
        full = self.burst / self.rate
        kept = {caller: level for caller, level in self._levels.items() if now - level[1] < full}
        self._levels = kept if len(kept) < MOST_CALLERS else {}


def flaw_of_json(body: bytes, depth: int) -> str | None:
    """Return the reason why a body is not valid JSON, or `None`; duplicate names, NaN and deep nesting are refused."""
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refuse)
    except RecursionError:
        return f"the body is nested deeper than {depth} levels"
    except UnicodeDecodeError:
        return "the body is not UTF-8"
    except json.JSONDecodeError as error:
        return f"the body is not JSON: {error.msg} at character {error.pos + 1}"
    except ValueError as error:
        return f"the body is not JSON that can be used: {error}"
    return f"the body is nested deeper than {depth} levels" if _deeper(value, depth) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return found


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _deeper(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        level = [
            each
            for one in level
            for each in (one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())
            if isinstance(each, dict | list)
        ]
        if not level:
            return False
    return True
