"""Failure patterns, their solutions, prevention checks, and the verdict on an action."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from engram.model.content import Frozen
from engram.model.memory import Moment, Share
from engram.model.source import OwnRecord, PatternSource

CheckStatus = Literal["active", "loosened", "retired"]
"""Active checks warn and block; a loosened one, which had false alarms, only warns; a retired one is off."""

Decision = Literal["allow", "warn", "block"]


class Solution(Frozen):
    """One solution of a failure, and how often it worked."""

    text: str
    tried: int = Field(ge=0, description="Number of times it was applied.")
    helped: float = Field(ge=0, description="Number of times it helped; a partial help counts partly.")
    success_rate: Share
    interval: tuple[Share, Share]
    last_used: Moment | None = None
    agents: tuple[str, ...] = ()
    episodes: tuple[str, ...] = Field(default=(), description="The memories that mention it, newest first, limited.")
    noted: int = Field(
        default=0,
        ge=0,
        description="How many of these attempts were only recorded with a failure; they count as having helped.",
    )


class FailureRate(Frozen):
    """Failures per opportunity: the posterior mean and its 95% interval."""

    opportunities: int
    failures: float
    rate: Share
    interval: tuple[Share, Share]


class Effect(Frozen):
    """Failure rates with and without a prevention check: while it was silent, when heeded, when ignored.

    `difference` is the rate without it (silent or ignored) less the rate when it was heeded: above zero it helps.
    """

    before: FailureRate
    after: FailureRate
    difference: float
    interval: tuple[float, float]
    helps: Share = Field(description="Probability that failures are rarer when the check is heeded.")
    went_ahead: int = Field(default=0, description="Number of times the action was taken in spite of the check.")
    false_alarms: int = Field(default=0, description="Number of times the action then succeeded.")
    heeded: FailureRate | None = Field(
        default=None, description="After a warning, when the action was changed or its condition verified."
    )
    ignored: FailureRate | None = Field(
        default=None, description="After a warning, when the action was taken unchanged."
    )
    right: Share | None = Field(
        default=None,
        description="Probability that the action mostly fails in spite of the warning, so that the warning is right.",
    )


class PreventionCheck(Frozen):
    """A condition to verify before an action that is known to fail, and whether that has helped so far."""

    id: str
    name: str
    pattern_id: str
    verify: str
    rule: str = Field(description="The actions and contexts it applies to, in words.")
    stage: str = "development"
    command: tuple[str, ...] | None = Field(
        default=None, description="A program and its arguments that exits with 0 if the condition holds."
    )
    status: CheckStatus = "active"
    created_at: Moment
    fired: int = 0
    last_fired: Moment | None = None
    runs: int = 0
    passed: int = Field(default=0, description="Number of runs of the command that found the condition met.")
    effect: Effect | None = None
    source: PatternSource | None = Field(
        default=None, description="The agent or import it comes from; missing if it is the agent's own."
    )


class FailurePattern(Frozen):
    """Failures with the same cause: where and when they occurred, their solutions and prevention checks."""

    pattern_id: str
    name: str
    error_signature: str
    kind: str = Field(default="", description="The class or code of the error; empty if it has none.")
    occurrence_count: int
    first_seen: Moment
    last_seen: Moment
    recurring: bool = False
    actions: tuple[str, ...] = Field(default=(), description="The actions that failed so, the most frequent first.")
    contexts: tuple[str, ...] = ()
    environments: tuple[str, ...] = Field(
        default=(), description="The environments it occurred in, the most frequent first."
    )
    known_solutions: tuple[Solution, ...] = Field(default=(), description="The best first.")
    prevention_checks: tuple[PreventionCheck, ...] = ()
    episodes: tuple[str, ...] = Field(default=(), description="The memories that record it, newest first, limited.")
    agents: tuple[str, ...] = ()
    source: PatternSource | None = Field(
        default=None, description="The agent or import it comes from; missing if it is the agent's own."
    )
    own: OwnRecord | None = Field(
        default=None, description="This agent's own results with it, if it is another agent's."
    )
    example: str = Field(default="", description="The latest error message, with its values; empty if unknown.")


class KnownFailure(Frozen):
    """A failure pattern that matches an action, with its similarity."""

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
    example: str = Field(default="", description="The latest error message, with its values; empty if unknown.")


class Remedy(Frozen):
    """An alternative that worked: a solution of the failure, or another action in a similar context."""

    kind: Literal["solution", "action"]
    text: str
    success_rate: Share
    attempts: int
    episodes: tuple[str, ...] = ()


class Verdict(Frozen):
    """Advice on an action: allow, warn or block, with matching failures and alternatives."""

    decision: Decision
    action: str
    context: str = ""
    failures: tuple[KnownFailure, ...] = ()
    instead: tuple[Remedy, ...] = Field(default=(), description="The best first.")
    confidence: Share = Field(
        description="Probability that the action fails more often than not; 0 if nothing is known."
    )
    failure_rate: Share | None = Field(default=None, description="Expected failure rate; missing if unknown.")
    reason: str
    checks: tuple[str, ...] = Field(default=(), description="The ids of the prevention checks that applied.")
    learned_by: str | None = Field(default=None, description="The agent that learned it, if it was another one.")
    id: str | None = None

    def attributed_to(self, name: str, *, trusted: bool) -> Verdict:
        """Return the verdict as attributed to another agent: reduced to a warning unless that agent is trusted."""
        decision: Decision = self.decision if trusted else "warn"
        changes = {
            "decision": decision,
            "reason": f"{self.reason} (learned by {name})",
            "learned_by": name,
            "checks": (),
        }
        return self.model_copy(update=changes)
