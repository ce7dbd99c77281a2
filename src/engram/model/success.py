"""Success patterns, decision templates, and success rates pooled over agents."""

from __future__ import annotations

from collections.abc import Set
from typing import Annotated

from pydantic import Field

from engram.errors import InvalidInput
from engram.model.content import Frozen
from engram.model.decision import ActionRecord
from engram.model.memory import Moment, Share
from engram.model.source import OwnRecord, PatternSource

Difference = Annotated[float, Field(ge=-1, le=1)]
"""The difference of two success rates."""


class KeyFactor(Frozen):
    """A feature that correlates with success (or, with a negative effect, with failure) beyond chance."""

    feature: str = Field(description="What a situation has or has not.")
    effect: Difference = Field(description="Success rate with the feature, less the rate without it.")
    interval: tuple[Difference, Difference] = Field(description="95% interval of the effect.")
    log_odds: float = Field(description="Logarithm of the odds ratio of success, with against without.")
    support: int = Field(description="Episodes that have the feature.")
    without: int = Field(description="Episodes that do not have it.")
    p_value: Share = Field(description="Probability of such a difference by chance alone.")
    corrected_p: Share | None = Field(
        default=None, description="The same, corrected for all features examined (Benjamini and Hochberg)."
    )
    good_with: float = Field(default=0.0, ge=0, description="Successes with the feature; partial ones count partly.")
    good_without: float = Field(default=0.0, ge=0, description="Successes without it.")


class ReplicationStep(Frozen):
    """A step that most successful runs have, and its frequency in failed runs."""

    action: str
    support: Share = Field(description="Share of the successful runs that have it.")
    in_failed: Share | None = Field(default=None, description="Share of the failed runs that have it, if any failed.")
    missing_in_failed: bool = Field(default=False, description="Whether most failed runs lack it.")


class Contrast(Frozen):
    """Comparison of a success pattern with its own failures and with other approaches in the same contexts."""

    failures: tuple[str, ...] = Field(default=(), description="Episodes in which the same approach failed.")
    risk_factors: tuple[KeyFactor, ...] = Field(default=(), description="Features that correlate with those failures.")
    missing_steps: tuple[str, ...] = Field(default=(), description="Steps that most failed runs lack.")
    other_attempts: int = Field(default=0, description="Episodes of other approaches in the same contexts.")
    other_rate: Share | None = Field(default=None, description="Their success rate, all together.")
    advantage: Share | None = Field(default=None, description="Probability that the pattern's rate is above theirs.")


class SuccessPattern(Frozen):
    """An approach that worked repeatedly in similar contexts, its key factors, and the steps to repeat it."""

    pattern_id: str = Field(description="Depends only on the context and the approach, not on the evidence.")
    name: str = Field(description="Its name.")
    context_signature: str = Field(description="The situations it is about, in words.")
    successful_approach: str = Field(description="What worked.")
    key_factors: tuple[KeyFactor, ...] = Field(
        default=(), description="What goes with success more than chance explains."
    )
    replication_steps: tuple[str, ...] = Field(
        default=(), description="Steps that several successful sessions share; only the approach if there are none."
    )
    success_rate: Share = Field(description="How often it goes well, from 0 to 1; none if that is not known.")
    interval: tuple[Share, Share] = Field(description="The interval that holds 95% of the belief.")
    attempts: int = Field(description="How often it was tried.")
    contrast: Contrast = Field(
        default=Contrast(), description="What it is held against: its own failures, and what else was tried."
    )
    last_seen: Moment = Field(description="When it was last seen.")
    episodes: tuple[str, ...] = Field(default=(), description="Episodes in which it worked, oldest first.")
    agents: tuple[str, ...] = Field(default=(), description="The agents whose evidence it is made of.")
    title: str = Field(default="", description="The situation it applies to, by its name.")
    step_runs: int = Field(
        default=0, description="Number of successful sessions the steps come from; 0 if no two of them agree."
    )
    source: PatternSource | None = Field(
        default=None, description="The agent or import it comes from; missing if it is the agent's own."
    )
    own: OwnRecord | None = Field(
        default=None, description="This agent's own results with it, if it is another agent's."
    )


class Condition(Frozen):
    """One condition in a decision tree."""

    feature: str = Field(description="What a situation has or has not.")
    present: bool = Field(default=True, description="Whether a situation must have the feature, or must not.")

    def holds(self, features: Set[str]) -> bool:
        """Return true if a situation with these features meets the condition."""
        return (self.feature in features) == self.present


class DecisionBranch(Frozen):
    """One leaf of a decision tree: the best action where all conditions hold."""

    conditions: tuple[Condition, ...] = Field(default=(), description="What has to hold for this branch; all of it.")
    action: str = Field(description="What was done, or is to be done.")
    success_rate: Share = Field(description="How often it goes well, from 0 to 1; none if that is not known.")
    interval: tuple[Share, Share] = Field(description="The interval that holds 95% of the belief.")
    attempts: int = Field(description="How often it was tried.")
    confidence: Share = Field(
        description="Probability that it is the best action here; if it is the only one, that it works."
    )
    abstained: bool = Field(description="Whether the evidence is not enough to recommend anything.")
    reason: str = Field(description="Why.")
    actions: tuple[ActionRecord, ...] = Field(
        default=(), description="All actions tried here: this one first, then the others, best first."
    )

    @property
    def recommended(self) -> str | None:
        """The recommended action, or `None` when the evidence is below the template's threshold."""
        return None if self.abstained else self.action


class DecisionOutcome(Frozen):
    """One past decision that a template is based on."""

    episode: str = Field(description="The id of the memory of it.")
    action: str = Field(description="What was done, or is to be done.")
    quality: Share = Field(description="How well it went, from 0 to 1.")
    at: Moment = Field(description="When it happened.")
    agent: str = Field(default="", description="Whose it is.")


class DecisionTemplate(Frozen):
    """A small decision tree for one kind of situation: its branches are disjoint and cover every case."""

    pattern_id: str = Field(description="The id of the pattern.")
    context_signature: str = Field(description="The situations it is about, in words.")
    decision_tree: tuple[DecisionBranch, ...] = Field(
        min_length=1, description="The branches, which exclude each other and leave no case out."
    )
    confidence_threshold: Share = Field(
        description="How sure a branch must be to recommend: the higher, the less following it may cost."
    )
    success_history: tuple[DecisionOutcome, ...] = Field(default=(), description="The newest decisions, newest first.")
    attempts: int = Field(description="How often it was tried.")
    title: str = Field(default="", description="The situation it is for, by its name.")
    source: PatternSource | None = Field(
        default=None, description="The agent or import it comes from; missing if it is the agent's own."
    )
    own: OwnRecord | None = Field(
        default=None, description="This agent's own results with it, if it is another agent's."
    )

    def decide(self, features: Set[str]) -> DecisionBranch:
        """Return the branch for a situation with these features; it abstains below the threshold."""
        for branch in self.decision_tree:
            if all(condition.holds(features) for condition in branch.conditions):
                return branch
        raise InvalidInput("no branch of this template covers the situation; rebuild it from its episodes")


class Contribution(Frozen):
    """One agent's share in a pooled rate."""

    agent: str
    attempts: int
    weight: float = Field(ge=0, description="Total weight of its episodes.")


class PooledRate(Frozen):
    """Success rate of an action in one group of contexts, over all agents."""

    context_signature: str
    action: str
    success_rate: Share
    interval: tuple[Share, Share]
    attempts: int
    contributions: tuple[Contribution, ...] = ()


class Synthesis(Frozen):
    """Combined patterns, templates and rates of one or several agents."""

    patterns: tuple[SuccessPattern, ...] = ()
    templates: tuple[DecisionTemplate, ...] = ()
    rates: tuple[PooledRate, ...] = ()
    weights: dict[str, Share] = Field(default_factory=dict, description="Weight of an episode of each agent.")
