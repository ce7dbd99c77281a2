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
"""Seconds for which what is in the database is not counted again, however often somebody asks."""
_FACTS = {
    "memories": ("engram_memories", "Memories that are kept."),
    "agents": ("engram_agents", "Agents that have stored something."),
    "events": ("engram_events", "Decisions, outcomes and whatever else was learned from."),
    "bytes": ("engram_database_bytes", "How large the database is."),
}


@dataclass(slots=True, eq=False)
class _Stock:
    """What is in the database, counted now and then."""

    store: Maintains
    clock: Callable[[], float]
    _last: float | None = None
    _found: tuple[tuple[str, float], ...] = ()

    def collect(self) -> Iterator[Metric]:
        now = self.clock()
        if self._last is None or now - self._last >= COUNTED_EVERY:
            try:
                facts = self.store.info()
            except EngramError:  # `/readyz` tells of it; the other numbers are worth reading all the same
                return
            counted = ((name, facts.get(name)) for name in _FACTS)
            self._found = tuple((name, number) for name, number in counted if isinstance(number, int | float))
            self._last = now
        for name, number in self._found:
            yield GaugeMetricFamily(*_FACTS[name], value=number)

    def describe(self) -> list[Metric]:
        return []


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        Info("engram", "What runs here.", registry=self.registry).info({"version": __version__})
        self.operations = Counter(
            "engram_operations", "Requests, by operation and status.", ["op", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "engram_operation_duration_seconds",
            "How long requests took, by operation.",
            ["op"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.running = Gauge("engram_requests_in_progress", "Requests that are being answered.", registry=self.registry)
        self.streams = Gauge("engram_event_streams", "Callers that listen to events.", registry=self.registry)
        self.refused = Counter(
            "engram_refused",
            "Requests that were refused before the engine, by reason.",
            ["why"],
            registry=self.registry,
        )

        self.waiting = Gauge(
            "engram_queue_depth", "Requests that wait until one of the threads is free.", registry=self.registry
        )
        self.busy = Gauge("engram_threads_busy", "Threads that ask the database for a request.", registry=self.registry)

    def watch(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        """Also tell what is in the database, if it can say so."""
        if isinstance(store, Maintains):
            self.registry.register(_Stock(store, clock))

    def done(self, op: str, status: int | str, seconds: float) -> None:
        """Count a request that was answered."""
        self.operations.labels(op, str(status)).inc()
        self.seconds.labels(op).observe(seconds)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)
