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
    """How the success rate changed: the older decisions as the baseline, against the newer ones.

    Where the record shows a change that lasts (a scan over all moments, corrected for the scan), the two are the
    decisions before and since that moment. Where it shows a stretch that went otherwise and has passed, they are those
    before and since the stretch, whose own decisions are in neither; otherwise they are the older and the newer half.
    """

    baseline: Share
    recent: Share
    change: float | None = Field(
        description="Recent against baseline, as a share of the baseline; none where the baseline is zero."
    )
    interval: tuple[float, float] = Field(
        description="95% interval of the difference, on its scale; wider where the moment was searched for."
    )
    decisions: int = Field(description="How many decisions the smaller of the two sides has.")
    difference: float = Field(default=0.0, ge=-1, le=1, description="Recent less baseline: 0.1 is 10 points more.")
    baseline_decisions: int = Field(default=0, description="How many decisions the baseline is made of.")
    recent_decisions: int = Field(default=0, description="How many decisions the recent rate is made of.")
    changed_at: Moment | None = Field(
        default=None, description="The first decision after the change, if one was found."
    )
    p_value: Share | None = Field(
        default=None,
        description="Chance of as clear a change anywhere in a steady record; none if it was not looked for.",
    )


class Ratio(Frozen):
    """Some of all."""

    some: int
    all: int
    share: Share | None = Field(default=None, description="None as long as there is nothing to share.")
    interval: tuple[Share, Share] | None = Field(default=None, description="95% interval of the share.")


class Calibration(Frozen):
    """How far predictions can be believed: what was predicted before each decision, against what became of it."""

    decisions: int
    brier: Share | None = None
    base_rate_brier: Share | None = Field(default=None, description="Of predicting the mean every time.")
    calibration_error: Share | None = None


class Spared(Frozen):
    """Failures that an agent was spared by using what others had learned, against its own record without it."""

    used: int = Field(description="Decisions with an outcome that used what other agents had learned.")
    compared: int = Field(description="Those of them for which its own record has decisions to compare with.")
    failures: float | None = Field(
        default=None, description="Estimated failures spared in the compared decisions; negative if there were more."
    )
    interval: tuple[float, float] | None = Field(default=None, description="95% interval of that number.")
    rate_with: Share | None = Field(default=None, description="Failure rate of the compared decisions.")
    rate_without: Share | None = Field(default=None, description="Failure rate of those they are compared with.")


class LearningStats(Frozen):
    """The five measures of success, from the agent's own data, and what they are made of."""

    agents: tuple[str, ...]
    decisions: int
    with_outcome: int
    success_rate: Share | None
    effectiveness: Trend | None = Field(description="None as long as there are too few decisions to compare.")
    utilization: Ratio = Field(
        description="Decisions that cite a recall, suggestion, verdict, pattern or memory that existed at their time, "
        "had been shown to this agent and said something, of all decisions."
    )
    recognition: Ratio = Field(
        description="Failures put under the pattern of their earlier occurrence, of those that came back: the same "
        "text but for case, spaces and numbers, or the same root cause as the user gave it."
    )
    transfer: Ratio = Field(description="Decisions informed by what other agents learned, of the informed ones.")
    prevention: float | None = Field(
        description="Reduction of failures where checks were heeded, against the rates where they were silent or "
        "ignored: 1 is none left, 0 no change."
    )
    failure_patterns: int
    recurring_patterns: int
    success_patterns: int
    checks: int
    calibration: Calibration
    success_interval: tuple[Share, Share] | None = Field(default=None, description="95% interval of the success rate.")
    prevention_interval: tuple[float, float] | None = Field(
        default=None, description="95% interval of that reduction, on its scale."
    )
    spared: Spared | None = Field(
        default=None, description="Duplicate learning that was spared; None if nothing of others was used."
    )


class HarmfulMemory(Frozen):
    """A memory whose use goes with failure."""

    id: str
    text: str
    helped: int
    hindered: int
    harm: Share = Field(description="Probability that it hinders more often than it helps.")
