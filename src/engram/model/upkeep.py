"""Results of upkeep: consolidations, faded memories, and evaluations of retrieval over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from engram.model.content import Frozen, MemoryType
from engram.model.memory import Moment, Share

How = Literal["merge", "fact", "summary"]
"""Reason of a consolidation: equal statements, a repeated observation, or events about one topic."""

Period = Literal["day", "week", "month"]
"""Length of an evaluation period; weeks begin on Monday, all times are in UTC."""


class Consolidation(Frozen):
    """A memory made, or to be made, by consolidating other memories."""

    id: str | None = Field(description="The id of the new memory; missing in a dry run.")
    agent: str
    how: How
    text: str
    sources: tuple[str, ...]
    reason: str


class Strength(Frozen):
    """Strength of a memory: its importance times its retrievability."""

    value: Share = Field(description="Importance times retrievability.")
    retrievability: Share
    stability: float = Field(description="In days: after this time, retrievability falls to 90%.")
    reviews: int = Field(description="Number of times it was stored, recalled or credited, as far as these count.")
    touched: Moment = Field(description="Time of the last of these.")


class FadedMemory(Frozen):
    """A memory that is deleted, or would be, with the reason."""

    id: str
    agent: str
    kind: MemoryType
    text: str
    strength: Strength
    reason: str


class ForgettingReport(Frozen):
    """Result of deleting faded memories: the deleted ones, and counts of the kept ones by reason."""

    gone: tuple[FadedMemory, ...] = ()
    kept: Mapping[str, int] = Field(default_factory=dict, description="Number of memories kept, by reason.")
    archive: str | None = Field(default=None, description="The compressed file with the deleted memories.")


class Measure(Frozen):
    """A share of a total, with its 95% interval."""

    some: int = Field(description="So many.")
    all: int = Field(description="Out of so many.")
    share: Share | None = Field(default=None, description="Missing if the total is zero.")
    interval: tuple[Share, Share] | None = Field(default=None, description="The interval that holds 95% of the belief.")


class Measures(Frozen):
    """The measures of how useful memory is to an agent."""

    retrieval_success: Measure = Field(
        description="Share of the recalls with a known outcome in which something helped."
    )
    hit_ratio: Measure = Field(description="Share of the returned memories that helped.")
    informed: Measure = Field(description="Share of all decisions that were informed by memory.")
    success: Measure = Field(description="Share of the decisions with a known outcome that succeeded.")


class EvaluationRow(Measures):
    """The measures of one period."""

    start: Moment = Field(description="Where the period begins.")
    end: Moment = Field(description="Where the period ends.")


class Drift(Frozen):
    """Comparison of a measure before and since the moment of its greatest change.

    For a temporary change, `last` is the differing stretch, up to `until`, and `first` all other periods.
    """

    measure: str = Field(description="The name of the measure.")
    first: Measure = Field(description="The measure in the first period that has it.")
    last: Measure = Field(description="The measure in the last period.")
    change: float = Field(description="Last share minus first.")
    p_value: Share = Field(description="Of Fisher's exact test, two-sided, times the number of moments examined.")
    drifted: bool = Field(description="Whether the change is beyond chance, over all measures.")
    interval: tuple[float, float] | None = Field(
        default=None,
        description="Interval of the change, on its scale; all moments together are missed in 5% of records.",
    )
    since: Moment | None = Field(default=None, description="Start of the first differing period.")
    until: Moment | None = Field(
        default=None, description="End of the last differing period, if the change was temporary."
    )


class EvaluationReport(Frozen):
    """The measures for some agents, in total and by period, with their drift."""

    agents: tuple[str, ...] = Field(description="The agents that were measured together.")
    period: Period = Field(description="What each row is about: a day, a week or a month.")
    total: Measures = Field(description="The measures over all periods.")
    rows: tuple[EvaluationRow, ...] = Field(description="One for each period, the oldest first.")
    drift: tuple[Drift, ...] = Field(description="For every measure that at least two periods have.")
    drifted: bool = Field(description="Whether any measure has drifted.")
