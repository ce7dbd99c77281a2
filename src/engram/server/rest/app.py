"""Build the REST application: routes, middleware and the OpenAPI document."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import current_default_thread_limiter
from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from engram import __version__
from engram.api.limits import Limits, Streams
from engram.engine import Engram
from engram.server import dashboard
from engram.server.metrics import Metrics
from engram.server.rest import problems
from engram.server.rest.idempotency import Idempotency
from engram.server.rest.middleware import Address, Authentication, RequestGuard
from engram.server.rest.openapi import described
from engram.server.rest.parameters import AGENT, IDEMPOTENCY, Operations, known_parameters, right_of
from engram.server.rest.routes import ROUTERS, server
from engram.transfer.signing import PublicKey

DRAIN = 20.0
_DESCRIPTION = """\
A memory for AI agents that learns from outcomes.

Every request under `/v1` needs a key: `Authorization: Bearer eng_…`. A key is for one or several agents; if it
is for several, the header `Engram-Agent` names the one that a request is for. Objects of other agents are reported as
not found.
"""


@dataclass(frozen=True, slots=True)
class Served:
    """An application that is ready to run, with its API and the event that stops its streams."""

    asgi: ASGIApp
    api: FastAPI
    stopping: asyncio.Event
    """Set it to end the streams of events."""


def create(
    brain: Engram,
    *,
    address: Address | None = None,
    limits: Limits | None = None,
    poll_seconds: float = 0.5,
    more: Iterable[APIRouter] = (),
    trusted: Mapping[str, PublicKey] | None = None,
    metrics: Metrics | None = None,
) -> Served:
    """Build the application of an open memory, which the caller closes; `more` are routes beside `/v1`.

    `trusted` are the public keys that imported files may be signed with, by name.
    """
    where, most, metrics = address or Address(), limits or Limits(), metrics or Metrics()
    metrics.watch(brain.store)
    keys = brain.keys
    api = application(more)
    api.state.brain, api.state.keys, api.state.metrics = brain, keys, metrics
    api.state.limits, api.state.streams, api.state.trusted = most, Streams(most), dict(trusted or {})
    api.state.slow = CapacityLimiter(most.slow_threads)
    api.state.stopping, api.state.poll_seconds = asyncio.Event(), poll_seconds
    dashboard.mount(api)
    inner: ASGIApp = Authentication(
        api, keys, most, metrics, repeatable=Idempotency(api, api.state.operations, brain.store)
    )
    if where.origins:
        inner = CORSMiddleware(
            inner,
            allow_origins=list(where.origins),
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=[
                "Authorization",
                "Content-Type",
                AGENT,
                IDEMPOTENCY,
                "If-Match",
                "If-None-Match",
                "Last-Event-ID",
            ],
            expose_headers=["ETag", problems.REPLAYED, "X-Request-ID", "Retry-After"],
        )
    border = RequestGuard(inner, where, most, metrics, brain.sources.new_id)
    api.state.border = border
    return Served(border, api, api.state.stopping)


def application(more: Iterable[APIRouter] = ()) -> FastAPI:
    """Build the routes without a memory, which is enough for the OpenAPI document."""
    api = FastAPI(
        title="Engram",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        generate_unique_id_function=lambda route: route.name,
        lifespan=_lifespan,
        separate_input_output_schemas=False,
        redirect_slashes=False,  # behind a TLS proxy, it would redirect to `http://`, with the key
        dependencies=[Depends(known_parameters)],
    )
    problems.install(api)
    routers = (*ROUTERS, *more, server.router)
    for router in routers:
        api.include_router(router)
    found = routes(routers)
    unguarded = [route.path for route in found if route.path.startswith("/v1/") and right_of(route) is None]
    if unguarded:
        raise RuntimeError(f"these routes ask for no right: {unguarded}")
    api.state.operations = Operations(tuple(found))
    api.openapi = lambda: described(api, found)  # type: ignore[method-assign]
    return api


def routes(routers: Iterable[APIRouter] = ROUTERS) -> list[APIRoute]:
    """Return the routes of some routers, or of all resources under `/v1`."""
    return [route for router in routers for route in router.routes if isinstance(route, APIRoute)]


def document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    return application().openapi()


@asynccontextmanager
async def _lifespan(api: FastAPI) -> AsyncIterator[None]:
    current_default_thread_limiter().total_tokens = api.state.limits.threads
    yield
    border = getattr(api.state, "border", None)
    if isinstance(border, RequestGuard):
        await border.drained(DRAIN)
