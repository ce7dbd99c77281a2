"""How long memories are kept: policies, holds, and runs. All of it needs a key that administers all agents."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Request

from engram import arguments
from engram.errors import InvalidInput
from engram.memory.drafting import MAX_LABEL
from engram.model.retention import LegalHold, RetentionPolicy, RetentionReport
from engram.model.wire import NewHold, Page, Policy, RetentionRun
from engram.ports import unstorable
from engram.retention import Retention
from engram.server import paging
from engram.server.auth import Brain, Keeps
from engram.server.routes.asking import Cursor, Limit, slowly

router = APIRouter(prefix="/v1/retention", tags=["retention"])
Name = Annotated[str, Path(max_length=MAX_LABEL, description="The name of the policy.")]
Id = Annotated[str, Path(max_length=MAX_LABEL, description="The id of the hold.")]


@router.get("/policies")
def list_policies(brain: Brain, key: Keeps, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[Policy]:
    """The policies in force, in the order in which they run."""
    return paging.slice_of([*map(_told, Retention(brain).policies())], limit, cursor, "policies", key.id)


@router.post("/policies")
def set_policy(brain: Brain, key: Keeps, policy: Policy) -> Policy:
    """Set a policy, instead of the one of this name."""
    age = None if policy.older_than_days is None else timedelta(days=policy.older_than_days)
    _refuse(policy.name, *policy.tags)
    agent = None if policy.agent is None else brain.agent(policy.agent).name
    tags = tuple(map(brain.clean, policy.tags))
    fields = policy.model_dump(exclude={"name", "older_than_days", "agent", "tags"})
    return _told(Retention(brain).set(policy.name, agent=agent, tags=tags, older_than=age, **fields))


@router.delete("/policies/{name}")
def remove_policy(brain: Brain, key: Keeps, name: Name) -> Policy:
    """Give a policy up."""
    return _told(Retention(brain).remove(name))


@router.get("/holds")
def list_holds(brain: Brain, key: Keeps, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[LegalHold]:
    """The holds in force, oldest first."""
    return paging.slice_of(Retention(brain).holds(), limit, cursor, "holds", key.id)


@router.post("/holds", status_code=201)
def hold(brain: Brain, key: Keeps, wanted: NewHold) -> LegalHold:
    """Keep all memories of an agent, or those that are named, whoever wants to forget them."""
    _refuse(wanted.reason, *wanted.memories, *wanted.tags, *wanted.sessions)
    agent = None if wanted.agent is None else brain.agent(wanted.agent).name
    return Retention(brain).hold(agent=agent, **wanted.model_dump(exclude={"agent"}))


@router.post("/holds/{id}/release")
def release_hold(brain: Brain, key: Keeps, id: Id) -> LegalHold:
    """End a hold."""
    return Retention(brain).release(id)


@router.post("/runs")
async def run_retention(request: Request, brain: Brain, key: Keeps, run: RetentionRun) -> RetentionReport:
    """Let go of what fulfils a policy that forgets; what is pinned or held stays."""
    agents = None if run.agents is None else [brain.agent(name).name for name in run.agents]
    return await slowly(request, lambda: Retention(brain).run(agents=agents, dry_run=run.dry_run))


def _told(policy: RetentionPolicy) -> Policy:
    age = None if policy.older_than is None else policy.older_than / timedelta(days=1)
    return Policy(**policy.model_dump(exclude={"older_than"}), older_than_days=age)


def _refuse(*texts: str) -> None:
    for text in texts:
        if not arguments.is_id(text):
            raise InvalidInput(f"a text cannot be used: {unstorable(text)}")
