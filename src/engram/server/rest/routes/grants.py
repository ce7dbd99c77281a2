"""Grants: who may use whose knowledge, for what, and until when. Who is no party sees none of them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from engram.api import admin, paging
from engram.model.grant import Grant, GrantState, GrantUse, Revocation, Source
from engram.model.wire import GrantAgreement, GrantOffer, GrantRequest, GrantShare, GroupChange, GroupView, Page
from engram.ports import MAX_NAME
from engram.recording.draft import MAX_LABEL
from engram.server.rest.auth import Brain, Keeps, Sharer
from engram.server.rest.routes.params import ONCE, Cursor, Key, Limit

router = APIRouter(prefix="/v1", tags=["grants"])
USES = 10_000
Id = Annotated[str, Path(max_length=MAX_LABEL, description="The id of the grant.")]


@router.post("/grants/requests", status_code=201)
def request_grant(agent: Sharer, asked: GrantRequest, idempotency_key: Key = None) -> Grant:
    """Ask another agent for knowledge, and say what for; nothing is shared until it approves."""
    return agent.grants.request(admin.named(asked.owner), **admin.terms(asked), key=idempotency_key)


@router.post("/grants/offers", status_code=201)
def offer_grant(agent: Sharer, offered: GrantOffer, idempotency_key: Key = None) -> Grant:
    """Offer knowledge to another agent; it is shared once that agent approves."""
    return agent.grants.offer(admin.named(offered.to), **admin.terms(offered), key=idempotency_key)


@router.post("/grants", status_code=201)
def share(agent: Sharer, shared: GrantShare, idempotency_key: Key = None) -> Grant:
    """Share at once: with an agent, a group or everyone; also what others have lent, if they allow that."""
    terms = admin.terms(shared)
    return agent.grants.share(admin.named(shared.to), via=shared.via, **terms, key=idempotency_key)


@router.get("/grants")
def list_grants(
    agent: Sharer,
    state: Annotated[GrantState | None, Query(description="Only those that stand so.")] = None,
    limit: Limit = paging.USUAL,
    cursor: Cursor = None,
) -> Page[Grant]:
    """The grants that the agent gives, gets, asked for or was offered, oldest first, as they stand now."""
    return paging.slice_of(agent.grants.list(state), limit, cursor, "grants", agent.name, state)


@router.get("/grants/{id}")
def get_grant(agent: Sharer, id: Id) -> Grant:
    """One grant, as it stands now."""
    return agent.grants.get(id)


@router.post("/grants/{id}/approval", dependencies=[ONCE])
def approve_grant(agent: Sharer, id: Id, terms: GrantAgreement) -> Grant:
    """Agree to a request, with other rights and an end if they are given, or to an offer as it is."""
    return agent.grants.approve(id, rights=terms.rights or None, expires=terms.expires)


@router.post("/grants/{id}/denial", dependencies=[ONCE])
def deny_grant(agent: Sharer, id: Id) -> Grant:
    """Turn a request or an offer down."""
    return agent.grants.deny(id)


@router.post("/grants/{id}/revocation", dependencies=[ONCE])
def revoke_grant(agent: Sharer, id: Id) -> Revocation:
    """End a grant at once, and take back what was derived from it at its receivers; again is harmless."""
    return agent.grants.revoke(id)


@router.get("/grants/{id}/uses")
def list_grant_uses(agent: Sharer, id: Id, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[GrantUse]:
    """Who used a grant for what; its owner sees all uses, others their own."""
    return paging.slice_of(agent.grants.uses(id, USES), limit, cursor, "uses", agent.name, id)


@router.get("/sources")
def list_sources(agent: Sharer, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[Source]:
    """Those whose knowledge the agent may use, and how far it has reason to trust each."""
    return paging.slice_of(agent.grants.sources(), limit, cursor, "sources", agent.name)


@router.get("/groups")
def list_groups(brain: Brain, key: Keeps, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[GroupView]:
    """The groups that knowledge can be shared with, by name; this needs a key for all agents."""
    return paging.slice_of(admin.groups(brain), limit, cursor, "groups", key.id)


@router.patch("/groups/{name}", dependencies=[ONCE])
def change_group(
    brain: Brain,
    key: Keeps,
    name: Annotated[str, Path(min_length=1, max_length=MAX_NAME, description="The name of the group.")],
    change: GroupChange,
) -> GroupView:
    """Change who is in a group, which is there as long as somebody is in it; this needs a key for all agents."""
    return admin.regroup(brain, name, change)
