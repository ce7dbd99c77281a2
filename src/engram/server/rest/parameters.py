"""Parameters that several routes share: the caller, pages and keys; and the check for unknown parameters."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from anyio.to_thread import run_sync
from fastapi import Depends, Header, Path, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from engram.api.call import Call
from engram.api.operations import About
from engram.api.paging import MOST
from engram.engine import Engram
from engram.model import Moment
from engram.model.api_key import Right
from engram.model.bundle import MAX_LABEL

T = TypeVar("T")
AGENT = "Engram-Agent"
IDEMPOTENCY = "Idempotency-Key"
LONGEST_NAME = 60
Limit = Annotated[int, Query(ge=1, le=MOST, description="The most items to return.")]
Cursor = Annotated[str | None, Query(max_length=500, description="The `next_cursor` of the page before.")]
Since = Annotated[Moment | None, Query(description="Only what happened at or after this time.")]
Id = Annotated[str, Path(max_length=MAX_LABEL, description="The id of the memory.")]
Key = Annotated[
    str | None,
    Header(
        alias=IDEMPOTENCY,
        min_length=1,
        max_length=255,
        description="Makes it safe to repeat the request, which is carried out once. Other requests need other keys.",
    ),
]
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


Brain = Annotated[Engram, Depends(brain_of)]


@dataclass(frozen=True, slots=True)
class Operations:
    """The routes of an application."""

    routes: tuple[APIRoute, ...]

    def at(self, path: str) -> list[APIRoute]:
        """Return the routes of a path, one for each method."""
        return [route for route in self.routes if route.path_regex.match(path)]

    def methods(self, path: str) -> list[str]:
        """Return the methods of a path, sorted."""
        return sorted({method for route in self.at(path) for method in route.methods or ()})

    def keyed(self, path: str, method: str) -> APIRoute | None:
        """Return the route of a request if it takes an `Idempotency-Key`."""
        return next((route for route in self.at(path) if method in (route.methods or ()) and takes_key(route)), None)


async def slowly(request: Request, call: Callable[[], T]) -> T:
    """Run a long call in a separate thread pool, so that short requests do not wait for it."""
    return await run_sync(call, limiter=request.app.state.slow)


async def known_parameters(request: Request) -> None:
    """Refuse unknown query parameters, such as misspelled ones."""
    if not request.query_params:
        return
    name = getattr(request.scope.get("route"), "name", "")
    known = next((sorted(parameters(each)) for each in request.app.state.operations.routes if each.name == name), [])
    said = f"this operation knows {', '.join(known)}" if known else "this operation knows none"
    flaws = [
        {"loc": ("query", ascii(name)[1:-1][:LONGEST_NAME]), "msg": f"there is no such parameter; {said}"}
        for name in dict.fromkeys(request.query_params)
        if name not in known
    ]
    if flaws:
        raise RequestValidationError(flaws)


def parameters(route: APIRoute) -> set[str]:
    """Return the names of the query parameters of a route."""
    return {param.alias for part in _parts(route.dependant) for param in part.query_params}


def takes_header(route: APIRoute, name: str) -> bool:
    """Return True if an operation takes a header."""
    return any(param.alias == name for part in _parts(route.dependant) for param in part.header_params)


def takes_key(route: APIRoute) -> bool:
    """Return True if an operation takes a key that makes it safe to repeat."""
    return takes_header(route, IDEMPOTENCY)


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


def _parts(dependant: Dependant) -> Iterable[Dependant]:
    yield dependant
    for inner in dependant.dependencies:
        yield from _parts(inner)
