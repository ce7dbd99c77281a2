"""act: outcome → credit, which closes the loop: what was shown earns or loses by what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from engram.errors import Conflict, InvalidInput
from engram.learning.service import PATTERN, OutcomeDetails
from engram.model import DecisionDraft, Hit, quality
from engram.ports import Credit, CreditsRecalls, LoggedRecall, arguments
from engram.ports.completed import require
from engram.recall import credit as credits
from engram.recall.search import learned_parts
from engram.recording import record
from engram.recording.agent_context import AgentContext
from engram.text.terms import digest

Some = str | Hit | Iterable[str | Hit]


def outcome(
    agent: AgentContext,
    id: str,
    outcome: str | float,
    told: OutcomeDetails,
    *,
    used: Some | None,
    action: str | None,
    correct: bool,
) -> bool:
    """Record how a decision, a recall or a suggestion went; `False` if exactly that was known."""
    result = quality(outcome)
    for name, amount in {"duration": told.duration, "cost": told.cost}.items():
        arguments.amount(name, amount)
    shown = agent.get_recall(id)
    if shown is not None and PATTERN in shown.about:
        raise InvalidInput(
            f"{id} is a pattern, which has no outcome of its own; tell that of the decision in which it was applied"
        )
    if shown is None:
        new = agent.learning.outcome(id if arguments.is_id(id) else ascii(id), result, told, correct=correct)
        if new:
            record.credit_sources(agent, agent.store.events_of(agent.scope, [id]))
        return new
    if shown.told and (decided := shown.about.get("decision")):
        return agent.learning.outcome(str(decided), result, told, correct=correct)
    if shown.told:
        if shown.about.get("quality", result) != result:
            raise Conflict(f"how the recall {id} went was told already, otherwise; its credit cannot be taken back")
        return False
    event = credits.shared(shown, used, result, agent.sources.now())
    if "context" in shown.about:
        decided = _record_followed(agent, shown, action, outcome, told)
        event = replace(event, about={"decision": decided, credits.SAYS: shown.about.get(credits.SAYS, True)})
    counted = agent.store.credit(agent.scope, event)
    if counted:
        agent.sharing.record_help(agent.scope, id, credits.by_source(shown, event))
    return counted


def credit(agent: AgentContext, hits: Sequence[Hit], helped: Some, key: str | None) -> bool:
    """Record which hits of a recall helped; `False` if that was known."""
    require(agent.store, CreditsRecalls, "crediting a recall")
    shown = credits.shown(hits, agent.scope.agent)
    chosen = credits.chosen(helped, shown)
    at = agent.sources.now()
    id = agent.sources.new_id() if key is None else digest(agent.input.handle("key", key))
    noted = credits.parts(shown, learned_parts(agent.store), agent.tuning.multipliers(agent.scope, at))
    event = Credit(id, at, tuple(hit.id for hit in shown), chosen, noted)
    if not shown or not agent.store.credit(agent.scope, event):
        return False
    for recalled in {hit.recall for hit in shown if "source" in hit.why and hit.recall is not None}:
        if (known := agent.get_recall(recalled)) is not None:
            agent.sharing.record_help(agent.scope, recalled, credits.by_source(known, event))
    return True


def _record_followed(
    agent: AgentContext, shown: LoggedRecall, action: str | None, outcome: str | float, told: OutcomeDetails
) -> str:
    """Record the decision to follow a suggestion, or to do something else, and return its id."""
    about = shown.about
    taken = str(about.get("action") or "") if action is None else action
    if not taken.strip():
        raise InvalidInput("the suggestion recommended nothing; say which action was taken")
    labels = about.get("tags", [])
    draft = DecisionDraft(
        context=str(about["context"]),
        action=taken,
        outcome=outcome,
        environment=str(about.get("environment", "")),
        tool=str(about.get("tool", "")),
        task_type=str(about.get("task_type", "")),
        error=told.error,
        duration=told.duration,
        cost=told.cost,
        informed_by=[shown.id],
    )
    tags = [str(tag) for tag in labels] if isinstance(labels, list) else []
    receipt = record.record_decision(agent, draft, {"tags": tags, "key": f"suggestion {shown.id}"})
    if receipt.id is None:
        raise InvalidInput(f"the decision was not kept: {receipt.reason}")
    return receipt.id
