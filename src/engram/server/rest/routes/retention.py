"""How long memories are kept: policies, holds, and runs. All of it needs a key that administers all agents."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request

from engram.api import admin, paging
from engram.model.retention import LegalHold, RetentionReport
from engram.model.wire import NewHold, Page, Policy, RetentionRun
from engram.recording.draft import MAX_LABEL
from engram.server.rest.auth import Brain, Keeps
from engram.server.rest.routes.params import ONCE, Cursor, Limit, slowly

router = APIRouter(prefix="/v1/retention", tags=["retention"])
Name = Annotated[str, Path(max_length=MAX_LABEL, description="The name of the policy.")]
Id = Annotated[str, Path(max_length=MAX_LABEL, description="The id of the hold.")]


@router.get("/policies")
def list_policies(brain: Brain, key: Keeps, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[Policy]:
    """The policies in force, in the order in which they run."""
    return paging.slice_of(admin.policies(brain), limit, cursor, "policies", key.id)


@router.post("/policies", dependencies=[ONCE])
def set_policy(brain: Brain, key: Keeps, policy: Policy) -> Policy:
    """Set a policy, instead of the one of this name."""
    return admin.set_policy(brain, policy)


@router.delete("/policies/{name}", dependencies=[ONCE])
def remove_policy(brain: Brain, key: Keeps, name: Name) -> Policy:
    """Give a policy up."""
    return admin.remove_policy(brain, name)


@router.get("/holds")
def list_holds(brain: Brain, key: Keeps, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[LegalHold]:
    """The holds in force, oldest first."""
    return paging.slice_of(brain.retention.holds(), limit, cursor, "holds", key.id)


@router.post("/holds", status_code=201, dependencies=[ONCE])
def hold(brain: Brain, key: Keeps, wanted: NewHold) -> LegalHold:
    """Keep all memories of an agent, or those that are named, whoever wants to forget them."""
    return admin.hold(brain, wanted)


@router.post("/holds/{id}/release", dependencies=[ONCE])
def release_hold(brain: Brain, key: Keeps, id: Id) -> LegalHold:
    """End a hold."""
    return brain.retention.release(id)


@router.post("/runs", dependencies=[ONCE])
async def run_retention(request: Request, brain: Brain, key: Keeps, run: RetentionRun) -> RetentionReport:
    """Let go of what fulfils a policy that forgets; what is pinned or held stays."""
    return await slowly(request, lambda: admin.run(brain, run))
