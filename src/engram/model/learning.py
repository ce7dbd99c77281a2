"""What can be said about how well an agent learns, from its own data."""

from __future__ import annotations

from pydantic import Field

from engram.model.content import Frozen
from engram.model.memory import Moment, Share


class RecordedOutcome(Frozen):
    """One outcome that was told of a decision; a later one corrects it."""

    at: Moment
    quality: Share
    error: str = ""
    duration: float | None = None
    cost: float | None = None


class Trend(Frozen):
    """How the success rate changed: the first decisions as the baseline, against the newest."""

    baseline: Share
    recent: Share
    change: float = Field(description="Recent against baseline, as a share of the baseline.")
    interval: tuple[float, float] = Field(description="95% interval of the difference of the two rates.")
    decisions: int = Field(description="How many decisions each of the two rates is made of.")


class Ratio(Frozen):
    """Some of all."""

    some: int
    all: int
    share: Share | None = Field(default=None, description="None as long as there is nothing to share.")


class Calibration(Frozen):
    """How far predictions can be believed: what was predicted before each decision, against what became of it."""

    decisions: int
    brier: Share | None = None
    base_rate_brier: Share | None = Field(default=None, description="Of predicting the mean every time.")
    calibration_error: Share | None = None


class LearningStats(Frozen):
    """The five measures of success, from the agent's own data, and what they are made of."""

    agents: tuple[str, ...]
    decisions: int
    with_outcome: int
    success_rate: Share | None
    effectiveness: Trend | None = Field(description="None as long as there are too few decisions to compare.")
    utilization: Ratio = Field(description="Decisions that were informed by memory, of all decisions.")
    recognition: Ratio = Field(description="Failures that were recognised, of those that came back.")
    transfer: Ratio = Field(description="Decisions informed by what other agents learned, of the informed ones.")
    prevention: float | None = Field(description="Reduction of failures per opportunity after checks spoke up.")
    failure_patterns: int
    recurring_patterns: int
    success_patterns: int
    checks: int
    calibration: Calibration


class HarmfulMemory(Frozen):
    """A memory whose use goes with failure."""

    id: str
    text: str
    helped: int
    hindered: int
    harm: Share = Field(description="Probability that it hinders more often than it helps.")
