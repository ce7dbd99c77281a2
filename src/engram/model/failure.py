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

    text: str = Field(description="What it says.")
    tried: int = Field(ge=0, description="Number of times it was applied.")
    helped: float = Field(ge=0, description="Number of times it helped; a partial help counts partly.")
    success_rate: Share = Field(description="How often it goes well, from 0 to 1; none if that is not known.")
    interval: tuple[Share, Share] = Field(description="The interval that holds 95% of the belief.")
    last_used: Moment | None = Field(default=None, description="When it was last done.")
    agents: tuple[str, ...] = Field(default=(), description="The agents whose evidence it is made of.")
    episodes: tuple[str, ...] = Field(default=(), description="The memories that mention it, newest first, limited.")
    noted: int = Field(
        default=0,
        ge=0,
        description="How many of these attempts were only recorded with a failure; they count as having helped.",
    )


class FailureRate(Frozen):
    """Failures per opportunity: the posterior mean and its 95% interval."""

    opportunities: int = Field(description="How often it could have happened.")
    failures: float = Field(description="How often it happened; partly, if it went partly well.")
    rate: Share = Field(description="Failures per opportunity.")
    interval: tuple[Share, Share] = Field(description="The interval that holds 95% of the belief.")


class Effect(Frozen):
    """Failure rates with and without a prevention check: while it was silent, when heeded, when ignored.

    `difference` is the rate without it (silent or ignored) less the rate when it was heeded: above zero it helps.
    """

    before: FailureRate = Field(description="While it was silent.")
    after: FailureRate = Field(description="When it had spoken up.")
    difference: float = Field(description="Failures per opportunity before, less those after; above zero it helps.")
    interval: tuple[float, float] = Field(description="The interval that holds 95% of the belief.")
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

    id: str = Field(description="Its id.")
    name: str = Field(description="Its name.")
    pattern_id: str = Field(description="The id of the pattern.")
    verify: str = Field(description="What to look at before the action.")
    rule: str = Field(description="The actions and contexts it applies to, in words.")
    stage: str = Field(default="development", description="The stage of the workflow that it belongs to.")
    command: tuple[str, ...] | None = Field(
        default=None, description="A program and its arguments that exits with 0 if the condition holds."
    )
    status: CheckStatus = Field(default="active", description="How it stands.")
    created_at: Moment = Field(description="When it was stored.")
    fired: int = Field(default=0, description="How often it spoke up.")
    last_fired: Moment | None = Field(default=None, description="When it last spoke up.")
    runs: int = Field(default=0, description="How often its command was run.")
    passed: int = Field(default=0, description="Number of runs of the command that found the condition met.")
    effect: Effect | None = Field(
        default=None, description="What it changed so far; none as long as that is not known."
    )
    source: PatternSource | None = Field(
        default=None, description="The agent or import it comes from; missing if it is the agent's own."
    )


class FailurePattern(Frozen):
    """Failures with the same cause: where and when they occurred, their solutions and prevention checks."""

    pattern_id: str = Field(description="The id of the pattern.")
    name: str = Field(description="Its name.")
    error_signature: str = Field(description="What stays the same when the error happens again.")
    kind: str = Field(default="", description="The class or code of the error; empty if it has none.")
    occurrence_count: int = Field(description="How often it was seen.")
    first_seen: Moment = Field(description="When it was first seen.")
    last_seen: Moment = Field(description="When it was last seen.")
    recurring: bool = Field(default=False, description="Whether it came back.")
    actions: tuple[str, ...] = Field(default=(), description="The actions that failed so, the most frequent first.")
    contexts: tuple[str, ...] = Field(default=(), description="The situations in which it happened.")
    environments: tuple[str, ...] = Field(
        default=(), description="The environments it occurred in, the most frequent first."
    )
    known_solutions: tuple[Solution, ...] = Field(default=(), description="The best first.")
    prevention_checks: tuple[PreventionCheck, ...] = Field(
        default=(), description="The checks that keep it from coming back."
    )
    episodes: tuple[str, ...] = Field(default=(), description="The memories that record it, newest first, limited.")
    agents: tuple[str, ...] = Field(default=(), description="The agents whose evidence it is made of.")
    source: PatternSource | None = Field(
        default=None, description="The agent or import it comes from; missing if it is the agent's own."
    )
    own: OwnRecord | None = Field(
        default=None, description="This agent's own results with it, if it is another agent's."
    )
    example: str = Field(default="", description="The latest error message, with its values; empty if unknown.")


class KnownFailure(Frozen):
    """A failure pattern that matches an action, with its similarity."""

    pattern_id: str = Field(description="The id of the pattern.")
    name: str = Field(description="Its name.")
    error_signature: str = Field(description="What stays the same when the error happens again.")
    action: str = Field(description="What was done, or is to be done.")
    context: str = Field(description="The situation.")
    similarity: Share = Field(description="How much alike the two actions are.")
    failures: int = Field(description="How often it failed.")
    successes: int = Field(description="How often it went well all the same.")
    last_seen: Moment = Field(description="When it was last seen.")
    episodes: tuple[str, ...] = Field(default=(), description="The ids of the memories that tell of it.")
    example: str = Field(default="", description="The latest error message, with its values; empty if unknown.")


class Remedy(Frozen):
    """An alternative that worked: a solution of the failure, or another action in a similar context."""

    kind: Literal["solution", "action"] = Field(description="Which kind it is.")
    text: str = Field(description="What it says.")
    success_rate: Share = Field(description="How often it goes well, from 0 to 1; none if that is not known.")
    attempts: int = Field(description="How often it was tried.")
    episodes: tuple[str, ...] = Field(default=(), description="The ids of the memories that tell of it.")


class Verdict(Frozen):
    """Advice on an action: allow, warn or block, with matching failures and alternatives."""

    decision: Decision = Field(description="Whether the action may go ahead: allow, warn or block.")
    action: str = Field(description="What was done, or is to be done.")
    context: str = Field(default="", description="The situation.")
    failures: tuple[KnownFailure, ...] = Field(default=(), description="The failures that speak against it.")
    instead: tuple[Remedy, ...] = Field(default=(), description="The best first.")
    confidence: Share = Field(
        description="Probability that the action fails more often than not; 0 if nothing is known."
    )
    failure_rate: Share | None = Field(default=None, description="Expected failure rate; missing if unknown.")
    reason: str = Field(description="Why.")
    checks: tuple[str, ...] = Field(default=(), description="The ids of the prevention checks that applied.")
    learned_by: str | None = Field(default=None, description="The agent that learned it, if it was another one.")
    id: str | None = Field(default=None, description="By which it can be named as what a decision was based on.")

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
