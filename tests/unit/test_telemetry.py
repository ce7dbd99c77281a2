"""Spans and metrics by the conventions, without content, and nothing at all without OpenTelemetry."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import engram
from engram import AgentHandle, telemetry
from engram.errors import InvalidInput

TEXT = "Staging runs PostgreSQL 15 behind pgbouncer"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> InMemoryMetricReader:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    return reader


@pytest.fixture
def alice() -> Iterator[AgentHandle]:
    with engram.open(":memory:", embedder="hashing") as brain:
        yield brain.agent("alice")


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def test_what_measures_is_made_once(alice: AgentHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, made = MeterProvider(), list[str]()
    get_meter = provider.get_meter

    def get_one(name: str) -> metrics.Meter:
        made.append(name)
        return get_meter(name)

    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    monkeypatch.setattr(provider, "get_meter", get_one)
    for _ in range(3):
        alice.recall("which database is in staging?")
    assert made == ["engram"]


def test_calls_are_spans_by_the_conventions(alice: AgentHandle, spans: InMemorySpanExporter) -> None:
    id = alice.remember(TEXT).id
    alice.recall("which database is in staging?")
    assert id is not None
    alice.annotate(id, importance=0.9)
    alice.forget(id)
    for name in ("upsert_memory", "search_memory", "update_memory", "delete_memory"):
        (span,) = named(spans, name)
        told = dict(span.attributes or {})
        assert told["gen_ai.operation.name"] == name
        assert told["gen_ai.provider.name"] == "engram"
        assert told["gen_ai.memory.record.id"] == id
        assert told["gen_ai.memory.record.count"] == 1
        assert told["gen_ai.memory.store.id"]
    assert named(spans, "embeddings")


def test_no_content_unless_it_was_switched_on(alice: AgentHandle, spans: InMemorySpanExporter) -> None:
    alice.remember(TEXT)
    alice.recall("which database is in staging?")
    alice.record_decision(context="deploy pgbouncer", action="restart pgbouncer", outcome="success")
    everything = "".join(span.to_json() for span in spans.get_finished_spans())
    assert "pgbouncer" not in everything
    assert "staging" not in everything
    assert "alice" not in everything
    telemetry.capture(True)
    try:
        alice.recall("which database is in staging?")
    finally:
        telemetry.capture(False)
    told = dict(named(spans, "search_memory")[-1].attributes or {})
    assert told["gen_ai.memory.query.text"] == "which database is in staging?"
    assert TEXT in str(told["gen_ai.memory.records"])


def test_an_error_is_told_by_its_type(alice: AgentHandle, spans: InMemorySpanExporter) -> None:
    with pytest.raises(InvalidInput):
        alice.recall(" ")
    (span,) = named(spans, "search_memory")
    assert dict(span.attributes or {})["error.type"] == "InvalidInput"
    assert not span.status.is_ok


def test_durations_are_measured(alice: AgentHandle, measured: InMemoryMetricReader) -> None:
    alice.remember(TEXT)
    alice.recall("staging")
    data = measured.get_metrics_data()
    assert data is not None
    (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
    assert (metric.name, metric.unit) == ("gen_ai.client.operation.duration", "s")
    names = {dict(point.attributes or {})["gen_ai.operation.name"] for point in metric.data.data_points}
    assert {"upsert_memory", "search_memory"} <= names


@pytest.mark.process
def test_without_opentelemetry_in_the_program_nothing_is_imported() -> None:
    program = """
import sys, engram
with engram.open(":memory:", embedder="hashing") as brain:
    brain.agent("alice").remember("a note about nothing")
    brain.agent("alice").recall("note")
assert not [name for name in sys.modules if name.startswith("opentelemetry")], sorted(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
