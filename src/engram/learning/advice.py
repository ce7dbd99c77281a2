"""Suggest, predict and check, from what the agent learned and what other agents share with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from types import MappingProxyType

from pydantic import JsonValue

from engram.clock import EPOCH
from engram.learning import events
from engram.learning.decisions import suggestions
from engram.learning.events import Circumstances
from engram.learning.service import Beside, Near, Testimony
from engram.learning.state import read_once
from engram.model import ActionRecord, Clean, Prediction, Suggestion, Verdict
from engram.model.grant import Right
from engram.ports import LoggedRecall, LogsRecalls, arguments
from engram.recording.agent_context import AgentContext
from engram.sharing.lenders import topic

CITED = 20
"""The number of episodes behind a recommendation that are logged with it."""
TRUSTED = 0.7
"""The trust from which a failure known only from a source blocks an action instead of causing a warning."""


def suggest(
    agents: Sequence[AgentContext],
    context: str,
    actions: Sequence[str] | None,
    around: Circumstances,
    *,
    explore: bool,
    shared: bool,
) -> Suggestion:
    """Suggest an action for a context, from the decisions of these agents, weighed equally, and those shared with them.

    The suggestion is logged as shown to the first agent.
    """
    wanted = None if actions is None else arguments.texts("actions", actions)
    if not agents:
        return suggestions.suggest(context, [], now=EPOCH)
    first, gate, near = agents[0], agents[0].input, cache(agents[0].embeddings.context_vector)
    candidates = None if wanted is None else [gate.clean("action", action) for action in wanted]
    clean = gate.clean("context", context)
    chance = first.sources.random if explore else None
    with read_once():
        for agent in agents:
            agent.experience.refresh(agent.scope)
        testimonies, *others = _shared_testimonies(agents, clean, near, "suggest", shared=shared)
        known = first.learning.evidence(clean, around, testimonies, _pair_with_shared(agents, others), near)
        suggestion = first.learning.suggest(clean, around, candidates, explore=chance, known=known)
    if isinstance(first.store, LogsRecalls) and suggestion.id is not None:
        lent = bool(testimonies) or len(agents) > 1
        sources = {one.id: each.source for each in testimonies for one in each.episodes}
        shown = _log_entry(suggestion, around, first.sources.now(), lent=lent, sources=sources)
        first.store.log_recall(first.scope, shown)
    return suggestion


def predict(
    agents: Sequence[AgentContext], context: str, action: str, around: Circumstances, *, shared: bool
) -> Prediction:
    """Predict if an action will succeed in a context, from the same decisions as `suggest`."""
    first, near = agents[0], cache(agents[0].embeddings.context_vector)
    where, done = first.input.clean("context", context), first.input.clean("action", action)
    testimonies, *others = _shared_testimonies(agents, where, near, "predict", shared=shared)
    known = first.learning.evidence(where, around, testimonies, _pair_with_shared(agents, others), near)
    return first.learning.predict(where, done, around, known)


def check(agent: AgentContext, action: Clean, context: Clean, around: Circumstances, *, shared: bool) -> Verdict:
    """Check if an action may run, by the agent's own failures or, if these allow it, by those shared with it."""
    verdict, sharing = agent.learning.check(action, context, around), agent.sharing
    for lender in sharing.lenders(agent.scope, Right.LEARN) if shared and verdict.decision == "allow" else ():
        theirs = lender.learning.verdict(action, context, around)
        if theirs.decision != "allow":
            sharing.log_use(agent.scope, lender, "check", len(theirs.failures) or 1)
            trusted = sharing.trust(agent.scope, lender.key, lender.since).mean >= TRUSTED
            return agent.learning.note(theirs.attributed_to(lender.name, trusted=trusted), action, context, around)
    return verdict


def _shared_testimonies(
    agents: Sequence[AgentContext], context: Clean, near: Near, use: str, *, shared: bool
) -> list[list[Testimony]]:
    """Gather what is shared with each of these agents about a context, and log the use.

    What one of these agents shares with another is left out, since its own decisions are included already.
    """
    names = {agent.scope.agent for agent in agents}
    return [
        _testimonies_for(agent, context, near, use, names) if shared and agent.sharing.ledger.has_entries() else []
        for agent in agents
    ]


def _pair_with_shared(agents: Sequence[AgentContext], shared: Sequence[Sequence[Testimony]]) -> list[Beside]:
    """Pair the agents after the first with what is shared with each."""
    return [(agent.learning, testimonies) for agent, testimonies in zip(agents[1:], shared, strict=True)]


def _testimonies_for(
    agent: AgentContext, context: Clean, near: Near, use: str, included: Collection[str]
) -> list[Testimony]:
    found = []
    for lender in agent.sharing.lenders(agent.scope, Right.LEARN):
        if lender.grants and lender.name in included:
            continue
        testimony = lender.learning.testimony(context, near)
        agent.sharing.log_use(
            agent.scope, lender, use, len(testimony.episodes), [each.id for each in testimony.episodes]
        )
        if testimony.episodes:
            found.append(replace(testimony, source=topic(lender.key)))
    return found


def _log_entry(
    suggestion: Suggestion,
    around: Circumstances,
    at: datetime,
    *,
    lent: bool,
    sources: Mapping[str, str] = MappingProxyType({}),
) -> LoggedRecall:
    """Return the log entry of a suggestion, with the episodes that spoke for what it recommends.

    `sources` maps lent episodes to their sources; the entry has the share of each source.
    """
    chosen = next((record for record in suggestion.actions if record.action == suggestion.recommended), None)
    episodes = chosen.episodes_for[-CITED:] if chosen is not None else ()
    about: dict[str, JsonValue] = {
        "context": suggestion.context,
        "action": suggestion.recommended,
        "environment": around.environment,
        "tool": around.tool,
        "task_type": around.task_type,
        "tags": [*around.tags],
        "lent": lent,
        events.SOURCES: {} if chosen is None else _source_shares(chosen, sources),
        events.SAYS: suggestion.recommended is not None or bool(suggestion.evidence),
    }
    return LoggedRecall(str(suggestion.id), at, tuple(episodes), about=about)


def _source_shares(chosen: ActionRecord, sources: Mapping[str, str]) -> dict[str, JsonValue]:
    """Give the share of each source in the episodes behind a recommendation."""
    ids = [*chosen.episodes_for, *chosen.episodes_against, *chosen.near]
    lent = Counter(sources[id] for id in ids if id in sources)
    return {name: number / len(ids) for name, number in sorted(lent.items())}
