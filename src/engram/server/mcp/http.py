"""The server over streamable HTTP: with the middleware and keys of the REST server; the key determines the agent."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from engram.api.call import Call
from engram.api.limits import Limits
from engram.engine import AgentHandle, Engram
from engram.errors import Unauthenticated
from engram.model.api_key import ApiKey, Right
from engram.server.mcp.server import create
from engram.server.mcp.tools import AgentResolver, Request
from engram.server.metrics import Metrics
from engram.server.rest.middleware import Address, Authentication, RequestGuard
from engram.server.rest.problems import CODES, answer
from engram.server.rest.run import Announced, Binding, listen, settings, tell_first_key, where

PATH = "/v1/mcp"
PORT = 8751


def by_key(brain: Engram, only: str | None = None) -> AgentResolver:
    """Make a resolver that takes the agent from the key of each request, or `only` this agent if the key is for it.

    With a key for several agents, the header `Engram-Agent` names one.
    """

    def agent_of(ctx: Request, right: Right) -> AgentHandle:
        request: Any = ctx.request_context.request
        key: ApiKey | None = None if request is None else request.scope.get("engram.key")
        if key is None:
            raise Unauthenticated("this needs a key; ask the operator of the server for one")
        call = Call(brain, key, request.headers.get("engram-agent") if only is None else quote(only))
        call.check_right(right)
        return call.agent

    return agent_of


def application(
    brain: Engram, *, only: str | None = None, address: Address | None = None, limits: Limits | None = None
) -> ASGIApp:
    """Build the application for an open memory; it checks the host name, and `/v1/mcp` requires a key."""
    most, metrics = limits or Limits(), Metrics()
    inner: Starlette = create(by_key(brain, only)).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=most.body,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # `RequestGuard` does it
    )
    inner.router.redirect_slashes = False  # behind a TLS proxy it would redirect to `http://`, with the key
    inner.add_exception_handler(HTTPException, _http_error)
    keys = brain.keys
    authenticated = Authentication(_without_streams(inner), keys, most, metrics)
    return RequestGuard(authenticated, address or Address(), most, metrics, brain.sources.new_id)


def _without_streams(app: ASGIApp) -> ASGIApp:
    """Refuse `GET`, which would open a stream of messages: the server never sends any, so it would stay open."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == PATH and scope["method"] == "GET":
            detail, id = "there is no stream of messages; send requests with POST", scope["engram.request"]
            await answer(405, CODES[405], detail, id, headers={"Allow": "POST"})(scope, receive, send)
        else:
            await app(scope, receive, send)

    return handle


def _http_error(request: HttpRequest, error: Exception) -> Response:
    """Answer an HTTP error, such as an unknown path, as a problem document."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = f"there is no such path; the server answers at {PATH}" if status == 404 else "the request is invalid"
    return answer(status, CODES.get(status, "failed"), detail, request.scope["engram.request"])


def serve(brain: Engram, binding: Binding, limits: Limits, say: Callable[[str], None], only: str | None = None) -> None:
    """Serve until SIGTERM or SIGINT; running requests finish first."""
    app = application(brain, only=only, address=binding.address(), limits=limits)
    listener = listen(binding)
    tell_first_key(brain, say)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    with listener:
        here = f"{where(binding, listener)}{PATH}"
        Announced(settings(app, binding), lambda: say(f"Engram serves MCP on {here}")).run([listener])
