"""How well memory and learning serve an agent."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from engram.model import EvaluationReport, LearningStats
from engram.model.upkeep import Period
from engram.server.rest.auth import Brain, Reader
from engram.server.rest.routes.params import Since, Until

router = APIRouter(prefix="/v1", tags=["reports"])


@router.get("/stats")
def get_stats(agent: Reader) -> LearningStats:
    """The five measures of success, from the agent's own data."""
    return agent.learning.stats()


@router.get("/evaluation")
def evaluate(
    brain: Brain,
    agent: Reader,
    since: Since = None,
    until: Until = None,
    period: Annotated[Period, Query(description="One row for each.")] = "week",
) -> EvaluationReport:
    """How often recalls helped, how many decisions memory informed, and whether that drifts."""
    return brain.upkeep.evaluate([agent.name], since=since, until=until, period=period)
