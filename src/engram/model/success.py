"""What repeated good outcomes teach: success patterns, decision templates, and rates pooled over agents."""

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
"""How much one success rate is above another."""


class KeyFactor(Frozen):
    """A feature that goes with success (or, with a negative effect, with failure) more than chance explains."""

    feature: str
    effect: Difference = Field(description="Success rate with the feature, less the rate without it.")
    interval: tuple[Difference, Difference] = Field(description="95% interval of the effect.")
    log_odds: float = Field(description="Logarithm of the odds ratio of success, with against without.")
    support: int = Field(description="Episodes that have the feature.")
    without: int = Field(description="Episodes that do not have it.")
    p_value: Share = Field(description="How often chance alone would show as much.")
    corrected_p: Share | None = Field(
        default=None, description="The same, corrected for all features that were looked at (Benjamini and Hochberg)."
    )
    good_with: float = Field(default=0.0, ge=0, description="Successes with the feature; partial ones count partly.")
    good_without: float = Field(default=0.0, ge=0, description="Successes without it.")


class ReplicationStep(Frozen):
    """One step most good runs have, and how common it was in the runs that failed."""

    action: str
    support: Share = Field(description="Share of the good runs that have it.")
    in_failed: Share | None = Field(default=None, description="Share of the failed runs that have it, if any failed.")
    missing_in_failed: bool = Field(default=False, description="Whether most failed runs went without it.")


class Contrast(Frozen):
    """What a success pattern is held against: its own failures, and everything else that was tried there."""

    failures: tuple[str, ...] = Field(default=(), description="Episodes in which the same approach failed.")
    risk_factors: tuple[KeyFactor, ...] = Field(default=(), description="What went with those failures.")
    missing_steps: tuple[str, ...] = Field(default=(), description="Steps that most failed runs went without.")
    other_attempts: int = Field(default=0, description="Episodes of other approaches in the same contexts.")
    other_rate: Share | None = Field(default=None, description="Their success rate, all together.")
    advantage: Share | None = Field(default=None, description="Probability that the pattern's rate is above theirs.")


class SuccessPattern(Frozen):
    """An approach that worked again and again in similar contexts, why, and how to do it again."""

    pattern_id: str = Field(description="The same for the same context and approach, however much evidence there is.")
    name: str
    context_signature: str
    successful_approach: str
    key_factors: tuple[KeyFactor, ...] = ()
    replication_steps: tuple[str, ...] = Field(
        default=(), description="Steps that several good sessions agree on; the approach alone where none do."
    )
    success_rate: Share
    interval: tuple[Share, Share]
    attempts: int
    contrast: Contrast = Contrast()
    last_seen: Moment
    episodes: tuple[str, ...] = Field(default=(), description="Episodes in which it worked, oldest first.")
    agents: tuple[str, ...] = ()
    title: str = Field(default="", description="The situation it holds in, as people call it.")
    step_runs: int = Field(default=0, description="Good sessions the steps come from; 0 if no two of them agree.")
    source: PatternSource | None = Field(default=None, description="Whose it is; none if it is the agent's own.")
    own: OwnRecord | None = Field(default=None, description="How it did for this agent, if it is somebody else's.")


class Condition(Frozen):
    """One question on the way through a decision tree."""

    feature: str
    present: bool = True

    def holds(self, features: Set[str]) -> bool:
        """Whether a situation with these features answers it so."""
        return (self.feature in features) == self.present


class DecisionBranch(Frozen):
    """One leaf of a decision tree: when all conditions hold, this action did best."""

    conditions: tuple[Condition, ...] = ()
    action: str
    success_rate: Share
    interval: tuple[Share, Share]
    attempts: int
    confidence: Share = Field(description="Probability that it is the best action here; of working, if it is the only.")
    abstained: bool
    reason: str
    actions: tuple[ActionRecord, ...] = Field(
        default=(), description="What was tried here, this action first, then the best."
    )

    @property
    def recommended(self) -> str | None:
        """The action to take, or `None` when the evidence does not reach the template's threshold."""
        return None if self.abstained else self.action


class DecisionOutcome(Frozen):
    """One past decision a template rests on."""

    episode: str
    action: str
    quality: Share
    at: Moment
    agent: str = ""


class DecisionTemplate(Frozen):
    """A small decision tree for one kind of situation: its branches exclude each other and leave no case out."""

    pattern_id: str
    context_signature: str
    decision_tree: tuple[DecisionBranch, ...] = Field(min_length=1)
    confidence_threshold: Share
    success_history: tuple[DecisionOutcome, ...] = Field(default=(), description="The newest decisions, newest first.")
    attempts: int
    title: str = Field(default="", description="The situation it is for, as people call it.")
    source: PatternSource | None = Field(default=None, description="Whose it is; none if it is the agent's own.")
    own: OwnRecord | None = Field(default=None, description="How it did for this agent, if it is somebody else's.")

    def decide(self, features: Set[str]) -> DecisionBranch:
        """The branch a situation with these features falls into; it abstains below the threshold."""
        for branch in self.decision_tree:
            if all(condition.holds(features) for condition in branch.conditions):
                return branch
        raise InvalidInput("no branch of this template covers the situation; rebuild it from its episodes")


class Contribution(Frozen):
    """What one agent brought to a pooled rate, and how much it counted."""

    agent: str
    attempts: int
    weight: float = Field(ge=0, description="What its episodes counted together.")


class PooledRate(Frozen):
    """How often an action succeeded in one group of contexts, over all agents."""

    context_signature: str
    action: str
    success_rate: Share
    interval: tuple[Share, Share]
    attempts: int
    contributions: tuple[Contribution, ...] = ()


class Synthesis(Frozen):
    """What the evidence of one or several agents says together."""

    patterns: tuple[SuccessPattern, ...] = ()
    templates: tuple[DecisionTemplate, ...] = ()
    rates: tuple[PooledRate, ...] = ()
    weights: dict[str, Share] = Field(default_factory=dict, description="What an episode of each agent counts.")
