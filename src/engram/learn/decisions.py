"""What past decisions say about the next one: posteriors, an honest recommendation, or an abstention."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from engram.learn.beta import Beta
from engram.model import ActionRecord, DecisionContent, Memory, Suggestion
from engram.words import normal_form

ENOUGH_ATTEMPTS = 2
ENOUGH_CONFIDENCE = 0.75
GOOD = 0.5


@dataclass(slots=True)
class _Account:
    """All episodes of one action."""

    action: str
    belief: Beta = field(default_factory=Beta)
    episodes: list[tuple[Memory, float]] = field(default_factory=list)

    def add(self, memory: Memory, quality: float) -> None:
        self.belief = self.belief.after(quality)
        self.episodes.append((memory, quality))

    def record(self) -> ActionRecord:
        return ActionRecord(
            action=self.action,
            success_rate=self.belief.mean,
            interval=self.belief.interval(),
            attempts=len(self.episodes),
            last_used=max((memory.happened_at for memory, _ in self.episodes), default=None),
            episodes_for=tuple(memory.id for memory, quality in self.episodes if quality >= GOOD),
            episodes_against=tuple(memory.id for memory, quality in self.episodes if quality < GOOD),
        )


def weigh(
    context: str, decisions: Iterable[Memory], actions: Sequence[str] | None = None, explore: Random | None = None
) -> Suggestion:
    """What to do in a context, from the decisions taken in it; `actions` narrows or adds candidates.

    With `explore`, one draw from each belief decides (Thompson sampling): good for agents that want to try.
    """
    accounts = _accounts(decisions, actions)
    ranked = sorted(accounts, key=lambda account: (-account.belief.mean, -len(account.episodes), account.action))
    records = tuple(account.record() for account in ranked)
    evidence = tuple(memory.id for account in ranked for memory, _ in account.episodes)
    if explore is not None and ranked:
        drawn = max(ranked, key=lambda account: explore.betavariate(account.belief.a, account.belief.b))
        return Suggestion(
            context=context,
            recommended=drawn.action,
            abstained=False,
            reason="a draw, to explore",
            actions=records,
            evidence=evidence,
        )
    reason, confidence = _judge(ranked)
    if reason is not None:
        return Suggestion(
            context=context, recommended=None, abstained=True, reason=reason, actions=records, evidence=evidence
        )
    return Suggestion(
        context=context,
        recommended=ranked[0].action,
        abstained=False,
        reason=f"it worked best here, with {confidence:.0%} confidence",
        actions=records,
        evidence=evidence,
        confidence=confidence,
    )


def _accounts(decisions: Iterable[Memory], actions: Sequence[str] | None) -> list[_Account]:
    accounts = {normal_form(action): _Account(action) for action in actions or ()}
    for memory in decisions:
        content = memory.content
        if not isinstance(content, DecisionContent) or content.outcome_quality is None:
            continue
        key = normal_form(content.chosen_action)
        if actions is None:
            accounts.setdefault(key, _Account(content.chosen_action))
        if key in accounts:
            accounts[key].add(memory, content.outcome_quality)
    return list(accounts.values())


def _judge(ranked: Sequence[_Account]) -> tuple[str | None, float]:
    """Why not to recommend the first, or `None` and the probability that it is the best."""
    tried = [account for account in ranked if account.episodes]
    attempts = sum(len(account.episodes) for account in tried)
    if not tried:
        return "nothing has been tried in this context yet", 0.0
    if attempts < ENOUGH_ATTEMPTS:
        return "too little evidence: only 1 attempt in this context", 0.0
    best = ranked[0]
    if not best.episodes or best.belief.mean <= GOOD:
        return "nothing tried in this context has worked more often than it failed", 0.0
    rivals = [account for account in tried if account is not best]
    confidence = best.belief.beats(rivals[0].belief) if rivals else 1 - best.belief.below(GOOD)
    if confidence < ENOUGH_CONFIDENCE:
        rival = f"{best.action} and {rivals[0].action}" if rivals else f"{best.action} and chance"
        return f"too close to call between {rival}", confidence
    return None, confidence
