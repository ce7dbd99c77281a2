"""Statistics about how well an agent learns, from its own data."""

from __future__ import annotations

from pydantic import Field

from engram.model.content import Frozen
from engram.model.memory import Moment, Share


class RecordedOutcome(Frozen):
    """One recorded outcome of a decision; a later one corrects it."""

    at: Moment = Field(description="When it happened.")
    quality: Share = Field(description="How well it went, from 0 to 1.")
    error: str = Field(default="", description="What went wrong; empty or none if nothing did.")
    duration: float | None = Field(default=None, description="How long it took, in seconds.")
    cost: float | None = Field(default=None, description="What it cost, in any one unit.")


class Trend(Frozen):
    """Change of the success rate: a baseline of older decisions against newer ones.

    Where a change-point scan, corrected for the number of moments, finds a lasting change, the two sides are the
    decisions before and since that moment. Where it finds a temporary one, they are those before and after it, and the
    decisions within it count on neither side. Otherwise they are the older and the newer half.
    """

    baseline: Share = Field(description="The success rate of the first decisions.")
    recent: Share = Field(description="The success rate of the newest decisions.")
    change: float | None = Field(description="Change relative to the baseline; missing where the baseline is zero.")
    interval: tuple[float, float] = Field(
        description="95% interval of the difference; wider where the moment of change was searched for."
    )
    decisions: int = Field(description="Number of decisions on the smaller side.")
    difference: float = Field(default=0.0, ge=-1, le=1, description="Recent less baseline: 0.1 is 10 points more.")
    baseline_decisions: int = Field(default=0, description="Number of decisions in the baseline.")
    recent_decisions: int = Field(default=0, description="Number of recent decisions.")
    changed_at: Moment | None = Field(
        default=None, description="The first decision after the change, if one was found."
    )
    p_value: Share | None = Field(
        default=None,
        description="Probability of as clear a change anywhere in a steady record; missing if none was searched for.",
    )


class Ratio(Frozen):
    """A part of a total, as a share with its interval."""

    some: int = Field(description="So many.")
    all: int = Field(description="Out of so many.")
    share: Share | None = Field(default=None, description="Missing if the total is zero.")
    interval: tuple[Share, Share] | None = Field(default=None, description="95% interval of the share.")


class Calibration(Frozen):
    """Quality of predictions: those made before each decision, compared with its outcome."""

    decisions: int = Field(description="How many decisions there are.")
    brier: Share | None = Field(
        default=None, description="Mean squared error of the predictions; none as long as there are none."
    )
    base_rate_brier: Share | None = Field(default=None, description="Brier score of always predicting the mean.")
    calibration_error: Share | None = Field(
        default=None, description="How far predicted and observed rates are apart, on average."
    )


class Spared(Frozen):
    """Estimated failures avoided by using other agents' knowledge, compared with the agent's own record without it."""

    used: int = Field(description="Decisions with an outcome that used what other agents had learned.")
    compared: int = Field(description="Those among them that have own decisions to compare with.")
    failures: float | None = Field(
        default=None, description="Estimated failures avoided in the compared decisions; negative if there were more."
    )
    interval: tuple[float, float] | None = Field(default=None, description="95% interval of that number.")
    rate_with: Share | None = Field(default=None, description="Failure rate of the compared decisions.")
    rate_without: Share | None = Field(default=None, description="Failure rate of those they are compared with.")


class LearningStats(Frozen):
    """The five measures of learning success, computed from the agent's own data, and their inputs."""

    agents: tuple[str, ...] = Field(description="The agents whose evidence it is made of.")
    decisions: int = Field(description="How many decisions there are.")
    with_outcome: int = Field(description="How many of them have an outcome.")
    success_rate: Share | None = Field(description="How often it goes well, from 0 to 1; none if that is not known.")
    effectiveness: Trend | None = Field(description="Missing while there are too few decisions to compare.")
    utilization: Ratio = Field(
        description="Share of all decisions that cite a recall, suggestion, verdict, pattern or memory which existed "
        "at the time, had been returned to this agent and was not empty."
    )
    recognition: Ratio = Field(
        description="Share of the recurring failures that were assigned to the pattern of their earlier occurrence. "
        "Recurring means: the same text apart from case, spaces and numbers, or the same root cause as "
        "given by the user."
    )
    transfer: Ratio = Field(description="Share of the informed decisions that used what other agents learned.")
    prevention: float | None = Field(
        description="Reduction of failures where checks were heeded, relative to the rate where they were silent or "
        "ignored: 1 means no failures left, 0 no change."
    )
    failure_patterns: int = Field(description="How many failures are known.")
    recurring_patterns: int = Field(description="How many of them came back.")
    success_patterns: int = Field(description="How many approaches are known to work.")
    checks: int = Field(description="How many prevention checks there are.")
    calibration: Calibration = Field(description="How far predictions can be believed.")
    success_interval: tuple[Share, Share] | None = Field(default=None, description="95% interval of the success rate.")
    prevention_interval: tuple[float, float] | None = Field(
        default=None, description="95% interval of that reduction, on its scale."
    )
    spared: Spared | None = Field(
        default=None, description="Failures avoided by using others' knowledge; missing if none was used."
    )


class HarmfulMemory(Frozen):
    """A memory whose use correlates with failure."""

    id: str
    text: str
    helped: int
    hindered: int
    harm: Share = Field(description="Probability that it hinders more often than it helps.")
