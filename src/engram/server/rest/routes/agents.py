"""The agents that a key may act for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from engram.api import paging
from engram.engine import Engram
from engram.model.api_key import ApiKey
from engram.model.wire import AgentView, Page
from engram.ports import MAX_NAME, reserved
from engram.server.rest.auth import Brain, Reads, missing
from engram.server.rest.routes.params import Cursor, Limit

router = APIRouter(prefix="/v1", tags=["agents"])


@router.get("/agents")
def list_agents(brain: Brain, key: Reads, limit: Limit = paging.USUAL, cursor: Cursor = None) -> Page[AgentView]:
    """The agents that this key may act for and that have stored something, by name."""
    found = paging.slice_of(visible(brain, key), limit, cursor, "agents", key.id)
    views = tuple(AgentView(name=name, definition=brain.definitions.current(name)) for name in found.items)
    return Page(items=views, next_cursor=found.next_cursor)


@router.get("/agents/{name:path}")
def get_agent(
    brain: Brain, key: Reads, name: Annotated[str, Path(max_length=MAX_NAME, description="The agent's name.")]
) -> AgentView:
    """One agent, and who it is."""
    if not key.may_act_for(name) or name not in visible(brain, key):
        raise missing()
    return AgentView(name=name, definition=brain.definitions.current(name))


def visible(brain: Engram, key: ApiKey) -> list[str]:
    """The names of the agents that are there and that a key is for."""
    return [name for name in brain.agents() if key.may_act_for(name) and not reserved(name)]
