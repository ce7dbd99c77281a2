"""Failures that come back, what solved them, and the checks that prevent them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from engram.api import paging
from engram.errors import NotFound
from engram.model import FailurePattern, PreventionCheck
from engram.model.wire import NewChecks, NewFailure, Page, TriedSolution
from engram.recording.draft import MAX_LABEL
from engram.server.rest.auth import Reader, Writer
from engram.server.rest.routes.params import ONCE, Cursor, Key, Limit, one_key

router = APIRouter(prefix="/v1", tags=["failures"])
Name = Annotated[
    str, Path(max_length=MAX_LABEL, description="The failure: its id, its name, or the id of a memory of it.")
]


@router.post("/failures", status_code=201)
def learn_from_failure(agent: Writer, failure: NewFailure, idempotency_key: Key = None) -> FailurePattern:
    """Learn what went wrong, and what was done about it; the pattern it belongs to comes back."""
    told = failure.model_dump(exclude={"error"}, exclude_defaults=True)
    return agent.learn_from_failure(failure.error, **told | {"key": one_key(idempotency_key, failure.key)})


@router.get("/failures")
def list_failures(agent: Reader, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[FailurePattern]:
    """The failures that are known, the most recently seen first; those of others, with their source, come last."""
    return paging.slice_of(agent.shared_patterns.all_failures(), limit, cursor, "failures", agent.name)


@router.get("/failures/{name}")
def get_failure(agent: Reader, name: Name) -> FailurePattern:
    """One failure: where and when it was seen, what solved it, and what prevents it."""
    found = agent.shared_patterns.failure(name)
    if found is None:
        raise NotFound("there is no such failure; `GET /v1/failures` lists what there is")
    return found


@router.post("/failures/{name}/solutions", dependencies=[ONCE])
def tell_solution(agent: Writer, name: Name, tried: TriedSolution) -> FailurePattern:
    """Tell how a solution of a failure did."""
    return agent.learning.tried(name, tried.solution, tried.helped)


@router.get("/prevention/checks")
def list_checks(agent: Reader, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[PreventionCheck]:
    """The checks that keep failures from coming back, by name; those of others, with their source, come last."""
    return paging.slice_of(agent.shared_patterns.all_checks(), limit, cursor, "checks", agent.name)


@router.post("/prevention/checks", dependencies=[ONCE])
def generate_checks(agent: Writer, wanted: NewChecks) -> Page[PreventionCheck]:
    """Make checks from a failure and what solved it, and keep them."""
    return Page(items=tuple(agent.learning.generate(wanted.pattern, stage=wanted.stage)))
