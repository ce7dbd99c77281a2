"""Dependencies that identify the caller of a request and its agent, by the API key."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Header, Request
from fastapi.routing import APIRoute

from engram.api.call import Call
from engram.api.operations import About
from engram.engine import Engram
from engram.model.api_key import Right
from engram.server.rest.parameters import takes_header

AGENT = "Engram-Agent"
Named = Annotated[
    str | None,
    Header(
        alias=AGENT,
        max_length=3000,
        description="The agent to act for, as percent-encoded UTF-8; it may be left out if the key is for one agent.",
    ),
]


def caller(right: Right, about: About) -> Callable[..., Coroutine[Any, Any, Call]]:
    """Make a dependency that checks the right of the caller's key and provides the `Call`."""

    def check(request: Request, named: str | None) -> Call:
        call = Call(request.app.state.brain, request.scope["engram.key"], named)
        call.check_right(right)
        if about == "agent":
            call.agent_name()
        elif about == "all":
            call.check_all()
        return call

    async def unnamed(request: Request) -> Call:
        return check(request, None)

    async def named(request: Request, engram_agent: Named = None) -> Call:
        return check(request, engram_agent)

    found: Any = named if about in {"agent", "named"} else unnamed
    found.right, found.about = right, about
    return found  # type: ignore[no-any-return]


async def brain_of(request: Request) -> Engram:
    """Return the memory of this server."""
    brain: Engram = request.app.state.brain
    return brain


def _required(route: APIRoute, name: str) -> Any:
    """Return an attribute of the dependency that checks the caller of a route."""
    calls = (dependant.call for dependant in route.dependant.dependencies)
    return next((found for call in calls if (found := getattr(call, name, None)) is not None), None)


def right_of(route: APIRoute) -> Right | None:
    """Return the right that a route requires, or `None`."""
    right: Right | None = _required(route, "right")
    return right


def about_all(route: APIRoute) -> bool:
    """Return True if a route needs a key for all agents."""
    return bool(_required(route, "about") == "all")


def takes_agent(route: APIRoute) -> bool:
    """Return True if a route acts for one agent, which the header may name."""
    return takes_header(route, AGENT)


Brain = Annotated[Engram, Depends(brain_of)]
