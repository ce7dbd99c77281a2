"""Decisions, their outcomes, predictions and suggestions."""

from __future__ import annotations

from pydantic import Field

from engram.model.content import Frozen
from engram.model.memory import Moment, Share


class ActionRecord(Frozen):
    """Estimated success of one action, with the episodes behind it."""

    action: str = Field(description="What was done, or is to be done.")
    success_rate: Share = Field(description="How often it goes well, from 0 to 1; none if that is not known.")
    interval: tuple[Share, Share] = Field(description="The interval that holds 95% of the belief.")
    attempts: int = Field(description="How often it was tried.")
    last_used: Moment | None = Field(default=None, description="When it was last done.")
    episodes_for: tuple[str, ...] = Field(default=(), description="The ids of the decisions that went well.")
    episodes_against: tuple[str, ...] = Field(default=(), description="The ids of the decisions that went badly.")
    similar: int = Field(default=0, description="Number of episodes of similar contexts that also count.")
    near: tuple[str, ...] = Field(default=(), description="The ids of these episodes, the most similar first.")
    weight: float = Field(default=0.0, ge=0, description="Total weight of the evidence, in episodes of this context.")


class Prediction(Frozen):
    """Probability that an action succeeds in a context, from the same evidence as a suggestion."""

    context: str = Field(description="The situation.")
    action: str = Field(description="What was done, or is to be done.")
    probability: Share = Field(description="How likely it is to succeed.")
    interval: tuple[Share, Share] = Field(description="The interval that holds 95% of the belief.")
    attempts: int = Field(description="How often it was tried.")
    similar: int = Field(default=0, description="Number of episodes of similar contexts that also count.")
    weight: float = Field(default=0.0, ge=0, description="Total weight of the evidence, in episodes of this context.")
    evidence: tuple[str, ...] = Field(default=(), description="The ids of all episodes that were counted.")


class Suggestion(Frozen):
    """Advice for a context: a recommendation, or an abstention with its reason, never both."""

    context: str = Field(description="The situation.")
    recommended: str | None = Field(description="The action to take; none if it abstains.")
    abstained: bool = Field(description="Whether the evidence is not enough to recommend anything.")
    reason: str = Field(description="Why this is recommended, or nothing is.")
    actions: tuple[ActionRecord, ...] = Field(
        default=(), description="What the evidence says about each action, the best first."
    )
    confidence: Share | None = Field(
        default=None, description="Probability that the recommended action is the best one."
    )
    evidence: tuple[str, ...] = Field(default=(), description="The ids of all episodes that were counted.")
    id: str | None = Field(default=None, description="Pass this to `outcome` to report how following it went.")
    situation: str = Field(
        default="", description="Name of the situation that the context belongs to; empty if unknown."
    )
