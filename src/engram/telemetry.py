"""Spans and metrics for OpenTelemetry, by its conventions for memory; nothing at all unless the host program uses it.

Engram never imports OpenTelemetry by itself. Once the program around it has, every call becomes a span and a measured
duration, without content: queries and texts are told only if `capture` was switched on.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

from engram.model import ForgetReceipt, Hit, Memory, Receipt

P = ParamSpec("P")
R = TypeVar("R")

SYSTEM = "engram"
DURATION = "gen_ai.client.operation.duration"
BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
MOST_TEXT = 4000


class _Switches:
    """What may be told."""

    capture = False


def capture(on: bool) -> None:
    """Whether queries and texts go into spans. Off unless somebody switches it on."""
    _Switches.capture = on


def active() -> bool:
    """Whether the host program uses OpenTelemetry."""
    return "opentelemetry" in sys.modules


def traced(
    operation: str,
    *,
    ids: Callable[[Any], list[str]] | None = None,
    contents: Callable[[Any], list[dict[str, Any]]] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes a method a span with this operation's name; `ids` and `contents` say which records its result is about."""

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        @wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if "opentelemetry" not in sys.modules:  # the usual case costs no call
                return method(*args, **kwargs)
            with span(operation, method.__name__, getattr(args[0], "_store_id", "")) as note:
                result = method(*args, **kwargs)
                found = [] if ids is None else ids(result)
                note({"gen_ai.memory.record.count": len(found)} if ids is not None else {})
                if len(found) == 1:
                    note({"gen_ai.memory.record.id": found[0]})
                if _Switches.capture:
                    query = kwargs.get("query", args[1] if len(args) > 1 else None)
                    if isinstance(query, str):
                        note({"gen_ai.memory.query.text": query[:MOST_TEXT]})
                    if contents is not None:
                        note({"gen_ai.memory.records": json.dumps(contents(result), ensure_ascii=False)[:MOST_TEXT]})
                return result

        return call

    return decorate


@contextmanager
def span(operation: str, method: str, store: str = "") -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """One span, whose duration is measured; what is called with attributes adds them to it."""
    if not active():
        yield lambda _: None
        return
    from opentelemetry import trace  # noqa: PLC0415 - only once the host program has imported it

    begun = time.perf_counter()
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": SYSTEM,
        "engram.method": method,
    }
    if store:
        attributes["gen_ai.memory.store.id"] = store
    tracer = trace.get_tracer("engram")
    failed = ""
    with tracer.start_as_current_span(operation, attributes=attributes) as current:
        try:
            yield current.set_attributes
        except BaseException as error:
            failed = type(error).__name__
            current.set_attribute("error.type", failed)
            raise
        finally:
            labels = {"gen_ai.operation.name": operation, "gen_ai.provider.name": SYSTEM}
            _histogram().record(time.perf_counter() - begun, labels | ({"error.type": failed} if failed else {}))


def _histogram() -> Any:
    """The histogram of durations of whichever provider is in force now."""
    from opentelemetry import metrics  # noqa: PLC0415 - only once the host program has imported it

    return _histogram_of(metrics.get_meter_provider())


@lru_cache(maxsize=2)
def _histogram_of(provider: Any) -> Any:
    """The histogram of a provider, made once: as long as there is no real one, the API keeps all that are made."""
    return provider.get_meter("engram").create_histogram(
        DURATION,
        unit="s",
        description="Duration of operations on memory.",
        explicit_bucket_boundaries_advisory=BUCKETS,
    )


def stored_ids(receipts: Receipt | Sequence[Receipt]) -> list[str]:
    """Return the ids of memories that were stored or merged."""
    several = [receipts] if isinstance(receipts, Receipt) else receipts
    return [receipt.id for receipt in several if receipt.ok and receipt.id is not None]


def hit_ids(hits: Sequence[Hit]) -> list[str]:
    """Return the ids of recalled memories."""
    return [hit.id for hit in hits]


def hit_contents(hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """Return recalled texts, for users who enabled content capture."""
    return [{"id": hit.id, "content": hit.memory.text, "score": round(hit.score, 4)} for hit in hits]


def changed_ids(memory: Memory) -> list[str]:
    """Return the id of a changed memory."""
    return [memory.id]


def forgotten_ids(receipt: ForgetReceipt) -> list[str]:
    """Return the id of a deleted memory, if there was one."""
    return [receipt.id] if receipt.forgotten else []
