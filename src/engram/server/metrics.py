"""Prometheus metrics of the server. No label names an agent, a key or a memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from engram import __version__
from engram.errors import EngramError
from engram.ports import Maintains, Store

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


COUNTED_EVERY = 60.0
"""Seconds for which the counts of the database are cached."""
_FACTS = {
    "memories": ("engram_memories", "Memories in the database."),
    "agents": ("engram_agents", "Agents that have stored something."),
    "events": ("engram_events", "Decisions, outcomes and other events."),
    "bytes": ("engram_database_bytes", "Size of the database in bytes."),
}


@dataclass(slots=True, eq=False)
class _Stock:
    """A collector of counts of the database, which are cached."""

    store: Maintains
    clock: Callable[[], float]
    _last: float | None = None
    _found: tuple[tuple[str, float], ...] = ()

    def collect(self) -> Iterator[Metric]:
        now = self.clock()
        if self._last is None or now - self._last >= COUNTED_EVERY:
            try:
                facts = self.store.info()
            except EngramError:  # `/readyz` reports it; the other metrics are still useful
                return
            counted = ((name, facts.get(name)) for name in _FACTS)
            self._found = tuple((name, number) for name, number in counted if isinstance(number, int | float))
            self._last = now
        for name, number in self._found:
            yield GaugeMetricFamily(*_FACTS[name], value=number)

    def describe(self) -> list[Metric]:
        return []


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        Info("engram", "Version of Engram.", registry=self.registry).info({"version": __version__})
        self.operations = Counter(
            "engram_operations", "Requests, by operation and status.", ["op", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "engram_operation_duration_seconds",
            "Duration of requests, by operation.",
            ["op"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.running = Gauge("engram_requests_in_progress", "Requests in progress.", registry=self.registry)
        self.streams = Gauge("engram_event_streams", "Open event streams.", registry=self.registry)
        self.refused = Counter(
            "engram_refused",
            "Requests that were refused before the engine, by reason.",
            ["why"],
            registry=self.registry,
        )

        self.waiting = Gauge("engram_queue_depth", "Requests that wait for a free thread.", registry=self.registry)
        self.busy = Gauge("engram_threads_busy", "Threads that run a request.", registry=self.registry)

    def watch(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        """Add counts of the database, if the store provides them."""
        if isinstance(store, Maintains):
            self.registry.register(_Stock(store, clock))

    def done(self, op: str, status: int | str, seconds: float) -> None:
        """Count a request that was answered."""
        self.operations.labels(op, str(status)).inc()
        self.seconds.labels(op).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self.registry)
