"""Who is calling, and for which agent: both come from the key, never from what a request says."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, Header, Request
from fastapi.routing import APIRoute

from engram.engine import AgentHandle, Engram
from engram.errors import InvalidInput, NotAllowed, NotFound
from engram.model.api_key import EVERYONE, ApiKey, Right
from engram.ports import reserved
from engram.server.rest.operations import takes_header

AGENT = "Engram-Agent"
Named = Annotated[
    str | None,
    Header(
        alias=AGENT,
        max_length=3000,
        description="The agent to act for, as percent-encoded UTF-8; it may be left out if the key is for one agent.",
    ),
]


async def brain_of(request: Request) -> Engram:
    """The memory that this server opens."""
    brain: Engram = request.app.state.brain
    return brain


def caller(request: Request) -> ApiKey:
    """The key that the request came with; whoever comes here has shown a good one."""
    key: ApiKey = request.scope["engram.key"]
    return key


def chosen(key: ApiKey, named: str | None) -> str:
    """The agent that a request is for. One that the key is not for is as one that does not exist."""
    if named is None:
        if len(key.agents) == 1 and key.agents[0] != EVERYONE:
            return key.agents[0]
        raise InvalidInput("the key is not for just one agent; name one in the header Engram-Agent")
    try:
        name = unquote(named, errors="strict")
    except UnicodeDecodeError:
        raise missing() from None
    if reserved(name) or not key.may_act_for(name):
        raise missing()
    return name


def missing() -> NotFound:
    """What is said of an agent that is not there, and of one that is none of the caller's business."""
    return NotFound("there is no such agent; `GET /v1/agents` lists those that there are")


def _allowed(right: Right) -> Callable[[Request], Coroutine[Any, Any, ApiKey]]:
    async def allowed(request: Request) -> ApiKey:
        key = caller(request)
        if not key.has_right(right):
            raise NotAllowed(f"this key has no right to {right}; ask whoever runs the server for one that has")
        return key

    allowed.right = right  # type: ignore[attr-defined]
    return allowed


async def _all_agents(request: Request, key: ApiKey = Depends(_allowed("admin"))) -> ApiKey:  # noqa: B008 - FastAPI's way
    if EVERYONE not in key.agents:
        raise NotAllowed("this is about all agents, and the key is for some; ask for one that is for all")
    return key


def _agent(right: Right) -> Callable[..., Coroutine[Any, Any, AgentHandle]]:
    allowed = Depends(_allowed(right))

    async def agent(request: Request, key: ApiKey = allowed, engram_agent: Named = None) -> AgentHandle:
        return (await brain_of(request)).agent(chosen(key, engram_agent))

    return agent


def right_of(route: APIRoute) -> Right | None:
    """The right that a route asks for, or `None` if it asks for none."""
    waiting = list(route.dependant.dependencies)
    while waiting:
        dependant = waiting.pop()
        if (right := getattr(dependant.call, "right", None)) is not None:
            found: Right = right
            return found
        waiting += dependant.dependencies
    return None


def about_all(route: APIRoute) -> bool:
    """Whether a route needs a key for all agents."""
    return any(dependant.call is _all_agents for dependant in route.dependant.dependencies)


def takes_agent(route: APIRoute) -> bool:
    """Whether a route acts for one agent, which the header may name."""
    return takes_header(route, AGENT)


Brain = Annotated[Engram, Depends(brain_of)]
Reader = Annotated[AgentHandle, Depends(_agent("read"))]
"""The agent of a request that reads."""
Writer = Annotated[AgentHandle, Depends(_agent("write"))]
"""The agent of a request that writes."""
Sharer = Annotated[AgentHandle, Depends(_agent("share"))]
"""The agent of a request that gives its knowledge away, or asks for that of others."""
Reviewer = Annotated[AgentHandle, Depends(_agent("admin"))]
"""The agent of a request that nobody makes who only acts for that agent."""
Reads = Annotated[ApiKey, Depends(_allowed("read"))]
"""The key of a request that reads, for any of its agents."""
Watches = Annotated[ApiKey, Depends(_allowed("admin"))]
"""The key of a request that looks after the server, for any of its agents."""
Keeps = Annotated[ApiKey, Depends(_all_agents)]
"""The key of a request that looks after the server, for all agents."""
