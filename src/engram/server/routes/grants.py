"""Grants: who may use whose knowledge, for what, and until when. Who is no party sees none of them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from engram.errors import InvalidInput
from engram.memory.drafting import MAX_LABEL
from engram.model.grant import Grant, GrantState, GrantUse, Revocation, Source
from engram.model.wire import (
    GrantAgreement,
    GrantOffer,
    GrantRequest,
    GrantShare,
    GroupChange,
    GroupView,
    Page,
    Terms,
)
from engram.ports import MAX_NAME, unstorable
from engram.server import paging
from engram.server.auth import Brain, Keeps, Sharer
from engram.server.routes.asking import Cursor, Limit

router = APIRouter(prefix="/v1", tags=["grants"])
USES = 10_000
Id = Annotated[str, Path(max_length=MAX_LABEL, description="The id of the grant.")]


@router.post("/grants/requests", status_code=201)
def request_grant(agent: Sharer, asked: GrantRequest) -> Grant:
    """Ask another agent for knowledge, and say what for; nothing is shared until it approves."""
    return agent.grants.request(_name(asked.owner), **_terms(asked))


@router.post("/grants/offers", status_code=201)
def offer_grant(agent: Sharer, offered: GrantOffer) -> Grant:
    """Offer knowledge to another agent; it is shared once that agent approves."""
    return agent.grants.offer(_name(offered.to), **_terms(offered))


@router.post("/grants", status_code=201)
def share(agent: Sharer, shared: GrantShare) -> Grant:
    """Share at once: with an agent, a group or everyone; also what others have lent, if they allow that."""
    return agent.grants.share(_name(shared.to), via=shared.via, **_terms(shared))


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


@router.post("/grants/{id}/approval")
def approve_grant(agent: Sharer, id: Id, terms: GrantAgreement) -> Grant:
    """Agree to a request, with other rights and an end if they are given, or to an offer as it is."""
    return agent.grants.approve(id, rights=terms.rights or None, expires=terms.expires)


@router.post("/grants/{id}/denial")
def deny_grant(agent: Sharer, id: Id) -> Grant:
    """Turn a request or an offer down."""
    return agent.grants.deny(id)


@router.post("/grants/{id}/revocation")
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
    groups = sorted(brain.sharing.ledger.groups().items())
    views = [GroupView(name=name, members=tuple(sorted(members))) for name, members in groups]
    return paging.slice_of(views, limit, cursor, "groups", key.id)


@router.patch("/groups/{name}")
def change_group(
    brain: Brain,
    key: Keeps,
    name: Annotated[str, Path(min_length=1, max_length=MAX_NAME, description="The name of the group.")],
    change: GroupChange,
) -> GroupView:
    """Change who is in a group, which is there as long as somebody is in it; this needs a key for all agents."""
    if brain.redactor.clean([_name(name)])[0].secrets:
        raise InvalidInput("the name of this group holds a secret; give it another one")
    added = [brain.agent(each).name for each in change.add]
    members = brain.sharing.ledger.regroup(name, add=added, remove=change.remove)
    return GroupView(name=name, members=tuple(sorted(members)))


def _terms(terms: Terms) -> dict[str, Any]:
    given = terms.model_dump(include=set(Terms.model_fields))
    for texts in (terms.memories, terms.patterns):
        for text in texts:
            _name(text)
    return given if terms.rights else {name: value for name, value in given.items() if name != "rights"}


def _name(text: str) -> str:
    if not text.strip():
        raise InvalidInput("a name is empty; say who or what is meant")
    if reason := unstorable(text):
        raise InvalidInput(f"a name cannot be used: {reason}")
    return text
