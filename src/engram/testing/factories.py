"""Deterministic memories, entries, vectors and sources for tests."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from pydantic import JsonValue, TypeAdapter

from engram.clock import Sources
from engram.model import Clean, Content, Memory, MemoryType, Origin, Provenance
from engram.ports import LONG_TERM, Entry, Placed, Vector
from engram.text.terms import normal_form

START = datetime(2026, 1, 1, tzinfo=UTC)
EMBEDDER = "fixed@1"

_content: TypeAdapter[Content] = TypeAdapter(Content)


class FixedSources(Sources):
    """A deterministic clock, ids and random numbers: two equal objects give the same values."""

    def __init__(self, start: datetime = START, step: timedelta = timedelta(0), seed: int = 0) -> None:
        super().__init__()
        self.random = random.Random(seed)  # noqa: S311 - it is meant to be predictable
        self.moment = start
        self.step = step
        self._drawn = 0

    def now(self) -> datetime:
        """Return the current time, and advance it by `step`."""
        moment = self.moment
        self.moment += self.step
        return moment

    def advance(self, step: timedelta) -> None:
        """Advance the clock or, with a negative step, set it back."""
        self.moment += step

    def entropy(self) -> int:
        """Return a number that grows by one with each call."""
        self._drawn += 1
        return self._drawn


class Maker:
    """Make memories and entries of one agent, each a second after the previous one."""

    def __init__(self, agent: str = "alice", sources: FixedSources | None = None) -> None:
        self.agent = agent
        self.sources = sources or FixedSources()

    def memory(
        self,
        text: str = "Staging runs PostgreSQL 15",
        *,
        kind: MemoryType = MemoryType.OBSERVATION,
        tags: Sequence[str] = (),
        at: datetime | None = None,
        session: str | None = None,
        speaker: str | None = None,
        role: str | None = None,
        context: str = "",
        content: Mapping[str, JsonValue] | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        importance: float = 0.5,
        valid_from: datetime | None = None,
        valid_until: datetime | None = None,
    ) -> Memory:
        """Make a memory with a new id."""
        self.sources.advance(timedelta(seconds=1))
        now = self.sources.now()
        happened = at or now
        typed = _content.validate_python({"kind": kind, **(content or {})})
        return Memory(
            id=self.sources.new_id(),
            agent=self.agent,
            kind=kind,
            text=Clean(text),
            content=typed,
            context=Clean(context),
            tags=tuple(Clean(tag) for tag in tags),
            metadata=metadata or {},
            provenance=Provenance(
                author=Clean(self.agent),
                session=None if session is None else Clean(session),
                role=None if role is None else Clean(role),
                speaker=None if speaker is None else Clean(speaker),
                origin=Origin.SELF,
            ),
            importance=importance,
            created_at=now,
            happened_at=happened,
            valid_from=valid_from or happened,
            valid_until=valid_until,
            success_rate=getattr(typed, "outcome_quality", None),
        )

    def event(self, text: str = "Staging runs PostgreSQL 15", *, key: str | None = None, **fields: Any) -> Entry:
        """Make an entry that is never merged; `fields` are those of `memory`."""
        return Entry(self.memory(text, **fields), key=None if key is None else Clean(key))

    def fact(self, text: str = "Staging runs PostgreSQL 15", *, key: str | None = None, **fields: Any) -> Entry:
        """Make an entry that is merged with another fact of the same text."""
        memory = self.memory(text, kind=MemoryType.KNOWLEDGE, **fields)
        return Entry(memory, key=None if key is None else Clean(key), merge_key=normal_form(text))


def unit(*values: float) -> Vector:
    """Make the vector of length 1 in a direction."""
    vector = np.array(values, dtype=np.float32)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def placed(*values: float, namespace: str = LONG_TERM, embedder: str = EMBEDDER, passage: int = 0) -> Placed:
    """Make a vector of length 1 in a direction, with its space."""
    return Placed(namespace, embedder, unit(*values), passage)


def passages(*directions: Sequence[float]) -> tuple[Placed, ...]:
    """Make the vectors of a text with several passages."""
    return tuple(placed(*values, passage=number) for number, values in enumerate(directions))
