"""What tending a memory finds and does: consolidations, fading memories, and how well retrieval works over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from engram.model.content import Frozen, MemoryType
from engram.model.memory import Moment, Share

How = Literal["merge", "fact", "summary"]
"""Statements that say the same, an observation made again and again, or things that happened about one topic."""

Period = Literal["day", "week", "month"]
"""What a row of an evaluation is about; weeks begin on Monday, and all in UTC."""


class Consolidation(Frozen):
    """What one consolidation made, or would make, and from which memories."""

    id: str | None = Field(description="The memory that was made; none before it is.")
    agent: str
    how: How
    text: str
    sources: tuple[str, ...]
    reason: str


class Strength(Frozen):
    """How well a memory is remembered: what it is worth, times the chance that it still comes to mind."""

    value: Share = Field(description="Importance times retrievability.")
    retrievability: Share
    stability: float = Field(description="In days: after so long, retrievability falls to 90%.")
    reviews: int = Field(description="How often it was stored, recalled or credited, as far as it counts.")
    touched: Moment = Field(description="When that last happened.")


class Fading(Frozen):
    """A memory that goes, or would go, and why."""

    id: str
    agent: str
    kind: MemoryType
    text: str
    strength: Strength
    reason: str


class Forgetting(Frozen):
    """What went, or would go, and why the others stay."""

    gone: tuple[Fading, ...] = ()
    kept: Mapping[str, int] = Field(default_factory=dict, description="How many stay, by reason.")
    archive: str | None = Field(default=None, description="Where what went is kept, compressed.")


class Measure(Frozen):
    """Some of all, and the interval in which the true share lies with 95%."""

    some: int
    all: int
    share: Share | None = Field(default=None, description="None as long as there is nothing to share.")
    interval: tuple[Share, Share] | None = None


class Measures(Frozen):
    """How well memory serves an agent."""

    retrieval_success: Measure = Field(description="Recalls in which something helped, of those whose outcome is told.")
    hit_ratio: Measure = Field(description="Memories that helped, of those that were looked at.")
    informed: Measure = Field(description="Decisions that were informed by memory, of all decisions.")
    success: Measure = Field(description="Decisions that went well, of those whose outcome is known.")


class EvaluationRow(Measures):
    """The same within one period."""

    start: Moment
    end: Moment


class Drift(Frozen):
    """Whether a measure changed: the periods before and since the moment at which it differs most.

    A change that passed is looked for, too: then `last` is the stretch that differs, up to `until`, and `first` all
    other periods.
    """

    measure: str
    first: Measure
    last: Measure
    change: float = Field(description="Last share minus first.")
    p_value: Share = Field(description="Of Fisher's exact test, two-sided, times the number of moments looked at.")
    drifted: bool = Field(description="Whether that is more than chance explains, all measures considered.")
    interval: tuple[float, float] | None = Field(
        default=None,
        description="Interval of the change, on its scale; all moments together are missed in 5% of records.",
    )
    since: Moment | None = Field(default=None, description="When the first of the periods began that differ.")
    until: Moment | None = Field(default=None, description="When the last of them ended, if the change passed.")


class EvaluationReport(Frozen):
    """How well memory serves some agents, in all and period by period, and whether that changes."""

    agents: tuple[str, ...]
    period: Period
    total: Measures
    rows: tuple[EvaluationRow, ...]
    drift: tuple[Drift, ...] = Field(description="Of every measure that at least two periods have.")
    drifted: bool
