"""Record outcomes, and credit them to the memories, suggestions and sources that led to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from engram.errors import Conflict, InvalidInput
from engram.learning.events import SAYS
from engram.learning.service import PATTERN, OutcomeDetails
from engram.model import DecisionDraft, Hit, quality
from engram.ports import Credit, CreditsRecalls, LoggedRecall, arguments, unstorable
from engram.ports.completed import require
from engram.recall.search import LENDERS, score_parts
from engram.recording import record
from engram.recording.agent_context import AgentContext
from engram.text.terms import digest

MOST = 1000
GOOD = 0.5
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
    shown = record.get_recall(agent, id)
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
    event = share_credit(shown, used, result, agent.sources.now())
    if "context" in shown.about:
        receipt = record.record_decision(agent, *_decision_after(shown, action, outcome, told))
        if receipt.id is None:
            raise InvalidInput(f"the decision was not kept: {receipt.reason}")
        event = replace(event, about={"decision": receipt.id, SAYS: shown.about.get(SAYS, True)})
    counted = agent.store.credit(agent.scope, event)
    if counted and LENDERS in shown.about:
        agent.sharing.record_help(agent.scope, id, _credit_by_source(shown, event))
    return counted


def credit(agent: AgentContext, hits: Sequence[Hit], helped: Some, key: str | None) -> bool:
    """Record which hits of a recall helped; `False` if that was known."""
    require(agent.store, CreditsRecalls, "crediting a recall")
    shown = _check_hits(hits, agent.scope.agent)
    chosen = _check_helped(helped, shown)
    at = agent.sources.now()
    id = agent.sources.new_id() if key is None else digest(agent.input.handle("key", key))
    noted = score_parts(agent, shown, at)
    event = Credit(id, at, tuple(hit.id for hit in shown), chosen, noted)
    if not shown or not agent.store.credit(agent.scope, event):
        return False
    for recalled in {hit.recall for hit in shown if "source" in hit.why and hit.recall is not None}:
        if (known := record.get_recall(agent, recalled)) is not None:
            agent.sharing.record_help(agent.scope, recalled, _credit_by_source(known, event))
    return True


def _decision_after(
    shown: LoggedRecall, action: str | None, outcome: str | float, told: OutcomeDetails
) -> tuple[DecisionDraft, dict[str, Any]]:
    """Return the decision to follow a suggestion, or to do something else, and the fields of its draft."""
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
    return draft, {"tags": tags, "key": f"suggestion {shown.id}"}


def _check_hits(hits: object, agent: str) -> list[Hit]:
    """Return the hits of a recall, each once, in their order. Raises `InvalidInput` if they are not this agent's."""
    if not isinstance(hits, Sequence) or not all(isinstance(hit, Hit) for hit in hits):
        raise InvalidInput("credit takes the hits as recall returned them; give the whole list, in its order")
    if len(hits) > MOST:
        raise InvalidInput(f"a recall shows {MOST} hits at most, not {len(hits)}; credit one recall at a time")
    for hit in hits:
        if hit.memory.agent != agent and "source" not in hit.why:  # what was lent was shown to this agent, too
            raise InvalidInput(f"{hit.id!a} is a memory of {hit.memory.agent!r}; credit it as that agent")
        if unstorable(hit.id):
            raise InvalidInput(f"{hit.id!a} is no id of a memory; give the hits as recall returned them")
    return list({hit.id: hit for hit in hits}.values())


def _check_helped(helped: object, hits: Sequence[Hit]) -> frozenset[str]:
    """Return the ids of those that helped. Raises `InvalidInput` if one of them was not shown."""
    several = [helped] if isinstance(helped, str | Hit) else helped
    if not isinstance(several, Iterable):
        raise InvalidInput(f"helped must be ids or hits, not {type(helped).__name__}; give an empty list if none did")
    ids, known = [one.id if isinstance(one, Hit) else one for one in several], {hit.id for hit in hits}
    for id in ids:
        if not isinstance(id, str) or id not in known:
            raise InvalidInput(f"{id!a} is not among the hits; give ids of those that were shown, or hits")
    return frozenset(ids)


def share_credit(shown: LoggedRecall, used: object, quality: float, at: datetime) -> Credit:
    """Share one credit among the memories that were used, or all that were shown: together they get exactly one."""
    several = shown.order if used is None else [used] if isinstance(used, str | Hit) else used
    if not isinstance(several, Iterable):
        raise InvalidInput(f"used must be ids or hits, not {type(used).__name__}; leave it out if all were")
    ids = tuple(dict.fromkeys(one.id if isinstance(one, Hit) else one for one in several))
    for id in ids:
        if id not in shown.order:
            raise InvalidInput(f"{id!a} was not shown; give ids of those that were, or hits")
    share = 1 / len(ids) if ids else 0.0
    shares = dict.fromkeys(ids, (share * quality, share * (1 - quality)))
    helped = frozenset(ids if quality >= GOOD else ())
    return Credit(shown.id, at, ids, helped, shown.parts, shares, about={"quality": quality})


def _credit_by_source(shown: LoggedRecall, credit: Credit) -> dict[str, tuple[float, float]]:
    """Return how far each source helped and hindered in what was shown, by which of its memories did."""
    noted, shares = shown.about.get(LENDERS), dict[str, tuple[float, float]]()
    keys = noted if isinstance(noted, dict) else {}
    for id, (helped, hindered) in credit.counts.items():
        if id in keys:
            good, bad = shares.get(str(keys[id]), (0.0, 0.0))
            shares[str(keys[id])] = (good + helped, bad + hindered)
    return shares
