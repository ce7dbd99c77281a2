"""Parameters that several routes share, and the check for unknown parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from anyio.to_thread import run_sync
from fastapi import Header, Path, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from engram.api.paging import MOST
from engram.model import Moment
from engram.model.bundle import MAX_LABEL

T = TypeVar("T")
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


def _parts(dependant: Dependant) -> Iterable[Dependant]:
    yield dependant
    for inner in dependant.dependencies:
        yield from _parts(inner)
