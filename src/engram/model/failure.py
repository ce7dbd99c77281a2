"""Failures that come back, what solved them, the checks that prevent them, and what a check says about an action."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engram.model.content import Frozen
from engram.model.memory import Moment, Share
from engram.model.source import OwnRecord, PatternSource

CheckStatus = Literal["active", "loosened", "retired"]
"""Active checks warn and block; a loosened one, which cried wolf, only warns; a retired one is silent."""

Decision = Literal["allow", "warn", "block"]


class Solution(Frozen):
    """One way to solve a failure, and how often it did; a solution that did not help is known as such."""

    text: str
    tried: int = Field(ge=0, description="How often it was applied.")
    helped: float = Field(ge=0, description="How often it helped; a partial help counts partly.")
    success_rate: Share
    interval: tuple[Share, Share]
    last_used: Moment | None = None
    agents: tuple[str, ...] = ()
    episodes: tuple[str, ...] = Field(default=(), description="The memories that tell of it, newest first, limited.")
    noted: int = Field(
        default=0, ge=0, description="How many of the tries were only noted with a failure, as if they had helped."
    )


class FailureRate(Frozen):
    """Failures per opportunity: the posterior mean and the interval that holds 95% of the belief."""

    opportunities: int
    failures: float
    rate: Share
    interval: tuple[Share, Share]


class Effect(Frozen):
    """The failures per opportunity with and without a check: while it was silent, when it was heeded, when ignored.

    `difference` is the rate without it (silent or ignored) less the rate when it was heeded: above zero it helps.
    """

    before: FailureRate
    after: FailureRate
    difference: float
    interval: tuple[float, float]
    helps: Share = Field(description="Probability that failures are rarer when the check is heeded.")
    went_ahead: int = Field(default=0, description="How often the action was taken all the same.")
    false_alarms: int = Field(default=0, description="How often it then succeeded.")
    heeded: FailureRate | None = Field(
        default=None, description="When it had spoken up, and the action was changed or its condition verified."
    )
    ignored: FailureRate | None = Field(default=None, description="When the action was taken in spite of it.")
    right: Share | None = Field(
        default=None, description="Probability that the action mostly fails in spite of it, so that it is right."
    )


class PreventionCheck(Frozen):
    """What to verify before an action that is known to fail, and whether verifying it helped so far."""

    id: str
    name: str
    pattern_id: str
    verify: str
    rule: str = Field(description="The actions and contexts it speaks up for, in words.")
    stage: str = "development"
    command: tuple[str, ...] | None = Field(
        default=None, description="A program and its arguments that exits with 0 if the condition holds."
    )
    status: CheckStatus = "active"
    created_at: Moment
    fired: int = 0
    last_fired: Moment | None = None
    runs: int = 0
    passed: int = Field(default=0, description="How many runs of the command found the condition met.")
    effect: Effect | None = None
    source: PatternSource | None = Field(default=None, description="Whose it is; none if it is the agent's own.")


class FailurePattern(Frozen):
    """A failure that was seen at least once: where and when, what solved it, and what prevents it."""

    pattern_id: str
    name: str
    error_signature: str
    kind: str = Field(default="", description="The class or code of the error; empty if it has none.")
    occurrence_count: int
    first_seen: Moment
    last_seen: Moment
    recurring: bool = False
    actions: tuple[str, ...] = Field(default=(), description="What was done when it happened, the most frequent first.")
    contexts: tuple[str, ...] = ()
    environments: tuple[str, ...] = Field(default=(), description="Where it happened, the most frequent first.")
    known_solutions: tuple[Solution, ...] = Field(default=(), description="The best first.")
    prevention_checks: tuple[PreventionCheck, ...] = ()
    episodes: tuple[str, ...] = Field(default=(), description="The memories that tell of it, newest first, limited.")
    agents: tuple[str, ...] = ()
    source: PatternSource | None = Field(default=None, description="Whose it is; none if it is the agent's own.")
    own: OwnRecord | None = Field(default=None, description="How it did for this agent, if it is somebody else's.")
    example: str = Field(default="", description="What its latest error said, with its values; empty if not known.")


class KnownFailure(Frozen):
    """A failure that an action was matched with, and how closely."""

    pattern_id: str
    name: str
    error_signature: str
    action: str
    context: str
    similarity: Share
    failures: int
    successes: int
    last_seen: Moment
    episodes: tuple[str, ...] = ()
    example: str = Field(default="", description="What its latest error said, with its values; empty if not known.")


class Remedy(Frozen):
    """What worked instead: a solution of the failure, or another action that succeeded in such a context."""

    kind: Literal["solution", "action"]
    text: str
    success_rate: Share
    attempts: int
    episodes: tuple[str, ...] = ()


class Verdict(Frozen):
    """Whether an action may go ahead, with the failures that speak against it and what worked instead."""

    decision: Decision
    action: str
    context: str = ""
    failures: tuple[KnownFailure, ...] = ()
    instead: tuple[Remedy, ...] = Field(default=(), description="The best first.")
    confidence: Share = Field(
        description="Probability that the action fails more often than not; 0 if nothing is known."
    )
    failure_rate: Share | None = Field(default=None, description="How often it is expected to fail; none if unknown.")
    reason: str
    checks: tuple[str, ...] = Field(default=(), description="The ids of the prevention checks that spoke up.")
    learned_by: str | None = Field(default=None, description="Who learned it, if it was another agent.")
    id: str | None = None

    def of_others(self, name: str, *, trusted: bool) -> Verdict:
        """The same as another agent's word: a warning, unless that agent is trusted."""
        decision: Decision = self.decision if trusted else "warn"
        changes = {
            "decision": decision,
            "reason": f"{self.reason} (learned by {name})",
            "learned_by": name,
            "checks": (),
        }
        return self.model_copy(update=changes)
