"""Decisions and what they teach: record, tell the outcome, suggest, predict, check."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from engram.api import paging
from engram.model import (
    DecisionTemplate,
    Memory,
    Prediction,
    Receipt,
    RecordedOutcome,
    SuccessPattern,
    Suggestion,
    Verdict,
)
from engram.model.wire import CheckQuery, NewDecision, NewOutcome, Noted, Page, PredictionQuery, SuggestionQuery
from engram.server.rest.auth import Reader, Writer
from engram.server.rest.routes.memories import stored
from engram.server.rest.routes.params import ONCE, Cursor, Id, Key, Limit, one_key

router = APIRouter(prefix="/v1", tags=["learning"])


@router.post("/decisions", status_code=201)
def record_decision(agent: Writer, decision: NewDecision, response: Response, idempotency_key: Key = None) -> Receipt:
    """Remember what was done in a context and, if it is known, how it went."""
    told = decision.model_dump(exclude_defaults=True)
    told |= {"context": decision.context, "action": decision.action, "key": one_key(idempotency_key, decision.key)}
    return stored(agent.record_decision(**told), response)


@router.get("/decisions")
def list_decisions(
    agent: Reader,
    context: Annotated[str, Query(min_length=1, max_length=4096, description="The situation they were taken in.")],
    limit: Limit = paging.USUAL,
    cursor: Cursor = None,
) -> Page[Memory]:
    """The decisions taken in a context, newest first."""
    return paging.slice_of(agent.decisions(context), limit, cursor, "decisions", agent.name, context)


@router.get("/decisions/{id}/outcomes")
def list_outcomes(agent: Reader, id: Id, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[RecordedOutcome]:
    """Everything that was told about how a decision went, oldest first; the last one counts."""
    return paging.slice_of(agent.outcomes(id), limit, cursor, "outcomes", agent.name, id)


@router.post("/outcomes", dependencies=[ONCE])
def tell_outcome(agent: Writer, outcome: NewOutcome) -> Noted:
    """Tell how it went, by the id of a decision, a recall or a suggestion; again is harmless."""
    told = outcome.model_dump(exclude={"id", "outcome"}, exclude_defaults=True)
    return Noted(news=agent.outcome(outcome.id, outcome.outcome, **told))


@router.post("/suggestions")
def suggest(agent: Reader, query: SuggestionQuery) -> Suggestion:
    """What to do in a context, from how it went there and in similar ones: a recommendation or an abstention."""
    return agent.suggest(**query.model_dump())


@router.post("/predictions")
def predict(agent: Reader, query: PredictionQuery) -> Prediction:
    """How likely an action is to succeed in a context."""
    return agent.predict(**query.model_dump())


@router.post("/checks")
def check(agent: Reader, query: CheckQuery) -> Verdict:
    """Whether an action may go ahead: allow, warn or block, with what speaks against it and what worked instead."""
    return agent.check(**query.model_dump())


@router.get("/patterns/success")
def list_success_patterns(agent: Reader, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[SuccessPattern]:
    """Approaches that worked again and again, why, and how to repeat them; those of others have a source."""
    return paging.slice_of(agent.shared_patterns.all_successes(), limit, cursor, "successes", agent.name)


@router.get("/patterns/decisions")
def list_decision_templates(
    agent: Reader, limit: Limit = paging.USUAL, cursor: Cursor = None
) -> Page[DecisionTemplate]:
    """Small decision trees, one for each kind of situation; those of others have a source."""
    return paging.slice_of(agent.shared_patterns.all_templates(), limit, cursor, "templates", agent.name)
