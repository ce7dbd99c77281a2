"""The first sentence of the product: draft → redact → embed → store → update patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from engram.errors import Conflict, InvalidInput
from engram.learning import events as happened
from engram.learning.failures.signatures import extract_error_signature
from engram.model import (
    DecisionDraft,
    Draft,
    FailureDraft,
    FailurePattern,
    Memory,
    MemoryType,
    Origin,
    Receipt,
    quality,
)
from engram.ports import Entry, Event, LoggedRecall, LogsRecalls, arguments, unstorable
from engram.privacy.instructions import any_instruction
from engram.recording.agent_context import AgentContext
from engram.recording.input import prepare, readable, rejected, with_source
from engram.recording.quarantine import Quarantine
from engram.text.terms import digest

Item = str | Draft | Mapping[str, Any]
IS_INSTRUCTION = "it is not the agent's own word and reads like an instruction to it"
TEACHING = frozenset({MemoryType.DECISION, MemoryType.FAILURE})
"""The kinds of memories that patterns are learned from."""
REPEATED = "this was recalled from here and is no news; it counts as no new evidence"


def record_items(agent: AgentContext, items: Sequence[Item], fields: Mapping[str, Any]) -> list[Receipt]:
    """Store what can be stored in one transaction; one receipt for each, in order."""
    prepared = [_prepare(agent, item, fields) for item in items]
    drafted = [entry for entry in prepared if not isinstance(entry, Receipt)]
    if not drafted:
        return [receipt for receipt in prepared if isinstance(receipt, Receipt)]
    entries, failure = agent.embeddings.embed([entry for entry, _ in drafted])
    stored = agent.store.add(agent.scope, entries)
    for entry, receipt in zip(entries, stored, strict=True):
        if receipt.status == "stored" and entry.events:
            credit_sources(agent, entry.events)
    receipts = iter(stored)
    return [p if isinstance(p, Receipt) else _with_details(next(receipts), p[1], failure) for p in prepared]


def record_decision(agent: AgentContext, draft: DecisionDraft, fields: Mapping[str, Any]) -> Receipt:
    """Record a decision, after everything that happened before it; `fields` are those of `Draft`."""
    result = None if draft.outcome is None else quality(draft.outcome)
    for name, value in {"context": draft.context, "action": draft.action}.items():
        if not isinstance(value, str):
            raise InvalidInput(f"{name} must be a text, not {type(value).__name__}")
    if taken := {"kind", "content", "text"} & fields.keys():
        raise InvalidInput(f"a decision has its own {', '.join(sorted(taken))}; leave that out")
    if not draft.context.strip() or not draft.action.strip():
        return rejected(InvalidInput("a decision needs a context and an action; neither may be empty"))
    based_on = arguments.several("informed_by", draft.informed_by)
    content = {
        "decision_context": draft.context,
        "chosen_action": draft.action,
        "outcome_quality": result,
        "alternative_actions": arguments.several("alternatives", draft.alternatives) or None,
        "environment": draft.environment,
        "tool": draft.tool,
        "task_type": draft.task_type,
        "error": happened.error_text(draft.error),
        "duration": draft.duration,
        "cost": draft.cost,
        "informed_by": based_on or None,
        "lent": draft.from_others or any(_from_others(agent, id) for id in based_on) or None,
    }
    text = f"{draft.action} → {draft.outcome}" if draft.outcome is not None else draft.action
    if agent.scope in agent.experience.pending:
        agent.experience.flush(agent.scope)
    given = _stored_fields(MemoryType.DECISION, draft.context, content)
    return record_items(agent, [text], {**given, **fields})[0]


def record_failure(agent: AgentContext, draft: FailureDraft, fields: Mapping[str, Any]) -> FailurePattern:
    """Record a failure, after everything that happened before it, and return the pattern that it belongs to."""
    error = happened.error_text(draft.error)
    if not error.strip():
        raise InvalidInput("the error is empty; give its text, or the exception itself")
    signature = extract_error_signature(agent.input.clean("error", error)).text
    content = {
        "error": error,
        "error_signature": signature,
        "root_cause": draft.root_cause,
        "solution_applied": draft.solution,
        "solution_helped": None if draft.helped is None else arguments.share("helped", float(draft.helped)),
        "prevention_strategy": draft.prevention,
        "action": draft.action,
        "environment": draft.environment,
        "tool": draft.tool,
        "task_type": draft.task_type,
    }
    text = f"{signature} → solved by {draft.solution}" if draft.solution else signature
    if agent.scope in agent.experience.pending:
        agent.experience.flush(agent.scope)
    given = _stored_fields(MemoryType.FAILURE, draft.context, content)
    receipt = record_items(agent, [text], {**given, **fields})[0]
    if receipt.id is None:
        kind = Conflict if receipt.code == Conflict.code else InvalidInput
        raise kind(f"the failure was not kept: {receipt.reason}")
    if receipt.status == "quarantined":
        raise InvalidInput(f"the failure was set apart for review as {receipt.id}: {receipt.reason}")
    found = agent.learning.failure(receipt.id) or agent.learning.unlearned(receipt.id, signature)
    agent.learning.show_patterns([found.pattern_id], lent=False)
    return found


def _stored_fields(kind: MemoryType, context: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a draft with this content, without empty values."""
    given = {name: value for name, value in content.items() if value not in ("", None)}
    return {"kind": kind, "context": context, "content": given}


def credit_sources(agent: AgentContext, events: Sequence[Event]) -> None:
    """Credit or blame the shared sources that a decision followed, each once, when its outcome is known."""
    decision = next((event for event in events if event.kind == happened.DECISION), None)
    if decision is None or happened.SOURCES not in decision.body:
        return
    quality = happened.number([*happened.outcomes(events), decision][0], "quality")
    if quality is not None:
        key = digest(happened.DECISION, decision.subject)  # no id of a memory stays when that is forgotten
        agent.sharing.record_help(agent.scope, key, happened.by_source(decision, quality))


def get_recall(agent: AgentContext, id: str) -> LoggedRecall | None:
    """Return what was shown to the agent under this id by a recall, a suggestion or a check."""
    if not isinstance(agent.store, LogsRecalls) or not arguments.is_id(id):
        return None
    return agent.store.get_recall(agent.scope, id)


def _from_others(agent: AgentContext, id: str) -> bool:
    """Return true if what was shown under this id came from other agents, too."""
    shown = get_recall(agent, id)
    return shown is not None and bool(shown.about.get("lent"))


def _was_given(agent: AgentContext, id: str, shown: LoggedRecall | None, by: datetime) -> bool:
    """Tell whether the agent had been given this by a moment: a recall, a suggestion, a pattern, or a memory.

    `shown` is what was logged under the id. A suggestion that knew of nothing gave nothing. Verdicts are events of
    their own and are looked up where decisions are counted.
    """
    if shown is not None:
        return shown.at <= by and shown.about.get(happened.SAYS) is not False
    if not arguments.is_id(id) or (memory := _find_readable(agent, id)) is None or memory.created_at > by:
        return False
    if agent.recent_recalls.was_shown(agent.scope, id):
        return True
    return memory.access_count > 0 if memory.agent == agent.scope.agent else agent.sharing.was_shown(agent.scope, id)


def _prepare(agent: AgentContext, item: Item, fields: Mapping[str, Any]) -> tuple[Entry, tuple[str, ...]] | Receipt:
    """Make the entry for one draft and list what was redacted, or return the receipt of its rejection."""
    if isinstance(item, str) and (reason := unstorable(item)):
        return rejected(InvalidInput(f"the text cannot be kept as it is: {reason}"))
    draft = _to_draft(item, fields)
    try:
        entry, redacted = prepare(draft, agent.scope, agent.redactor, agent.sources)
    except InvalidInput as error:
        return rejected(error)
    event = happened.event_of(entry.memory) if entry.memory.kind in TEACHING else None
    # An event that happens again is news; a text that is repeated after it was recalled is not.
    known = None if event is not None else agent.recent_recalls.source_of(agent.scope, entry.memory)
    if known is not None and (seen := _find_readable(agent, known)) is not None:
        if entry.merge_key is not None and seen.agent == agent.scope.agent:
            return Receipt(id=known, status="merged", reason=REPEATED, redacted=redacted)
        entry = replace(entry, memory=with_source(entry.memory, known))
    if entry.memory.provenance.sources:
        entry = replace(entry, memory=_cap_trust_by_sources(agent, entry.memory))
    if event is not None:
        if cited := happened.cited(event):
            logged = {id: get_recall(agent, id) for id in cited}
            given = [id for id in cited if _was_given(agent, id, logged[id], event.at)]
            shown = [one for id in given if (one := logged[id]) is not None]
            event = happened.with_given(event, given, happened.followed(shown, happened.text(event, "action")))
        entry = replace(entry, events=(event,))
    if entry.memory.provenance.origin != Origin.SELF and any_instruction(readable(entry.memory)):
        Quarantine(agent.store, agent.scope, agent.sources, agent.redactor).put(entry, IS_INSTRUCTION)
        return Receipt(id=entry.memory.id, status="quarantined", reason=IS_INSTRUCTION, redacted=redacted)
    return entry, redacted


def _find_readable(agent: AgentContext, id: str) -> Memory | None:
    """Get a memory of the agent's own, or one that is shared with it."""
    (own,) = agent.store.get(agent.scope, [id])
    return own or agent.sharing.get_shared(agent.scope, [id], "cite").get(id)


def _cap_trust_by_sources(agent: AgentContext, memory: Memory) -> Memory:
    """Trust a memory no more than the least trusted of those it was derived from."""
    ids = [id for id in memory.provenance.sources if arguments.is_id(id)]
    own = [each for each in agent.store.get(agent.scope, ids) if each is not None]
    lent = agent.sharing.get_shared(agent.scope, [id for id in ids if id not in {m.id for m in own}], "cite")
    trust = min([memory.trust, *(each.trust for each in (*own, *lent.values()))])
    return memory if trust == memory.trust else memory.model_copy(update={"trust": trust})


def _to_draft(item: Item, fields: Mapping[str, Any]) -> Draft:
    if isinstance(item, Mapping):
        if "text" not in item:
            raise InvalidInput("a draft needs a text")
        item = Draft(**item)
    if isinstance(item, Draft):
        if not fields:
            return item
        tags = {"tags": (*item.tags, *arguments.several("tags", fields["tags"]))} if "tags" in fields else {}
        return Draft(**(item.model_dump(exclude_unset=True) | dict(fields) | tags))
    if not isinstance(item, str):
        raise InvalidInput(f"only text and drafts can be remembered, not {type(item).__name__}")
    return Draft(item, **fields)


def _with_details(receipt: Receipt, redacted: tuple[str, ...], failure: str | None) -> Receipt:
    """Add to the store's receipt what was redacted, and why there is no vector."""
    reason = receipt.reason or (failure if receipt.status == "stored" else None)
    return receipt.model_copy(update={"redacted": redacted, "reason": reason})
