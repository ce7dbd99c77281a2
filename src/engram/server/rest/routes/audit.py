"""The hand-written route of the audit trail."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from engram.api import operations, paging
from engram.api.call import Call
from engram.model import AuditEntry
from engram.model.bundle import MAX_LABEL
from engram.model.wire import Page
from engram.server.rest.parameters import Cursor, Limit, Since, caller

router = APIRouter(prefix="/v1/audit", tags=["audit"])


@router.get("", description=operations.list_audit.__doc__)
def list_audit(
    call: Annotated[Call, Depends(caller("admin", "named"))],
    grant: Annotated[
        str | None, Query(min_length=1, max_length=MAX_LABEL, description="Only actions under this grant.")
    ] = None,
    since: Since = None,
    newest: Annotated[bool, Query(description="Return the newest entries, without a cursor.")] = False,
    limit: Limit = paging.USUAL,
    cursor: Cursor = None,
) -> Page[AuditEntry]:
    """List a page of the trail, with a cursor."""
    agent = call.audited_agent()
    which = ("audit", agent, grant, since)
    (after,) = paging.read(cursor, 1, *which) if cursor is not None else [0]
    found = call.brain.audit.find(
        after, limit if newest else limit + 1, agent=agent, grant=grant, since=since, newest=newest
    )
    goes_on = len(found) > limit
    return Page(
        items=tuple(found[:limit]), next_cursor=paging.write([found[limit - 1].seq], *which) if goes_on else None
    )
