"""What the server counts, for Prometheus. No label names an agent, a key or a memory."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
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

    def done(self, op: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self.operations.labels(op, str(status)).inc()
        self.seconds.labels(op).observe(seconds)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)
