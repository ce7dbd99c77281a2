"""Decisions, their outcomes, predictions and suggestions."""

from __future__ import annotations

from pydantic import Field

from engram.errors import InvalidInput
from engram.model.content import Frozen
from engram.model.memory import Moment, Share

QUALITIES = {"success": 1.0, "partial": 0.5, "failure": 0.0}


def quality(outcome: str | float) -> float:
    """Convert an outcome to a number in [0, 1]: success is 1, partial 0.5, failure 0, a number is itself."""
    if isinstance(outcome, bool) or not isinstance(outcome, str | int | float):
        outcome = -1.0
    if isinstance(outcome, str):
        if outcome in QUALITIES:
            return QUALITIES[outcome]
        try:
            outcome = float(outcome)
        except ValueError:
            outcome = -1.0
    if not 0 <= outcome <= 1:
        raise InvalidInput("outcome must be success, failure, partial, or a number from 0 to 1")
    return float(outcome)


class ActionRecord(Frozen):
    """Estimated success of one action, with the episodes behind it."""

    action: str
    success_rate: Share
    interval: tuple[Share, Share]
    attempts: int
    last_used: Moment | None = None
    episodes_for: tuple[str, ...] = ()
    episodes_against: tuple[str, ...] = ()
    similar: int = Field(default=0, description="Number of episodes of similar contexts that also count.")
    near: tuple[str, ...] = Field(default=(), description="The ids of these episodes, the most similar first.")
    weight: float = Field(default=0.0, ge=0, description="Total weight of the evidence, in episodes of this context.")


class Prediction(Frozen):
    """Probability that an action succeeds in a context, from the same evidence as a suggestion."""

    context: str
    action: str
    probability: Share
    interval: tuple[Share, Share]
    attempts: int
    similar: int = Field(default=0, description="Number of episodes of similar contexts that also count.")
    weight: float = Field(default=0.0, ge=0, description="Total weight of the evidence, in episodes of this context.")
    evidence: tuple[str, ...] = Field(default=(), description="The ids of all episodes that were counted.")


class Suggestion(Frozen):
    """Advice for a context: a recommendation, or an abstention with its reason, never both."""

    context: str
    recommended: str | None
    abstained: bool
    reason: str
    actions: tuple[ActionRecord, ...] = ()
    confidence: Share | None = Field(
        default=None, description="Probability that the recommended action is the best one."
    )
    evidence: tuple[str, ...] = Field(default=(), description="The ids of all episodes that were counted.")
    id: str | None = Field(default=None, description="Pass this to `outcome` to report how following it went.")
    situation: str = Field(
        default="", description="Name of the situation that the context belongs to; empty if unknown."
    )
