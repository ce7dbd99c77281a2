"""The audit trail: what was done, and whether anybody has changed the record of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from engram.api import paging
from engram.model import AuditEntry
from engram.model.api_key import EVERYONE
from engram.model.audit import AuditVerification
from engram.model.wire import Page
from engram.recording.draft import MAX_LABEL
from engram.server.rest.auth import Brain, Keeps, Named, Watches, chosen
from engram.server.rest.routes.params import Cursor, Limit, Since, slowly

router = APIRouter(prefix="/v1/audit", tags=["audit"])


@router.get("")
def list_audit(
    brain: Brain,
    key: Watches,
    engram_agent: Named = None,
    grant: Annotated[
        str | None, Query(min_length=1, max_length=MAX_LABEL, description="Only what was done by this grant.")
    ] = None,
    since: Since = None,
    newest: Annotated[bool, Query(description="The newest of them, and no cursor to go on with.")] = False,
    limit: Limit = paging.USUAL,
    cursor: Cursor = None,
) -> Page[AuditEntry]:
    """What was done, in order: to the agent that is named, or to all, if the key is for all and none is named."""
    agent = None if engram_agent is None and EVERYONE in key.agents else chosen(key, engram_agent)
    which = ("audit", agent, grant, since)
    (after,) = paging.read(cursor, 1, *which) if cursor is not None else [0]
    found = brain.audit.find(
        after, limit if newest else limit + 1, agent=agent, grant=grant, since=since, newest=newest
    )
    goes_on = len(found) > limit
    return Page(
        items=tuple(found[:limit]), next_cursor=paging.write([found[limit - 1].seq], *which) if goes_on else None
    )


@router.get("/verification")
async def verify_audit(request: Request, brain: Brain, key: Keeps) -> AuditVerification:
    """Look at every entry, and name each that is not as it was written; this needs a key for all agents."""
    return await slowly(request, brain.audit.verify)
