"""What was set apart for review. An agent's own key shows it; letting it in takes the right to administer."""

from __future__ import annotations

from fastapi import APIRouter

from engram.api import paging
from engram.engine import AgentHandle
from engram.errors import NotFound
from engram.model import ForgetReceipt, Memory
from engram.model.memory import Quarantined
from engram.model.wire import Page
from engram.ports import arguments
from engram.server.rest.auth import Reader, Reviewer, Writer
from engram.server.rest.routes.params import ONCE, Cursor, Id, Limit

router = APIRouter(prefix="/v1/quarantine", tags=["quarantine"])


@router.get("")
def list_quarantined(agent: Reader, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[Quarantined]:
    """What is set apart, the newest first, and why; none of it is in any search, list or pattern."""
    return paging.slice_of(agent.quarantine.list(), limit, cursor, "quarantine", agent.name)


@router.get("/{id}")
def get_quarantined(agent: Reader, id: Id) -> Quarantined:
    """One memory that is set apart, and why."""
    return _there(agent, id)


@router.post("/{id}/release", dependencies=[ONCE])
def release(agent: Reviewer, id: Id) -> Memory:
    """Give a memory back to the agent. It takes the right `admin`: who was told what to do does not decide about it."""
    return agent.quarantine.release(_there(agent, id).id)


@router.delete("/{id}", dependencies=[ONCE])
def discard(agent: Writer, id: Id) -> ForgetReceipt:
    """Forget a memory that is set apart."""
    return agent.quarantine.discard(_there(agent, id).id)


def _there(agent: AgentHandle, id: str) -> Quarantined:
    if not arguments.is_id(id):
        raise NotFound("nothing of that name is set apart; `GET /v1/quarantine` lists what is")
    return agent.quarantine.get(id)
